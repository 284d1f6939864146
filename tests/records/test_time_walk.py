"""The walk finds what a search through decoded records finds; in the beginning of a batch it finds that, or says that it ends too early."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from minibroker.errors import InvalidRecord
from minibroker.records.any_format import decode_records
from minibroker.records.batch import HEADER_SIZE, RecordBatch, TimestampType
from minibroker.records.builder import build_batch
from minibroker.records.compression import Compression
from minibroker.records.record import Record
from minibroker.records.time_walk import first_at_or_after

BASE_MS, BASE_OFFSET = 1_700_000_000_000, 5_000_000_000
TIMES = st.integers(-200, 1 << 40) | st.integers(-3, 3)


@st.composite
def batches(draw: st.DrawFn, codecs: tuple[Compression, ...] = (Compression.NONE, Compression.LZ4)) -> bytes:
    """Records with gaps between their offsets, as compaction leaves them."""
    records, offset = [], BASE_OFFSET
    for time in draw(st.lists(TIMES, min_size=1, max_size=12)):
        offset += draw(st.integers(0, 200))
        records.append(
            Record(offset, BASE_MS + time, draw(st.none() | st.just(b"key")), b"v" * draw(st.sampled_from([0, 1, 63, 64, 9000])))
        )
        offset += 1
    return bytes(
        build_batch(
            records,
            base_offset=BASE_OFFSET,
            keep_offsets=True,
            compression=draw(st.sampled_from(codecs)),
            timestamp_type=draw(st.sampled_from(TimestampType)),
        )
    )


def searched(data: bytes, timestamp_ms: int, start_offset: int) -> tuple[int, int] | None:
    records = decode_records(RecordBatch(data))
    return next(((each.timestamp, each.offset) for each in records if each.timestamp >= timestamp_ms and each.offset >= start_offset), None)


@given(batches(), TIMES, st.integers(-5, 500))
def test_first_at_or_after_matches_a_linear_search(data: bytes, time: int, gap: int) -> None:
    wanted = BASE_MS + time, BASE_OFFSET + gap
    assert first_at_or_after(data, *wanted) == searched(data, *wanted)


@given(batches(codecs=(Compression.NONE,)), TIMES, st.integers(-5, 500), st.integers(HEADER_SIZE, 200))
@example(bytes(build_batch([Record(0, BASE_MS, None, b"v" * 9000)])), 0, -5, 100)
def test_prefix_of_a_batch_matches_the_search_or_needs_more(data: bytes, time: int, gap: int, size: int) -> None:
    wanted = BASE_MS + time, BASE_OFFSET + gap
    try:
        found = first_at_or_after(data[:size], *wanted)
    except IndexError:
        assert size < len(data)
    else:
        assert found == searched(data, *wanted)


def test_first_record_needs_only_its_own_header() -> None:
    data = bytes(build_batch([Record(0, BASE_MS, None, b"v" * 9000)] * 2))
    assert first_at_or_after(data[: HEADER_SIZE + 6], BASE_MS, 0) == (BASE_MS, 0)


def test_partial_compressed_batch_needs_more_bytes() -> None:
    data = bytes(build_batch([Record(0, BASE_MS, None, b"v" * 9000)] * 2, compression=Compression.GZIP))
    with pytest.raises(IndexError):
        first_at_or_after(data[:-1], BASE_MS, 0)


def test_invalid_lengths_and_counts_are_refused() -> None:
    data = bytearray(build_batch([Record(0, BASE_MS, None, b"value")] * 2))
    data[HEADER_SIZE] = 0x03  # a length of -2
    with pytest.raises(InvalidRecord):
        first_at_or_after(bytes(data), BASE_MS + 1, 0)
    data[HEADER_SIZE - 4 : HEADER_SIZE] = b"\xff" * 4  # a count of -1
    with pytest.raises(InvalidRecord):
        first_at_or_after(bytes(data), BASE_MS, 0)
