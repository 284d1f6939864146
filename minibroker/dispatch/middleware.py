"""Wrap handlers with functions that see requests before them and answers after them: for faults and simulated brokers.

    registry = wrapped(load(), lambda handler: handler.around(partial(watched, handler)))

A broker gets such a registry when it is created (server/broker.py). A handler may answer at once, later, or never. `then` continues when
the answer is ready, and `after` changes a response.

A function around a handler may answer itself, raise a KafkaError (the error of the whole answer), or a WireError (the connection is closed
after the answers that are due).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from minibroker.clock import Clock
from minibroker.dispatch.delayed import NO_RESPONSE, Delayed, MakeResponse
from minibroker.dispatch.error_answer import error_answer
from minibroker.dispatch.registry import Handler, Registry
from minibroker.errors import KafkaError, WireError

Next = Callable[[Any], Any]  #: a response or NO_RESPONSE -> Response | Delayed | NO_RESPONSE; it may raise as a handler may


def wrapped(registry: Registry, wrap: Callable[[Handler], Handler]) -> Registry:
    """Return a registry of the same APIs, which calls `wrap` with a handler at its first request and serves what `wrap` returns."""

    def find(api_key: int) -> Handler | None:
        handler = registry.get(api_key)
        return None if handler is None else wrap(handler)

    return Registry(registry.apis(), find)


def then(result: Any, go_on: Next, on_error: Callable[[KafkaError], Any] | None = None) -> Any:
    """Continue with a handler's result: at once, or when it is ready.

    The answer is the result of `go_on`, which may be a Delayed itself. `on_error` makes a response of a KafkaError that is raised while the
    request waits, and `go_on` gets it. Without `on_error` the dispatcher answers the error.
    """
    return _Then(result, go_on, on_error) if isinstance(result, Delayed) else go_on(result)


def after(result: Any, transform: Callable[[Any], Any]) -> Any:
    """Transform the handler's response; a request without an answer (Produce with acks=0) is left as it is."""
    return then(result, lambda response: response if response is NO_RESPONSE else transform(response))


def served(handler: Handler, ctx: Any, request: Any, go_on: Next) -> Any:
    """Call the handler, and continue with its answer, also if that is an error of the whole request."""

    def refused(error: KafkaError) -> Any:
        return refusal(handler, ctx, request, error)

    try:
        result = handler.handle(ctx, request)
    except KafkaError as error:
        result = refused(error.with_traceback(None))
    return then(result, go_on, refused)


def refusal(handler: Handler, ctx: Any, request: Any, error: KafkaError) -> Any:
    """Return the response to a request that failed as a whole; raises WireError if it has none (Produce with acks=0)."""
    if handler.on_error is not None:
        response = handler.on_error(ctx, request, error)
    else:
        response = error_answer(handler.api.Response, request, error, ctx.api_version)
    if response is NO_RESPONSE:
        raise WireError(f"{handler.api.name} wants no answer and failed: {error}")
    return response


def later(clock: Clock, delay_ms: int, work: MakeResponse) -> Delayed:
    """Return an answer that `work` makes after `delay_ms`; `work` may return a Delayed itself."""
    return _Then(_Later(clock, delay_ms), lambda _: work(), None)


class _Later(Delayed):
    """Waits for a time, also if other requests wait after it."""

    __slots__ = ("_timer",)

    def __init__(self, clock: Clock, delay_ms: int) -> None:
        super().__init__()
        self._timer = clock.call_later_ms(delay_ms, partial(self.complete, NO_RESPONSE))

    def finished(self) -> None:
        """Cancel the timer."""
        super().finished()
        self._timer.cancel()


class _Then(Delayed):
    """Waits for another Delayed, and for a further one that `go_on` may return."""

    __slots__ = ("_go_on", "_inner", "_on_error")

    def __init__(self, inner: Delayed, go_on: Next, on_error: Callable[[KafkaError], Any] | None) -> None:
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
