"""Build messages and compressed sets of formats v0 and v1 (legacy.py), for old consumers and for tests.

The result is that of Apache Kafka's MemoryRecordsBuilder. Offsets inside a compressed set are absolute in v0; in v1 they count from the
first record's. The set has the offset of its last record and, in v1, the largest timestamp.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from struct import error as StructError  # noqa: N812  it is a class
from typing import TYPE_CHECKING
from zlib import crc32

from minibroker.errors import InvalidRecord, UnsupportedCompressionType
from minibroker.records.batch import LOG_APPEND_TIME_FLAG, LOG_OVERHEAD, NO_TIMESTAMP, TimestampType
from minibroker.records.compression import MAX_DECOMPRESSED_BYTES, Compression, compress
from minibroker.records.legacy import MAGIC_V0, MIN_SIZES, with_old_checksum
from minibroker.records.record import Record

if TYPE_CHECKING:
    from typing_extensions import Buffer

_pack_v0 = Struct(">qiIBBi").pack  #: offset, message_size, crc, magic, attributes, key_length
_pack_v1 = Struct(">qiIBBqi").pack
_pack_v0_body = Struct(">BBi").pack  #: what the CRC covers of these
_pack_v1_body = Struct(">BBqi").pack
_pack_length = Struct(">i").pack
_NULL = b"\xff\xff\xff\xff"


def build_message_set(
    records: Iterable[Record],
    magic: int,
    *,
    compression: Compression = Compression.NONE,
    level: int | None = None,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    max_bytes: int = MAX_DECOMPRESSED_BYTES,
) -> bytearray:
    """Build a message for each of `records` in message format `magic` (0 or 1), or one compressed set.

    Headers are dropped, and in v0 timestamps as well. With LogAppendTime all records must have the same timestamp. Raises
    UnsupportedCompressionType for zstd, InvalidRecord if the uncompressed messages take more than `max_bytes`.
    """
    if compression is Compression.ZSTD:
        raise UnsupportedCompressionType(f"zstd does not exist in message format v{magic}")
    flags = LOG_APPEND_TIME_FLAG if timestamp_type and magic else 0
    has_relative_offsets = bool(compression and magic)
    out = bytearray()
    record: Record | None = None
    base_offset, largest = 0, NO_TIMESTAMP
    for record in records:
        if has_relative_offsets and not out:
            base_offset = record.offset
        try:
            write_message(out, record, magic, flags, base_offset)
        except StructError:
            raise InvalidRecord(f"offset {record.offset} or timestamp {record.timestamp} is none of 64 bits") from None
        if len(out) > max_bytes:
            raise InvalidRecord(f"records that take more than {max_bytes} bytes in message format v{magic}")
        largest = max(largest, record.timestamp)
    if record is None or not compression:
        return out
    value: Buffer = compress(compression, out, level)
    if compression is Compression.LZ4 and magic == MAGIC_V0:
        value = with_old_checksum(value)
    packed = bytearray()
    write_message(packed, Record(record.offset, largest, None, bytes(value)), magic, flags | compression)
    return packed


def write_message(out: bytearray, record: Record, magic: int, attributes: int, base_offset: int = 0) -> None:
    """Append one message, its offset counted from `base_offset`; a negative timestamp is written as -1, none."""
    offset, timestamp, key, value, _ = record
    offset -= base_offset
    key_length = -1 if key is None else len(key)
    size = MIN_SIZES[magic] - LOG_OVERHEAD + max(key_length, 0) + (0 if value is None else len(value))
    length = _NULL if value is None else _pack_length(len(value))
    if magic == MAGIC_V0:
        crc = crc32(_pack_v0_body(magic, attributes, key_length))
    else:
        timestamp = max(timestamp, NO_TIMESTAMP)
        crc = crc32(_pack_v1_body(magic, attributes, timestamp, key_length))
    crc = crc32(length, crc32(key, crc) if key else crc)
    if value:
        crc = crc32(value, crc)
    if magic == MAGIC_V0:
        out += _pack_v0(offset, size, crc, magic, attributes, key_length)
    else:
        out += _pack_v1(offset, size, crc, magic, attributes, timestamp, key_length)
    if key:
        out += key
    out += length
    if value:
        out += value
