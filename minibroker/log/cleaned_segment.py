"""A segment that compaction writes as `.cleaned` files, which are ignored until they are swapped in (swapping.py).

The files and then the folder are synced, so that the swap only renames. The `.log` gets the modification time of the last source, because
retention of records without timestamps uses it. Index entries follow the rule of storage/segment.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

from minibroker.errors import CorruptMessage
from minibroker.storage import transaction_index
from minibroker.storage.files import REPLACE, Files, write_all
from minibroker.storage.indexes import NO_TIMESTAMP, OffsetIndex, TimeIndex, TimestampEntry
from minibroker.storage.log_file_names import CLEANED, LOG, OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX, file_name
from minibroker.storage.segment import MAX_RELATIVE_OFFSET
from minibroker.storage.transaction_index import AbortedTxn

if TYPE_CHECKING:
    from typing_extensions import Buffer

WRITE_BYTES: Final = 1024 * 1024


class Source(NamedTuple):
    """A segment to compact, whose `.log` has `size` bytes."""

    base_offset: int
    size: int


class Group(NamedTuple):
    """Segments that become one, whose `.log` has `size` bytes."""

    sources: tuple[Source, ...]
    size: int

    @property
    def base_offset(self) -> int:
        """The base offset of the new segment and of the first source."""
        return self.sources[0].base_offset


class CleanedSegment:
    """Writes the files; call `finish` or `abandon` at the end."""

    def __init__(self, files: Files, directory: str, base_offset: int, *, index_interval_bytes: int, index_max_bytes: int) -> None:
        self._files = files
        self._directory = directory
        self._base_offset = base_offset
        self._index_interval_bytes = index_interval_bytes
        self._offset_index = OffsetIndex(files, self._path(OFFSET_INDEX), base_offset, index_max_bytes, is_new=True)
        self._time_index = TimeIndex(files, self._path(TIME_INDEX), base_offset, index_max_bytes, is_new=True)
        self._largest = TimestampEntry(NO_TIMESTAMP, base_offset)
        self._bytes_since_index_entry = 0
        self._pending = bytearray()  # a copy: views would keep everything that was read in memory
        self.size = 0
        self._descriptor = files.handles.open_path(self._path(LOG), REPLACE)

    def _path(self, suffix: str) -> str:
        return f"{self._directory}/{file_name(self._base_offset, suffix)}{CLEANED}"

    def append(self, data: Buffer, size: int, last_offset: int, max_timestamp: int) -> None:
        """Add one batch."""
        if last_offset - self._base_offset > MAX_RELATIVE_OFFSET:
            raise CorruptMessage(f"{self._path(LOG)}: offset {last_offset} is too far from the base offset for an index")
        if max_timestamp > self._largest.timestamp:
            self._largest = TimestampEntry(max_timestamp, last_offset)
        if self._bytes_since_index_entry > self._index_interval_bytes:
            self._offset_index.append(last_offset, self.size)
            self._time_index.maybe_append(*self._largest)
            self._bytes_since_index_entry = 0
        self._bytes_since_index_entry += size
        self.size += size
        self._pending += data
        if len(self._pending) >= WRITE_BYTES:
            self._write()

    def _write(self) -> None:
        data, self._pending = memoryview(self._pending), bytearray()
        for start in range(0, len(data), WRITE_BYTES):
            write_all(self._files, self._descriptor, data[start : start + WRITE_BYTES])

    def finish(self, modified_ms: int, aborted: Iterable[AbortedTxn]) -> int:
        """Write and sync everything, and return the size of the `.log`."""
        self._write()
        self._files.sync(self._descriptor)
        self.abandon()
        self._files.set_modified_ms(self._path(LOG), modified_ms)
        self._time_index.maybe_append(*self._largest)
        self._write_file(OFFSET_INDEX, self._offset_index.loaded())
        self._write_file(TIME_INDEX, self._time_index.loaded())
        entries = transaction_index.encode(aborted)
        if entries:
            self._write_file(TRANSACTION_INDEX, entries)
        return self.size

    def _write_file(self, suffix: str, data: Buffer) -> None:
        descriptor = self._files.handles.open_path(self._path(suffix), REPLACE)
        try:
            write_all(self._files, descriptor, data)
            self._files.sync(descriptor)
        finally:
            self._files.close(descriptor)

    def abandon(self) -> None:
        """Close the `.log`; does nothing if it is closed."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            self._files.close(descriptor)
