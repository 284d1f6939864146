"""What a handler returns when it cannot answer at once.

A handler returns its Response, or NO_RESPONSE where the protocol has none (Produce with acks=0), or a Delayed: a plain
object that is resolved later, from a timer, a wake-up or finished background work. Nothing here awaits.

    waiting --resolve(work): a response--> answered          work returned None: still waiting
    waiting --cancel(): the connection is gone--> cancelled
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol, TypeVar

T = TypeVar("T")
R = TypeVar("R")


class NoResponse:
    """The type of NO_RESPONSE."""

    __slots__ = ()


NO_RESPONSE: Final = NoResponse()  #: the request is done and its answer is silence

Work = Callable[[], Any]  #: makes the response, or None to wait on


class Owner(Protocol):
    """Whoever waits for a Delayed: the dispatcher's in-flight request."""

    def run(self, work: Work) -> None:
        """Run `work`, whose errors become the answer; its response ends the waiting."""


class Delayed:
    """An answer that comes later. Subclasses know what they wait for."""

    __slots__ = ("_owner", "_work", "done")

    keeps_frame = False  #: whether the bytes of the request are still read; its connection serves nothing else meanwhile

    def __init__(self) -> None:
        self.done = False  #: answered or cancelled; written by the owner and by cancel
        self._owner: Owner | None = None
        self._work: Work | None = None

    def complete(self, response: Any) -> None:
        """Answer with `response`."""
        self.resolve(lambda: response)

    def resolve(self, work: Work) -> None:
        """Let the owner run `work`: a response or an exception is the answer, None waits on. Harmless when done."""
        if self.done:
            return
        if self._owner is None:
            self._work = work
        else:
            self._owner.run(work)

    def bind(self, owner: Owner) -> None:
        """Called by the dispatcher: from now on `owner` runs the work, at once if there is some already."""
        self._owner = owner
        work, self._work = self._work, None
        if work is not None:
            owner.run(work)

    def adopt(self, owner: Owner) -> Work | None:
        """As `bind`, but work that is there already is handed over, for `owner` to run it where it is."""
        self._owner = owner
        work, self._work = self._work, None
        return work

    @property
    def request(self) -> Owner | None:
        """The request in flight that waits for this, perhaps through other Delayed ones; None once it is done."""
        request: Owner | None = getattr(self._owner, "request", self._owner)  # an owner that is a Delayed itself has one
        return request

    def finished(self) -> None:
        """Called by the owner when there is an answer, and by cancel: let go of timers and subscriptions."""
        self.done = True
        self._owner = None  # the two hold each other no more: no work for the garbage collector

    def step_aside(self) -> None:
        """Another request waits behind this one: answer now with what there is, if that is an honest answer."""

    def cancel(self) -> None:
        """Nobody waits any more."""
        if not self.done:
            self.finished()


def when_done(begin: Callable[[Callable[[T], None]], None], answer: Callable[[T], R]) -> R | Delayed:
    """Begin what calls back with an outcome; its `answer` is the response, at once where it calls back at once."""
    delayed = Delayed()
    outcomes: list[T] = []

    def done(outcome: T) -> None:
        outcomes.append(outcome)
        delayed.resolve(lambda: answer(outcome))

    begin(done)
    return answer(outcomes[0]) if outcomes else delayed
