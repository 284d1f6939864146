"""Requests that wait for new offsets of partitions, each with a deadline.

Kafka's DelayedOperationPurgatory uses watcher lists and a timing wheel. Here a request has one timer, and one subscription for
each partition.

A wake-up only marks the request. All marked requests are tried once, at the end of the loop's turn. So an append never runs another
client's Fetch, and five appends of one turn wake a waiting Fetch once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from minibroker.clock import Clock, Timer
from minibroker.dispatch.delayed import Delayed

Attempt = Callable[[bool], Any]  #: attempt(is_last) returns a response, or None to continue waiting; the last attempt must answer


class Watchable(Protocol):
    """Something to wait for: a Partition whose high watermark or last stable offset changes."""

    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` at each change. Returns a function that ends this."""


class Parked(Delayed):
    """A request in the purgatory."""

    __slots__ = ("_attempt", "_purgatory", "_timer", "_unsubscribe", "is_marked")

    def __init__(self, purgatory: Purgatory, attempt: Attempt) -> None:
        super().__init__()
        self._purgatory = purgatory
        self._attempt = attempt
        self._timer: Timer | None = None
        self._unsubscribe: list[Callable[[], None]] = []
        self.is_marked = False  #: woken in this turn

    def watch(self, watched: Iterable[Watchable], clock: Clock, max_wait_ms: int) -> None:
        """Start to wait."""
        self._unsubscribe = [each.subscribe(self.wake) for each in watched]
        self._timer = clock.call_later_ms(max_wait_ms, self.step_aside)

    def wake(self) -> None:
        """Mark this request, because a partition that it watches has changed."""
        if not self.is_marked and not self.is_done:
            self.is_marked = True
            self._purgatory.mark(self)

    def attempt(self) -> None:
        """Try to answer, or continue waiting."""
        self.is_marked = False
        self.resolve(lambda: self._attempt(False))

    def step_aside(self) -> None:
        """Answer with what there is: the time is up, or another request waits after this one."""
        self.resolve(lambda: self._attempt(True))

    def finished(self) -> None:
        """Cancel the timer and the subscriptions."""
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
        self.count = 0  #: parked requests; Parked writes it as well
        self._clock = clock
        self._marked: list[Parked] = []

    def park(self, watched: Iterable[Watchable], max_wait_ms: int, attempt: Attempt) -> Delayed:
        """Wait until a change of `watched` makes `attempt(False)` answer. After `max_wait_ms`, `attempt(True)` must answer."""
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
