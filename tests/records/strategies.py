"""Records as Hypothesis draws them."""

from __future__ import annotations

from hypothesis import strategies as st

from minibroker.records.record import Record

NULLABLE = st.none() | st.binary(max_size=90)
HEADERS = st.lists(st.tuples(st.text(max_size=12), NULLABLE), max_size=4).map(tuple)
TIMES_MS = st.integers(1_600_000_000_000, 1_800_000_000_000) | st.integers(1_700_000_000_000, 1_700_000_000_200)
RECORDS = st.lists(st.builds(Record, st.just(0), TIMES_MS, NULLABLE, NULLABLE, HEADERS), min_size=1, max_size=80)
PRODUCERS = st.tuples(st.integers(0, 2**63 - 1), st.integers(0, 2**15 - 1), st.integers(0, 2**31 - 1)) | st.just((-1, -1, -1))


def numbered(records: list[Record], base_offset: int = 0) -> list[Record]:
    """The records with the offsets that a batch gives them."""
    return [record._replace(offset=base_offset + index) for index, record in enumerate(records)]
