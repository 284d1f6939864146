"""Limit the memory of answers that clients do not read, over all connections. Answers in files do not count.

A connection with more than HELD_SIZE bytes of unsent answers is held, so it has at most HELD_SIZE and one answer. All connections together
have at most UNSENT_MAX and one answer. Above that, the connections that have read nothing for longest are closed first. Clients that read
their answers have no unsent ones, or have read some since the last count.
"""

from __future__ import annotations

from typing import Final, Protocol

HELD_SIZE: Final = 64 * 1024  #: bytes of unsent answers from which on a connection is held and counted
UNSENT_MAX: Final = 64 * 1024 * 1024  #: bytes of unsent answers of all connections


class AnswerHolder(Protocol):
    """A connection, as AnswerMemory uses it."""

    @property
    def unsent_size(self) -> int:
        """Bytes in memory of answers that the client has not taken."""

    def close_for_unsent(self, size: int, total: int) -> None:
        """Close: it has `size` bytes of `total`."""


class AnswerMemory:
    """One for all listeners of a broker."""

    def __init__(self, limit: int = UNSENT_MAX) -> None:
        self._limit = limit
        self._holders: dict[AnswerHolder, int] = {}  #: bytes at the last count; the connection that read something last is last
        self.used = 0  #: bytes at the last count of each connection

    def changed(self, holder: AnswerHolder) -> None:
        """Count the unsent answers of a connection again."""
        size = holder.unsent_size
        before = self._holders.get(holder, 0)
        if size <= HELD_SIZE:
            self._holders.pop(holder, None)
            self.used -= before
            return
        if size < before:
            del self._holders[holder]
        self._holders[holder] = size
        self.used += size - before
        if self.used > self._limit:
            self._recount()
        if self.used > self._limit:
            self._close_some(holder)

    def forget(self, holder: AnswerHolder) -> None:
        """Forget a closed connection."""
        self.used -= self._holders.pop(holder, 0)

    def _recount(self) -> None:
        """Count all connections again, and move those that have read something to the end."""
        for holder, before in list(self._holders.items()):
            size = holder.unsent_size
            if size < before:
                self.forget(holder)
                if size > HELD_SIZE:
                    self._holders[holder] = size
                    self.used += size

    def _close_some(self, newest: AnswerHolder) -> None:
        for holder, size in list(self._holders.items()):
            if self.used <= self._limit:
                break
            if holder is not newest:
                holder.close_for_unsent(size, self.used)
                self.forget(holder)
