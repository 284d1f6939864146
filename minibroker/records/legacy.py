"""Messages of formats v0 and v1, from old clients and old segments, viewed as batches.

    position  size  field
           0     8  offset          of the message; of a compressed set the offset of its last message
           8     4  message_size    bytes that follow this field
          12     4  crc             CRC-32 (IEEE, as in zlib) of everything from magic to the end
          16     1  magic           0 or 1
          17     1  attributes      bits 0-2 compression: none, gzip, snappy, lz4; v1: 3 timestamp type (1: LogAppendTime)
          18     8  timestamp       v1 only: epoch ms, -1 for none; of a compressed set the largest, or with LogAppendTime that of all
       18|26     4  key_length      -1: null; then the key
                 4  value_length    -1: null; then the value

All numbers are big-endian and signed, except crc. There are no headers, producers, control records or leader epochs.

A message with a codec in its attributes is a set: no key, and its value are messages of the same layout end to end, compressed together,
none of which is compressed in turn. Their offsets are absolute in v0; in v1 they count from 0 (gaps stay), and the set's own offset is
that of its last message: base = offset - last inner offset. A set with offset 0, as librdkafka sends it, counts from 0 as well. A v0 set
in lz4 has the header checksum that the first Java clients computed wrongly; readers ignore it.

A `LegacyBatch` is one message or one set: a RecordBatch of a format without most fields. base_offset, last_offset_delta and record_count
of a compressed set are known only after decompression, which happens at the first access to one of them.

Sources: KIP-31, KIP-32, org.apache.kafka.common.record.LegacyRecord and AbstractLegacyRecordBatch. Stricter than those: lengths below -1,
bytes after the value, and wrong inner CRCs are errors, also when reading from a log.

`build_message_set` builds what Apache Kafka's MemoryRecordsBuilder builds, for old consumers and
for tests. A set has the offset of its last record and, in v1, the largest timestamp.

The header checksum of LZ4 frames in message format v0 differs from the LZ4 specification:

    position  size  field
           0     4  magic             04 22 4D 18
           4     1  flags             bit 3: a content size follows; bit 0: a dictionary id follows
           5     1  block descriptor
           6   0-8  content size      8 bytes, if the flags say so
                0-4  dictionary id    4 bytes, if the flags say so
                 1  checksum          second byte of xxHash32 (seed 0) of everything from the flags up to here

The first Java clients included the magic in the checksum. Their readers expect that, and later readers must ignore the byte (KAFKA-3160,
KIP-57). Format v1 is correct. Source: org.apache.kafka.common.compress.Lz4BlockOutputStream.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from struct import Struct
from struct import error as StructError  # noqa: N812  it is a class
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

from minibroker.errors import CorruptMessage, InvalidRecord, UnsupportedCompressionType
from minibroker.records.batch import (
    COMPRESSION_MASK,
    LOG_APPEND_TIME_FLAG,
    LOG_OVERHEAD,
    MAGIC_POSITION,
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    RecordBatch,
    TimestampType,
)
from minibroker.records.compression import MAX_DECOMPRESSED_BYTES, Compression, compress, decompress
from minibroker.records.record import Record

if TYPE_CHECKING:
    from typing_extensions import Buffer

MAGIC_V0 = 0
MAGIC_V1 = 1
MIN_SIZES = (26, 34)  #: bytes of a message without key and value, by its magic
TIMESTAMP_POSITION = 18

HEAD = Struct(">qiIBB")
_unpack_head = HEAD.unpack_from
_unpack_timestamp = Struct(">q").unpack_from
_unpack_length = Struct(">i").unpack_from
_COMPUTED = ("base_offset", "last_offset_delta", "record_count")


class Message(NamedTuple):
    """One message of a set; `offset` is the one in its bytes."""

    offset: int
    magic: int
    timestamp: int  #: epoch ms, -1 for none; its own, not that of the set
    key: bytes | None
    value: bytes | None
    crc: int  #: checked if the message is inside a set


class LegacyBatch(RecordBatch):
    """One message or compressed set of format v0 or v1, seen through `data`, from `position` on.

    Raises CorruptMessage if the bytes there cannot be one. Neither the CRC nor the content is checked.
    """

    __slots__ = ("offset",)

    offset: int  #: the only one in its head: that of its last record

    def __init__(self, data: Buffer, position: int = 0) -> None:
        view = memoryview(data)
        remaining = len(view) - position
        if remaining < MIN_SIZES[0]:
            raise CorruptMessage(f"{remaining} bytes at position {position} are less than a message")
        self.offset, self.batch_length, self.crc, self.magic, attributes = _unpack_head(view, position)
        self.size = size = LOG_OVERHEAD + self.batch_length
        if self.magic > MAGIC_V1 or size < MIN_SIZES[self.magic]:
            raise CorruptMessage(f"no message at position {position}: size {self.batch_length}, magic {self.magic}")
        if size > remaining:
            raise CorruptMessage(f"torn message at position {position}: {remaining} of {size} bytes")
        self.data = view[position : position + size]
        self.attributes = attributes & (COMPRESSION_MASK | LOG_APPEND_TIME_FLAG if self.magic else COMPRESSION_MASK)
        self.max_timestamp = _unpack_timestamp(self.data, TIMESTAMP_POSITION)[0] if self.magic else NO_TIMESTAMP
        self.base_timestamp = self.max_timestamp
        self.partition_leader_epoch = NO_PARTITION_LEADER_EPOCH
        self.producer_id = NO_PRODUCER_ID
        self.producer_epoch = NO_PRODUCER_EPOCH
        self.base_sequence = NO_SEQUENCE
        if not attributes & COMPRESSION_MASK:
            self.base_offset = self.offset
            self.last_offset_delta = 0
            self.record_count = 1

    if not TYPE_CHECKING:  # for mypy, every misspelt attribute would be an Any

        def __getattr__(self, name: str) -> Any:
            """Compute the fields that need the records of a compressed set. Raises as `LegacyBatch.decode`."""
            if name not in _COMPUTED:
                raise AttributeError(name)
            records = list(self.decode())
            self.last_offset_delta = records[-1].offset - records[0].offset
            self.base_offset = self.offset - self.last_offset_delta  # also in v0, so that a damaged offset shows
            self.record_count = len(records)
            return getattr(self, name)

    @property
    def payload(self) -> memoryview:
        """The value: for a compressed set its compressed messages. Raises InvalidRecord if it is null."""
        start, stop = _value_bounds(self.data, self.magic)
        if start < 0:
            raise InvalidRecord("a compressed message set whose value is null")
        return self.data[start:stop]

    @property
    def last_offset(self) -> int:
        """Offset of the last record."""
        return self.offset

    @property
    def next_offset(self) -> int:
        """The offset after this batch."""
        return self.offset + 1

    @property
    def base_offset_and_count(self) -> tuple[int, int]:
        """As of a RecordBatch, whose compiled code would read the attributes without computing them."""
        return self.base_offset, self.record_count

    def decode(self, *, max_bytes: int = MAX_DECOMPRESSED_BYTES) -> Iterator[Record]:
        """Yield the records with absolute offsets and effective timestamps.

        Args:
            max_bytes: bounds the decompression.

        Raises:
            InvalidRecord: lengths, offsets or counts are inconsistent.
            CorruptMessage: the CRC of a message inside a set is wrong.
        """
        yield from records_of(self, messages_of(self, max_bytes=max_bytes))

    def check_crc(self) -> bool:
        """Whether the CRC of the bytes from magic to the end is correct."""
        return crc32(self.data[MAGIC_POSITION:]) == self.crc

    def __repr__(self) -> str:
        return f"LegacyBatch(offset={self.offset}, size={self.size}, magic={self.magic}, attributes={self.attributes:#x})"


def records_of(batch: LegacyBatch, messages: list[Message]) -> Iterator[Record]:
    """Yield the `messages` of `batch` as records; raises InvalidRecord if their offsets do not fit the batch's."""
    base_offset = base_offset_of(batch, messages[-1].offset)
    for message in messages:
        yield Record(base_offset + message.offset, timestamp_of(batch, message), message.key, message.value)


def base_offset_of(batch: LegacyBatch, last_offset: int) -> int:
    """Return the base of the offsets of messages in `batch`, the last of which is `last_offset`. Raises InvalidRecord."""
    if not (batch.is_compressed and batch.magic == MAGIC_V1 and batch.offset):
        return 0
    if batch.offset < last_offset:
        raise InvalidRecord(f"a message set of offset {batch.offset} whose last message has offset {last_offset}")
    return batch.offset - last_offset


def timestamp_of(batch: LegacyBatch, message: Message) -> int:
    """Return the effective timestamp of `message`: the set's with LogAppendTime, else its own."""
    return batch.max_timestamp if batch.timestamp_type and message.magic else message.timestamp


def messages_of(batch: LegacyBatch, *, max_bytes: int = MAX_DECOMPRESSED_BYTES, may_be_torn: bool = True) -> list[Message]:
    """Return the messages inside a compressed set, at least one, or the one that `batch` is itself; errors as `LegacyBatch.decode`.

    `may_be_torn`: skip a partial message at the end, as Kafka's readers do; otherwise raise InvalidRecord.
    """
    if not batch.is_compressed:
        return [message_of(batch)]
    kind, payload = packed_messages(batch)
    return list(messages_in(decompress(kind, payload, max_bytes=max_bytes), may_be_torn=may_be_torn))


def message_of(batch: LegacyBatch) -> Message:
    """Return the message that an uncompressed `batch` is. Raises InvalidRecord."""
    key, value = _key_and_value(bytes(batch.data), 0, batch.size, batch.magic)
    return Message(batch.offset, batch.magic, batch.max_timestamp, key, value, batch.crc)


def messages_in(content: bytes, *, may_be_torn: bool = True) -> Iterator[Message]:
    """Yield the messages of a decompressed set; as `messages_of`."""
    position, end, count = 0, len(content), 0
    while position < end:
        if end - position < MIN_SIZES[0]:
            stop = end + 1
        else:
            offset, size, crc, magic, attributes = _unpack_head(content, position)
            stop = position + LOG_OVERHEAD + size
        if stop > end:
            if count and may_be_torn:
                break
            raise InvalidRecord(f"a torn message in a set: {end - position} bytes are left over after {count} messages")
        if magic > MAGIC_V1 or stop - position < MIN_SIZES[magic]:
            raise InvalidRecord(f"no message at position {position} of {end} in a set: size {size}, magic {magic}")
        if attributes & COMPRESSION_MASK:
            raise InvalidRecord("a compressed message inside a compressed message set")
        if crc32(content[position + MAGIC_POSITION : stop]) != crc:
            raise CorruptMessage(f"message {count} of a compressed set is corrupt (stored crc = {crc})")
        timestamp: int = _unpack_timestamp(content, position + TIMESTAMP_POSITION)[0] if magic else NO_TIMESTAMP
        yield Message(offset, magic, timestamp, *_key_and_value(content, position, stop, magic), crc)
        count += 1
        position = stop
    if not count:
        raise InvalidRecord("a compressed message set without messages")


def packed_messages(batch: LegacyBatch) -> tuple[Compression, Buffer]:
    """Return the codec of a compressed set and its messages, compressed. Raises InvalidRecord."""
    kind = batch.compression
    if kind is Compression.ZSTD:
        raise InvalidRecord(f"zstd in message format v{batch.magic}, which has no such codec")
    payload: Buffer = batch.payload
    if kind is Compression.LZ4 and batch.magic == MAGIC_V0:
        payload = with_right_checksum(payload)
    return kind, payload


def _key_and_value(data: bytes, position: int, stop: int, magic: int) -> tuple[bytes | None, bytes | None]:
    """Return key and value of the message from `position` to `stop`, which they must fill."""
    start, key_stop = _field(data, position + MIN_SIZES[magic] - 8, stop)
    key = None if start < 0 else data[start:key_stop]
    start, value_stop = _field(data, key_stop, stop)
    if value_stop != stop:
        raise InvalidRecord(f"{stop - value_stop} bytes are left over after a message's value")
    return key, None if start < 0 else data[start:value_stop]


def _value_bounds(data: memoryview, magic: int) -> tuple[int, int]:
    """Return where the value of the one message in `data` starts (-1 if it is null) and stops."""
    _, key_stop = _field(data, MIN_SIZES[magic] - 8, len(data))
    start, stop = _field(data, key_stop, len(data))
    if stop != len(data):
        raise InvalidRecord(f"{len(data) - stop} bytes are left over after a message's value")
    return start, stop


def _field(data: bytes | memoryview, position: int, stop: int) -> tuple[int, int]:
    """Return where the field whose length is at `position` starts (-1 if it is null) and stops."""
    if stop - position < 4:
        raise InvalidRecord(f"a length where {stop - position} bytes remain")
    length: int = _unpack_length(data, position)[0]
    position += 4
    if length < 0:
        if length != -1:
            raise InvalidRecord(f"a length of {length}")
        return -1, position
    if length > stop - position:
        raise InvalidRecord(f"{length} bytes announced where the message has {stop - position}")
    return position, position + length


_FLAGS = 4
_HAS_CONTENT_SIZE = 0x08
_HAS_DICTIONARY = 0x01
_MASK = 0xFFFFFFFF
_PRIMES = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1)


def with_right_checksum(frame: Buffer) -> bytearray:
    """Return a copy of `frame` with the header checksum of the LZ4 specification. Raises InvalidRecord if it is shorter than its header."""
    return _with_checksum(frame, _FLAGS)


def with_old_checksum(frame: Buffer) -> bytearray:
    """Return a copy of `frame` with the header checksum that readers of message format v0 expect; it must have no content size."""
    return _with_checksum(frame, 0)


def _with_checksum(frame: Buffer, start: int) -> bytearray:
    data = bytearray(frame)
    flags = data[_FLAGS] if len(data) > _FLAGS else 0
    position = _FLAGS + 2 + (8 if flags & _HAS_CONTENT_SIZE else 0) + (4 if flags & _HAS_DICTIONARY else 0)
    if position >= len(data):
        raise InvalidRecord(f"a broken lz4 payload: {len(data)} bytes are less than its header")
    data[position] = xxhash32_short(data[start:position]) >> 8 & 0xFF
    return data


def xxhash32_short(data: Buffer) -> int:
    """Return xxHash32 with seed 0 of fewer than 16 bytes; the rounds for longer input are not implemented."""
    data = bytes(data)
    size = len(data)
    if size >= 16:
        raise ValueError(f"{size} bytes are too many")
    number = (_PRIMES[4] + size) & _MASK
    for position in range(0, size - 3, 4):
        number = number + int.from_bytes(data[position : position + 4], "little") * _PRIMES[2] & _MASK
        number = _rotate(number, 17) * _PRIMES[3] & _MASK
    for byte in data[size & ~3 :]:
        number = number + byte * _PRIMES[4] & _MASK
        number = _rotate(number, 11) * _PRIMES[0] & _MASK
    number = (number ^ number >> 15) * _PRIMES[1] & _MASK
    number = (number ^ number >> 13) * _PRIMES[2] & _MASK
    return number ^ number >> 16


def _rotate(number: int, bits: int) -> int:
    return (number << bits | number >> 32 - bits) & _MASK


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
            raise InvalidRecord(f"offset {record.offset} or timestamp {record.timestamp} does not fit into 64 bits") from None
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
