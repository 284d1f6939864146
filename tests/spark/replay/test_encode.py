"""Columns of Arrow as a batch's payload: byte for byte what records/record.py writes record by record."""

from __future__ import annotations

import random
from typing import Any

import pytest

pytest.importorskip("pyarrow")

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from minibroker.records.any_format import decode_records
from minibroker.records.batch import RecordBatch
from minibroker.records.builder import build_batch
from minibroker.records.compression import Compression
from minibroker.records.record import Record
from minibroker.spark.failures import ReplayError, SourceError
from minibroker.spark.replay.encode import Columns, Packer, Varints, encode_payload, joined_varints, narrow
from minibroker.spark.replay.ledger import OffsetRun, joined, runs_of
from tests.support.soak import examples

HEADERS = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
ALL = 1 << 20


def columns_of(records: list[Record], *, has_headers: bool = True) -> Columns:
    lists = [[{"key": name, "value": value} for name, value in record.headers] or None for record in records]
    return Columns(
        pa.array([record.key for record in records], pa.binary()),
        pa.array([record.value for record in records], pa.binary()),
        pa.array(lists, HEADERS) if has_headers else None,
        np.array([record.timestamp for record in records], np.int64),
        np.array([record.offset for record in records], np.int64),
    )


def payload_of(records: list[Record]) -> bytes:
    return bytes(build_batch(records)[61:])


#: sizes around which a varint takes another byte
SIZES = st.sampled_from([0, 1, 2, 63, 64, 65, 130, 8191, 8192])
VALUES = st.one_of(st.none(), SIZES.map(lambda size: b"x" * size), st.binary(max_size=20))
HEADER = st.tuples(st.text(max_size=5), VALUES)
RECORDS = st.lists(
    st.builds(
        Record,
        st.just(0),
        st.one_of(st.integers(-1, 100), st.integers(0, 2**62)),
        VALUES,
        VALUES,
        st.one_of(st.just(()), st.lists(HEADER, max_size=3).map(tuple)),
    ),
    min_size=1,
    max_size=80,
)


@given(RECORDS)
@examples(150)
def test_as_record_by_record(records: list[Record]) -> None:
    assert bytes(encode_payload(columns_of(records), records[0].timestamp)) == payload_of(records)


def test_parts_of_columns_and_many_records() -> None:
    chance = random.Random(7)
    records = [
        Record(
            number,
            chance.randrange(10**13),
            chance.choice([None, b"", b"k%d" % number]),
            chance.randbytes(chance.randrange(300)),
            chance.choice([(), (("a", b"1"), ("b", None), ("a", b"2"))]),
        )
        for number in range(20_000)
    ]
    columns = columns_of(records)
    for start, stop in ((0, 20_000), (1, 2), (777, 9_000)):
        part = columns.part(start, stop)
        assert bytes(encode_payload(part, records[start].timestamp)) == payload_of(records[start:stop])
    without = [record._replace(headers=()) for record in records]
    assert bytes(encode_payload(columns_of(without, has_headers=False), records[0].timestamp)) == payload_of(without)


def test_columns_with_offsets_of_64_bits() -> None:
    """As Spark gives them with spark.sql.execution.arrow.useLargeVarTypes."""
    large = pa.list_(pa.struct([pa.field("key", pa.large_string()), pa.field("value", pa.large_binary())]))
    records = [Record(0, 5, b"k", None, (("a", b"1"), ("b", None))), Record(1, 6, None, b"value", ())]
    columns = columns_of(records)
    assert columns.headers is not None
    given = columns.keys.cast(pa.large_binary()), columns.values.cast(pa.large_binary()), columns.headers.cast(large)
    keys, values, headers = (narrow(each) for each in given)
    assert bytes(encode_payload(Columns(keys, values, headers, columns.timestamps, columns.offsets), 5)) == payload_of(records)
    assert narrow(columns.headers) is columns.headers


def test_headers_under_a_null_do_not_count() -> None:
    hidden = pa.ListArray.from_arrays(
        pa.array([0, 1, 2, 3], pa.int32()),
        pa.array([{"key": name, "value": b"v"} for name in "abc"], HEADERS.value_type),
        mask=pa.array([False, True, False]),
    )
    records = [Record(index, 5, None, b"value", () if index == 1 else (("abc"[index], b"v"),)) for index in range(3)]
    columns = columns_of(records)
    assert bytes(encode_payload(Columns(columns.keys, columns.values, hidden, columns.timestamps, columns.offsets), 5)) == payload_of(
        records
    )


def test_a_header_without_a_key_is_refused() -> None:
    columns = columns_of([Record(0, 5, None, b"value")])
    headers = pa.array([[{"key": None, "value": b"v"}]], HEADERS)
    with pytest.raises(SourceError, match="a header without a key"):
        encode_payload(Columns(columns.keys, columns.values, headers, columns.timestamps, columns.offsets), 5)


def test_varints_of_every_size() -> None:
    numbers = [0, -1, 1, 63, -64, 64, -65, 2**31 - 1, -(2**31), 2**62, -(2**62), 2**63 - 1, -(2**63)]
    from minibroker.records.record import write_varint

    expected = []
    for number in numbers:
        out = bytearray()
        write_varint(out, number)
        expected.append(bytes(out))
    assert joined_varints(Varints(np.array(numbers, np.int64))).to_pylist() == expected


def rows(count: int, size: int, **other: Any) -> list[Record]:
    return [Record(100 + 2 * number, 1000 + number, b"k", bytes([number % 251]) * size, **other) for number in range(count)]


def decoded(records: list[Record], packer: Packer) -> tuple[list[Record], list[RecordBatch]]:
    """The records of all batches under their old offsets, and the batches."""
    found: list[Record] = []
    batches = []
    for packed in packer.batches(columns_of(records), "t-0"):
        batch = RecordBatch(bytes(packed.framed(7, 3, len(found))))
        assert (batch.check_crc(), batch.producer_id, batch.producer_epoch, batch.base_sequence) == (True, 7, 3, len(found))
        assert batch.is_transactional
        assert batch.size == packed.size
        found += [record._replace(offset=old) for record, old in zip(decode_records(batch), packed.old_offsets.tolist(), strict=True)]
        batches.append(batch)
    return found, batches


@pytest.mark.parametrize("compression", list(Compression))
def test_batches_are_of_about_one_size_and_lose_nothing(compression: Compression) -> None:
    records = rows(1000, 100)
    found, batches = decoded(records, Packer(compression, 30_000, ALL, ALL))
    assert found == records
    assert len(batches) == 5
    assert max(batch.record_count for batch in batches) - min(batch.record_count for batch in batches) <= 5
    assert {batch.compression for batch in batches} == {compression}
    assert [batch.max_timestamp for batch in batches][-1] == records[-1].timestamp


def test_not_more_records_than_were_asked_for() -> None:
    found, batches = decoded(rows(10, 5), Packer(Compression.NONE, ALL, 3, ALL))
    assert [batch.record_count for batch in batches] == [3, 3, 3, 1]
    assert len(found) == 10


def test_what_cannot_be_compressed_is_left_as_it_is() -> None:
    chance = random.Random(1)
    (batch,) = decoded([Record(0, 1, None, chance.randbytes(5000))], Packer(Compression.GZIP, ALL, ALL, ALL))[1]
    assert batch.compression is Compression.NONE


def test_no_batch_is_larger_than_the_topic_takes() -> None:
    chance = random.Random(1)
    large = [Record(number, 1, None, chance.randbytes(chance.choice([10, 900]))) for number in range(200)]
    found, batches = decoded(large, Packer(Compression.NONE, ALL, ALL, 1000))
    assert found == large
    assert max(batch.size for batch in batches) <= 1000
    with pytest.raises(ReplayError, match=r"the record at offset 102 is too large for t-0: its batch has \d+ bytes, .* is 1000"):
        decoded([*rows(1, 10), Record(102, 1, None, chance.randbytes(2000))], Packer(Compression.LZ4, ALL, ALL, 1000))
    # that many bytes are no obstacle when they compress
    assert len(decoded([Record(102, 1, None, bytes(2000))], Packer(Compression.LZ4, ALL, ALL, 1000))[0]) == 1


def test_runs_of_offsets() -> None:
    assert runs_of(np.array([5, 6, 7, 9, 12, 13]), 100) == [OffsetRun(5, 100, 3), OffsetRun(9, 103, 1), OffsetRun(12, 104, 2)]
    assert runs_of(np.array([5]), 0) == [OffsetRun(5, 0, 1)]
    assert joined([]) == []
    assert joined([OffsetRun(5, 100, 3), OffsetRun(8, 103, 2), OffsetRun(10, 106, 1), OffsetRun(12, 107, 1)]) == [
        OffsetRun(5, 100, 5),
        OffsetRun(10, 106, 1),  # a marker lies before it
        OffsetRun(12, 107, 1),
    ]
