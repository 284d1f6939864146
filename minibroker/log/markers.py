"""Offsets of transaction markers in one log: how many of the offsets between a group and the end are no records."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from typing import Final

_KEPT_MAX: Final = 16_384  #: offsets of one log, 128 kB; older ones are forgotten by halves


class Markers:
    """The markers that were appended since the log was opened."""

    __slots__ = ("_offsets", "since")

    def __init__(self, since: int) -> None:
        self.since = since  #: all markers at and above this offset are known
        self._offsets = array("q")

    def add(self, offset: int) -> None:
        """Note a marker above all others."""
        self._offsets.append(offset)
        if len(self._offsets) > _KEPT_MAX:
            del self._offsets[: _KEPT_MAX // 2]
            self.since = self._offsets[0]

    def count(self, offset: int) -> int | None:
        """Return the number of markers at and above `offset`; None if it is not known."""
        return None if offset < self.since else len(self._offsets) - bisect_left(self._offsets, offset)
