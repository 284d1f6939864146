"""Wrap handlers with functions that see requests before them and answers after them: for faults and simulated brokers.

    registry = wrapped(load(), lambda handler: handler.around(partial(watched, handler)))

A broker gets such a registry when it is created (server/broker.py). A handler may answer at once,
later, or never. `then` in delayed.py continues when the answer is ready, and `after` changes a
response.

A function around a handler may answer itself, raise a KafkaError (the error of the whole answer),
or raise a WireError (the connection is closed after the answers to earlier requests).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from minibroker.clock import Clock
from minibroker.dispatch.delayed import NO_RESPONSE, Continued, Delayed, MakeResponse, Next, then
from minibroker.dispatch.error_answer import error_answer
from minibroker.dispatch.registry import Handler, Registry
from minibroker.errors import KafkaError, WireError


def wrapped(registry: Registry, wrap: Callable[[Handler], Handler]) -> Registry:
    """Return a registry of the same APIs.

    At the first request of an API, it calls `wrap` with the handler and serves the result.
    """

    def find(api_key: int) -> Handler | None:
        handler = registry.get(api_key)
        return None if handler is None else wrap(handler)

    return Registry(registry.apis(), find)


def after(result: Any, transform: Callable[[Any], Any]) -> Any:
    """Transform the handler's response, if the request has one (Produce with acks=0 has not)."""
    return then(result, lambda response: response if response is NO_RESPONSE else transform(response))


def served(handler: Handler, ctx: Any, request: Any, next_step: Next) -> Any:
    """Call the handler, and pass its answer to `next_step`, also if it is an error of the whole request."""

    def refused(error: KafkaError) -> Any:
        return refusal(handler, ctx, request, error)

    try:
        result = handler.handle(ctx, request)
    except KafkaError as error:
        result = refused(error.with_traceback(None))
    return then(result, next_step, refused)


def refusal(handler: Handler, ctx: Any, request: Any, error: KafkaError) -> Any:
    """Return the response to a request that failed as a whole; raises WireError if it has none (Produce with acks=0)."""
    if handler.on_error is not None:
        response = handler.on_error(ctx, request, error)
    else:
        response = error_answer(handler.api.Response, request, error, ctx.api_version)
    if response is NO_RESPONSE:
        raise WireError(f"{handler.api.name} failed, and the protocol has no response to it: {error}")
    return response


def later(clock: Clock, delay_ms: int, work: MakeResponse) -> Delayed:
    """Return an answer that `work` creates after `delay_ms`. `work` may return a Delayed itself."""
    return Continued(_Later(clock, delay_ms), lambda _: work())


class _Later(Delayed):
    """Waits for a time, even if other requests wait."""

    __slots__ = ("_timer",)

    def __init__(self, clock: Clock, delay_ms: int) -> None:
        super().__init__()
        self._timer = clock.call_later_ms(delay_ms, partial(self.complete, NO_RESPONSE))

    def finished(self) -> None:
        """Cancel the timer."""
        super().finished()
        self._timer.cancel()
