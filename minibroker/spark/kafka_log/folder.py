"""Read one partition's folder in a log directory: its segments, positions of offsets and timestamps, the log's end.

A broker may write meanwhile. The last segment may end in half a batch, which is not damage: the log ends there for now.
Indexes may be missing, damaged, or old, because a broker keeps the newest entries in memory. An index entry is used only if
the batch at its position confirms it. Otherwise more of the segment is read.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from typing import NamedTuple

from minibroker.errors import CorruptLogError, CorruptMessage, KafkaError
from minibroker.records.any_format import decode_records, read_batch
from minibroker.records.batch import HEADER_SIZE, RecordBatch
from minibroker.spark.kafka_log.frames import find_batch, read_head, skim
from minibroker.spark.kafka_log.options import AbortedRange
from minibroker.storage.batch_scan import HEAD_SIZE, BatchHeader, read_headers
from minibroker.storage.files import READ_ONLY, FileHandle, Files
from minibroker.storage.indexes import NO_TIMESTAMP, OffsetIndex, OffsetPosition, TimeIndex, TimestampEntry
from minibroker.storage.log_file_names import LOG, OFFSET_INDEX, SNAPSHOT, TIME_INDEX, file_name, parse_file_name

logger = logging.getLogger(__name__)

UNBOUNDED = 1 << 40
FEW_HEADERS = 512  #: bytes to read at once where one of the next headers is the wanted one


class LogEnd(NamedTuple):
    """The offset after the last whole batch, and that batch's end in the last segment."""

    offset: int
    position: int


class KnownEnd(NamedTuple):
    """An end that was found before: its segment, and the head of the last batch before it."""

    base_offset: int
    end: LogEnd
    last_position: int
    last_head: bytes


class TransactionScan(NamedTuple):
    """The transactions below `offset`: first offsets of open ones by producer id, and aborted ones (directory.py).

    `offset` is at `position` of the segment at `base_offset`, if that is known.
    """

    offset: int
    ongoing: Mapping[int, int]
    aborted: tuple[AbortedRange, ...] = ()
    base_offset: int = -1
    position: int = 0


class SegmentFile:
    """The `.log` at `base_offset` with its indexes; `size` is its size when the folder was listed."""

    def __init__(self, files: Files, directory: str, base_offset: int) -> None:
        self._files = files
        self.base_offset = base_offset
        self.path = f"{directory}/{file_name(base_offset, LOG)}"
        self.size = files.size(self.path)
        self.seen: list[OffsetPosition] = []  #: some batches after the last index entry, like entries of an index
        self.handle: FileHandle = files.handles.handle(self.path, READ_ONLY)
        self.index = OffsetIndex(files, f"{directory}/{file_name(base_offset, OFFSET_INDEX)}", base_offset, UNBOUNDED)
        self.time_index = TimeIndex(files, f"{directory}/{file_name(base_offset, TIME_INDEX)}", base_offset, UNBOUNDED)

    def headers(self, position: int, end: int | None = None) -> Iterator[BatchHeader]:
        """Yield headers from `position` on; CorruptMessage if there is no batch."""
        return read_headers(self._files, self.handle, position, self.size if end is None else end)

    def batch_of(self, entry: OffsetPosition) -> RecordBatch | None:
        """Return the batch that an index entry points at.

        None if the entry is wrong: there is no batch at its position, the CRC of the batch is wrong, or the batch ends after
        `entry.offset`. It may end before that, since Kafka before 4 made one entry for several batches.
        """
        if not 0 < entry.position < self.size:
            return None
        try:
            header = next(read_headers(self._files, self.handle, entry.position, self.size, chunk_size=HEAD_SIZE))
            if not self.base_offset <= header.base_offset <= header.last_offset <= entry.offset:
                return None
            batch = read_batch(self._files.read_at(self.handle.opened(), header.size, entry.position))
            return batch if batch.check_crc() else None
        except KafkaError:
            return None

    def start_for(self, offset: int) -> int:
        """Return the position of a batch at or before the one that holds `offset`."""
        entry = self.index.lookup(offset)
        number = bisect_right(self.seen, offset, key=lambda each: each.offset)
        if number and self.seen[number - 1].position > entry.position:
            return self.seen[number - 1].position
        return entry.position if self.batch_of(entry) is not None else 0

    def stop_for(self, end_offset: int, end: int) -> int:
        """Return a position up to `end` from which on all batches start at or above `end_offset`."""
        entries = [*self.index.entries(), *self.seen]
        number = bisect_right(entries, end_offset - 2, key=lambda entry: entry.offset) + 1
        if number < len(entries) and entries[number].position < end:
            batch = self.batch_of(entries[number])
            # A wrong entry may point at a batch that is still wanted: compare the batch's offset, not the entry's.
            if batch is not None and _starts_at_or_above(batch, end_offset):
                return entries[number].position
        return end

    def largest_timestamp(self) -> TimestampEntry | None:
        """Return the last entry of the time index; None unless its batch agrees, and no batch after it has a larger timestamp."""
        entry = self.time_index.last()
        if entry.timestamp == NO_TIMESTAMP:
            return None
        found = None
        try:
            for header in self.headers(self.start_for(entry.offset)):
                if found is None and header.last_offset >= entry.offset:
                    if (header.last_offset, header.max_timestamp) != (entry.offset, entry.timestamp):
                        return None
                    found = entry
                elif header.max_timestamp > entry.timestamp:
                    return None
        except CorruptMessage:
            return None
        return found

    def start_for_timestamp(self, timestamp: int) -> int:
        """Return the position of a batch before which no batch reaches `timestamp`; 0 if the time index has no right entry for it."""
        # Several batches may have the same timestamp. A wrong entry for `timestamp` itself could point past the first of them.
        entry = self.time_index.lookup(timestamp - 1)
        if entry.timestamp == NO_TIMESTAMP:
            return 0
        try:
            position = self.start_for(entry.offset)
            for header in read_headers(self._files, self.handle, position, self.size, chunk_size=FEW_HEADERS):
                if header.last_offset >= entry.offset:
                    return header.position if header.max_timestamp == entry.timestamp else 0
        except CorruptMessage:
            pass
        return 0


def _starts_at_or_above(batch: RecordBatch, offset: int) -> bool:
    try:
        return batch.base_offset >= offset
    except KafkaError:  # a message set of format v0 or v1, whose base offset is in its records
        return False


class PartitionFolder:
    """A folder `topic-partition`.

    Args:
        log_start_offset: from the checkpoint; it applies if it is above the first segment's base offset.
        is_permissive: skip damage with a warning, instead of raising CorruptLogError.
    """

    def __init__(
        self, files: Files, directory: str, topic: str, partition: int, *, log_start_offset: int = 0, is_permissive: bool = False
    ) -> None:
        self.files = files
        self.directory = directory
        self.topic = topic
        self.partition = partition
        self._is_permissive = is_permissive
        names = [parsed for name in files.names(directory) if (parsed := parse_file_name(name))]
        self.segments = []
        for base_offset in sorted(base_offset for base_offset, suffix in names if suffix == LOG):
            with suppress(FileNotFoundError):  # a broker may delete old segments meanwhile
                self.segments.append(SegmentFile(files, directory, base_offset))
        base_offsets = [segment.base_offset for segment in self.segments]
        self.snapshot_offsets = sorted(base_offset for base_offset, suffix in names if suffix == SNAPSHOT)
        self.transactions: TransactionScan | None = None
        self._base_offsets = base_offsets
        self.known_end: KnownEnd | None = None
        self.log_start_offset = max(log_start_offset, base_offsets[0]) if base_offsets else log_start_offset

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"

    def follow(self, earlier: PartitionFolder) -> None:
        """Continue from an earlier look at the same folder, instead of walking through the last segment again.

        If the batch that was the last one is gone, the topic is another one or the log was truncated. Then this does nothing.
        """
        known = earlier.known_end
        segment = next((each for each in reversed(self.segments) if known and each.base_offset == known.base_offset), None)
        if known and segment and self._head_at(segment, known.last_position) == known.last_head:
            self.transactions = earlier.transactions
            if segment is self.segments[-1]:
                self.known_end = known

    def close(self) -> None:
        """Close the files; an open file that the broker deleted would still use disk space."""
        for segment in self.segments:
            segment.handle.close()

    def _head_at(self, segment: SegmentFile, position: int) -> bytes:
        return self.files.read_at(segment.handle.opened(), HEADER_SIZE, position)

    @cached_property
    def end(self) -> LogEnd:
        """The log's end at the first access."""
        if not self.segments:
            return LogEnd(self.log_start_offset, 0)
        last = self.segments[-1]
        if self.known_end:
            end, last_position = self.known_end.end, self.known_end.last_position
        else:
            entry = last.index.last()
            last_position = entry.position if last.batch_of(entry) is not None else 0
            end = LogEnd(last.base_offset, last_position)
        if (skimmed := skim(self.files, last.handle, end.position, last.size)) is not None:
            end, last_position = LogEnd(skimmed.last_offset + 1, skimmed.end_position), skimmed.last_position
            last.seen = skimmed.seen
        while end.position < last.size:
            try:
                for header in last.headers(end.position):
                    end, last_position = LogEnd(header.last_offset + 1, header.position + header.size), header.position
            except CorruptMessage as error:
                if self._is_torn(last, end.position):
                    break
                self.damaged(str(error))
                position = find_batch(self.files, last.handle, end.position, last.size, end.offset)
                if position == last.size:
                    break
                end = LogEnd(end.offset, position)
        if end.position:
            self.known_end = KnownEnd(last.base_offset, end, last_position, self._head_at(last, last_position))
        return LogEnd(max(end.offset, self.log_start_offset), end.position)

    def _is_torn(self, segment: SegmentFile, position: int) -> bool:
        """Return whether `position` has a batch that is being written, or zeros of a preallocated file."""
        head = read_head(data := self.files.read_at(segment.handle.opened(), HEAD_SIZE, position))
        if head is None or not any(data):
            return True
        return head.is_possible and position + head.size > segment.size and head.offset >= segment.base_offset

    def damaged(self, reason: str) -> None:
        """Raise CorruptLogError, or warn."""
        if not self._is_permissive:
            raise CorruptLogError(reason)
        logger.warning("%s; skipped", reason)

    def end_of(self, segment: SegmentFile) -> int:
        """Return the end of a segment's whole batches."""
        return self.end.position if segment is self.segments[-1] else segment.size

    def segments_from(self, offset: int) -> list[SegmentFile]:
        """Return the segment that holds `offset`, and all later ones."""
        return self.segments[max(bisect_right(self._base_offsets, offset) - 1, 0) :]

    def offset_for_timestamp(self, timestamp: int, bound: int) -> int | None:
        """Return the first offset below `bound` of a record at or after `timestamp` (epoch ms), as ListOffsets does; None if none."""
        for segment in self.segments_from(self.log_start_offset):
            position = max(segment.start_for_timestamp(timestamp), segment.start_for(self.log_start_offset))
            found = self._first_as_late(segment, position, timestamp)
            if found is not None:
                return found if found < bound else None
        return None

    def _first_as_late(self, segment: SegmentFile, position: int, timestamp: int) -> int | None:
        end = self.end_of(segment)
        while position < end:
            try:
                for header in segment.headers(position, end):
                    position = header.position + header.size
                    if header.max_timestamp < timestamp or header.last_offset < self.log_start_offset:
                        continue
                    batch = read_batch(self.files.read_at(segment.handle.opened(), header.size, header.position))
                    for record in decode_records(batch):
                        if record.timestamp >= timestamp and record.offset >= self.log_start_offset:
                            return record.offset
            except KafkaError as error:
                self.damaged(f"{segment.path}: {error}")
                position = find_batch(self.files, segment.handle, position, end, segment.base_offset)
        return None
