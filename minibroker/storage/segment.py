"""One segment: a `.log` of batches end to end, its two sparse indexes, and the index of aborted transactions.

Invariants:
- The first `size` bytes of the `.log` are whole, valid batches; a partial write is cut off again.
- `positions` has the positions of recent batches by base offset: a reader at the tail needs no index and no scan.
- An index entry is used only if it agrees with its batch; otherwise both indexes are rebuilt from the `.log`.

A batch gets an index entry by Kafka's rule (LogSegment.append): when more than index.interval.bytes were written since the last entry.
Errors are OSError from the file system, and CorruptMessage if there is no batch where one must start.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final

from minibroker.errors import CorruptMessage
from minibroker.records.any_format import read_batch
from minibroker.records.batch import HEADER_SIZE, LOG_OVERHEAD, MAGIC_V2, MIN_LEGACY_SIZE, RecordBatch
from minibroker.storage.batch_scan import (
    FIRST_CHUNK,
    HEAD_SIZE,
    BatchHeader,
    TransactionalHeader,
    legacy_header,
    read_batches,
    read_headers,
    read_transactional,
    unpack_head,
)
from minibroker.storage.file_slice import LEAST_SIZE, FileRange, FileSlice
from minibroker.storage.files import APPEND, OUT_OF_DESCRIPTORS, Files, write_all
from minibroker.storage.indexes import INTERVAL_MAX, NO_TIMESTAMP, OffsetIndex, TimeIndex, TimestampEntry
from minibroker.storage.log_file_names import DELETED, LOG, OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX, file_name
from minibroker.storage.transaction_index import TransactionIndex

logger = logging.getLogger(__name__)

MAX_RELATIVE_OFFSET: Final = 2**31 - 1
MAX_SEGMENT_SIZE: Final = 2**31 - 1
RECENT_POSITIONS: Final = 64


def could_not_cut_back(error: OSError) -> bool:
    """Whether a failed `Segment.append` left a partial write: it then says so in a note of its error."""
    return hasattr(error, "__notes__")


class Segment:
    """A segment whose `.log` exists and is `size` bytes; files are opened at their first use."""

    __slots__ = (
        "_bytes_since_index_entry",
        "_files",
        "_largest",
        "_older_positions",
        "_time_index_trusted",
        "base_offset",
        "created_ms",
        "directory",
        "first_timestamp",
        "index_interval_bytes",
        "index_room",
        "log",
        "offset_index",
        "positions",
        "roll_jitter_ms",
        "size",
        "time_index",
        "transaction_index",
    )

    def __init__(
        self,
        files: Files,
        directory: str,
        base_offset: int,
        *,
        size: int,
        index_interval_bytes: int,
        index_max_bytes: int,
        created_ms: int = 0,
        roll_jitter_ms: int = 0,
        is_new: bool = False,
    ) -> None:
        self._files = files
        self.directory = directory
        self.base_offset = base_offset
        self.size = size
        self.index_interval_bytes = min(index_interval_bytes, INTERVAL_MAX)
        self.index_room = 0  #: at least this many further index entries are allowed; 0: not counted
        self.created_ms = created_ms  #: segment.ms counts from it while no batch has a timestamp
        self.roll_jitter_ms = roll_jitter_ms  #: subtracted from segment.ms
        self.log = files.handles.handle(f"{directory}/{file_name(base_offset, LOG)}", APPEND)
        path = f"{directory}/{file_name(base_offset, OFFSET_INDEX)}"
        self.offset_index = OffsetIndex(files, path, base_offset, index_max_bytes, is_new=is_new)
        path = f"{directory}/{file_name(base_offset, TIME_INDEX)}"
        self.time_index = TimeIndex(files, path, base_offset, index_max_bytes, is_new=is_new)
        path = f"{directory}/{file_name(base_offset, TRANSACTION_INDEX)}"
        self.transaction_index = TransactionIndex(files, path, base_offset, is_new=is_new)
        self.first_timestamp: int | None = None  #: largest of the first batch: segment.ms counts from it; None: not read yet
        self.positions: dict[int, int] = {}
        self._older_positions: dict[int, int] = {}
        self._bytes_since_index_entry = 0
        self._largest: TimestampEntry | None = None  #: None: not read from the time index yet
        if is_new:
            self._largest = TimestampEntry(NO_TIMESTAMP, base_offset)
        self._time_index_trusted = is_new

    @classmethod
    def create(cls, files: Files, directory: str, base_offset: int, **options: int) -> Segment:
        """Create a new, empty segment with its three files.

        If it raises OSError, there is no `.log`: the previous segment may then grow beyond
        `base_offset`, and the next start would cut it if there was one.
        """
        segment = cls(files, directory, base_offset, size=0, is_new=True, **options)
        segment.save_indexes()
        segment.log.opened()
        return segment

    # Writing

    def append(self, batch: RecordBatch, base_offset: int, last_offset: int) -> None:
        """Write a batch, which has these offsets, with one call, and note its position.

        If it raises OSError, nothing was appended. If `could_not_cut_back(error)`, a partial write is left: the segment must not be used
        any more.
        """
        largest = self._largest or self._prepare_to_append()
        handle = self.log
        descriptor = handle.descriptor
        if descriptor < 0:
            descriptor = handle.opened()
        handle.used = True
        size = batch.size
        try:
            written = self._files.write(descriptor, batch.data)
            if written != size:
                write_all(self._files, descriptor, batch.data[written:])
        except OSError as error:
            self._cut_back(error)
            raise
        position = self.size
        if position == 0:
            self.first_timestamp = batch.max_timestamp
        self.size = position + size
        if len(self.positions) >= RECENT_POSITIONS:
            self._older_positions, self.positions = self.positions, {}
        self.positions[base_offset] = position
        if batch.max_timestamp > largest[0]:
            self._largest = largest = TimestampEntry(batch.max_timestamp, last_offset)
        if self._bytes_since_index_entry > self.index_interval_bytes:
            self.offset_index.append(last_offset, position)
            self.time_index.maybe_append(*largest)
            self.index_room -= 1
            self._bytes_since_index_entry = size
        else:
            self._bytes_since_index_entry += size

    def count_index_room(self) -> int:
        """Return the number of further index entries that segment.index.bytes allows; at 0 the segment rolls."""
        self.index_room = min(self.offset_index.room, self.time_index.room)
        return self.index_room

    def _prepare_to_append(self) -> TimestampEntry:
        """Read everything that an append needs before it writes: nothing may fail after the write."""
        self._start_for(self.base_offset + MAX_RELATIVE_OFFSET)
        return self.largest_timestamp()

    def _cut_back(self, error: OSError) -> None:
        try:
            self._files.truncate(self.log.opened(), self.size)
        except OSError as second:
            error.add_note(f"cutting {self.log.path} back to {self.size} bytes failed as well: {second}")

    def truncate(self, size: int) -> None:
        """Cut the `.log`; the caller rebuilds the indexes."""
        self._files.truncate(self.log.opened(), size)
        self.size = size
        self.positions, self._older_positions = {}, {}
        self._largest = self.first_timestamp = None
        self.index_room = 0

    def rebuild_indexes(self) -> int:
        """Rebuild both indexes from the batches, as Kafka's recovery does, and return the next offset.

        Stops at the first position without a batch, or with a batch whose offset does not belong to this segment.
        """
        self.begin_rebuild()
        largest = TimestampEntry(NO_TIMESTAMP, self.base_offset)
        last_entry_position, next_offset = 0, self.base_offset
        first_timestamp = None
        try:
            for header in read_headers(self._files, self.log, 0, self.size):
                if not self.base_offset <= header.base_offset <= header.last_offset <= self.base_offset + MAX_RELATIVE_OFFSET:
                    raise CorruptMessage(f"{self.log.path}: offset {header.base_offset} at position {header.position} cannot be here")
                if first_timestamp is None:
                    first_timestamp = header.max_timestamp
                if header.max_timestamp > largest.timestamp:
                    largest = TimestampEntry(header.max_timestamp, header.last_offset)
                if header.position - last_entry_position > self.index_interval_bytes:
                    self.offset_index.append(header.last_offset, header.position)
                    self.time_index.maybe_append(*largest)
                    last_entry_position = header.position
                next_offset = header.last_offset + 1
        finally:
            self.end_rebuild(largest, first_timestamp)
        return next_offset

    def begin_rebuild(self) -> None:
        """Drop both indexes. The caller walks over the batches, fills the indexes as Kafka's recovery does, and calls `end_rebuild`."""
        self.offset_index.reset()
        self.time_index.reset()
        self._time_index_trusted = True
        self._bytes_since_index_entry = 0
        self.index_room = 0

    def end_rebuild(self, largest: TimestampEntry, first_timestamp: int | None) -> None:
        """Finish a rebuild with the largest timestamp (and the last offset of its batch) and the timestamp of the first batch."""
        self._largest = largest
        self.first_timestamp = first_timestamp
        self.time_index.maybe_append(*largest)

    def save_indexes(self) -> None:
        """Write index entries that are only in memory, without syncing them."""
        self.offset_index.save()
        self.time_index.save()

    def become_inactive(self) -> None:
        """Note that no batch follows: the time index gets its last entry, the largest timestamp."""
        if self._largest is not None:
            self.time_index.maybe_append(*self._largest)
        self.save_indexes()
        self.positions, self._older_positions = {}, {}
        self.forget_when_idle()

    def forget_when_idle(self) -> None:
        """Drop the indexes from memory whenever the pool closes the `.log`. Not for the active segment."""
        self.log.on_close = self._unload

    # Reading

    def read(self, offset: int, max_bytes: int, end: int, *, min_one: bool) -> bytes | FileSlice:
        """Return whole batches below position `end`, from the one that holds `offset` on; nothing if all are below `offset`.

        Returns at most `max_bytes`, but with `min_one` at least one batch; a FileSlice if they are many bytes.
        """
        start = self.positions.get(offset)
        if start is None:
            start = 0 if offset <= self.base_offset else self._older_positions.get(offset)
            if start is None:
                found = self.find(offset, end)
                if found is None:
                    return b""
                start = found.position
        size = end - start
        if size <= 0:
            return b""
        if size > max_bytes:
            size = self._whole_batches(start, max_bytes, end, min_one=min_one)
            if not size:
                return b""
        if size >= LEAST_SIZE:
            try:
                return FileSlice(self._files, self.log, start, size)
            except OSError as error:
                if error.errno not in OUT_OF_DESCRIPTORS:
                    raise  # otherwise read with the descriptor that is open
        return self._files.read_at(self.log.opened(), size, start)

    def _whole_batches(self, start: int, max_bytes: int, end: int, *, min_one: bool) -> int:
        """Return the size of the whole batches from `start` on, within `max_bytes`; with `min_one` at least that of the first."""
        entry = self.offset_index.lookup_position(start + max(max_bytes - HEADER_SIZE, 0))
        position, chunk = start, b""
        if entry.position > start:
            chunk = self._files.read_at(self.log.opened(), min(FIRST_CHUNK, self.size - entry.position), entry.position)
            if self._agrees(chunk, 0, entry.offset):
                position = entry.position
            else:
                chunk = b""  # the walk from the first batch needs no index
        next_offset = None
        try:
            for header in read_headers(self._files, self.log, position, end, chunk=chunk):
                if position + header.size - start > max_bytes and not (min_one and position == start):
                    next_offset = header.base_offset
                    break
                position += header.size
                next_offset = header.last_offset + 1
        except CorruptMessage:
            if position == start:
                raise
        if next_offset is not None:
            self._remember(next_offset, position)
        return position - start

    def range_from(self, offset: int) -> FileRange | None:
        """Return where the batches from the one that holds `offset` on are; None if all are below `offset`."""
        found = self.find(offset)
        if found is None:
            return None
        identity = self._files.identity(self.log.opened())
        return FileRange(self._files, self.log.path, identity, found.position, self.size - found.position)

    def _remember(self, offset: int, position: int) -> None:
        if len(self.positions) >= RECENT_POSITIONS:
            self._older_positions, self.positions = self.positions, {}
        self.positions[offset] = position

    def _agrees(self, data: bytes, index: int, last_offset: int) -> bool:
        """Whether a batch at `index` ends with `last_offset` (or below: Kafka before 4 indexed several batches by the last one)."""
        if len(data) - index >= HEAD_SIZE:
            base_offset, batch_length, _, magic, last_offset_delta, _ = unpack_head(data, index)
            if magic == MAGIC_V2:
                is_long_enough = batch_length >= HEADER_SIZE - LOG_OVERHEAD
                return bool(is_long_enough and 0 <= base_offset <= base_offset + last_offset_delta <= last_offset)
        old = legacy_header(data, index, 0, MAX_SEGMENT_SIZE)
        return old is not None and self.base_offset <= old.last_offset <= last_offset

    def find(self, offset: int, end: int | None = None) -> BatchHeader | None:
        """Return the first batch below position `end` whose last offset reaches `offset`; None if all end below."""
        end = self.size if end is None else end
        for header in self._headers_to(offset, end):
            if header.last_offset >= offset:
                return header
        return None

    def _headers_to(self, offset: int, end: int) -> Iterator[BatchHeader]:
        """Yield batches below position `end`, starting at an index entry at or before `offset` that agrees with its batch."""
        position, chunk = self._start_for(offset)
        return read_headers(self._files, self.log, position, end, chunk=chunk)

    def _start_for(self, offset: int) -> tuple[int, bytes]:
        """Return the position from which `_headers_to` starts, and the bytes there that were already read."""
        index = self.offset_index
        if not index.in_memory and not index.loaded() and self.size > 2 * self.index_interval_bytes:
            self._rebuild("is missing or empty", logging.WARNING if index.is_damaged else logging.DEBUG)
        entry = self.offset_index.lookup(offset)
        if entry.position == 0:
            return 0, b""
        if entry.position + MIN_LEGACY_SIZE <= self.size:
            chunk = self._files.read_at(self.log.opened(), min(FIRST_CHUNK, self.size - entry.position), entry.position)
            if self._agrees(chunk, 0, entry.offset):
                return entry.position, chunk
        self._rebuild(f"has a wrong entry {entry}")
        return self.offset_index.lookup(offset).position, b""

    def _rebuild(self, problem: str, level: int = logging.WARNING) -> None:
        logger.log(level, "%s %s: rebuilding the indexes of this segment", self.offset_index.path, problem)
        try:
            self.rebuild_indexes()
        except CorruptMessage as error:
            logger.warning("%s", error)

    def next_offset(self) -> int:
        """Return the offset after the last batch; reads from the last index entry on."""
        next_offset = self.base_offset
        if self.size:
            for header in self._headers_to(self.base_offset + MAX_RELATIVE_OFFSET, self.size):
                next_offset = header.last_offset + 1
        return next_offset

    # Time

    def largest_timestamp(self) -> TimestampEntry:
        """Return the largest timestamp and the last offset of the first batch with it; (-1, base offset) for an empty segment."""
        largest = self._largest
        if largest is None:
            self.trust_time_index()  # may set it
            largest = self._largest = self._largest or self.time_index.last()
        return largest

    def first_batch_timestamp(self) -> int:
        """Return the largest timestamp of the first batch; -1 if it has none, or if there is no batch or a damaged one."""
        if self.first_timestamp is None:
            if not self.size:
                return NO_TIMESTAMP
            try:
                self.first_timestamp = next(read_headers(self._files, self.log, 0, self.size)).max_timestamp
            except CorruptMessage as error:
                logger.warning("%s", error)
                self.first_timestamp = NO_TIMESTAMP  # appends continue after it
        return self.first_timestamp

    def headers_from_timestamp(self, timestamp: int, start_offset: int) -> Iterable[BatchHeader]:
        """Yield headers from a position before which no batch that ends at or above `start_offset` reaches `timestamp`."""
        self.trust_time_index()
        entry = self.time_index.lookup(timestamp)
        if entry.timestamp != NO_TIMESTAMP:
            headers = self._headers_to(entry.offset, self.size)
            found = next((header for header in headers if header.last_offset >= entry.offset), None)
            if found is None or not _is_of(entry, found):
                self._rebuild(f"or the time index beside it has a wrong entry {entry}")
                entry = self.time_index.lookup(timestamp)
            elif entry.offset >= start_offset:
                return chain((found,), headers)
        return self._headers_to(max(entry.offset, start_offset), self.size)

    def headers_from(self, offset: int) -> Iterator[BatchHeader]:
        """Yield headers from the batch that holds `offset` on."""
        for header in self._headers_to(offset, self.size):  # mypyc would make a list of a generator expression
            if header.last_offset >= offset:
                yield header

    def batches_from(self, offset: int) -> Iterable[RecordBatch]:
        """Yield batches from the one that holds `offset` on, without checking CRCs. Raises CorruptMessage if other bytes follow."""
        return read_batches(self._files, self.log, self._position_of(offset), self.size)

    def transactional_from(self, offset: int) -> Iterable[TransactionalHeader]:
        """Yield the headers of transactional batches from the batch that holds `offset` on."""
        return read_transactional(self._files, self.log, self._position_of(offset), self.size)

    def _position_of(self, offset: int) -> int:
        """Return the position of the batch that holds `offset`, or of the next one."""
        if offset <= self.base_offset:
            return 0
        found = self.find(offset)
        return self.size if found is None else found.position

    def batch_at(self, header: BatchHeader | TransactionalHeader) -> RecordBatch:
        """Read a batch."""
        return read_batch(self.bytes_of(header))

    def bytes_of(self, header: BatchHeader | TransactionalHeader, max_size: int = MAX_SEGMENT_SIZE) -> bytes:
        """Read the bytes of a batch, or only the first `max_size` of them."""
        return self._files.read_at(self.log.opened(), min(header.size, max_size), header.position)

    def trust_time_index(self) -> None:
        """Check once that the last entry of the time index agrees with the `.log`: look-ups skip segments by that entry."""
        if self._time_index_trusted:
            return
        self._time_index_trusted = True
        self.time_index.loaded()
        if self.size and (self.time_index.is_damaged or not self._time_entry_agrees(self.time_index.last())):
            is_plain = not self.time_index.is_damaged and not self.time_index.count  # as when no record has a timestamp
            self._rebuild("or the time index beside it is missing or wrong", logging.DEBUG if is_plain else logging.WARNING)

    def _time_entry_agrees(self, entry: TimestampEntry) -> bool:
        if entry.timestamp == NO_TIMESTAMP:
            return False
        header = self.find(entry.offset)
        return header is not None and _is_of(entry, header)

    @property
    def modified_ms(self) -> int:
        """The modification time of the `.log`."""
        return self._files.modified_ms(self.log.path)

    # Closing and removing

    def release(self) -> None:
        """Close the file, and free memory of data that can be read again."""
        self.log.close()
        self._unload()

    def _unload(self) -> None:
        self.positions, self._older_positions = {}, {}
        self.offset_index.unload()
        self.time_index.unload()

    def paths(self) -> list[str]:
        """All files that a segment may have."""
        return [self.log.path, self.offset_index.path, self.time_index.path, self.transaction_index.path]

    def move(self, directory: str) -> None:
        """Follow the folder to its new name."""
        self.log.close()
        for part in (self.log, self.offset_index, self.time_index, self.transaction_index):
            part.path = f"{directory}/{part.path[len(self.directory) + 1 :]}"
        self.directory = directory

    def mark_deleted(self) -> list[str]:
        """Rename the files to `.deleted`, and return the paths to remove later."""
        self.release()
        self.log.on_close = None  # breaks the cycle of the two, which would be left to the garbage collector
        renamed = []
        for path in self.paths():
            if self._files.exists(path):
                self._files.rename(path, path + DELETED)
                renamed.append(path + DELETED)
        return renamed


def _is_of(entry: TimestampEntry, header: BatchHeader) -> bool:
    return header.max_timestamp == entry.timestamp and header.last_offset == entry.offset
