"""Memory of connections whose clients have not logged in: one account for all listeners of a broker.

A client of an SSL listener has logged in when its TLS handshake is done, one of a SASL listener when it is authenticated. Until then its
connection is counted by what it costs at most, before that memory is allocated:

    CONNECTED  nothing but the connection: no handshake has started, or there is no TLS
    HANDSHAKE  OpenSSL has its first bytes. It allocates the size that the header of a hello claims, which counts as well
    OPEN       TLS is open, and SASL has not finished. A torn record of 16 kB takes its size twice
    + bytes    that have arrived and are not served. A connection with more than `LARGE` of them belongs to a group of large requests

Above the limit, the group that uses most memory gives up its oldest connection. So a flood of hellos closes handshakes that their clients
do not continue, and no connection that is further; a flood of large requests closes none whose requests are small. An honest client
leaves each group after one round trip.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from enum import IntEnum, unique
from typing import Final, NamedTuple, Protocol

from minibroker.dispatch.context import ConnectionInfo

log = logging.getLogger(__name__)

LIMIT: Final = 48 * 1024 * 1024  #: bytes of all connections
LARGE: Final = 8 * 1024  #: bytes of a request; those of honest logins are smaller
_LOGGED_EVERY_MS: Final = 1_000


@unique  # equal sizes would make one stage of two
class Stage(IntEnum):
    """How far a connection is, and the bytes that it costs then (measured: `benchmarks/attacks.py --attack 'TLS*'`)."""

    CONNECTED = 6 * 1024
    OPEN = 56 * 1024
    HANDSHAKE = 60 * 1024


class WaitingConnection(Protocol):
    """A connection, as far as it matters here."""

    info: ConnectionInfo

    def abort(self) -> None:
        """Close now."""


class _Place(NamedTuple):
    stage: Stage
    unserved: int  #: bytes that have arrived, or that a hello claims

    @property
    def size(self) -> int:
        return self.stage + self.unserved


class _Group:
    """Connections that cost about the same."""

    def __init__(self, description: str) -> None:
        self.description = description
        self.size = 0
        self.places: dict[WaitingConnection, _Place] = {}  #: the one that has been in the group for longest is first


class LoginMemory:
    """Counts connections from accept to login, and closes some of them when they use too much memory."""

    def __init__(self, limit: int = LIMIT, elapsed_ms: Callable[[], float] = lambda: time.monotonic() * 1000) -> None:
        """`elapsed_ms` is a clock that never jumps, for the log."""
        self.size = 0  #: bytes of all connections
        self._limit = limit
        self._elapsed_ms = elapsed_ms
        self._large = _Group("an unfinished request")
        self._by_stage = {
            Stage.CONNECTED: _Group("no handshake or login"),
            Stage.OPEN: _Group("an open TLS connection without a login"),
            Stage.HANDSHAKE: _Group("an unfinished TLS handshake"),
        }
        self._group_of: dict[WaitingConnection, _Group] = {}
        self._unlogged = 0
        self._logged_ms = 0.0

    def enter(self, connection: WaitingConnection, stage: Stage, unserved: int = 0) -> None:
        """Count a new connection, or one that has reached the next stage."""
        self._put(connection, _Place(stage, unserved))

    def holds(self, connection: WaitingConnection, unserved: int) -> None:
        """Take note of the bytes of an unserved request. Does nothing after the login."""
        group = self._group_of.get(connection)
        if group is not None:
            self._put(connection, _Place(group.places[connection].stage, unserved))

    def forget(self, connection: WaitingConnection) -> None:
        """Count a connection no longer: its client has logged in, or it is closed."""
        group = self._group_of.pop(connection, None)
        if group is not None:
            self._remove(connection, group)

    def _put(self, connection: WaitingConnection, place: _Place) -> None:
        group = self._large if place.unserved > LARGE else self._by_stage[place.stage]
        earlier = self._group_of.get(connection)
        if earlier is group:
            grown = place.size - group.places[connection].size
        else:
            if earlier is not None:
                self._remove(connection, earlier)
            grown = place.size
        self._group_of[connection] = group
        group.places[connection] = place  # keeps its place in the order: bytes that trickle in do not make it younger
        group.size += grown
        self.size += grown
        while self.size > self._limit:
            self._close_one()

    def _remove(self, connection: WaitingConnection, group: _Group) -> None:
        size = group.places.pop(connection).size
        group.size -= size
        self.size -= size

    def _close_one(self) -> None:
        group = max(self._large, *self._by_stage.values(), key=lambda each: each.size)
        oldest = next(iter(group.places))
        self.forget(oldest)
        self._log(oldest.info, group)
        oldest.abort()

    def _log(self, info: ConnectionInfo, group: _Group) -> None:
        """Log one line a second at most, with the number of those left out."""
        now_ms = self._elapsed_ms()
        if self._logged_ms and now_ms - self._logged_ms < _LOGGED_EVERY_MS:
            self._unlogged += 1
            return
        more = f" ({self._unlogged} more were closed since the last line)" if self._unlogged else ""
        self._unlogged, self._logged_ms = 0, now_ms
        log.warning(
            "closing the connection of %s on %s: clients that have not logged in use more than %s bytes, and it is the oldest with %s%s",
            info.client_host, info.listener_name, f"{self._limit:,}", group.description, more,
        )  # fmt: skip
