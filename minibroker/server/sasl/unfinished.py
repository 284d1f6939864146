"""The memory of unfinished requests before the login: one limit for all listeners of a broker."""

from __future__ import annotations

import logging
from typing import Final, Protocol

log = logging.getLogger(__name__)

MEMORY_MAX: Final = 16 * 1024 * 1024  #: bytes
COUNTED_FROM: Final = 1024  #: bytes of a connection above which they count; most requests of honest logins are smaller


class Abortable(Protocol):
    """A connection, as far as it matters here."""

    def abort(self) -> None:
        """Close it at once."""


class UnfinishedRequests:
    """Counts bytes by connection, and closes the oldest connections when there are too many."""

    def __init__(self) -> None:
        self._held: dict[object, tuple[int, Abortable]] = {}  #: oldest first
        self.size = 0  #: bytes of all of them

    def count(self, gate: object, size: int, connection: Abortable) -> None:
        """Take note of the bytes of an unfinished request of a connection, which its gate stands for."""
        self.forget(gate)
        if size <= COUNTED_FROM:
            return
        self._held[gate] = (size, connection)
        self.size += size
        while self.size > MEMORY_MAX:
            oldest = next(iter(self._held))
            holder = self._held[oldest][1]
            self.forget(oldest)
            log.warning(
                "closing a connection that has not logged in: unfinished requests before the login use more than %d bytes", MEMORY_MAX
            )
            holder.abort()

    def forget(self, gate: object) -> None:
        """Count no bytes of this connection: it has logged in or closed."""
        size, _ = self._held.pop(gate, (0, None))
        self.size -= size
