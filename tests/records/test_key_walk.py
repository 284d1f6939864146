"""The walks of compaction against the plain decoder, over records of all shapes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minibroker.errors import InvalidRecord
from minibroker.records.any_format import decode_records
from minibroker.records.batch import HEADER_SIZE, RecordBatch
from minibroker.records.builder import build_batch
from minibroker.records.key_walk import (
    MAX_PLAIN_KEY,
    digest,
    join_spans,
    map_key,
    note_keys,
    shift_timestamps,
    spans_at,
    spans_without,
    timestamp_deltas,
    walk_keys,
)
from minibroker.records.record import Record

BASE_OFFSET = 7_000_000_000
KEYS = st.one_of(st.none(), st.binary(max_size=3), st.sampled_from([b"k" * 46, b"k" * 47, b"k" * 48, b"k" * 70, b"k" * 9000]))
VALUES = st.one_of(st.none(), st.binary(max_size=3), st.sampled_from([b"v" * 63, b"v" * 64, b"v" * 9000]))
HEADERS = st.lists(st.tuples(st.sampled_from(["", "h", "h" * 200]), st.one_of(st.none(), st.binary(max_size=2))), max_size=2).map(tuple)


@st.composite
def some_records(draw: st.DrawFn) -> list[Record]:
    """Records with growing offsets, gaps of all sizes between them, and timestamps that go either way."""
    count = draw(st.integers(1, 8))
    offset = BASE_OFFSET + draw(st.sampled_from([0, 1, 63, 64, 8191, 8192, 2**20]))
    found = []
    for _ in range(count):
        timestamp = 1_700_000_000_000 + draw(st.sampled_from([0, 1, 63, 64, -1, -65, 9000, -9000, 2**40]))
        found.append(Record(offset, timestamp, draw(KEYS), draw(VALUES), draw(HEADERS)))
        offset += draw(st.sampled_from([1, 1, 1, 2, 100, 10_000]))
    return found


def payload_of(records: list[Record]) -> tuple[bytes, int, int, int]:
    """A batch in the middle of other bytes, and where its records lie."""
    batch = build_batch(records, base_offset=BASE_OFFSET, keep_offsets=True)
    return b"\xff" * 5 + batch + b"\xff" * 5, 5 + HEADER_SIZE, 5 + len(batch), len(records)


def code_of(record: Record) -> int:
    return 2 * record.offset + (record.value is None)


@given(some_records())
def test_last_offset_of_each_key_is_noted(records: list[Record]) -> None:
    latest: dict[bytes, int] = {}
    note_keys(latest, *payload_of(records), BASE_OFFSET)
    assert latest == {map_key(record.key): code_of(record) for record in records if record.key is not None}


@given(some_records())
def test_every_record_is_walked(records: list[Record]) -> None:
    data, start, stop, count = payload_of(records)
    walked = list(walk_keys(data, start, stop, count, BASE_OFFSET))
    assert [code for _, code, _ in walked] == [code_of(record) for record in records]
    assert [key for _, _, key in walked] == [None if record.key is None else map_key(record.key) for record in records]
    spans = [span for span, _, _ in walked]
    assert spans == spans_at(data, start, stop, count, range(count))
    assert join_spans(data, spans) == data[start:stop]
    first = records[0].timestamp
    assert timestamp_deltas(data, spans) == [record.timestamp - first for record in records]


@given(some_records(), st.data())
def test_records_are_selected_by_number_and_by_key(records: list[Record], data: st.DataObject) -> None:
    payload, start, stop, count = payload_of(records)
    all_spans = spans_at(payload, start, stop, count, range(count))
    wanted = sorted(data.draw(st.sets(st.integers(0, count - 1), min_size=1)))
    assert spans_at(payload, start, stop, count, wanted) == [all_spans[index] for index in wanted]
    gone = data.draw(st.sets(st.sampled_from(records).map(lambda record: map_key(record.key or b""))))
    kept, tombstones = spans_without(dict.fromkeys(gone, 0), payload, start, stop, count)
    stays = [span for span, record in zip(all_spans, records, strict=True) if record.key is not None and map_key(record.key) not in gone]
    assert sorted(kept + tombstones) == stays
    assert tombstones == [span for span, record in zip(all_spans, records, strict=True) if record.value is None and span in stays]


@given(some_records(), st.sampled_from([0, 1, -1, 10**6, -(10**12), 2**62]))
def test_shifting_timestamps_changes_nothing_else(records: list[Record], shift_ms: int) -> None:
    data, start, stop, count = payload_of(records)
    shifted = shift_timestamps(data, spans_at(data, start, stop, count, range(count)), shift_ms)
    header = bytearray(data[5:start])
    header[8:12] = (HEADER_SIZE - 12 + len(shifted)).to_bytes(4, "big")
    found = list(decode_records(RecordBatch(bytes(header) + shifted)))
    assert found == [record._replace(timestamp=record.timestamp + shift_ms) for record in records]


@given(some_records(), st.integers(0, 400), st.integers(1, 3))
def test_records_not_ending_with_their_batch_are_refused(records: list[Record], less: int, more: int) -> None:
    data, start, stop, count = payload_of(records)
    for wrong_stop, wrong_count in ((stop - 1 - less % (stop - start), count), (stop, count + more), (stop, count - 1)):
        cut = data[:wrong_stop]
        for walk in (
            lambda stop=wrong_stop, count=wrong_count, cut=cut: note_keys({}, cut, start, stop, count, BASE_OFFSET),
            lambda stop=wrong_stop, count=wrong_count, cut=cut: list(walk_keys(cut, start, stop, count, BASE_OFFSET)),
            lambda stop=wrong_stop, count=wrong_count, cut=cut: spans_without({}, cut, start, stop, count),
            lambda stop=wrong_stop, count=wrong_count, cut=cut: spans_at(cut, start, stop, count, [0]),
        ):
            with pytest.raises(InvalidRecord):
                walk()


def test_long_keys_are_mapped_to_digests() -> None:
    long = b"k" * (MAX_PLAIN_KEY + 1)
    assert map_key(long) == digest(long) != long
    assert len(digest(long)) > MAX_PLAIN_KEY
    assert map_key(digest(long)) != digest(long)
    assert map_key(b"k" * MAX_PLAIN_KEY) == b"k" * MAX_PLAIN_KEY
