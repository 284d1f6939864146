"""Convert between the message formats: up to v2 for old producers, down to v0 or v1 for old consumers.

    up      all messages become one batch, with their codec unless the topic names another; from v0 they have no timestamps. Rejected:
                no whole message: INVALID_RECORD; an impossible size or magic, a wrong CRC: CORRUPT_MESSAGE
                a message larger than max.message.bytes, and the new batch when it is: MESSAGE_TOO_LARGE
                messages of two formats, a compressed set that is not alone or holds compressed messages, zstd, a null key in a
                compacted topic, an inconsistent content: INVALID_RECORD
                a timestamp out of bounds or below -1, LogAppendTime from a client: INVALID_TIMESTAMP
            Offsets from clients are ignored. A partial message at the end is dropped.
    down    headers and control batches are dropped; timestamps are kept in v1. A batch becomes one compressed set in its own codec, or
            a message for each record; offsets do not change. zstd: UNSUPPORTED_COMPRESSION_TYPE.

Sources: UnifiedLog.analyzeAndValidateRecords, LogValidator and RecordsUtil.downConvert of Apache Kafka 3.9.1, the last to serve Produce
below 3 and Fetch below 4; its bytes and answers are in tests/golden/records. Stricter than Kafka: inner sets that end in a torn message are
rejected. Clearer: an unknown codec, and a payload that its codec cannot read, have their own errors; Kafka answers UNKNOWN_SERVER_ERROR.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, cast

from minibroker.errors import CorruptMessage, InvalidRecord, InvalidTimestamp, MessageTooLarge, UnsupportedCompressionType
from minibroker.records.any_format import decode_records, split_batches
from minibroker.records.batch import (
    HEADER_SIZE,
    LOG_APPEND_TIME_FLAG,
    MAGIC_V2,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    RecordBatch,
)
from minibroker.records.builder import frame_batch
from minibroker.records.compression import MAX_DECOMPRESSED_BYTES, Compression, compress, decompress, decompressed_pieces
from minibroker.records.legacy import (
    LegacyBatch,
    Message,
    base_offset_of,
    build_message_set,
    message_of,
    messages_in,
    packed_messages,
    timestamp_of,
    write_message,
)
from minibroker.records.record import Record, decode_record, encode_record, read_varint
from minibroker.records.steps import Steps
from minibroker.records.validate import INT64_MAX, ProduceRules, RecordJudge, too_large

if TYPE_CHECKING:
    from typing_extensions import Buffer

#: in one compressed set of a producer, and bytes of their content; no known old client sends a thousandth of it
MAX_SET_MESSAGES = 250_000
MAX_SET_BYTES = 32 * 1024 * 1024

_STEP_RECORDS = 100
_STEP_MESSAGES = 50  #: between two pauses: less than a millisecond


def upgrade_in_steps(data: memoryview, rules: ProduceRules, *, now_ms: Callable[[], int]) -> Steps[RecordBatch]:
    """Convert the messages of format v0 or v1 in `data` into one batch of format v2. Raises KafkaError if they are rejected.

    Messages are not kept in memory, only the new payload.
    """
    yield from _check_messages(data, rules)
    upgrade = _Upgrade(rules, now_ms())
    for count, batch in enumerate(_messages_in(data)):
        if batch.is_compressed:
            yield from upgrade.add_set(batch)
        else:
            upgrade.add(batch, message_of(batch))
            upgrade.end_batch()
        if not count % _STEP_MESSAGES:
            yield None
    return (yield from upgrade.batch(now_ms))


class _Upgrade:
    """A batch of format v2 to which old messages are added."""

    def __init__(self, rules: ProduceRules, now_ms: int) -> None:
        self._rules = rules
        self._now_ms = now_ms
        self._codec = rules.compression or Compression.NONE
        self._payload = bytearray()
        self._count = 0
        self._base_timestamp = self._least = self._most = NO_TIMESTAMP
        self._judge: RecordJudge | None = None  #: of the old batch whose messages are added
        self._index = 0  #: in that batch

    def add(self, batch: LegacyBatch, message: Message) -> None:
        """Add a message of `batch`. Raises InvalidRecord for one of another format, MessageTooLarge."""
        if message.magic != batch.magic:
            raise InvalidRecord(f"a message of format v{message.magic} in a set of format v{batch.magic}")
        if self._judge is None:
            self._judge, self._index = RecordJudge(batch, self._rules, self._now_ms), 0
        timestamp = timestamp_of(batch, message)
        self._judge.look_at(self._index, timestamp, message.key is None)
        self._index += 1
        if not self._count:
            self._base_timestamp = self._least = self._most = timestamp
        self._least, self._most = min(self._least, timestamp), max(self._most, timestamp)
        record = Record(0, timestamp, message.key, message.value)
        encode_record(self._payload, record, self._count, timestamp - self._base_timestamp)
        self._count += 1
        if self._codec is Compression.NONE and HEADER_SIZE + len(self._payload) > self._rules.max_message_bytes and not batch.is_compressed:
            raise too_large(HEADER_SIZE + len(self._payload), self._rules)

    def add_set(self, batch: LegacyBatch) -> Steps[None]:
        """Add the messages of a compressed set, which is the only batch."""
        if self._rules.compression is None:
            self._codec = batch.compression
        kind, payload = packed_messages(batch)
        max_bytes = min(MAX_SET_BYTES, self._rules.max_decompressed_bytes)
        content: bytes = yield partial(decompress, kind, payload, max_bytes=max_bytes)
        message: Message | None = None
        for message in messages_in(content, may_be_torn=False):
            if self._count == MAX_SET_MESSAGES:
                raise MessageTooLarge(f"a compressed set of more than {MAX_SET_MESSAGES} messages")
            self.add(batch, message)
            if not self._count % _STEP_MESSAGES:
                yield None
        if message is not None:
            base_offset_of(batch, message.offset)
        self.end_batch()

    def end_batch(self) -> None:
        """Finish an old batch. Raises KafkaError if some of its messages are rejected."""
        judge, self._judge = self._judge, None
        if judge is not None and judge.error is not None:
            raise judge.error

    def batch(self, now_ms: Callable[[], int]) -> Steps[RecordBatch]:
        """Return the batch. Raises InvalidTimestamp, MessageTooLarge."""
        rules = self._rules
        if self._least < NO_TIMESTAMP or self._most - self._base_timestamp > INT64_MAX:
            raise InvalidTimestamp(f"timestamps from {self._least} to {self._most}")
        packed: bytes | bytearray = self._payload
        if self._codec:
            packed = yield partial(compress, self._codec, packed, rules.compression_level)
        if HEADER_SIZE + len(packed) > rules.max_message_bytes:
            raise too_large(HEADER_SIZE + len(packed), rules)
        attributes = self._codec | (LOG_APPEND_TIME_FLAG if rules.timestamp_type else 0)
        most = now_ms() if rules.timestamp_type else self._most
        last = self._count - 1
        framed = frame_batch(
            packed, attributes, 0, last, self._base_timestamp, most, NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE, self._count
        )
        return RecordBatch(framed)


def _messages_in(data: memoryview) -> Iterator[LegacyBatch]:
    for batch in split_batches(data, allow_partial=True):
        yield cast("LegacyBatch", batch)


def _check_messages(data: memoryview, rules: ProduceRules) -> Steps[None]:
    """Check that the messages of `data` are within the limit, have correct CRCs and one format, and that a compressed set is alone."""
    count, magic, has_set = 0, MAGIC_V2, False
    for batch in split_batches(data, allow_partial=True):
        if batch.size > rules.max_message_bytes:
            raise too_large(batch.size, rules)
        if not batch.check_crc():
            raise CorruptMessage(f"record is corrupt (stored crc = {batch.crc})")
        if not isinstance(batch, LegacyBatch) or (count and batch.magic != magic):
            raise InvalidRecord(f"a batch of message format v{batch.magic} is not of the same format as the first one")
        magic, has_set, count = batch.magic, has_set or batch.is_compressed, count + 1
        if not count % _STEP_MESSAGES:
            yield None
    if not count:
        raise InvalidRecord("a produce request must have at least one whole message per partition")
    if count > 1 and has_set:
        raise InvalidRecord("a compressed message set must be the only one of its partition")


def downgrade(data: Buffer, magic: int, first_offset: int, *, max_bytes: int = MAX_DECOMPRESSED_BYTES) -> Buffer:
    """Convert the batches of `data` to message format `magic` (0 or 1), without control batches; may return nothing.

    Batches of this format or an older one do not change. Of uncompressed ones only the records from `first_offset` on are kept.
    `max_bytes` bounds each batch uncompressed, in its own format and in the other. Raises UnsupportedCompressionType for zstd,
    InvalidRecord for a batch that cannot be decoded.
    """
    batches = list(split_batches(data, allow_partial=True))
    if all(batch.magic <= magic for batch in batches):
        return data
    out = bytearray()
    for batch in batches:
        if batch.is_control:
            continue
        if batch.compression is Compression.ZSTD:
            raise UnsupportedCompressionType(f"zstd does not exist in message format v{magic}")
        if batch.magic <= magic:
            out += batch.data
            continue
        records = decode_records(batch, max_bytes=max_bytes)
        if not batch.is_compressed:
            records = (record for record in records if record.offset >= first_offset)
        kind, time = batch.compression, batch.timestamp_type
        out += build_message_set(records, magic, compression=kind, timestamp_type=time, max_bytes=max_bytes)
    return out


def downgrade_in_steps(data: bytes, magic: int, first_offset: int, *, max_count: int, max_bytes: int) -> Steps[bytes]:
    """Convert a part of one batch of format v2 of any length, from `first_offset` on, without compression.

    At least one record, at most `max_count`, and as many as `max_bytes` need. Raises InvalidRecord, CorruptMessage.
    """
    batch = RecordBatch(data)
    if not batch.check_crc():
        raise CorruptMessage(f"the batch at offset {batch.base_offset} does not match its CRC")
    pieces = decompressed_pieces(batch.compression, batch.payload, max_bytes=MAX_DECOMPRESSED_BYTES)
    flags = LOG_APPEND_TIME_FLAG if batch.timestamp_type else 0
    out, arrived = bytearray(), bytearray()
    left, count = batch.record_count, 0
    is_last = False
    while left and count < max_count and len(out) < max_bytes and not is_last:
        piece: bytes = yield partial(next, pieces, b"")
        is_last = not piece
        arrived += piece
        if not is_last and not _is_whole(arrived, 0):
            continue  # the pieces of a long record are joined once
        buffer, position = bytes(arrived), 0
        while left and count < max_count and len(out) < max_bytes and (is_last or _is_whole(buffer, position)):
            try:
                offset_delta, timestamp_delta, key, value, _, position = decode_record(buffer, position)
            except IndexError:
                raise InvalidRecord(f"the batch at offset {batch.base_offset} ends within a record") from None
            left -= 1
            if batch.base_offset + offset_delta >= first_offset:
                timestamp = batch.max_timestamp if flags else batch.base_timestamp + timestamp_delta
                write_message(out, Record(batch.base_offset + offset_delta, timestamp, key, value), magic, flags if magic else 0)
                count += 1
            if not left % _STEP_RECORDS:
                yield None
        del arrived[:position]
    return bytes(out)


def _is_whole(buffer: bytes | bytearray, position: int) -> bool:
    """Whether `buffer` has the whole record at `position`."""
    try:
        length, start = read_varint(buffer, position)
    except IndexError:
        return False
    return start + length <= len(buffer)
