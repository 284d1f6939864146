"""Requests that wait for partitions to move, each with a deadline.

Kafka's DelayedOperationPurgatory does this with watcher lists and a timing wheel; here a request has one timer and one
subscription a partition.

A wake-up runs nothing: it marks the request, and all marked requests are tried once at the end of the loop's turn. So an
append never runs somebody else's Fetch, and five appends of one turn wake a waiting Fetch once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from minibroker.clock import Clock, Timer
from minibroker.dispatch.delayed import Delayed

Attempt = Callable[[bool], Any]  #: attempt(is_last): a response, or None to wait on; the last attempt must answer


class Watchable(Protocol):
    """What can be waited for: a Partition whose high watermark or last stable offset moves."""

    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` at each change until the callable that is returned is called."""


class Parked(Delayed):
    """A request in the purgatory."""

    __slots__ = ("_attempt", "_purgatory", "_timer", "_unsubscribe", "is_marked")

    def __init__(self, purgatory: Purgatory, attempt: Attempt) -> None:
        super().__init__()
        self._purgatory = purgatory
        self._attempt = attempt
        self._timer: Timer | None = None
        self._unsubscribe: list[Callable[[], None]] = []
        self.is_marked = False  #: woken in this turn; written by the purgatory

    def watch(self, watched: Iterable[Watchable], clock: Clock, max_wait_ms: int) -> None:
        """Start to wait."""
        self._unsubscribe = [each.subscribe(self.wake) for each in watched]
        self._timer = clock.call_later_ms(max_wait_ms, self.step_aside)

    def wake(self) -> None:
        """Something that this request watches has changed."""
        if not self.is_marked and not self.is_done:
            self.is_marked = True
            self._purgatory.mark(self)

    def attempt(self) -> None:
        """Try to answer, or wait on."""
        self.is_marked = False
        self.resolve(lambda: self._attempt(False))

    def step_aside(self) -> None:
        """Time is up, or another request waits behind: answer with what there is."""
        self.resolve(lambda: self._attempt(True))

    def finished(self) -> None:
        """Let go of the timer and of the partitions."""
        super().finished()
        self._purgatory.count -= 1
        if self._timer is not None:
            self._timer.cancel()
        for unsubscribe in self._unsubscribe:
            unsubscribe()
        self._unsubscribe = []


class Purgatory:
    """All parked requests of a broker."""

    def __init__(self, clock: Clock) -> None:
        self.count = 0  #: parked requests; written by Parked too
        self._clock = clock
        self._marked: list[Parked] = []

    def park(self, watched: Iterable[Watchable], max_wait_ms: int, attempt: Attempt) -> Delayed:
        """Wait until one of `watched` moves so far that `attempt(False)` answers; after `max_wait_ms`, `attempt(True)` must."""
        parked = Parked(self, attempt)
        self.count += 1
        parked.watch(watched, self._clock, max_wait_ms)
        return parked

    def mark(self, parked: Parked) -> None:
        """Try this request at the end of the turn."""
        self._marked.append(parked)
        if len(self._marked) == 1:
            self._clock.call_later_ms(0, self._try_marked)

    def _try_marked(self) -> None:
        marked, self._marked = self._marked, []
        for parked in marked:
            parked.attempt()
