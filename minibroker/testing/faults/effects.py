"""Which requests a rule is for, and what happens to a request that rules hit.

Rules do not apply to requests of the test kit itself (`broker.records(...)`, `create_topic`),
unless they name its client_id. A request for all topics (Metadata, OffsetFetch) is about each of
them. A Fetch is about all partitions of its session.

Order of effects: no answer at all; delay before the work; errors; the work; errors after it; delay
of the answer; throttle time; a torn answer, or a cut connection.

An error with a topic or partition is for these alone, and the rest of the request is served
(simulation/partition_refusal.py). Answers of Metadata are changed in place, so that they still list
the brokers. An error without a topic is for the whole request. Fetch and ShareFetch answer errors
of sessions as a whole, and others in each partition, as Kafka does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final
from uuid import UUID

from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.delayed import NO_RESPONSE, Delayed, then
from minibroker.dispatch.middleware import later, refusal, served
from minibroker.dispatch.partition_split import ErrorOf, answers_places, overlay, overlays, places_in, shape_of
from minibroker.dispatch.plan import Plan
from minibroker.dispatch.registry import Handler
from minibroker.errors import KafkaError, WireError
from minibroker.schemas import k01_fetch, k10_find_coordinator, k78_share_fetch
from minibroker.server.connection import Connection
from minibroker.testing.faults.rule import AFTER, BEFORE, GROUP_FIELDS, TRANSACTION_FIELDS, FaultRule
from minibroker.testing.simulation.partition_refusal import by_both_names, places_of, serve
from minibroker.testing.wire import CLIENT_ID
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

    __slots__ = ("_on_finished",)

    def __init__(self, on_finished: Callable[[Silent], None]) -> None:
        super().__init__()
        self._on_finished = on_finished

    def end(self) -> None:
        """Close the connection: the fault is over."""

        def close() -> Any:
            raise WireError("fault: the silence is over")

        self.resolve(close)

    def finished(self) -> None:
        """The client left, or the connection was closed."""
        super().finished()
        self._on_finished(self)


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

        def finish(response: Any) -> Any:
            for rule in errors:
                if rule.after:
                    response = _failed_after(rule, handler, ctx, request, response)
            return self._delay_answer(handler, ctx, response)

        return served(worker, ctx, request, finish)

    def _delay_answer(self, handler: Handler, ctx: RequestContext, response: Any) -> Any:
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
    """Serve a request except for the parts that the rules reject."""
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
    """Return the answer with an error, although the work is done."""
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


def is_for(rule: FaultRule, ctx: RequestContext, request: Any) -> bool:
    """Whether the rule is for this request, whose API is that of the rule."""
    if ctx.client_id == CLIENT_ID and rule.client_id != CLIENT_ID:
        return False
    return (
        (rule.client_id is None or rule.client_id == ctx.client_id)
        and (rule.node is None or rule.node == ctx.broker.nodes.own.node_id)
        and (rule.group is None or rule.group in _groups(request))
        and (rule.transactional_id is None or rule.transactional_id in _transactional_ids(request))
        and (rule.topic is None or _is_about(rule, ctx, request))
    )


def names_all_topics(request: Any) -> bool:
    """Whether a request is for all topics or groups because it names none."""
    shape = shape_of(type(request))
    inner = [each for name in shape.groups for each in getattr(request, name)]
    lists = [getattr(request, name) for name in (*shape.topics, *shape.bare)]
    return (bool(lists) and all(each is None for each in lists)) or (bool(inner) and any(names_all_topics(each) for each in inner))


def _is_about(rule: FaultRule, ctx: RequestContext, request: Any) -> bool:
    if names_all_topics(request) or (not any(places_in(request)) and _is_oldest_metadata(ctx, request)):
        return True
    topics_by_id = ctx.cluster.image.topics_by_id
    for place in places_of(ctx, request):
        name = place.topic
        if not name:
            topic = topics_by_id.get(place.topic_id)
            name = topic.name if topic is not None else ""
        if name == rule.topic and (rule.partition is None or place.partition is None or place.partition == rule.partition):
            return True
    return False


def _is_oldest_metadata(ctx: RequestContext, request: Any) -> bool:
    """Whether this is a Metadata of version 0, which requests all topics by an empty list."""
    return ctx.api_version == 0 and hasattr(request, "allow_auto_topic_creation")


def _groups(request: Any) -> Iterator[str]:
    if isinstance(request, k10_find_coordinator.Request):
        yield from _coordinated(request, k10_find_coordinator.GROUP)
        return
    yield from _named(request, GROUP_FIELDS, "group_id")


def _transactional_ids(request: Any) -> Iterator[str]:
    if isinstance(request, k10_find_coordinator.Request):
        yield from _coordinated(request, k10_find_coordinator.TRANSACTION)
        return
    yield from _named(request, TRANSACTION_FIELDS, "transactional_id")


def _coordinated(request: k10_find_coordinator.Request, key_type: int) -> Iterator[str]:
    if request.key_type == key_type:
        yield from (request.key, *request.coordinator_keys)


def _named(request: Any, names: Iterable[str], inner: str) -> Iterator[str]:
    """Yield the keys in these fields: a string, a list of strings, or of structs with a field `inner`."""
    for name in names:
        value = getattr(request, name, None) or ()
        for each in [value] if isinstance(value, str) else value:
            yield each if isinstance(each, str) else getattr(each, inner)
