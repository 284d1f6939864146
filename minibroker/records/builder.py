"""Build record batches of format v2 from records: for clients, tests, recompression, markers and compaction."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct

from minibroker.records.batch import (
    ATTRIBUTES_POSITION,
    CONTROL_FLAG,
    CRC_POSITION,
    DELETE_HORIZON_FLAG,
    HEADER_SIZE,
    LOG_APPEND_TIME_FLAG,
    LOG_OVERHEAD,
    MAGIC_V2,
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL_FLAG,
    TimestampType,
)
from minibroker.records.checksum import crc32c
from minibroker.records.compression import Compression, compress
from minibroker.records.record import SHORT_VARINTS, Record, encode_record, encode_varint

_pack_head = Struct(">qiibI").pack  #: up to the CRC
_pack_summed = Struct(">hiqqqhii").pack  #: the rest of the header, which the CRC covers


def build_batch(
    records: Sequence[Record],
    *,
    base_offset: int = 0,
    keep_offsets: bool = False,
    last_offset_delta: int | None = None,
    compression: Compression = Compression.NONE,
    level: int | None = None,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    max_timestamp: int | None = None,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    is_transactional: bool = False,
    is_control: bool = False,
    delete_horizon_ms: int | None = None,
    partition_leader_epoch: int = NO_PARTITION_LEADER_EPOCH,
) -> bytearray:
    """Build one batch of `records`.

    Records are numbered from `base_offset` on, as a producer numbers them; their own offsets are
    ignored. With `keep_offsets` they keep their offsets, which must not be below `base_offset`:
    after compaction a batch has gaps, and may have no record at all. `last_offset_delta` and
    `max_timestamp` (epoch ms) are those of the records by default. `level` is that of the codec;
    None is its default.
    """
    count = len(records)
    base_timestamp = records[0].timestamp if records else NO_TIMESTAMP
    if delete_horizon_ms is not None:
        base_timestamp = delete_horizon_ms
    payload = bytearray()
    offset_delta = -1
    latest = None
    for index, record in enumerate(records):
        timestamp = record.timestamp
        if latest is None or timestamp > latest:
            latest = timestamp
        offset_delta = record.offset - base_offset if keep_offsets else index
        encode_record(payload, record, offset_delta, timestamp - base_timestamp)
    if last_offset_delta is None:
        last_offset_delta = offset_delta
    if max_timestamp is None:
        max_timestamp = NO_TIMESTAMP if latest is None else latest
    packed = compress(compression, payload, level) if compression else payload
    attributes = (
        compression
        | (LOG_APPEND_TIME_FLAG if timestamp_type else 0)
        | (TRANSACTIONAL_FLAG if is_transactional else 0)
        | (CONTROL_FLAG if is_control else 0)
        | (DELETE_HORIZON_FLAG if delete_horizon_ms is not None else 0)
    )
    return frame_batch(
        packed,
        attributes,
        base_offset,
        last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        count,
        partition_leader_epoch,
    )


def build_single(
    timestamp: int,
    key: bytes,
    value: bytes | None,
    *,
    attributes: int = 0,
    base_offset: int = 0,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    partition_leader_epoch: int = NO_PARTITION_LEADER_EPOCH,
) -> bytearray:
    """Build a batch of one record without headers: the same bytes as `build_batch`, in half the time."""
    short = SHORT_VARINTS.get
    key_size, value_size = len(key), -1 if value is None else len(value)
    record = b"\0\0\0%b%b%b%b\0" % (  # attributes, timestamp delta, offset delta; the count of headers is last
        short(key_size) or encode_varint(key_size),
        key,
        short(value_size) or encode_varint(value_size),
        value or b"",
    )
    size = len(record)
    return frame_batch(
        (short(size) or encode_varint(size)) + record,
        attributes,
        base_offset,
        0,
        timestamp,
        timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        1,
        partition_leader_epoch,
    )


def frame_batch(  # noqa: PLR0917  fields of the header, in its order
    packed: bytes | bytearray | memoryview,
    attributes: int,
    base_offset: int,
    last_offset_delta: int,
    base_timestamp: int,
    max_timestamp: int,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    record_count: int,
    partition_leader_epoch: int = NO_PARTITION_LEADER_EPOCH,
) -> bytearray:
    """Build a batch of records that are already encoded, and compressed as `attributes` say; fields as in batch.py."""
    summed = _pack_summed(
        attributes, last_offset_delta, base_timestamp, max_timestamp, producer_id, producer_epoch, base_sequence, record_count
    )
    checksum = crc32c(packed, crc32c(summed))
    batch_length = HEADER_SIZE - LOG_OVERHEAD + len(packed)
    batch = bytearray(_pack_head(base_offset, batch_length, partition_leader_epoch, MAGIC_V2, checksum))
    batch += summed
    batch += packed
    return batch


def sum_batch(batch: bytearray) -> None:
    """Write the CRC of a batch into its header."""
    with memoryview(batch) as view:
        checksum = crc32c(view[ATTRIBUTES_POSITION:])
    batch[CRC_POSITION:ATTRIBUTES_POSITION] = checksum.to_bytes(4)
