from __future__ import annotations

import struct
from typing import Any

import pytest

from minibroker.errors import CorruptMessage, UnsupportedCompressionType, UnsupportedForMessageFormat
from minibroker.records.any_format import decode_records, split_batches
from minibroker.records.batch import (
    CONTROL_FLAG,
    HEADER_SIZE,
    TRANSACTIONAL_FLAG,
    RecordBatch,
    TimestampType,
    assign_offsets,
    increment_sequence,
    stamp_log_append_time,
)
from minibroker.records.builder import build_batch, build_single
from minibroker.records.compression import Compression
from minibroker.records.record import Record

RECORDS = [Record(0, 1_000, b"key", b"value"), Record(0, 3_000, None, b""), Record(0, 2_000, b"", None, (("trace", b"1"), ("", None)))]


def test_view_exposes_every_header_field() -> None:
    data = build_batch(
        RECORDS,
        base_offset=70,
        producer_id=9,
        producer_epoch=2,
        base_sequence=40,
        is_transactional=True,
        partition_leader_epoch=5,
        compression=Compression.ZSTD,
    )

    batch = RecordBatch(data)

    assert (batch.base_offset, batch.last_offset, batch.next_offset, batch.last_offset_delta) == (70, 72, 73, 2)
    assert (batch.batch_length, batch.size, len(batch.data)) == (len(data) - 12, len(data), len(data))
    assert (batch.magic, batch.partition_leader_epoch, batch.record_count) == (2, 5, 3)
    assert (batch.base_timestamp, batch.max_timestamp, batch.timestamp_type) == (1_000, 3_000, TimestampType.CREATE_TIME)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.last_sequence) == (9, 2, 40, 42)
    assert (batch.compression, batch.is_compressed, batch.has_producer_id) == (Compression.ZSTD, True, True)
    assert (batch.is_transactional, batch.is_control, batch.has_delete_horizon) == (True, False, False)
    assert batch.check_crc()
    assert len(batch.payload) == len(data) - HEADER_SIZE


@pytest.mark.parametrize("size", [0, 63, 64, 8_200])
@pytest.mark.parametrize("has_value", [False, True])
def test_single_record_gets_the_same_batch(size: int, has_value: bool) -> None:
    record = Record(0, 5, bytes(size), bytes(100 - size % 100) if has_value else None)
    producer: dict[str, Any] = {"base_offset": 30, "producer_id": 4, "producer_epoch": 2, "base_sequence": 0, "partition_leader_epoch": 1}
    expected = build_batch([record], **producer, is_transactional=True, is_control=True)
    assert build_single(5, record.key or b"", record.value, attributes=TRANSACTIONAL_FLAG | CONTROL_FLAG, **producer) == expected
    assert build_single(5, record.key or b"", record.value) == build_batch([record])


def test_batch_without_producer_has_no_sequences() -> None:
    batch = RecordBatch(build_batch(RECORDS))

    assert (batch.has_producer_id, batch.base_sequence, batch.last_sequence) == (False, -1, -1)


def test_sequences_wrap_to_zero() -> None:
    assert increment_sequence(2**31 - 1, 1) == 0
    assert increment_sequence(2**31 - 3, 5) == 2
    assert RecordBatch(build_batch(RECORDS, producer_id=1, producer_epoch=0, base_sequence=2**31 - 2)).last_sequence == 0


def test_delete_horizon_replaces_the_base_timestamp() -> None:
    batch = RecordBatch(build_batch(RECORDS, delete_horizon_ms=50_000))

    assert (batch.has_delete_horizon, batch.base_timestamp) == (True, 50_000)
    assert [record.timestamp for record in decode_records(batch)] == [1_000, 3_000, 2_000]


def test_compacted_batch_keeps_its_offsets() -> None:
    left = [Record(11, 5, b"k", b"v"), Record(14, 6, b"l", b"w")]

    batch = RecordBatch(build_batch(left, base_offset=10, keep_offsets=True, last_offset_delta=7))

    assert list(decode_records(batch)) == left
    assert (batch.base_offset, batch.last_offset, batch.record_count) == (10, 17, 2)
    empty = RecordBatch(build_batch([], base_offset=10, last_offset_delta=7, max_timestamp=6))
    assert (list(decode_records(empty)), empty.next_offset, empty.base_timestamp, empty.max_timestamp) == ([], 18, -1, 6)


def test_assigning_offsets_keeps_the_checksum_valid() -> None:
    data = build_batch(RECORDS)

    assign_offsets(memoryview(data), 1 << 40, 12)

    batch = RecordBatch(data)
    assert (batch.base_offset, batch.partition_leader_epoch, batch.check_crc()) == (1 << 40, 12, True)
    assert [record.offset for record in decode_records(batch)] == [1 << 40, (1 << 40) + 1, (1 << 40) + 2]


def test_log_append_time_applies_to_every_record() -> None:
    data = build_batch(RECORDS, compression=Compression.GZIP)

    stamp_log_append_time(memoryview(data), 99_000)

    batch = RecordBatch(data)
    assert (batch.timestamp_type, batch.max_timestamp, batch.check_crc()) == (TimestampType.LOG_APPEND_TIME, 99_000, True)
    assert {record.timestamp for record in decode_records(batch)} == {99_000}


def test_changed_byte_breaks_the_checksum() -> None:
    data = build_batch(RECORDS)
    for position in range(21, len(data)):
        data[position] ^= 0x10
        assert not RecordBatch(data).check_crc(), position
        data[position] ^= 0x10


def test_consecutive_batches_are_split() -> None:
    first, second = build_batch(RECORDS), build_batch(RECORDS[:1], base_offset=3)

    assert [(batch.base_offset, batch.size) for batch in split_batches(first + second)] == [(0, len(first)), (3, len(second))]
    assert list(split_batches(b"")) == []


def test_partial_batch_is_corrupt_unless_allowed() -> None:
    first, second = build_batch(RECORDS), build_batch(RECORDS[:1], base_offset=3)
    whole = first + second
    for end in range(len(whole)):
        batches = [batch.base_offset for batch in split_batches(whole[:end], allow_partial=True)]
        assert batches == ([0] if end >= len(first) else []), end
        if end not in {0, len(first)}:
            with pytest.raises(CorruptMessage):
                list(split_batches(whole[:end]))


@pytest.mark.parametrize("batch_length", [-1, 0, 48, -(2**31), 2**31 - 1])
def test_impossible_length_is_corrupt(batch_length: int) -> None:
    data = build_batch(RECORDS)
    struct.pack_into(">i", data, 8, batch_length)

    with pytest.raises(CorruptMessage):
        RecordBatch(data)
    if batch_length < 2**31 - 1:
        with pytest.raises(CorruptMessage):
            list(split_batches(data, allow_partial=True))


def test_zeros_are_not_a_batch() -> None:
    with pytest.raises(CorruptMessage):
        RecordBatch(bytes(1_000))


@pytest.mark.parametrize("magic", [3, 127, 128, 255])
def test_unknown_magic_is_corrupt(magic: int) -> None:
    data = build_batch(RECORDS)
    data[16] = magic

    with pytest.raises(CorruptMessage):
        RecordBatch(data)


@pytest.mark.parametrize("magic", [0, 1])
def test_old_format_raises_unsupported_not_corrupt(magic: int) -> None:
    # offset, size 14 + 8, crc, magic, attributes, [timestamp], key -1, value -1
    data = struct.pack(">qiIbb", 0, 14 + 8 * magic, 0, magic, 0) + bytes(8 * magic) + struct.pack(">ii", -1, -1)

    with pytest.raises(UnsupportedForMessageFormat):
        RecordBatch(data)
    with pytest.raises(CorruptMessage):
        RecordBatch(data[:-1])


@pytest.mark.parametrize("codec_id", [5, 6, 7])
def test_unknown_codec_is_reported_on_access(codec_id: int) -> None:
    data = build_batch(RECORDS)
    data[22] |= codec_id

    batch = RecordBatch(data)

    assert batch.is_compressed
    with pytest.raises(UnsupportedCompressionType):
        _ = batch.compression


def test_codec_names_match_the_configuration() -> None:
    assert TimestampType.from_name("LogAppendTime") is TimestampType.LOG_APPEND_TIME
    assert TimestampType.from_name("CreateTime") is TimestampType.CREATE_TIME
    with pytest.raises(ValueError, match="neither"):
        TimestampType.from_name("createtime")
