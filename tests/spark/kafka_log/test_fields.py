"""All records at once, against records/record.py, which reads one after the other: the same values, the same refusals."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyarrow")

from minibroker.errors import InvalidRecord
from minibroker.records.any_format import decode_records
from minibroker.records.batch import RecordBatch, TimestampType
from minibroker.records.builder import build_batch
from minibroker.records.record import Record
from minibroker.spark.kafka_log.columns import FieldColumns, RecordColumns, TableBuilder
from minibroker.spark.kafka_log.decoder import MAX_TIMESTAMP, Decode, Decoder, Group, compiled_decode, decode_with_numpy
from minibroker.spark.kafka_log.fields import PADDING, MalformedBatchError, Splitter
from minibroker.spark.kafka_log.frames import read_frame_headers
from tests.support.soak import examples

WAYS = [pytest.param(partial(decode_with_numpy, splitter=Splitter(compile_after=1 << 60)), id="python")]
if compiled_decode() is not None:
    WAYS.append(pytest.param(partial(decode_with_numpy, splitter=Splitter(compile_after=0)), id="numba-walk"))
    WAYS.append(pytest.param(compiled_decode(), id="numba"))
EVERYTHING = (0, 1 << 62)

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


def group_of(them: list[RecordBatch], payloads: list[bytes]) -> Group:
    stops = np.cumsum([len(payload) for payload in payloads])
    headers = np.concatenate([read_frame_headers(bytes(batch.data), [0]) for batch in them])
    data = np.frombuffer(b"".join([*payloads, bytes(PADDING)]), np.uint8)
    return Group(data, headers, stops - [len(payload) for payload in payloads], stops)


def rows_of(columns: RecordColumns) -> list[dict[str, Any]]:
    import pyarrow as pa

    found: list[dict[str, Any]] = TableBuilder("t", 0, ("offset", "key", "value", "headers")).record_batch(columns).to_pylist()
    for row, timestamp in zip(found, columns.array("timestamp").cast(pa.int64()).to_pylist(), strict=True):
        row["ms"] = timestamp // 1000
    return found


def row_of(record: Record) -> dict[str, Any]:
    headers = [{"key": key, "value": value} for key, value in record.headers] or None
    return {"offset": record.offset, "key": record.key, "value": record.value, "headers": headers, "ms": record.timestamp}


@pytest.mark.parametrize("way", WAYS)
@examples(80)
@given(them=st.lists(batches, min_size=1, max_size=6), bounds=st.lists(st.integers(0, 12), min_size=2, max_size=2))
def test_the_same_values(way: Decode, them: list[RecordBatch], bounds: list[int]) -> None:
    group = group_of(them, [bytes(batch.payload) for batch in them])
    expected = [row_of(record) for batch in them for record in decode_records(batch)]
    assert rows_of(way(group, *EVERYTHING)) == expected
    start, end = sorted(bounds)
    assert rows_of(way(group, start, end)) == [row for row in expected if start <= row["offset"] < end]


@pytest.mark.parametrize("way", WAYS)
@examples(250)
@given(batch=batches, data=st.data())
def test_the_same_refusals(way: Decode, batch: RecordBatch, data: st.DataObject) -> None:
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
    group = group_of([judged], [bytes(judged.payload)])
    try:
        expected = [row_of(record) for record in decode_records(judged)]
    except InvalidRecord:
        with pytest.raises(MalformedBatchError):
            way(group, *EVERYTHING)
    else:
        if any(not -(1 << 63) <= row["ms"] < 1 << 63 for row in expected):
            return  # Java wraps around where Python goes on
        if any(abs(row["ms"]) > MAX_TIMESTAMP for row in expected):
            with pytest.raises(MalformedBatchError, match="Spark cannot hold"):
                way(group, *EVERYTHING)
            return
        assert rows_of(way(group, *EVERYTHING)) == expected


@pytest.mark.parametrize("way", WAYS)
def test_the_batch_that_is_wrong_is_named(way: Decode) -> None:
    good = RecordBatch(build_batch([Record(0, 0, b"k", b"v")] * 3))
    bad = bytes(good.payload)[:-1] + b"\x02"
    group = group_of([good] * 3, [bytes(good.payload), bad, bytes(good.payload)])
    with pytest.raises(MalformedBatchError) as raised:
        way(group, *EVERYTHING)
    assert raised.value.batch == 1
    assert len(rows_of(way(group.without(1), *EVERYTHING))) == 6


@pytest.mark.parametrize("way", WAYS)
def test_the_broker_s_time(way: Decode) -> None:
    mine = build_batch([Record(0, 5, None, b"a"), Record(1, 7, None, b"b")])
    its = build_batch([Record(0, 5, None, b"c"), Record(1, 7, None, b"d")], timestamp_type=TimestampType.LOG_APPEND_TIME)
    them = [RecordBatch(mine), RecordBatch(its)]
    columns = way(group_of(them, [bytes(batch.payload) for batch in them]), *EVERYTHING)
    assert [row["ms"] for row in rows_of(columns)] == [5, 7, 7, 7]
    assert columns.array("timestampType").to_pylist() == [0, 0, 1, 1]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "payload",
    [b"", b"\x80", b"\xff\xff\xff\xff\xff\x01", b"\x0d" + b"\0" * 6, b"\x0c" + b"\xff" * 6, b"\xfe\xff\xff\xff\x0f" + b"\0" * 10],
)
def test_no_records_at_all(way: Decode, payload: bytes) -> None:
    batch = RecordBatch(build_batch([Record(0, 0, None, None)]))
    with pytest.raises(MalformedBatchError):
        way(group_of([batch], [payload]), *EVERYTHING)


@pytest.mark.parametrize("way", WAYS)
def test_a_count_that_cannot_be(way: Decode) -> None:
    batch = RecordBatch(build_batch([Record(0, 0, None, None)]))
    for count in (-1, 1 << 30):
        group = group_of([batch], [bytes(batch.payload)])
        group.headers["record_count"] = count
        with pytest.raises(MalformedBatchError):
            way(group, *EVERYTHING)


@pytest.mark.parametrize("way", WAYS)
def test_a_batch_that_compaction_emptied(way: Decode) -> None:
    empty = RecordBatch(build_batch([Record(0, 0, None, None)]))
    full = RecordBatch(build_batch([Record(0, 0, b"k", b"v")]))
    group = group_of([empty, full], [b"", bytes(full.payload)])
    group.headers["record_count"][0] = 0
    assert [row["key"] for row in rows_of(way(group, *EVERYTHING))] == [b"k"]


def test_machine_code_comes_when_it_pays() -> None:
    batch = RecordBatch(build_batch([Record(0, 0, b"k", b"v")] * 4))
    group = group_of([batch], [bytes(batch.payload)])
    decoder = Decoder(compile_after=6)
    found = [decoder.columns(group, *EVERYTHING) for _ in range(3)]
    assert [type(each) is FieldColumns for each in found] == [True, True, compiled_decode() is None]
    assert rows_of(found[0]) == rows_of(found[2])
