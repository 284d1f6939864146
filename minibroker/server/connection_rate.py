"""`max.connection.creation.rate`: new connections above a rate wait for their turn (KIP-612).

As in Apache Kafka, the connections of ten seconds may come at once; later ones are served at the rate. (Measured with 4.3.1 and a rate of
5: of 70 connections 53 are served at once, then one a second, and the rest 11 s after the first.) There, connections wait in the queue of
the system; here they are accepted and not served. One that would wait for longer than WAIT_MAX_MS is closed, so that a flood of connections
does not take all file descriptors.
"""

from __future__ import annotations

from typing import Final

BURST_MS: Final = 10_000  #: the connections of so much time may come at once: quota.window.num - 1 windows
WAIT_MAX_MS: Final = 10_000
UNLIMITED: Final = 2**31 - 1


class ConnectionRate:
    """The turns of new connections of a listener, or of a broker."""

    __slots__ = ("_next_ms",)

    def __init__(self) -> None:
        self._next_ms = 0.0  #: the time at which the next connection would come if all came at the rate

    def wait_ms(self, rate: int, now_ms: int) -> int | None:
        """Take a turn. Returns how long the connection must wait for it; None if that is too long, and no turn is taken.

        Args:
            rate: connections a second. Without any, one a second is served, as in Apache Kafka.
            now_ms: the time. If it goes back, turns that are far in the future are forgotten.
        """
        if rate >= UNLIMITED:
            return 0
        turn_ms = max(self._next_ms, now_ms - BURST_MS) if self._next_ms <= now_ms + 2 * WAIT_MAX_MS else now_ms - BURST_MS
        wait_ms = max(round(turn_ms + 1000 / max(rate, 1)) - now_ms, 0)
        if wait_ms > WAIT_MAX_MS:
            return None
        self._next_ms = turn_ms + 1000 / max(rate, 1)
        return wait_ms
