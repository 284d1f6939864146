"""All records at once, against records/record.py, which reads one after the other: the same values, the same refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("pyarrow")

from minibroker.errors import InvalidRecord
from minibroker.records.batch import RecordBatch
from minibroker.records.builder import build_batch
from minibroker.records.record import Record, decode_records
from minibroker.spark.kafka_log.columns import Rows, TableBuilder
from minibroker.spark.kafka_log.fields import PADDING, Fields, MalformedBatchError, Payloads, read_fields
from minibroker.spark.kafka_log.split import Splitter, compile_walk

SPLITTERS = [pytest.param(Splitter(compile_after=1 << 60), id="python")]
if compile_walk() is not None:
    SPLITTERS.append(pytest.param(Splitter(compile_after=0), id="numba"))

texts = st.one_of(st.none(), st.binary(max_size=20), st.binary(min_size=60, max_size=70), st.just(b"x" * 9000))
headers = st.lists(st.tuples(st.text(max_size=5), texts), max_size=4).map(tuple)
records = st.builds(
    Record,
    offset=st.just(0),
    timestamp=st.one_of(st.integers(0, 300), st.integers(0, 1 << 41)),
    key=texts,
    value=texts,
    headers=st.one_of(st.just(()), headers),
)
batches = st.lists(records, min_size=1, max_size=12).map(lambda them: RecordBatch(build_batch(them)))


def payloads_of(them: list[RecordBatch], payloads: list[bytes]) -> Payloads:
    lengths = np.array([len(payload) for payload in payloads], np.int64)
    stops = np.cumsum(lengths)
    counts = np.array([batch.record_count for batch in them], np.int64)
    last = np.array([batch.last_offset_delta for batch in them], np.int64)
    return Payloads(b"".join([*payloads, bytes(PADDING)]), stops - lengths, stops, counts, last)


def columns_of(fields: Fields, base_timestamps: list[int]) -> list[dict[str, Any]]:
    timestamps = np.array(base_timestamps)[fields.batches] + fields.timestamp_deltas
    rows = Rows(np.arange(len(fields.batches)), fields.offset_deltas, timestamps, np.zeros(len(timestamps), np.int32))
    found: list[dict[str, Any]] = TableBuilder("t", 0, ("offset", "key", "value", "headers")).record_batch(fields, rows).to_pylist()
    for row, timestamp in zip(found, timestamps.tolist(), strict=True):
        row["ms"] = timestamp
    return found


def row_of(record: Record) -> dict[str, Any]:
    told = [{"key": key, "value": value} for key, value in record.headers] or None
    return {"offset": record.offset, "key": record.key, "value": record.value, "headers": told, "ms": record.timestamp}


@pytest.mark.parametrize("splitter", SPLITTERS)
@settings(max_examples=120, deadline=None)
@given(them=st.lists(batches, min_size=1, max_size=6))
def test_the_same_values(splitter: Splitter, them: list[RecordBatch]) -> None:
    fields = read_fields(payloads_of(them, [bytes(batch.payload) for batch in them]), splitter)
    expected = [row_of(record) for batch in them for record in decode_records(batch)]
    assert columns_of(fields, [batch.base_timestamp for batch in them]) == expected


@pytest.mark.parametrize("splitter", SPLITTERS)
@settings(max_examples=500, deadline=None)
@given(batch=batches, data=st.data())
def test_the_same_refusals(splitter: Splitter, batch: RecordBatch, data: st.DataObject) -> None:
    """One byte changed, cut out or put in, or another count: both take it, with the same values, or both refuse it."""
    damaged = bytearray(batch.data)
    position = data.draw(st.integers(57, len(damaged) - 1))
    kind = data.draw(st.sampled_from(["change", "cut", "insert"]))
    byte = data.draw(st.one_of(st.integers(0, 255), st.sampled_from([0, 1, 2, 3, 0x7F, 0x80, 0xFF])))
    if kind == "change" or position < 61:
        damaged[position] = byte
    elif kind == "cut":
        del damaged[position]
    else:
        damaged.insert(position, byte)
    damaged[8:12] = (len(damaged) - 12).to_bytes(4, "big")
    judged = RecordBatch(damaged)
    try:
        expected = [row_of(record) for record in decode_records(judged)]
    except InvalidRecord:
        with pytest.raises(MalformedBatchError):
            read_fields(payloads_of([judged], [bytes(judged.payload)]), splitter)
    else:
        if any(not -(1 << 63) <= row["ms"] < 1 << 63 for row in expected):
            return  # Java wraps around where Python goes on
        fields = read_fields(payloads_of([judged], [bytes(judged.payload)]), splitter)
        assert columns_of(fields, [judged.base_timestamp]) == expected


def test_the_batch_that_is_wrong_is_named() -> None:
    good = RecordBatch(build_batch([Record(0, 0, b"k", b"v")] * 3))
    bad = bytes(good.payload)[:-1] + b"\x02"
    with pytest.raises(MalformedBatchError) as raised:
        read_fields(payloads_of([good] * 3, [bytes(good.payload), bad, bytes(good.payload)]))
    assert raised.value.batch == 1


@pytest.mark.parametrize("splitter", SPLITTERS)
@pytest.mark.parametrize(
    "payload",
    [b"", b"\x80", b"\xff\xff\xff\xff\xff\x01", b"\x0d" + b"\0" * 6, b"\x0c" + b"\xff" * 6, b"\xfe\xff\xff\xff\x0f" + b"\0" * 10],
)
def test_no_records_at_all(splitter: Splitter, payload: bytes) -> None:
    batch = RecordBatch(build_batch([Record(0, 0, None, None)]))
    with pytest.raises(MalformedBatchError):
        read_fields(payloads_of([batch], [payload]), splitter)


def test_a_count_that_cannot_be() -> None:
    batch = RecordBatch(build_batch([Record(0, 0, None, None)]))
    for count in (-1, 1 << 30):
        batch.record_count = count
        with pytest.raises(MalformedBatchError):
            read_fields(payloads_of([batch], [bytes(batch.payload)]))


def test_a_batch_that_compaction_emptied() -> None:
    empty = RecordBatch(build_batch([Record(0, 0, None, None)]))
    full = RecordBatch(build_batch([Record(0, 0, b"k", b"v")]))
    payloads = payloads_of([empty, full], [b"", bytes(full.payload)])
    payloads.record_counts[0] = 0
    assert read_fields(payloads).batches.tolist() == [1]
