"""The record batch of message format v2, viewed without decoding its records.

    position  size  field
           0     8  base_offset
           8     4  batch_length              bytes that follow this field: the batch's size is 12 + batch_length
          12     4  partition_leader_epoch    outside the CRC, so that a broker writes it without a new CRC
          16     1  magic                     2
          17     4  crc                       CRC-32C of everything from attributes to the end
          21     2  attributes                bits 0-2 compression, 3 timestamp type (1: LogAppendTime), 4 transactional,
                                              5 control, 6 delete horizon (base_timestamp is it), 7-15 unused
          23     4  last_offset_delta         also the last sequence's delta; survives compaction
          27     8  base_timestamp            epoch ms
          35     8  max_timestamp             epoch ms; with LogAppendTime the time of every record
          43     8  producer_id               -1: none
          51     2  producer_epoch
          53     4  base_sequence             -1: none
          57     4  record_count
          61        records, compressed together when the attributes say so (record.py)

All numbers are big-endian and signed, except crc. Sources: KIP-98, org.apache.kafka.common.record.DefaultRecordBatch.

Formats v0 and v1 have the same first 17 bytes, except for those at 12. For them `RecordBatch` raises UnsupportedForMessageFormat, never
CorruptMessage; any_format.py reads them as a `LegacyBatch`.

A RecordBatch keeps a memoryview and never copies. `assign_offsets` and `stamp_log_append_time` write into the bytes; a RecordBatch that was
created earlier keeps the old values in its attributes.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import TYPE_CHECKING, Final

from minibroker.compilation import mypyc_attr
from minibroker.errors import CorruptMessage, UnsupportedForMessageFormat
from minibroker.records.checksum import crc32c
from minibroker.records.compression import Compression

if TYPE_CHECKING:
    from typing_extensions import Buffer

HEADER_SIZE: Final = 61  #: bytes of a batch without records
LOG_OVERHEAD: Final = 12  #: base_offset and batch_length, which batch_length does not count
MIN_LEGACY_SIZE: Final = 26  #: the smallest message of format v0 with its offset and size
MAGIC_POSITION: Final = 16
CRC_POSITION: Final = 17
ATTRIBUTES_POSITION: Final = 21
MAX_TIMESTAMP_POSITION: Final = 35
MAGIC_V2: Final = 2

COMPRESSION_MASK: Final = 0x07
LOG_APPEND_TIME_FLAG: Final = 0x08
TRANSACTIONAL_FLAG: Final = 0x10
CONTROL_FLAG: Final = 0x20
DELETE_HORIZON_FLAG: Final = 0x40

NO_TIMESTAMP: Final = -1
NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_PARTITION_LEADER_EPOCH: Final = -1
INT32_MAX: Final = 0x7FFFFFFF

HEADER: Final = Struct(">qiibIhiqqqhii")
_unpack_header: Final = HEADER.unpack_from
_unpack_length: Final = Struct(">i").unpack_from
_OFFSET: Final = Struct(">q")
_pack_head: Final = Struct(">qii").pack_into  #: base_offset, batch_length, partition_leader_epoch
_CRC: Final = Struct(">I")
_ATTRIBUTES: Final = Struct(">h")


class TimestampType(IntEnum):
    """The source of a record's timestamp: the producer or the broker. The value is bit 3 of the attributes."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1

    @classmethod
    def from_name(cls, name: str) -> TimestampType:
        """Return the type that `message.timestamp.type` names: CreateTime or LogAppendTime. Raises ValueError."""
        try:
            return {"CreateTime": cls.CREATE_TIME, "LogAppendTime": cls.LOG_APPEND_TIME}[name]
        except KeyError:
            raise ValueError(f"timestamp type {name!r} is neither CreateTime nor LogAppendTime") from None


def increment_sequence(sequence: int, increment: int) -> int:
    """Return the sequence number `increment` later: after 2^31-1 comes 0."""
    return (sequence + increment) & INT32_MAX


@mypyc_attr(allow_interpreted_subclasses=True)  # legacy.py
class RecordBatch:
    """A view of one batch in `data`, from `position` on; `data` may be longer.

    Raises CorruptMessage if the bytes there cannot be a whole batch, UnsupportedForMessageFormat for formats v0 and v1. Neither the CRC nor
    the records are checked.
    """

    __slots__ = (
        "attributes",
        "base_offset",
        "base_sequence",
        "base_timestamp",
        "batch_length",
        "crc",
        "data",
        "last_offset_delta",
        "magic",
        "max_timestamp",
        "partition_leader_epoch",
        "producer_epoch",
        "producer_id",
        "record_count",
        "size",
    )

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int  #: epoch ms
    max_timestamp: int  #: epoch ms
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int
    size: int  #: bytes of the whole batch
    data: memoryview  #: exactly this batch

    def __init__(self, data: Buffer, position: int = 0) -> None:
        view = data if type(data) is memoryview else memoryview(data)
        available = len(view) - position
        if available < HEADER_SIZE:
            raise _unreadable(view, position)
        (
            self.base_offset,
            self.batch_length,
            self.partition_leader_epoch,
            self.magic,
            self.crc,
            self.attributes,
            self.last_offset_delta,
            self.base_timestamp,
            self.max_timestamp,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            self.record_count,
        ) = _unpack_header(view, position)
        self.size = size = LOG_OVERHEAD + self.batch_length
        if self.magic != MAGIC_V2 or not HEADER_SIZE <= size <= available:
            raise _unreadable(view, position)
        self.data = view if size == available and not position else view[position : position + size]

    @property
    def payload(self) -> memoryview:
        """The records, compressed as `compression` says."""
        return self.data[HEADER_SIZE:]

    @property
    def last_offset(self) -> int:
        """Offset of the last record, or of the last one before compaction."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The offset after this batch."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def base_offset_and_count(self) -> tuple[int, int]:
        """Base offset and number of records. Compressed sets of old formats decompress their payload for it."""
        return self.base_offset, self.record_count

    @property
    def last_sequence(self) -> int:
        """Sequence number of the last record; -1 without sequences."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return increment_sequence(self.base_sequence, self.last_offset_delta)

    @property
    def compression(self) -> Compression:
        """The codec of the payload. Raises UnsupportedCompressionType for an unknown id."""
        return Compression.of(self.attributes & COMPRESSION_MASK)

    @property
    def is_compressed(self) -> bool:
        """Whether the payload is compressed."""
        return self.attributes & COMPRESSION_MASK != 0

    @property
    def timestamp_type(self) -> TimestampType:
        """The source of the records' timestamps."""
        return TimestampType.LOG_APPEND_TIME if self.attributes & LOG_APPEND_TIME_FLAG else TimestampType.CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        """Whether the records belong to a transaction of `producer_id`."""
        return self.attributes & TRANSACTIONAL_FLAG != 0

    @property
    def is_control(self) -> bool:
        """Whether the one record is a marker for brokers and clients (control.py)."""
        return self.attributes & CONTROL_FLAG != 0

    @property
    def has_delete_horizon(self) -> bool:
        """Whether `base_timestamp` is the time after which compaction removes tombstones and markers."""
        return self.attributes & DELETE_HORIZON_FLAG != 0

    @property
    def has_producer_id(self) -> bool:
        """Whether an idempotent or transactional producer wrote it."""
        return self.producer_id > NO_PRODUCER_ID

    def check_crc(self) -> bool:
        """Whether the CRC of the bytes from attributes to the end is correct."""
        return crc32c(self.data[ATTRIBUTES_POSITION:]) == self.crc

    def __repr__(self) -> str:
        return (
            f"RecordBatch(offsets={self.base_offset}..{self.last_offset}, size={self.size}, record_count={self.record_count}, "
            f"attributes={self.attributes:#x}, producer_id={self.producer_id}, base_sequence={self.base_sequence})"
        )


def _unreadable(view: memoryview, position: int) -> CorruptMessage | UnsupportedForMessageFormat:
    """Return the error that says why there is no batch of format v2 at `position`."""
    remaining = len(view) - position
    if remaining <= MAGIC_POSITION:
        return CorruptMessage(f"{remaining} bytes at position {position} are less than the head of a record batch")
    batch_length: int = _unpack_length(view, position + 8)[0]
    magic = view[position + MAGIC_POSITION]
    size = LOG_OVERHEAD + batch_length
    least = HEADER_SIZE if magic == MAGIC_V2 else MIN_LEGACY_SIZE
    if size < least or magic > MAGIC_V2:
        return CorruptMessage(f"no record batch at position {position}: batch length {batch_length}, magic {magic}")
    if size > remaining:
        return CorruptMessage(f"torn record batch at position {position}: {remaining} of {size} bytes")
    return UnsupportedForMessageFormat(f"message format v{magic} at position {position}")


def assign_offsets(data: memoryview, base_offset: int, partition_leader_epoch: int) -> None:
    """Write base offset and leader epoch into the batch `data`; both lie outside the CRC."""
    _pack_head(data, 0, base_offset, len(data) - LOG_OVERHEAD, partition_leader_epoch)


def stamp_log_append_time(data: memoryview, now_ms: int) -> None:
    """Set the LogAppendTime of the batch `data` to `now_ms`, and write its new CRC.

    Records keep their timestamp deltas, which readers ignore then, as in Kafka (DefaultRecordBatch.setMaxTimestamp).
    """
    attributes: int = _ATTRIBUTES.unpack_from(data, ATTRIBUTES_POSITION)[0]
    _ATTRIBUTES.pack_into(data, ATTRIBUTES_POSITION, attributes | LOG_APPEND_TIME_FLAG)
    _OFFSET.pack_into(data, MAX_TIMESTAMP_POSITION, now_ms)
    _CRC.pack_into(data, CRC_POSITION, crc32c(data[ATTRIBUTES_POSITION:]))
