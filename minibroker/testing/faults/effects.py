"""What happens to a request that rules hit.

Order: no answer at all; delay before the work; errors; the work; errors after it; delay of the answer; throttle time; a torn answer, or a
cut connection.

An error with a topic or partition is for these alone, and the rest of the request is served (simulation/partition_refusal.py). Answers of
Metadata are changed in place, so that they still list the brokers. An error without a topic is for the whole request. Fetch and ShareFetch
answer errors of sessions as a whole, and others in each partition, as Kafka does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final
from uuid import UUID

from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.delayed import NO_RESPONSE, Delayed, then
from minibroker.dispatch.middleware import later, refusal, served
from minibroker.dispatch.partition_split import ErrorOf, answers_places, overlay, overlays
from minibroker.dispatch.plan import Plan
from minibroker.dispatch.registry import Handler
from minibroker.errors import KafkaError, WireError
from minibroker.schemas import k01_fetch, k78_share_fetch
from minibroker.server.connection import Connection
from minibroker.testing.faults.matching import names_all_topics
from minibroker.testing.faults.rule import AFTER, BEFORE, FaultRule
from minibroker.testing.simulation.partition_refusal import by_both_names, serve
from minibroker.wire.schema import Struct, replace

_FETCHING: Final = frozenset({k01_fetch.API_KEY, k78_share_fetch.API_KEY})
#: errors of a whole Fetch or ShareFetch: of its session, its group or its form
_WHOLE: Final = frozenset(
    {
        "FETCH_SESSION_ID_NOT_FOUND",
        "FETCH_SESSION_TOPIC_ID_ERROR",
        "GROUP_AUTHORIZATION_FAILED",
        "INVALID_FETCH_SESSION_EPOCH",
        "INVALID_GROUP_ID",
        "INVALID_REQUEST",
        "INVALID_SHARE_SESSION_EPOCH",
        "SHARE_SESSION_LIMIT_REACHED",
        "SHARE_SESSION_NOT_FOUND",
        "UNKNOWN_MEMBER_ID",
        "UNSUPPORTED_VERSION",
    }
)


class TornAnswerError(WireError):
    """Closes the connection after the first bytes of an answer."""

    def __init__(self, message: str, data: bytes) -> None:
        super().__init__(message)
        self.data = data


class TearingConnection(Connection):
    """A connection that sends the bytes of a TornAnswerError in place of the answer."""

    __slots__ = ()

    def close_after(self, error: WireError) -> None:
        """Send the bytes after the answers that are due, then close."""
        if isinstance(error, TornAnswerError) and error.data:
            self._enqueue([error.data])
        super().close_after(error)


class Silent(Delayed):
    """A request that is never answered; `end` closes its connection."""

    __slots__ = ("_left",)

    def __init__(self, left: Callable[[Silent], None]) -> None:
        super().__init__()
        self._left = left

    def end(self) -> None:
        """Close the connection: the fault is over."""

        def close() -> Any:
            raise WireError("fault: the silence is over")

        self.resolve(close)

    def finished(self) -> None:
        """The client left, or the connection was closed."""
        super().finished()
        self._left(self)


class Effects:
    """The effects of the rules that hit one request."""

    def __init__(self, rules: Sequence[FaultRule], be_silent: Callable[[], Delayed]) -> None:
        self._rules = rules
        self._be_silent = be_silent

    def serve(self, handler: Handler, ctx: RequestContext, request: Any) -> Any:
        """Serve the request with all effects, as a handler."""
        for rule in self._of("disconnect", "silence"):
            if rule.when == BEFORE:
                return self._end(rule, handler)
        delay_ms = self._sum(rule for rule in self._of("delay") if rule.when == BEFORE)
        if not delay_ms:
            return self._work(handler, ctx, request)
        # Hold later requests of the client as well: their work must not be done before this one's.
        ctx.connection.throttle_ms = max(ctx.connection.throttle_ms, delay_ms)
        kept = _kept(request)
        return later(ctx.broker.clock, delay_ms, lambda: self._work(handler, ctx, kept))

    def _of(self, *kinds: str) -> list[FaultRule]:
        return [rule for rule in self._rules if rule.kind in kinds]

    @staticmethod
    def _sum(rules: Any) -> int:
        return sum(rule.ms or 0 for rule in rules)

    def _work(self, handler: Handler, ctx: RequestContext, request: Any) -> Any:
        errors = self._of("error")
        worker = handler.around(lambda ctx, request: _serve_with([rule for rule in errors if not rule.after], handler, ctx, request))

        def go_on(response: Any) -> Any:
            for rule in errors:
                if rule.after:
                    response = _failed_after(rule, handler, ctx, request, response)
            return self._leave(handler, ctx, response)

        return served(worker, ctx, request, go_on)

    def _leave(self, handler: Handler, ctx: RequestContext, response: Any) -> Any:
        delay_ms = self._sum(rule for rule in self._of("delay") if rule.when == AFTER)
        if delay_ms:
            return later(ctx.broker.clock, delay_ms, lambda: self._send(handler, ctx, response))
        return self._send(handler, ctx, response)

    def _send(self, handler: Handler, ctx: RequestContext, response: Any) -> Any:
        throttle_ms = self._sum(self._of("throttle"))
        if throttle_ms:
            ctx.connection.throttle_ms = max(ctx.connection.throttle_ms, throttle_ms)
            if hasattr(response, "throttle_time_ms"):
                response = replace(response, throttle_time_ms=max(response.throttle_time_ms, throttle_ms))
        for rule in self._of("tear", "disconnect", "silence"):
            if rule.kind == "tear":
                raise _torn(rule, handler, ctx, response)
            return self._end(rule, handler)
        return response

    def _end(self, rule: FaultRule, handler: Handler) -> Delayed:
        if rule.kind == "disconnect":
            raise WireError(f"fault: {handler.api.name}: {rule}")
        return self._be_silent()


def _kept(value: Any) -> Any:
    """Copy a request that outlives the buffer of its connection, which has its records."""
    if isinstance(value, memoryview):
        return memoryview(bytearray(value))
    if isinstance(value, list):
        return [_kept(each) for each in value]
    if isinstance(value, Struct):
        return replace(value, **{name: _kept(getattr(value, name)) for name in type(value).declared_})
    return value


def _serve_with(rules: Sequence[FaultRule], handler: Handler, ctx: RequestContext, request: Any) -> Any:
    """Let the handler do its work, except for what the rules reject."""
    whole = next((rule for rule in rules if _is_whole(rule, handler)), None)
    if whole is not None:
        return refusal(handler, ctx, request, whole.kafka_error())
    if not rules:
        return handler.handle(ctx, request)
    error_of = _error_of(rules)
    if overlays(handler.api.Response) or names_all_topics(request):
        return then(handler.handle(ctx, request), lambda response: _overlaid(ctx, response, error_of))
    return serve(handler, ctx, request, error_of)


def _failed_after(rule: FaultRule, handler: Handler, ctx: RequestContext, request: Any, response: Any) -> Any:
    """Change the answer to completed work as if it had failed."""
    if response is NO_RESPONSE or _is_whole(rule, handler):
        return refusal(handler, ctx, request, rule.kafka_error())
    return _overlaid(ctx, response, _error_of([rule]))


def _is_whole(rule: FaultRule, handler: Handler) -> bool:
    if not answers_places(handler.api.Response):
        return True
    if handler.api.key in _FETCHING:
        return rule.error in _WHOLE
    return rule.topic is None and not overlays(handler.api.Response)


def _overlaid(ctx: RequestContext, response: Any, error_of: ErrorOf) -> Any:
    return overlay(response, by_both_names(ctx.broker.cluster, error_of), ctx.api_version)


def _error_of(rules: Sequence[FaultRule]) -> ErrorOf:
    """Return a function that finds the first rule for a topic or partition, and returns its error."""

    def error_of(name: str, _topic_id: UUID, index: int | None) -> KafkaError | None:
        for rule in rules:
            if (rule.topic is None or rule.topic == name) and (rule.partition is None or rule.partition == index):
                return rule.kafka_error()
        return None

    return error_of


def _torn(rule: FaultRule, handler: Handler, ctx: RequestContext, response: Any) -> WireError:
    error = f"fault: {handler.api.name}: {rule}"
    if response is NO_RESPONSE:
        return WireError(error)
    data = b"".join(map(bytes, Plan(handler, ctx.api_version).encode(response, ctx.correlation_id)))
    return TornAnswerError(error, data[: min(rule.size or 0, len(data) - 1)])
