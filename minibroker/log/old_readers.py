"""Reads of clients older than Kafka 0.11: message sets of format v0 or v1, and offsets by the modification times of segments.

A batch in a newer format than a client knows is converted down (records/convert.py), one after the other, until the client's limit is
reached: old formats take more bytes for each record, and one converted batch may be larger than the limit. A batch that converts to
nothing (a control batch) is skipped; otherwise its reader would request the same offset forever. The old formats have no zstd: a read
ends before such a batch, or fails with UNSUPPORTED_COMPRESSION_TYPE if it is the first one.

Converting a record takes about 10 us, and no other client is served meanwhile. So a read converts at most CONVERTED_COUNT records and
CONVERTED_BYTES, and the client fetches again. A batch with more records than that, or with a large content, is converted in steps
(LongConversion), at most CONVERTED_COUNT of its records, and without compression.

Sources: UnifiedLog.legacyFetchOffsetsBefore, Partition.legacyFetchOffsetsForTimestamp and LazyDownConversionRecords of Apache Kafka 3.9.1.
"""

from __future__ import annotations

from minibroker.errors import CorruptMessage, InvalidRecord, KafkaError
from minibroker.log.partition_log import PartitionLog
from minibroker.log.results import IsolationLevel
from minibroker.records.any_format import split_batches
from minibroker.records.batch import RecordBatch
from minibroker.records.compression import Compression
from minibroker.records.steps import LongBatch, Steps
from minibroker.records.validate import AT_ONCE_CONTENT
from minibroker.wire.schema import Buffer

CONVERTED_COUNT = 1000
CONVERTED_BYTES = 128 * 1024

LATEST = -1
EARLIEST = -2


class LongConversion(LongBatch):
    """Converting the next batch takes more than a few milliseconds: `steps` return some of its messages, perhaps none."""

    def __init__(self, log: PartitionLog, batch: RecordBatch, magic: int, offset: int, isolation: IsolationLevel) -> None:
        super().__init__()
        self.name = log.name
        self.next_offset = batch.next_offset
        self.steps = _convert_in_steps(log, batch.base_offset, magic, offset, isolation)


def _convert_in_steps(log: PartitionLog, base_offset: int, magic: int, offset: int, isolation: IsolationLevel) -> Steps[bytes]:
    """Convert the batch at `base_offset`, from the record at `offset` on.

    The first step reads the batch, so that readers that wait for their turn hold no batch in memory.
    """
    from minibroker.records.convert import downgrade_in_steps  # noqa: PLC0415  most brokers never need it, and all of them start

    data = bytes(log.read(max(base_offset, offset), 1, isolation=isolation, min_one=True))
    if not data:
        return b""  # the log was truncated meanwhile
    return (yield from downgrade_in_steps(data, magic, offset, max_count=CONVERTED_COUNT, max_bytes=CONVERTED_BYTES))


def read_messages(log: PartitionLog, offset: int, max_bytes: int, *, magic: int, isolation: IsolationLevel, min_one: bool) -> bytes:
    """Return messages of format `magic` or older from `offset` on: at most `max_bytes`, but with `min_one` those of one batch.

    Raises what PartitionLog.read raises, LongConversion, CorruptMessage for a batch whose CRC is wrong (a new one would hide that), and
    UnsupportedCompressionType.
    """
    chunks: list[Buffer] = []
    size = count = 0
    next_offset = offset
    while not chunks and (data := log.read(next_offset, max_bytes, isolation=isolation, min_one=min_one)):
        for batch in split_batches(data):
            try:
                converted: Buffer = batch.data if batch.magic <= magic else _converted(log, batch, magic, offset, isolation)
            except (KafkaError, LongConversion):
                if chunks:
                    break
                raise
            if chunks and size + len(converted) > max_bytes:
                break
            if converted:
                chunks.append(converted)
                size += len(converted)
            next_offset = batch.next_offset
            if batch.magic > magic:
                max_bytes = min(max_bytes, CONVERTED_BYTES)
                count += batch.record_count
                if count >= CONVERTED_COUNT and chunks:
                    break
    return b"".join(chunks)


def _converted(log: PartitionLog, batch: RecordBatch, magic: int, first_offset: int, isolation: IsolationLevel) -> Buffer:
    is_zstd = batch.compression is Compression.ZSTD
    if batch.record_count > CONVERTED_COUNT and not is_zstd:
        raise LongConversion(log, batch, magic, first_offset, isolation)
    if not batch.check_crc():
        raise CorruptMessage(f"the batch at offset {batch.base_offset} does not match its CRC")
    from minibroker.records.convert import downgrade  # noqa: PLC0415  most brokers never need it, and all of them start

    try:
        return memoryview(downgrade(batch.data, magic, first_offset, max_bytes=AT_ONCE_CONTENT))
    except InvalidRecord:  # too large, or broken: the steps find out which
        pass
    # Not within `except`: its context would keep the decompressed bytes in memory as long as the reader waits.
    raise LongConversion(log, batch, magic, first_offset, isolation)


def offsets_before(log: PartitionLog, timestamp: int, max_count: int, *, now_ms: int) -> list[int]:
    """Return up to `max_count` base offsets of segments last written at or before `timestamp`, and the log end; largest first.

    LATEST: from the log end down; EARLIEST: only the first one. Offsets below the log start become the log start.
    """
    segments = list(log.segments)
    offsets = [max(segment.base_offset, log.log_start_offset) for segment in segments]
    if segments[-1].size:
        offsets.append(log.log_end_offset)
    count = len(offsets)
    if timestamp == EARLIEST:
        count = 1
    elif timestamp != LATEST:
        while count and (segments[count - 1].modified_ms if count <= len(segments) else now_ms) > timestamp:
            count -= 1
    return offsets[max(count - max_count, 0) : count][::-1]
