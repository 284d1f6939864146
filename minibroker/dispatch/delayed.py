r"""A delayed answer.

A handler returns its response, or NO_RESPONSE if the protocol has no response (Produce with acks=0), or a Delayed: a plain
object that is resolved later, by a timer, a wake-up or finished background work. No code here is async. The connection keeps the
Delayed in its queue, so that answers are sent in the order of the requests.

    waiting --resolve(work)--> answered       `work` returned a response, or raised an error that became the answer
                            \-> waiting       `work` returned None
    waiting --resolve(work)--> answered       WireError: without an answer; the connection closes
    waiting --cancel()--> cancelled           the connection was closed

A Delayed lets the dispatcher run `work` like a handler, or passes it to an outer Delayed that waits for this one.

A `Parked` request waits in the `Purgatory` for new offsets of partitions, with a deadline. Kafka's DelayedOperationPurgatory uses watcher
lists and a timing wheel. Here a request has one timer, and one subscription for each partition.

A wake-up only marks the request. All marked requests are tried once, at the end of the loop's turn. Thus an append never runs another
client's Fetch, and five appends of one turn wake a waiting Fetch once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final, Protocol, TypeVar

from minibroker.clock import Clock, Timer
from minibroker.compilation import mypyc_attr
from minibroker.errors import KafkaError, WireError
from minibroker.wire.schema import Buffer

T = TypeVar("T")
R = TypeVar("R")


class NoResponse:
    """The type of NO_RESPONSE."""

    __slots__ = ()


NO_RESPONSE: Final = NoResponse()  #: the request is done and has no answer

MakeResponse = Callable[[], Any]  #: returns the response, or None to continue waiting; raises the same errors as a handler
Next = Callable[[Any], Any]  #: a response or NO_RESPONSE -> Response | Delayed | NO_RESPONSE; raises the same errors as a handler
Answer = list[Buffer]  #: chunks, the first of which starts with the size; empty: the protocol has no answer
Serve = Callable[[MakeResponse], object]  #: returns the Answer, or None to continue waiting; WireError


def _unknown() -> str:
    return "a request that no dispatcher serves"


@mypyc_attr(allow_interpreted_subclasses=True)  # slices.py, and faults of the test kit
class Delayed:
    """A request that is answered later. Subclasses define what it waits for."""

    __slots__ = ("_describe", "_on_done", "_outer", "_serve", "_work", "answer", "error", "is_done")

    error: WireError  #: why the connection must be closed; set only when `is_done` without an answer

    def __init__(self) -> None:
        self.is_done = False  #: answered or cancelled
        self.answer: Answer | None = None  #: None when done: close the connection
        self._outer: Delayed | None = None  #: waits for this one
        self._serve: Serve | None = None  #: the dispatcher's function that runs `work`
        self._work: MakeResponse | None = None  #: of a `resolve` before `bind` or `adopt`
        self._on_done: Callable[[], None] | None = None
        self._describe: Callable[[], str] = _unknown

    @property
    def keeps_frame(self) -> bool:
        """Whether the bytes of the request are still read; its connection then serves no other request."""
        return False

    def __str__(self) -> str:
        """Name the request, for the log."""
        return self._describe()

    def complete(self, response: Any) -> None:
        """Answer with `response`."""
        self.resolve(lambda: response)

    def resolve(self, work: MakeResponse) -> None:
        """Answer with the response or the error of `work`; continue waiting if it returns None.

        Does nothing when done.
        """
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
            self.error = error.with_traceback(None)  # the traceback refers to this object
        on_done = self._on_done
        self.finished()
        if on_done is not None:
            on_done()

    def bind(self, serve: Serve, describe: Callable[[], str]) -> None:
        """Called by the dispatcher: let `serve` run the work; at once if this was resolved before."""
        self._serve = serve
        self._describe = describe
        work, self._work = self._work, None
        if work is not None:
            self._answer_with(serve, work)

    def adopt(self, outer: Delayed) -> MakeResponse | None:
        """Pass work to `outer` from now on.

        Returns the work of an earlier `resolve`, which `outer` must run.
        """
        self._outer = outer
        work, self._work = self._work, None
        return work

    def resume(self, work: MakeResponse) -> None:
        """Run the work of a Delayed that this one has adopted."""
        raise NotImplementedError

    @property
    def outermost(self) -> Delayed:
        """The Delayed of the request, which waits for this one or is this one."""
        return self if self._outer is None else self._outer.outermost

    def on_done(self, callback: Callable[[], None]) -> None:
        """Call `callback` once when this is done; at once if it is."""
        if self.is_done:
            callback()
        else:
            self._on_done = callback

    def finished(self) -> None:
        """Release timers and subscriptions, because the request was answered or cancelled."""
        self.is_done = True
        self._outer = self._serve = self._on_done = None  # cycles would be work for the garbage collector

    def step_aside(self) -> None:
        """Answer now if the protocol allows it, because another request of the connection waits."""

    def cancel(self) -> None:
        """Drop the request, because the connection was closed."""
        if not self.is_done:
            self.finished()


def when_done(begin: Callable[[Callable[[T], None]], None], answer: Callable[[T], R]) -> R | Delayed:
    """Call `begin` with a callback that takes an outcome.

    Returns the response that `answer` creates of the outcome, or a Delayed.
    """
    delayed = Delayed()
    outcomes: list[T] = []
    begin(partial(_note_outcome, delayed, outcomes, answer))
    return answer(outcomes[0]) if outcomes else delayed


def _note_outcome(delayed: Delayed, outcomes: list[T], answer: Callable[[T], R], outcome: T) -> None:
    """Answer with the outcome. No closure: a compiled one would refer to `delayed`, which then refers to itself."""
    outcomes.append(outcome)
    delayed.resolve(partial(answer, outcome))


def then(result: Any, next_step: Next, on_error: Callable[[KafkaError], Any] | None = None) -> Any:
    """Pass a handler's result to `next_step`: at once, or when it is ready.

    The answer is the result of `next_step`, which may be a Delayed itself. `on_error` converts a
    KafkaError that is raised while the request waits into a response, which `next_step` gets.
    Without `on_error` the dispatcher answers with the error.
    """
    return Continued(result, next_step, on_error) if isinstance(result, Delayed) else next_step(result)


class Continued(Delayed):
    """Waits for another Delayed, and then for the one that `next_step` may return."""

    __slots__ = ("_inner", "_next_step", "_on_error")

    def __init__(self, inner: Delayed, next_step: Next, on_error: Callable[[KafkaError], Any] | None = None) -> None:
        super().__init__()
        self._inner = inner
        self._next_step: Next | None = next_step  #: None: it was called, and returned the present `_inner`
        self._on_error = on_error
        work = inner.adopt(self)
        if work is not None:
            self.resume(work)

    @property
    def keeps_frame(self) -> bool:
        """Whether the inner Delayed keeps the frame."""
        return self._inner.keeps_frame

    def resume(self, work: MakeResponse) -> None:
        """Run the work of the inner Delayed. Its errors become the answer."""
        self.resolve(partial(self._step, work))

    def _step(self, work: MakeResponse) -> Any:
        """Return the answer, or None to continue waiting."""
        next_work: MakeResponse | None = work
        while next_work is not None:
            result = self._result(next_work)
            if result is None:
                return None
            next_step, self._next_step = self._next_step, None
            if next_step is not None:
                result = next_step(result)
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
            if self._on_error is None or self._next_step is None:
                raise
            return self._on_error(error.with_traceback(None))

    def finished(self) -> None:
        """Finish the inner Delayed as well."""
        super().finished()
        self._next_step = self._on_error = None  # they may refer to this object, which would be work for the garbage collector
        if not self._inner.is_done:
            self._inner.finished()

    def step_aside(self) -> None:
        """Let the inner Delayed answer soon, because another request waits."""
        self._inner.step_aside()

    def cancel(self) -> None:
        """Cancel the inner Delayed, because the connection was closed."""
        if not self.is_done:
            self._inner.cancel()
            self.finished()


Attempt = Callable[[bool], Any]  #: attempt(is_last) returns a response, or None to continue waiting; the last attempt must answer


class Watchable(Protocol):
    """A source of changes: a Partition whose high watermark or last stable offset changes."""

    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` at each change. Returns a function that unsubscribes."""


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
        """Start waiting."""
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
        """Answer with the present records: the time is up, or another request waits."""
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
        """Wait until `attempt(False)` answers after a change of `watched`.

        After `max_wait_ms`, `attempt(True)` must answer.
        """
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
