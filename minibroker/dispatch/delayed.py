r"""An answer that comes later.

A handler returns its response, or NO_RESPONSE where the protocol has none (Produce with acks=0), or a Delayed: a plain
object that is resolved later, by a timer, a wake-up or finished background work. Nothing here awaits. The connection keeps the same
object in its queue, so that answers leave in the order of the requests.

    waiting --resolve(work)--> answered       `work` returned a response, or raised an error that became the answer
                            \-> waiting       `work` returned None
    waiting --resolve(work)--> answered       WireError: without an answer; the connection closes
    waiting --cancel()--> cancelled           the connection is gone

A Delayed runs `work` through the dispatcher, as a handler is run, or passes it to an outer Delayed that waits for this one.

A `Parked` request waits in the `Purgatory` for new offsets of partitions, with a deadline. Kafka's DelayedOperationPurgatory uses watcher
lists and a timing wheel. Here a request has one timer, and one subscription for
each partition.

A wake-up only marks the request. All marked requests are tried once, at the end of the loop's turn. So an append never runs another
client's Fetch, and five appends of one turn wake a waiting Fetch once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final, Protocol, TypeVar

from minibroker.clock import Clock, Timer
from minibroker.errors import KafkaError, WireError
from minibroker.wire.schema import Buffer

T = TypeVar("T")
R = TypeVar("R")


class NoResponse:
    """The type of NO_RESPONSE."""

    __slots__ = ()


NO_RESPONSE: Final = NoResponse()  #: the request is done and has no answer

MakeResponse = Callable[[], Any]  #: returns the response, or None to wait on; it may raise what a handler may
Next = Callable[[Any], Any]  #: a response or NO_RESPONSE -> Response | Delayed | NO_RESPONSE; it may raise as a handler may
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


def then(result: Any, go_on: Next, on_error: Callable[[KafkaError], Any] | None = None) -> Any:
    """Continue with a handler's result: at once, or when it is ready.

    The answer is the result of `go_on`, which may be a Delayed itself. `on_error` makes a response of a KafkaError that is raised while the
    request waits, and `go_on` gets it. Without `on_error` the dispatcher answers the error.
    """
    return Continued(result, go_on, on_error) if isinstance(result, Delayed) else go_on(result)


class Continued(Delayed):
    """Waits for another Delayed, and for a further one that `go_on` may return."""

    __slots__ = ("_go_on", "_inner", "_on_error")

    def __init__(self, inner: Delayed, go_on: Next, on_error: Callable[[KafkaError], Any] | None = None) -> None:
        super().__init__()
        self._inner = inner
        self._go_on: Next | None = go_on  #: None: it was called, and its Delayed is waited for
        self._on_error = on_error
        work = inner.adopt(self)
        if work is not None:
            self.resume(work)

    @property
    def keeps_frame(self) -> bool:  # type: ignore[override]  # of a Delayed a constant of its class
        """Whether the inner one does."""
        return self._inner.keeps_frame

    def resume(self, work: MakeResponse) -> None:
        """Run the inner one's work within this one's, whose errors become the answer."""
        self.resolve(partial(self._step, work))

    def _step(self, work: MakeResponse) -> Any:
        """Return the answer, or None to go on waiting."""
        next_work: MakeResponse | None = work
        while next_work is not None:
            result = self._result(next_work)
            if result is None:
                return None
            go_on, self._go_on = self._go_on, None
            if go_on is not None:
                result = go_on(result)
            if not isinstance(result, Delayed):
                return result
            if not self._inner.is_done:
                self._inner.finished()
            self._inner = result
            next_work = result.adopt(self)
        return None

    def _result(self, work: MakeResponse) -> Any:
        try:
            return work()
        except KafkaError as error:
            if self._on_error is None or self._go_on is None:
                raise
            return self._on_error(error.with_traceback(None))

    def finished(self) -> None:
        """Finish the inner one as well."""
        super().finished()
        self._go_on = self._on_error = None  # they may refer to this object: no work for the garbage collector
        if not self._inner.is_done:
            self._inner.finished()

    def step_aside(self) -> None:
        """Make the inner one answer soon: another request waits after this one."""
        self._inner.step_aside()

    def cancel(self) -> None:
        """Cancel the inner one: the connection is closed."""
        if not self.is_done:
            self._inner.cancel()
            self.finished()


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
