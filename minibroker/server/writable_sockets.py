"""Sockets that were full: find out when they take bytes again, without giving bytes to their transports.

Neither loop watches the socket of a transport (`add_writer` raises), and libuv drops a watched socket that a client resets without a
callback. Therefore the sockets are in an epoll object of their own, and the loop watches that object:

    wait(7, send_on)    7 is armed for one event
    the event           7 takes bytes, or the client closed or reset it: `send_on` runs at the end of the turn, and finds out which
    forget(7)           the connection is closed: `send_on` is not called any more

The epoll object exists from the first full socket to the end of the last connection. Systems without epoll get False from `wait`.
"""

from __future__ import annotations

import asyncio
import select
import sys
from collections.abc import Callable
from typing import Final, Protocol

_EVENTS_AT_ONCE: Final = 64  #: the loop calls again for further ones


class _Poll(Protocol):
    """The methods of select.epoll that are used."""

    def fileno(self) -> int: ...
    def register(self, fd: int, eventmask: int) -> None: ...
    def modify(self, fd: int, eventmask: int) -> None: ...
    def poll(self, timeout: float, maxevents: int) -> list[tuple[int, int]]: ...
    def close(self) -> None: ...


class WritableSockets:
    """The full sockets of one listener."""

    __slots__ = ("_at_end_of_turn", "_loop", "_poll", "_waiting")

    def __init__(self, at_end_of_turn: Callable[[Callable[[], None]], None]) -> None:
        self._at_end_of_turn = at_end_of_turn
        self._loop: asyncio.AbstractEventLoop | None = None
        self._poll: _Poll | None = None
        self._waiting: dict[int, Callable[[], None]] = {}

    def wait(self, descriptor: int, send_on: Callable[[], None]) -> bool:
        """Call `send_on` at the end of a turn, once the socket takes bytes or is not connected any more.

        Returns:
            False if the system cannot watch the socket: `send_on` will not be called.
        """
        poll = self._poll or self._open()
        if poll is None:
            return False
        try:
            try:
                poll.modify(descriptor, _WRITABLE_ONCE)
            except FileNotFoundError:  # the first time, or another socket had this descriptor before
                poll.register(descriptor, _WRITABLE_ONCE)
        except OSError:
            return False
        self._waiting[descriptor] = send_on
        return True

    def forget(self, descriptor: int) -> None:
        """Forget a socket. The system removes it from the epoll object when it is closed."""
        self._waiting.pop(descriptor, None)

    def close(self) -> None:
        """Release the epoll object, which `wait` opens again. No socket may be waiting."""
        if self._poll is not None and self._loop is not None:
            if not self._loop.is_closed():
                self._loop.remove_reader(self._poll.fileno())
            self._poll.close()
            self._poll = None

    def _open(self) -> _Poll | None:
        if sys.platform != "linux":
            return None
        try:
            self._poll = select.epoll()
        except OSError:  # no descriptor is left
            return None
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._poll.fileno(), self._found)
        return self._poll

    def _found(self) -> None:
        """Call those whose sockets take bytes. Each in its own callback: others have their turn in between, and none stops the others."""
        poll = self._poll
        for descriptor, _ in poll.poll(0, _EVENTS_AT_ONCE) if poll is not None else ():
            send_on = self._waiting.pop(descriptor, None)
            if send_on is not None:
                self._at_end_of_turn(send_on)


_WRITABLE_ONCE: Final = select.EPOLLOUT | select.EPOLLONESHOT if sys.platform == "linux" else 0
