"""Validate a produced batch as Apache Kafka does, in the same order and with the same error codes.

    1  ProduceRequest.validateRecords      no whole batch: INVALID_RECORD; an impossible length or magic: CORRUPT_MESSAGE;
                                           a batch of format v0 or v1, two batches: INVALID_RECORD; zstd before Produce 7:
                                           UNSUPPORTED_COMPRESSION_TYPE
    2  UnifiedLog.analyzeAndValidate...    base_offset other than 0: INVALID_RECORD; larger than max.message.bytes:
                                           MESSAGE_TOO_LARGE; CRC: CORRUPT_MESSAGE
    3  LogValidator.validateBatch          last_offset_delta and record_count that disagree, a control batch, a producer id
                                           without a sequence: INVALID_RECORD
    4  LogValidator.validateRecord         an inconsistent record, a null key in a compacted topic: INVALID_RECORD;
                                           a timestamp out of bounds: INVALID_TIMESTAMP; both name the invalid records
    5  the batch gets the compression, the timestamp type and, with LogAppendTime, the timestamp that the topic requires

A partial batch after the first one is cut off, as in Kafka. Checks of the producer's state (sequences, epochs, transactions) are
the log's, and come after these.

**What is not decoded.** No Record is created. The walk (walk.py) reads length, timestamp and offset
of every record: the broker itself relies on nothing else. The lengths of key, value and headers are
checked for batches of up to DEEP_RECORD_COUNT records, for compacted topics, and with
`ProduceRules.deep` for all. For 64 records of different sizes around 1 kB a deep walk takes 48 us
instead of 20, and wrong lengths there harm only readers. Compressed payloads are decompressed for
the walk, within `max_decompressed_bytes`, and stored as they came.

**What is not done at once.** A batch of more than AT_ONCE_RECORDS records, one that becomes larger than AT_ONCE_CONTENT when it is
decompressed, and all of formats v0 and v1 are validated in steps (long_batch.py), between which the broker serves other clients.

**Where we differ from Kafka 4.3.1** (tests/golden/records/lies_kafka_4.3.1.tsv holds its answers, test_validate.py compares). Stricter:
offset deltas other than 0, 1, 2, ..., lengths below -1, wrong record lengths in a compressed batch and bytes after a
compressed frame are INVALID_RECORD; Kafka stores some of these, and readers fail on them. Clearer: an unknown codec is
UNSUPPORTED_COMPRESSION_TYPE, and a broken or bloated compressed payload INVALID_RECORD, where Kafka answers UNKNOWN_SERVER_ERROR or
has no bound.

Only Produce below 3 carries formats v0 and v1: convert.py converts them to a batch of format v2 instead.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import Final, NamedTuple

from minibroker.errors import CorruptMessage, InvalidRecord, InvalidTimestamp, KafkaError, MessageTooLarge, UnsupportedCompressionType
from minibroker.records.any_format import decode_records
from minibroker.records.batch import (
    ATTRIBUTES_POSITION,
    COMPRESSION_MASK,
    CONTROL_FLAG,
    CRC_POSITION,
    HEADER_SIZE,
    LOG_APPEND_TIME_FLAG,
    LOG_OVERHEAD,
    MAGIC_POSITION,
    MAGIC_V2,
    MAX_TIMESTAMP_POSITION,
    NO_TIMESTAMP,
    TRANSACTIONAL_FLAG,
    RecordBatch,
    TimestampType,
)
from minibroker.records.checksum import crc32c
from minibroker.records.compression import MAX_DECOMPRESSED_BYTES, Compression, compress, decompress
from minibroker.records.record import Record
from minibroker.records.steps import LongBatch
from minibroker.records.walk import walk_records

DEEP_RECORD_COUNT: Final = 32  #: batches of up to this many records are always walked deeply
AT_ONCE_RECORDS: Final = 8192  #: of a batch that is validated at once, in a few milliseconds
AT_ONCE_CONTENT: Final = 1024 * 1024  #: bytes of its payload when decompressed
AT_ONCE_COMPRESSED: Final = 64 * 1024  #: bytes of a payload that is compressed again at once
MAX_RECORD_ERRORS: Final = 1000  #: invalid records in one answer; more are only counted
INT64_MAX: Final = 0x7FFF_FFFF_FFFF_FFFF
V2_SINCE_PRODUCE: Final = 3
ZSTD_SINCE_PRODUCE: Final = 7
MIN_BATCH_LENGTH: Final = 14  #: Kafka's RECORD_OVERHEAD_V0: smaller lengths are garbage

_AT_ONCE_DELTAS: Final = range(AT_ONCE_RECORDS)  #: valid values of last_offset_delta
_KEPT_ATTRIBUTES: Final = LOG_APPEND_TIME_FLAG | TRANSACTIONAL_FLAG  #: by recompression; Kafka writes a new batch then

_LENGTH: Final = Struct(">i")
_ATTRIBUTES: Final = Struct(">h")
_TIMESTAMP: Final = Struct(">q")
_CRC: Final = Struct(">I")


class ProduceRules(NamedTuple):
    """A topic's rules for produced batches: its configuration, resolved once and kept until that changes."""

    max_message_bytes: int = 1_048_588  #: of a batch, as it arrives and as it is stored
    is_compacted: bool = False  #: every record needs a key
    timestamp_type: TimestampType = TimestampType.CREATE_TIME
    timestamp_before_max_ms: int = INT64_MAX
    timestamp_after_max_ms: int = 3_600_000
    compression: Compression | None = None  #: None: as the producer compressed it
    compression_level: int | None = None  #: None: the codec's default
    max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES
    deep: bool = False  #: check the fields of every record, not only in small batches


def validate_at_once(data: memoryview, rules: ProduceRules, *, now_ms: int, produce_version: int | None = None) -> RecordBatch:
    """Return the one batch of `data`, ready for its offsets.

    `data` must be writable: small corrections are made in it. The returned batch lies in `data`, or in new memory if it was recompressed.
    `produce_version` None means the newest.

    Raises:
        KafkaError: the batch is rejected; with `record_errors` if records are invalid.
        LongBatch: `long_batch.validate_in_steps` has to validate it.
    """
    if produce_version is not None and produce_version < V2_SINCE_PRODUCE and is_legacy(data):
        raise LongBatch
    batch = only_batch(data, produce_version)
    if not _is_sound(batch, rules):
        raise why_unsound(batch, rules) or LongBatch
    payload: bytes | memoryview = batch.data[HEADER_SIZE:]
    if batch.attributes & COMPRESSION_MASK:
        try:
            payload = decompress(batch.compression, payload, max_bytes=AT_ONCE_CONTENT)
        except InvalidRecord:  # too large, or broken: the steps find out which
            raise LongBatch from None
    record_count = batch.record_count
    deep = record_count <= DEEP_RECORD_COUNT or rules.deep or rules.is_compacted
    min_delta, max_delta, keyless = walk_records(payload, record_count, deep=deep)
    least, most = batch.base_timestamp + min_delta, batch.base_timestamp + max_delta
    if not fits(batch, least, most, rules, now_ms) or (keyless and rules.is_compacted):
        error = errors_of_records(batch, decode_records(batch, max_bytes=AT_ONCE_CONTENT), rules, now_ms)
        if error is not None:
            raise error
    if rules.compression is not None and rules.compression is not batch.compression:
        if len(payload) > AT_ONCE_COMPRESSED and rules.compression:
            raise LongBatch
        packed = payload if rules.compression is Compression.NONE else compress(rules.compression, payload, rules.compression_level)
        batch = repacked(batch, packed, rules.compression, rules)
    if rules.timestamp_type or most != batch.max_timestamp or most < NO_TIMESTAMP or batch.attributes & LOG_APPEND_TIME_FLAG:
        return stamped(batch, most, rules, now_ms)
    return batch


def stamped(batch: RecordBatch, most: int, rules: ProduceRules, now_ms: int) -> RecordBatch:
    """Set the timestamp type and the largest timestamp that the topic requires; `most` is the largest one of the records."""
    if rules.timestamp_type:
        return _stamp(batch, batch.attributes | LOG_APPEND_TIME_FLAG, now_ms)
    return _stamp(batch, batch.attributes & ~LOG_APPEND_TIME_FLAG, max(most, NO_TIMESTAMP))


def is_legacy(data: memoryview) -> bool:
    """Whether a produced message set is of format v0 or v1."""
    return len(data) > MAGIC_POSITION and data[MAGIC_POSITION] < MAGIC_V2


def only_batch(data: memoryview, produce_version: int | None) -> RecordBatch:
    """Return the batch at the start of `data`. Raises KafkaError unless it has format v2 and no other whole batch follows."""
    try:
        batch = RecordBatch(data)
    except KafkaError:
        raise _why_no_batch(data) from None
    if produce_version is not None and produce_version < ZSTD_SINCE_PRODUCE and batch.attributes & COMPRESSION_MASK == Compression.ZSTD:
        raise UnsupportedCompressionType(f"produce requests with version {produce_version} are not allowed to use zstd")
    if batch.size != len(data) and _size_of_batch(data, batch.size):
        raise InvalidRecord("a produce request must have exactly one record batch per partition")
    return batch


def _why_no_batch(data: memoryview) -> KafkaError:
    """Return Kafka's error for data that does not begin with a batch of format v2."""
    size = _size_of_batch(data, 0)
    if size == 0:
        return InvalidRecord("a produce request must have at least one record batch per partition")
    if data[MAGIC_POSITION] != MAGIC_V2:
        return InvalidRecord("only record batches with magic version 2 are accepted")
    return CorruptMessage(f"a record batch of {size} bytes is smaller than its header")


def _size_of_batch(data: memoryview, position: int) -> int:
    """Return the size of the batch at `position`, 0 if `data` ends before it; as Kafka's ByteBufferLogInputStream.nextBatch."""
    remaining = len(data) - position
    if remaining < LOG_OVERHEAD:
        return 0
    batch_length: int = _LENGTH.unpack_from(data, position + 8)[0]
    if batch_length < MIN_BATCH_LENGTH:
        raise CorruptMessage(f"a record batch of length {batch_length}")
    if remaining <= MAGIC_POSITION:
        return 0
    magic = data[position + MAGIC_POSITION]
    if magic > MAGIC_V2:
        raise CorruptMessage(f"invalid magic {magic} found in record batch")
    return LOG_OVERHEAD + batch_length if LOG_OVERHEAD + batch_length <= remaining else 0


def _is_sound(batch: RecordBatch, rules: ProduceRules) -> bool:
    """Check the header fields and the CRC: steps 2 and 3."""
    return (
        batch.base_offset == 0
        and batch.size <= rules.max_message_bytes
        and crc32c(batch.data[ATTRIBUTES_POSITION:]) == batch.crc
        and batch.record_count - 1 == batch.last_offset_delta in _AT_ONCE_DELTAS
        and not batch.attributes & CONTROL_FLAG
        and (batch.producer_id < 0 or batch.base_sequence >= 0)
    )


def why_unsound(batch: RecordBatch, rules: ProduceRules) -> KafkaError | None:
    """Return Kafka's first error for a batch that is not sound; None if it only has many records."""
    if batch.base_offset != 0:
        return InvalidRecord(f"the base offset of a produced record batch should be 0, but it is {batch.base_offset}")
    if batch.size > rules.max_message_bytes:
        return too_large(batch.size, rules)
    if not batch.check_crc():
        return CorruptMessage(f"record batch is corrupt (stored crc = {batch.crc})")
    if batch.last_offset_delta < 0:
        return InvalidRecord(f"record batch has an invalid offset range: [0, {batch.last_offset_delta}]")
    if batch.record_count != batch.last_offset_delta + 1:
        return InvalidRecord(f"inconsistent offset range [0, {batch.last_offset_delta}] and count of records {batch.record_count}")
    if batch.is_control:
        return InvalidRecord("clients are not allowed to write control records")
    if batch.has_producer_id and batch.base_sequence < 0:
        return InvalidRecord(f"invalid sequence number {batch.base_sequence} in record batch with producer id {batch.producer_id}")
    return None


def too_large(size: int, rules: ProduceRules) -> MessageTooLarge:
    """Return the error for a batch of `size` bytes, which is above the limit."""
    return MessageTooLarge(f"the record batch size is {size} bytes which exceeds the maximum configured value of {rules.max_message_bytes}")


def fits(batch: RecordBatch, least: int, most: int, rules: ProduceRules, now_ms: int) -> bool:
    """Whether the timestamps of a batch, from `least` to `most`, are within bounds, so that records need not be checked one by one."""
    if rules.timestamp_type:
        return not batch.attributes & LOG_APPEND_TIME_FLAG
    if most > INT64_MAX or least < -INT64_MAX - 1:
        raise InvalidTimestamp(f"timestamps of {least} to {most} ms")
    return now_ms - least <= rules.timestamp_before_max_ms and most - now_ms <= rules.timestamp_after_max_ms


def errors_of_records(batch: RecordBatch, records: Iterable[Record], rules: ProduceRules, now_ms: int) -> KafkaError | None:
    """Check each of the `records` of `batch`, as LogValidator.validateRecord: the key first, then the timestamp."""
    judge = RecordJudge(batch, rules, now_ms)
    for index, record in enumerate(records):
        judge.look_at(index, record.timestamp, record.key is None)
    return judge.error


class RecordJudge:
    """Finds the records of a batch that its topic rejects."""

    __slots__ = ("_count", "_found", "_has_invalid_timestamps", "_is_append_time", "_now_ms", "_rules")

    def __init__(self, batch: RecordBatch, rules: ProduceRules, now_ms: int) -> None:
        self._rules = rules
        self._now_ms = now_ms
        self._is_append_time = batch.timestamp_type is TimestampType.LOG_APPEND_TIME
        self._found: list[tuple[int, str]] = []  #: the first MAX_RECORD_ERRORS
        self._count = 0
        self._has_invalid_timestamps = False

    def look_at(self, index: int, timestamp: int, is_keyless: bool) -> None:
        """Check one record."""
        rules = self._rules
        if rules.is_compacted and is_keyless:
            self._note(index, "Compacted topic cannot accept message without key")
        elif rules.timestamp_type is TimestampType.CREATE_TIME:
            age_ms = self._now_ms - timestamp
            if timestamp != NO_TIMESTAMP and not -rules.timestamp_after_max_ms <= age_ms <= rules.timestamp_before_max_ms:
                first, last = self._now_ms - rules.timestamp_before_max_ms, self._now_ms + rules.timestamp_after_max_ms
                self._note(index, f"Timestamp {timestamp} is out of range: it should be within [{first}, {last}]")
                self._has_invalid_timestamps = True
        elif self._is_append_time:
            self._note(index, "Producer should not set timestamp type to LogAppendTime")
            self._has_invalid_timestamps = True

    def _note(self, index: int, message: str) -> None:
        self._count += 1
        if self._count <= MAX_RECORD_ERRORS:
            self._found.append((index, message))

    @property
    def error(self) -> KafkaError | None:
        """The error for the batch; None if no record is invalid."""
        if not self._count:
            return None
        if self._has_invalid_timestamps:
            error: KafkaError = InvalidTimestamp("One or more records have been rejected due to invalid timestamp")
        else:
            error = InvalidRecord(f"One or more records have been rejected due to {self._count} record errors in total")
        error.record_errors = tuple(self._found)
        return error


def repacked(batch: RecordBatch, packed: bytes | memoryview, kind: Compression, rules: ProduceRules) -> RecordBatch:
    """Return the same records with another codec. Length, codec, CRC and attributes that producers must not set change in the header."""
    size = HEADER_SIZE + len(packed)
    if size > rules.max_message_bytes:
        raise too_large(size, rules)
    data = bytearray(batch.data[:HEADER_SIZE])
    data += packed
    _LENGTH.pack_into(data, 8, size - LOG_OVERHEAD)
    _ATTRIBUTES.pack_into(data, ATTRIBUTES_POSITION, batch.attributes & _KEPT_ATTRIBUTES | kind)
    view = memoryview(data)
    _CRC.pack_into(view, CRC_POSITION, crc32c(view[ATTRIBUTES_POSITION:]))
    return RecordBatch(view)


def _stamp(batch: RecordBatch, attributes: int, max_timestamp: int) -> RecordBatch:
    """Write another timestamp type or maximum and the new CRC into the batch."""
    data = batch.data
    _ATTRIBUTES.pack_into(data, ATTRIBUTES_POSITION, attributes)
    _TIMESTAMP.pack_into(data, MAX_TIMESTAMP_POSITION, max_timestamp)
    _CRC.pack_into(data, CRC_POSITION, crc32c(data[ATTRIBUTES_POSITION:]))
    return RecordBatch(data)
