r"""An answer that comes later.

A handler returns its response, or NO_RESPONSE where the protocol has none (Produce with acks=0), or a Delayed: a plain
object that is resolved later, by a timer, a wake-up or finished background work. Nothing here awaits. The connection keeps the same
object in its queue, so that answers leave in the order of the requests.

    waiting --resolve(work)--> answered       `work` returned a response, or raised an error that became the answer
                            \-> waiting       `work` returned None
    waiting --resolve(work)--> answered       WireError: without an answer; the connection closes
    waiting --cancel()--> cancelled           the connection is gone

A Delayed runs `work` through the dispatcher, as a handler is run, or passes it to an outer Delayed that waits for this one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from minibroker.errors import WireError
from minibroker.wire.schema import Buffer

T = TypeVar("T")
R = TypeVar("R")


class NoResponse:
    """The type of NO_RESPONSE."""

    __slots__ = ()


NO_RESPONSE: Final = NoResponse()  #: the request is done and has no answer

MakeResponse = Callable[[], Any]  #: returns the response, or None to wait on; it may raise what a handler may
Answer = list[Buffer]  #: chunks, the first of which starts with the size; empty: the protocol has no answer
Serve = Callable[[MakeResponse], object]  #: the Answer, or None to wait on; WireError


def _unknown() -> str:
    return "a request that no dispatcher serves"


class Delayed:
    """A request whose answer comes later. Subclasses know what they wait for."""

    __slots__ = ("_describe", "_on_done", "_outer", "_serve", "_work", "answer", "error", "is_done")

    keeps_frame = False  #: whether the bytes of the request are still read; its connection serves nothing else meanwhile

    error: WireError  #: why the connection must be closed; only there when `is_done` without an answer

    def __init__(self) -> None:
        self.is_done = False  #: answered or cancelled
        self.answer: Answer | None = None  #: None when done: close the connection
        self._outer: Delayed | None = None  #: waits for this one
        self._serve: Serve | None = None  #: how the dispatcher runs what makes the response
        self._work: MakeResponse | None = None  #: was resolved before `bind` or `adopt`
        self._on_done: Callable[[], None] | None = None
        self._describe: Callable[[], str] = _unknown

    def __str__(self) -> str:
        """Name the request, for the log."""
        return self._describe()

    def complete(self, response: Any) -> None:
        """Answer with `response`."""
        self.resolve(lambda: response)

    def resolve(self, work: MakeResponse) -> None:
        """Answer with what `work` returns or raises, or wait on if it returns None. Harmless when done."""
        if self.is_done:
            return
        if self._outer is not None:
            self._outer.resume(work)
        elif self._serve is not None:
            self._answer_with(self._serve, work)
        else:
            self._work = work

    def _answer_with(self, serve: Serve, work: MakeResponse) -> None:
        try:
            answer = serve(work)
            if not isinstance(answer, list):
                return
            self.answer = answer
        except WireError as error:
            self.error = error.with_traceback(None)  # which holds this object
        on_done = self._on_done
        self.finished()
        if on_done is not None:
            on_done()

    def bind(self, serve: Serve, describe: Callable[[], str]) -> None:
        """Called by the dispatcher: serve the request from now on, at once if the response can be made already."""
        self._serve = serve
        self._describe = describe
        work, self._work = self._work, None
        if work is not None:
            self._answer_with(serve, work)

    def adopt(self, outer: Delayed) -> MakeResponse | None:
        """Resume `outer` from now on. Returns what can be run already, for `outer` to run it."""
        self._outer = outer
        work, self._work = self._work, None
        return work

    def resume(self, work: MakeResponse) -> None:
        """Called by a Delayed that this one has adopted: run its work within this one's."""
        raise NotImplementedError

    @property
    def outermost(self) -> Delayed:
        """The Delayed of the request, which waits for this one or is this one."""
        return self if self._outer is None else self._outer.outermost

    def on_done(self, callback: Callable[[], None]) -> None:
        """Call `callback` once when the answer is there; at once if it is."""
        if self.is_done:
            callback()
        else:
            self._on_done = callback

    def finished(self) -> None:
        """Let go of timers and subscriptions: there is an answer, or the request was cancelled."""
        self.is_done = True
        self._outer = self._serve = self._on_done = None  # cycles would be work for the garbage collector

    def step_aside(self) -> None:
        """Another request waits after this one: answer now with what there is, if that is an honest answer."""

    def cancel(self) -> None:
        """Forget the request: the connection is gone."""
        if not self.is_done:
            self.finished()


def when_done(begin: Callable[[Callable[[T], None]], None], answer: Callable[[T], R]) -> R | Delayed:
    """Begin what calls back with an outcome. Returns the response that `answer` makes of it, at once if it is called back at once."""
    delayed = Delayed()
    outcomes: list[T] = []

    def done(outcome: T) -> None:
        outcomes.append(outcome)
        delayed.resolve(lambda: answer(outcome))

    begin(done)
    return answer(outcomes[0]) if outcomes else delayed
