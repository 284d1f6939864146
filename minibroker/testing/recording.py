"""A dispatcher that logs requests: topics and groups are read from the request before it is served, errors from its response.

Only names are kept: the bytes of a request are in the connection's buffer, which is reused after it
was served.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import Any, Final, Protocol
from uuid import UUID

from minibroker.cluster.cluster import Cluster
from minibroker.dispatch.context import RequestContext, Services
from minibroker.dispatch.delayed import Answer, Delayed, MakeResponse
from minibroker.dispatch.dispatcher import Dispatcher
from minibroker.dispatch.plan import Plan
from minibroker.errors import BY_CODE
from minibroker.schemas import k10_find_coordinator
from minibroker.testing.request_log import ANSWERED, NOT_ANSWERED, LoggedRequest, RequestLog
from minibroker.testing.wire import CLIENT_ID
from minibroker.wire.schema import Buffer, Struct

KEPT: Final = 10_000  #: requests; older ones are dropped
TOPICS_MAX: Final = 200  #: names that are kept of one request
TOPIC_LETTERS_MAX: Final = 8_000  #: of these names together; at least one name is kept
LETTERS_MAX: Final = 1_000  #: of a client id, a group or a transactional id


class RequestObserver(Protocol):
    """Looks at requests and responses, whose bytes are valid only during the call: the web console."""

    def began(self, entry: LoggedRequest, ctx: RequestContext, request: Any, /) -> Any:
        """Look at a request before it is served. The other methods get what this returns."""

    def waits(self, seen: Any, request: Any, /) -> None:
        """Note that a request has to wait."""

    def answered(self, seen: Any, response: Any, size: int, ctx: RequestContext, /) -> None:
        """Look at the response, which has `size` bytes; None: there is none."""


class RecordingPlan(Plan):
    """A Plan that remembers the last response it encoded."""

    __slots__ = ("response",)

    def encode(self, response: Any, correlation_id: int) -> list[Buffer]:
        """Encode a response, and remember it."""
        self.response: Any = response
        return super().encode(response, correlation_id)


class _Pending:
    """A request without an answer; it holds its context, whose identity is its key."""

    __slots__ = ("began_s", "ctx", "entry", "forget", "seen")

    def __init__(self, ctx: RequestContext, entry: LoggedRequest, seen: Any) -> None:
        self.ctx = ctx
        self.entry = entry
        self.seen = seen  #: of the observer
        self.began_s = time.perf_counter()
        self.forget = _nothing  #: removes the callback from the connection


class _Recorded:
    """The log, which dispatchers of several brokers share."""

    def __init__(self) -> None:
        self.entries: deque[LoggedRequest] = deque(maxlen=KEPT)
        self.count = 0  #: all requests, also dropped ones: the number of the next one


class RecordingDispatcher(Dispatcher):
    """A Dispatcher that logs requests."""

    plan_kind = RecordingPlan

    def __init__(self, services: Services, faults: list[str] | None = None, observer: RequestObserver | None = None) -> None:
        """`faults` receives the faults that hit the request that is being served; `observer` looks at all requests."""
        super().__init__(services)
        self.observer = observer
        self._faults = [] if faults is None else faults
        self._recorded = _Recorded()
        self._pending: dict[int, _Pending] = {}

    def record_with(self, other: RecordingDispatcher) -> None:
        """Share the log of another dispatcher: both serve one of several brokers."""
        self._recorded = other._recorded

    @property
    def request_count(self) -> int:
        """The number of requests, also of dropped ones."""
        return self._recorded.count

    @property
    def request_log(self) -> RequestLog:
        """The requests so far; any thread may call."""
        return RequestLog(tuple(self._recorded.entries))

    def clear(self) -> None:
        """Drop all requests."""
        self._recorded.entries.clear()

    def run(self, plan: Plan, ctx: RequestContext, request: Any, work: MakeResponse | None = None) -> Answer | Delayed | None:
        """Run a plan as Dispatcher does, and log the request and its outcome."""
        if ctx.client_id == CLIENT_ID:
            return super().run(plan, ctx, request, work)
        pending = self._pending.pop(id(ctx), None) or self._begin(plan, ctx, request)
        try:
            answer = super().run(plan, ctx, request, work)
        except BaseException:
            self._end(pending, NOT_ANSWERED)
            raise
        finally:
            if self._faults:
                pending.entry.faults += tuple(self._faults)
                self._faults.clear()
        if isinstance(answer, list):
            response = None
            if answer and isinstance(plan, RecordingPlan):
                response, plan.response = plan.response, None
                pending.entry.errors = tuple(dict.fromkeys(_errors(response)))
            self._end(pending, ANSWERED if answer else NOT_ANSWERED)
            if self.observer is not None:
                self.observer.answered(pending.seen, response, sum(map(len, answer)), ctx)
        else:
            self._wait(pending)
            if self.observer is not None:
                self.observer.waits(pending.seen, request)
        return answer

    def _begin(self, plan: Plan, ctx: RequestContext, request: Any) -> _Pending:
        entry = LoggedRequest(
            ctx.broker.clock.now_ms(),
            _cut(ctx.client_id),
            ctx.connection.client_host,
            plan.api.name,
            plan.version,
            **_subject(request, ctx.cluster),
        )
        if len(ctx.cluster.node_ids) > 1:
            entry.node = ctx.broker.nodes.own.node_id
        self._recorded.entries.append(entry)
        self._recorded.count += 1
        return _Pending(ctx, entry, None if self.observer is None else self.observer.began(entry, ctx, request))

    def _wait(self, pending: _Pending) -> None:
        key = id(pending.ctx)
        if pending.forget is _nothing:
            pending.forget = pending.ctx.connection.when_closed(partial(self._on_closed, key))
        self._pending[key] = pending

    def _on_closed(self, key: int) -> None:
        pending = self._pending.pop(key, None)
        if pending is not None:
            pending.entry.outcome = NOT_ANSWERED

    def _end(self, pending: _Pending, outcome: str) -> None:
        pending.forget()
        pending.entry.outcome = outcome
        pending.entry.duration_ms = (time.perf_counter() - pending.began_s) * 1000 if outcome is ANSWERED else None


def _nothing() -> None:
    """Do nothing: no callback was registered."""


def _subject(request: Any, cluster: Cluster) -> dict[str, Any]:
    """Return topics, group and transactional id of a request, by the field names of Kafka's schemas."""
    group, transactional_id = getattr(request, "group_id", None), getattr(request, "transactional_id", None)
    if (groups := getattr(request, "groups", None)) and not group:
        group = groups[0] if isinstance(groups[0], str) else getattr(groups[0], "group_id", None)
    if isinstance(request, k10_find_coordinator.Request):
        key = request.key or next(iter(request.coordinator_keys), None)
        group = key if request.key_type == k10_find_coordinator.GROUP else None
        transactional_id = key if request.key_type == k10_find_coordinator.TRANSACTION else None
    return {
        "topics": tuple(dict.fromkeys(_few(_topics(request, cluster)))),
        "group": _cut(group) or None,
        "transactional_id": _cut(transactional_id) or None,
    }


def _few(names: Iterator[str]) -> Iterator[str]:
    """Yield the first names that may be kept."""
    left = TOPIC_LETTERS_MAX
    for name in islice(names, TOPICS_MAX):
        yield name[:LETTERS_MAX]
        left -= len(name)
        if left <= 0:
            return


def _cut(text: str | None) -> str | None:
    return text if text is None else text[:LETTERS_MAX]


def _topics(struct: Struct | None, cluster: Cluster) -> Iterator[str]:
    if struct is None:
        return  # a large request, which is still being decoded
    for name in type(struct).declared_:
        value = getattr(struct, name)
        if not isinstance(value, list) or not value or "forgotten" in name:
            continue
        if isinstance(value[0], Struct):
            for each in value:
                topic = _name(each, cluster) if "topic" in name else None
                if topic is None:
                    yield from _topics(each, cluster)
                else:
                    yield topic
        elif isinstance(value[0], str) and "topic" in name:
            yield from value


def _name(struct: Struct, cluster: Cluster) -> str | None:
    for attribute in ("name", "topic", "topic_name"):
        found = getattr(struct, attribute, None)
        if found and isinstance(found, str):
            return found
    topic_id = getattr(struct, "topic_id", None)
    topic = cluster.image.topics_by_id.get(topic_id) if isinstance(topic_id, UUID) else None
    return str(topic_id) if topic is None and topic_id is not None else topic.name if topic is not None else None


def _errors(struct: Struct) -> Iterator[str]:
    for name in type(struct).declared_:
        value = getattr(struct, name)
        if name.endswith("error_code"):  # of AddPartitionsToTxn, partition_error_code
            if value:
                yield BY_CODE[value].name if value in BY_CODE else str(value)
        elif isinstance(value, Struct):
            yield from _errors(value)
        elif isinstance(value, list) and value and isinstance(value[0], Struct):
            for each in value:
                yield from _errors(each)
