"""`.txnindex`: the aborted transactions whose markers are in a segment.

Layout, big-endian, in order of markers, no header:

    int16  version              0
    int64  producer_id
    int64  first_offset         of the transaction
    int64  last_offset          of its abort marker
    int64  last_stable_offset   at the time of the marker

The file exists only if there is an entry. It has no checksum: damage shows only if an entry contradicts itself, its segment or the
previous entry. Source: AbortedTxn and TransactionIndex of Apache Kafka.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from operator import attrgetter
from struct import Struct
from typing import NamedTuple

from minibroker.errors import CorruptLogError
from minibroker.storage.files import APPEND, Files, read_all, replace_file, write_all

VERSION = 0
_ENTRY = Struct(">hqqqq")
ENTRY_SIZE = _ENTRY.size
_last_offset = attrgetter("last_offset")


class AbortedTxn(NamedTuple):
    """One entry, named like Kafka's class."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex:
    """Aborted transactions of the segment at `base_offset`; `is_new`: its file is known not to exist."""

    __slots__ = ("_entries", "_files", "_is_known", "_synced_count", "base_offset", "path")

    def __init__(self, files: Files, path: str, base_offset: int = 0, *, is_new: bool = False) -> None:
        self._files = files
        self._entries: list[AbortedTxn] | None = [] if is_new else None  #: None: not read yet
        self._is_known = is_new
        self._synced_count = 0  #: of the entries
        self.base_offset = base_offset
        self.path = path

    @property
    def entries(self) -> Sequence[AbortedTxn]:
        """All entries. Raises CorruptLogError if the file is invalid."""
        if self._entries is None:
            entries = decode(self._content(), self.path)
            self._check(entries)
            self._entries = entries
            self._is_known |= bool(entries)
        return self._entries

    def _content(self) -> bytes:
        try:
            return read_all(self._files, self.path)
        except FileNotFoundError:
            return b""

    def _check(self, entries: Iterable[AbortedTxn]) -> None:
        last_offset = self.base_offset - 1
        for entry in entries:
            _, first_offset, marker_offset, last_stable_offset = entry
            if not 0 <= first_offset < marker_offset or not 0 <= last_stable_offset <= marker_offset + 1 or marker_offset <= last_offset:
                raise CorruptLogError(f"{self.path}: {entry} contradicts itself or follows offset {last_offset} out of order")
            last_offset = marker_offset

    def append(self, entry: AbortedTxn) -> None:
        """Write an entry to the file. If it raises OSError, nothing was added: half an entry would make all unreadable."""
        count = len(self.entries)
        descriptor = self._files.handles.open_path(self.path, APPEND)
        try:
            write_all(self._files, descriptor, _ENTRY.pack(VERSION, *entry))
        except OSError:
            self._files.truncate(descriptor, count * ENTRY_SIZE)
            raise
        finally:
            self._files.close(descriptor)
        assert self._entries is not None  # noqa: S101  read above
        self._entries.append(entry)

    def replace(self, entries: Sequence[AbortedTxn]) -> None:
        """Replace all entries in memory, and in the file if it differs."""
        data = encode(entries)
        if data != self._content():
            if data:
                replace_file(self._files, self.path, data, sync=True)
            else:
                self._files.remove(self.path)
        self._entries = list(entries)
        self._is_known = True

    def trust(self) -> None:
        """Trust a missing file: this process wrote the segment, so the file never existed."""
        self._is_known = True

    @property
    def may_be_lost(self) -> bool:
        """Whether the file was missing or empty, and may have been lost."""
        _ = self.entries
        return not self._is_known

    @property
    def unsynced_count(self) -> int:
        """The number of entries that a power loss could take: all of them for a file that existed at the start."""
        return len(self.entries) - self._synced_count

    def note_synced(self, count: int) -> None:
        """Record that the first `count` entries are on disk."""
        self._synced_count = max(self._synced_count, count)

    def collect(self, first_offset: int, end_offset: int) -> tuple[list[AbortedTxn], bool]:
        """Return entries that touch [first_offset, end_offset), and whether no later segment can have any."""
        found = []
        entries = self.entries
        for index in range(bisect_left(entries, first_offset, key=_last_offset), len(entries)):
            entry = entries[index]
            if entry.first_offset < end_offset:
                found.append(entry)
            if entry.last_stable_offset >= end_offset:
                return found, True
        return found, False


def encode(entries: Iterable[AbortedTxn]) -> bytes:
    """Return the bytes of a file with these entries."""
    return b"".join(_ENTRY.pack(VERSION, *entry) for entry in entries)


def decode(data: bytes, path: str) -> list[AbortedTxn]:
    """Return the entries in the bytes of a file."""
    if len(data) % _ENTRY.size:
        raise CorruptLogError(f"{path}: {len(data)} bytes are not a whole number of entries")
    entries = []
    for version, *fields in _ENTRY.iter_unpack(data):
        if version != VERSION:
            raise CorruptLogError(f"{path}: unknown version {version}")
        entries.append(AbortedTxn(*fields))
    return entries
