"""`.txnindex`: the aborted transactions whose markers lie in a segment.

Layout, big-endian, in order of markers, no header:

    int16  version              0
    int64  producer_id
    int64  first_offset         of the transaction
    int64  last_offset          of its abort marker
    int64  last_stable_offset   at the time of the marker

The file exists only when there is an entry. Source: AbortedTxn and TransactionIndex of Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from struct import Struct
from typing import NamedTuple

from minibroker.errors import CorruptLogError
from minibroker.storage.files import APPEND, Files, read_all, write_all

VERSION = 0
_ENTRY = Struct(">hqqqq")
ENTRY_SIZE = _ENTRY.size


class AbortedTxn(NamedTuple):
    """One entry, named as Kafka's class."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex:
    """Aborted transactions of one segment."""

    __slots__ = ("_entries", "_files", "path")

    def __init__(self, files: Files, path: str) -> None:
        self._files = files
        self._entries: list[AbortedTxn] | None = None  #: None: not read yet
        self.path = path

    @property
    def entries(self) -> Sequence[AbortedTxn]:
        """All entries; CorruptLogError when the file is none of ours."""
        if self._entries is None:
            try:
                data = read_all(self._files, self.path)
            except FileNotFoundError:
                data = b""
            self._entries = decode(data, self.path)
        return self._entries

    def append(self, entry: AbortedTxn) -> None:
        """Write an entry at once: entries are rare. OSError: nothing was added; half an entry would make all of them unreadable."""
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

    def reset(self) -> None:
        """Remove the file: its entries are about to be made anew."""
        self._files.remove(self.path)
        self._entries = []

    def collect(self, first_offset: int, end_offset: int) -> tuple[list[AbortedTxn], bool]:
        """Entries that touch [first_offset, end_offset), and whether later segments can hold none that do."""
        found = []
        for entry in self.entries:
            if entry.last_offset >= first_offset and entry.first_offset < end_offset:
                found.append(entry)
            if entry.last_stable_offset >= end_offset:
                return found, True
        return found, False


def encode(entries: Iterable[AbortedTxn]) -> bytes:
    """The bytes of a file with these entries."""
    return b"".join(_ENTRY.pack(VERSION, *entry) for entry in entries)


def decode(data: bytes, path: str) -> list[AbortedTxn]:
    """The entries in the bytes of a file."""
    if len(data) % _ENTRY.size:
        raise CorruptLogError(f"{path}: {len(data)} bytes are no whole number of entries")
    entries = []
    for version, *fields in _ENTRY.iter_unpack(data):
        if version != VERSION:
            raise CorruptLogError(f"{path}: unknown version {version}")
        entries.append(AbortedTxn(*fields))
    return entries
