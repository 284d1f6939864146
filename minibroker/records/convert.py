"""Between the message formats: up to v2 what old producers send, down to v0 or v1 what old consumers read.

    up      all messages become one batch, with their codec unless the topic names another; from v0 they have no timestamps. Refused:
                no whole message: INVALID_RECORD; an impossible size or magic, a wrong CRC: CORRUPT_MESSAGE
                a message larger than max.message.bytes, and the new batch when it is: MESSAGE_TOO_LARGE
                messages of two formats, a compressed set that is not alone or holds compressed messages, zstd, a null key in a
                compacted topic, what does not add up inside: INVALID_RECORD
                a timestamp out of bounds or below -1, LogAppendTime said by a client: INVALID_TIMESTAMP
            The offsets that clients write mean nothing. A partial message at the end is left out.
    down    headers and control batches are dropped; timestamps are kept in v1. A batch becomes one compressed set in its own codec, or
            a message a record; offsets stay as they are. zstd: UNSUPPORTED_COMPRESSION_TYPE.

Sources: UnifiedLog.analyzeAndValidateRecords, LogValidator and RecordsUtil.downConvert of Apache Kafka 3.9.1, the last to serve Produce
below 3 and Fetch below 4; its bytes and answers are in tests/golden/records. Stricter: inner sets that end in a torn message. Clearer: an
unknown codec and a payload that its codec cannot read, where Kafka answers UNKNOWN_SERVER_ERROR.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from minibroker.errors import CorruptMessage, InvalidRecord, InvalidTimestamp, UnsupportedCompressionType
from minibroker.records.batch import NO_TIMESTAMP, RecordBatch, split_batches
from minibroker.records.builder import build_batch
from minibroker.records.compression import MAX_DECOMPRESSED_BYTES, Compression
from minibroker.records.legacy import LegacyBatch, messages_of, records_of
from minibroker.records.legacy_builder import build_message_set
from minibroker.records.record import Record, decode_records
from minibroker.records.validate import INT64_MAX, ProduceRules, errors_of_records, too_large

if TYPE_CHECKING:
    from typing_extensions import Buffer


#: in one compressed set of a producer; no old client is known to send a thousandth of it
MAX_SET_MESSAGES = 250_000


def upgrade_produced(data: memoryview, rules: ProduceRules, *, now_ms: int) -> RecordBatch:
    """One batch of format v2 with the records of the messages of format v0 or v1 that `data` is; KafkaError when they are refused."""
    batches = _messages_in(data, rules)
    records: list[Record] = []
    codec = Compression.NONE
    for batch in batches:
        messages = messages_of(batch, max_bytes=rules.max_decompressed_bytes, max_count=MAX_SET_MESSAGES, may_be_torn=False)
        for message in messages:
            if message.magic != batch.magic:
                raise InvalidRecord(f"a message of format v{message.magic} in a set of format v{batch.magic}")
        found = list(records_of(batch, messages))
        error = errors_of_records(batch, found, rules, now_ms)
        if error is not None:
            raise error
        records += found
        codec = batch.compression
    timestamps = [record.timestamp for record in records]
    if min(timestamps) < NO_TIMESTAMP or max(timestamps) - timestamps[0] > INT64_MAX:
        raise InvalidTimestamp(f"timestamps from {min(timestamps)} to {max(timestamps)}")
    if rules.compression is not None:
        codec = rules.compression
    upgraded = build_batch(
        records,
        compression=codec,
        level=rules.compression_level,
        timestamp_type=rules.timestamp_type,
        max_timestamp=now_ms if rules.timestamp_type else None,
    )
    if len(upgraded) > rules.max_message_bytes:
        raise too_large(len(upgraded), rules)
    return RecordBatch(upgraded)


def _messages_in(data: memoryview, rules: ProduceRules) -> list[LegacyBatch]:
    """The whole messages of `data`, each within the limit and with a right CRC, all of one format; a compressed set is alone."""
    found: list[LegacyBatch] = []
    for batch in split_batches(data, allow_partial=True):
        if batch.size > rules.max_message_bytes:
            raise too_large(batch.size, rules)
        if not batch.check_crc():
            raise CorruptMessage(f"record is corrupt (stored crc = {batch.crc})")
        if not isinstance(batch, LegacyBatch) or (found and batch.magic != found[0].magic):
            raise InvalidRecord(f"a batch of message format v{batch.magic} is not of the same format as the first one")
        found.append(batch)
    if not found:
        raise InvalidRecord("a produce request must have at least one whole message per partition")
    if len(found) > 1 and any(batch.is_compressed for batch in found):
        raise InvalidRecord("a compressed message set must be the only one of its partition")
    return found


def downgrade(data: Buffer, magic: int, first_offset: int, *, max_bytes: int = MAX_DECOMPRESSED_BYTES) -> Buffer:
    """The batches of `data` in message format `magic` (0 or 1) at most, without control batches; empty when nothing is left.

    Batches that are of this format or an older one stay as they are. Of uncompressed ones only the records from `first_offset` on are
    kept. UnsupportedCompressionType for zstd; InvalidRecord for a batch that cannot be decoded; `max_bytes` bounds what each one becomes
    uncompressed, in its own format and in the other.
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
