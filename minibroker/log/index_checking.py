"""Compare the two sparse indexes of a segment with its batches.

An entry of the offset index has the last offset and the position of a batch. (Kafka before 4 indexed several batches of one request
by the last offset of the last one: a look-up then begins a little early, so that is allowed.) An entry of the time index names the
largest timestamp so far and a batch that has it; the last one must be the segment's largest, because look-ups skip segments by it.
"""

from __future__ import annotations

from collections.abc import Iterator

from minibroker.log.findings import ERROR, WARNING, Findings
from minibroker.storage.files import Files
from minibroker.storage.index_file import IndexFile
from minibroker.storage.offset_index import OffsetIndex
from minibroker.storage.time_index import NO_TIMESTAMP, TimeIndex

_NEVER = 1 << 63
_ANY_SIZE = 1 << 40


class _IndexCheck:
    """The base of both checks. `is_stale`: the next start rebuilds the index, so that a wrong entry is only a warning."""

    def __init__(self, files: Files, index: IndexFile, findings: Findings, *, is_stale: bool, is_needed: bool) -> None:
        self._findings = findings
        self._entry_size = index.ENTRY.size
        self._severity = WARNING if is_stale else ERROR
        self.path = index.path
        self._is_stale = is_stale
        index.loaded()
        self.is_there = True
        if index.is_damaged and files.exists(index.path):
            findings.add(self._severity, self.path, f"{files.size(self.path)} bytes are no whole number of entries of {self._entry_size}")
        elif index.is_damaged:
            self.is_there = False
            if is_needed:
                findings.add(WARNING, self.path, "is missing; it is rebuilt when it is needed")

    def wrong(self, number: int, words: str, kind: str = "wrong entries") -> None:
        """Report a wrong entry."""
        self._findings.add(self._severity, self.path, f"entry {number} {words}", number * self._entry_size, kind=kind)


class OffsetIndexCheck(_IndexCheck):
    """`at` has the entries by position. `see` is called for each batch with an entry, or when `awaits` is reached."""

    def __init__(self, files: Files, path: str, base_offset: int, log_size: int, findings: Findings, **options: bool) -> None:
        index = OffsetIndex(files, path, base_offset, _ANY_SIZE)
        super().__init__(files, index, findings, **options)
        self.at: dict[int, tuple[int, int]] = {}  #: position -> entry number, offset
        self.awaits = _NEVER  #: an offset that a batch must end with
        self._awaiting = 0  #: the number of that entry
        previous_offset = previous_position = -1
        for number, (offset, position) in enumerate(index.entries()):
            if offset <= previous_offset or position <= previous_position:
                words = f"(offset {offset}, position {position}) does not follow the one before it"
                self.wrong(number, words, "entries that do not follow")
            elif position >= log_size:
                self.wrong(number, f"(offset {offset}) points to {position}, after the end of the segment", "entries beyond the end")
            else:
                self.at[position] = number, offset
            previous_offset, previous_position = offset, position

    def see(self, position: int, last_offset: int) -> None:
        """Check a batch."""
        if last_offset >= self.awaits:
            if last_offset > self.awaits:
                self.wrong(self._awaiting, f"names offset {self.awaits}, which no batch ends with")
            self.awaits = _NEVER
        entry = self.at.pop(position, None)
        if entry is None:
            return
        number, offset = entry
        if offset < last_offset:
            self.wrong(number, f"names offset {offset}, but the batch that it points to ends with {last_offset}")
        elif offset > last_offset:
            self._awaiting, self.awaits = number, offset

    def finish(self) -> None:
        """Report the remaining entries, after all batches."""
        for position, (number, offset) in self.at.items():
            self.wrong(number, f"names offset {offset} at position {position}, where no batch begins")
        if self.awaits != _NEVER:
            self.wrong(self._awaiting, f"names offset {self.awaits}, after the end of the segment")


class TimeIndexCheck(_IndexCheck):
    """`see` is called for each batch that reaches the offset `awaits`."""

    def __init__(self, files: Files, path: str, base_offset: int, findings: Findings, **options: bool) -> None:
        index = TimeIndex(files, path, base_offset, _ANY_SIZE)
        super().__init__(files, index, findings, **options)
        good = []
        self._last_timestamp = NO_TIMESTAMP
        previous_offset = -1
        for number, (timestamp, offset) in enumerate(index.entries()):
            if timestamp <= self._last_timestamp or offset <= previous_offset:
                words = f"(timestamp {timestamp}, offset {offset}) does not follow the one before it"
                self.wrong(number, words, "entries that do not follow")
            else:
                good.append((number, timestamp, offset))
            self._last_timestamp, previous_offset = timestamp, offset
        self._entries: Iterator[tuple[int, int, int]] = iter(good)
        self._next()

    def _next(self) -> None:
        self._number, self._timestamp, self.awaits = next(self._entries, (0, 0, _NEVER))

    def see(self, base_offset: int, last_offset: int, timestamp: int, largest: int) -> None:
        """Check a batch, given its largest timestamp and the largest one up to its end."""
        while self.awaits <= last_offset:
            if self.awaits < base_offset:
                self.wrong(self._number, f"names offset {self.awaits}, which no batch has")
            elif not timestamp == self._timestamp == largest:
                words = f"says {self._timestamp} for offset {self.awaits}: that batch has {timestamp}, the largest up to it is {largest}"
                self.wrong(self._number, words)
            self._next()

    def finish(self, largest: int) -> None:
        """Report the remaining entries, after all batches."""
        while self.awaits != _NEVER:
            self.wrong(self._number, f"names offset {self.awaits}, after the end of the segment")
            self._next()
        if self.is_there and not self._is_stale and self._last_timestamp < largest:
            words = f"ends with timestamp {self._last_timestamp}, but the segment has {largest}: look-ups by time miss records"
            self._findings.add(ERROR, self.path, words)
