"""The base of the two sparse indexes of a segment: a sorted array of fixed-size entries, with the same bytes in memory and on the disk.

Entries of an open segment are kept in memory and written by `save` (when the segment rolls, is flushed or is closed): a crash
loses nothing, because recovery rebuilds the indexes of every segment from the recovery point on. Apache Kafka maps index files
into memory and preallocates them (10 MB), so a file may end in zeros, which are dropped.

A file may also be missing or hold garbage. Reading it all to check would cost more than the index saves. So an entry is used only after the
batch that it points to agreed with it (storage/segment.py). `is_damaged` reports damage that shows without reading entries.
"""

from __future__ import annotations

from struct import Struct
from typing import ClassVar

from minibroker.storage.files import APPEND, Files, read_preallocated, replace_file, write_all

REWRITE = -1


class IndexFile:
    """Entries sorted by their first field. `path` may change while the folder is renamed."""

    ENTRY: ClassVar[Struct]

    __slots__ = ("_data", "_files", "_saved_size", "base_offset", "is_damaged", "max_bytes", "path")

    def __init__(self, files: Files, path: str, base_offset: int, max_bytes: int, *, is_new: bool = False) -> None:
        self._files = files
        self._data: bytearray | None = bytearray() if is_new else None  #: None: not read yet
        self._saved_size = REWRITE if is_new else 0  #: of _data, what is on the disk for sure; REWRITE: nothing is
        self.is_damaged = False  #: the file was missing, or not a whole number of entries; known after `loaded`
        self.path = path
        self.base_offset = base_offset
        self.max_bytes = max_bytes

    @property
    def count(self) -> int:
        """The number of entries."""
        return len(self.loaded()) // self.ENTRY.size

    @property
    def max_count(self) -> int:
        """The number of entries that segment.index.bytes allows."""
        return self.max_bytes // self.ENTRY.size

    @property
    def in_memory(self) -> bool:
        """Whether the file was read already."""
        return self._data is not None

    def loaded(self) -> bytearray:
        """Return the bytes of the entries; reads the file at the first call."""
        if self._data is None:
            try:
                data, file_size = read_preallocated(self._files, self.path)
            except FileNotFoundError:
                data = bytearray()
                self._saved_size, self.is_damaged = REWRITE, True
            else:
                size = len(data.rstrip(b"\0"))
                size += -size % self.ENTRY.size  # zeros at the end of the last entry are its own
                self.is_damaged = size > file_size or file_size % self.ENTRY.size != 0
                data += bytes(max(min(size, file_size) - len(data), 0))
                del data[size if size <= file_size else size - self.ENTRY.size :]
                self._saved_size = file_size if len(data) == file_size else REWRITE
            self._data = data
        return self._data

    def reset(self) -> None:
        """Drop all entries, before they are rebuilt."""
        self._data = bytearray()
        self._saved_size, self.is_damaged = REWRITE, False

    def save(self) -> None:
        """Write what is not on the disk yet, without syncing it."""
        data = self._data
        if data is None or len(data) == self._saved_size:
            return
        saved_size, self._saved_size = self._saved_size, REWRITE  # if the write fails, the next save writes everything
        if saved_size == REWRITE:
            replace_file(self._files, self.path, data, sync=False)
        else:
            descriptor = self._files.handles.open_path(self.path, APPEND)
            try:
                write_all(self._files, descriptor, data[saved_size:])
            finally:
                self._files.close(descriptor)
        self._saved_size = len(data)

    def unload(self) -> None:
        """Free the memory of entries that can be read again."""
        if self._data is not None and self._saved_size == len(self._data):
            self._data = None

    def keep(self, count: int) -> None:
        """Drop all entries but the first `count`."""
        data = self.loaded()
        if len(data) > count * self.ENTRY.size:
            del data[count * self.ENTRY.size :]
            self._saved_size = REWRITE
