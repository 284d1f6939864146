"""Serve a request of which some topics or partitions are rejected, of any API: for faults, and for partitions that other brokers lead.

    registry = wrapped(load(), lambda handler: handler.around(lambda ctx, request: serve(handler, ctx, request, error_of_this_node)))

Most requests are split (partition_split.py). Fetch and ShareFetch go to their handlers as a whole,
since the handlers keep the sessions. Their look-ups of rejected partitions fail, and they do not
wait then. A partition that is rejected later ends the wait of a Fetch, as in Kafka's DelayedFetch.
It ends the wait of a ShareFetch when all partitions are rejected. Partitions of a session count
whether the request names them or not. If the error means that another broker leads, the answer
names the leader as Apache Kafka 4.3.1 does, in the versions that can (KIP-951): Produce from 10 on,
Fetch from 16 on, those of share groups.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Any, Final, cast
from uuid import UUID

from minibroker.cluster.cluster import Cluster
from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.delayed import then
from minibroker.dispatch.middleware import after
from minibroker.dispatch.partition_split import (
    ErrorOf,
    Place,
    RefusingCluster,
    index_of,
    join,
    partitions_field,
    places_in,
    split,
    topic_of,
)
from minibroker.dispatch.registry import Handler
from minibroker.errors import FencedLeaderEpoch, KafkaError, NotLeaderOrFollower, ShareSessionNotFound, WireError
from minibroker.schemas import k00_produce, k01_fetch, k78_share_fetch
from minibroker.wire.routing import PartitionLeader
from minibroker.wire.schema import NIL_UUID, replace

_OPENING_EPOCH = 0  #: of a session of Fetch or ShareFetch

_FETCHING: Final = frozenset({k01_fetch.API_KEY, k78_share_fetch.API_KEY})
_MOVED: Final = frozenset({NotLeaderOrFollower.code, FencedLeaderEpoch.code})  #: errors with which a response names the leader
_MOVED_FOR_PRODUCE: Final = frozenset({NotLeaderOrFollower.code})


def serve(handler: Handler, ctx: RequestContext, request: Any, error_of: ErrorOf) -> Any:
    """Return the handler's answer to the request without the places that `error_of` rejects, joined with their errors.

    `error_of` gets both name and id of a topic that exists, however the request names it. It must
    return the same result until something changes, since a waiting Fetch calls it again at each
    look. If nothing is rejected, the answer is the handler's own.
    """
    named = by_both_names(ctx.cluster, error_of)
    if handler.api.key in _FETCHING:
        return _fetch(handler, ctx, request, named)
    found = split(handler.api, ctx.api_version, request, named)
    if found.refused is None:
        return handler.handle(ctx, request)
    if found.rest is None:
        return _or_close(handler, request, with_leaders(handler, ctx, found.refused))
    if _needs_no_answer(request):
        return then(handler.handle(ctx, found.rest), lambda _: _or_close(handler, request, None))
    return after(handler.handle(ctx, found.rest), lambda response: with_leaders(handler, ctx, join(response, found.refused)))


def _needs_no_answer(request: Any) -> bool:
    return isinstance(request, k00_produce.Request) and request.acks == 0


def _or_close(handler: Handler, request: Any, response: Any) -> Any:
    """Return the response; a Produce with acks=0 of which a part failed closes the connection instead, as in Kafka."""
    if _needs_no_answer(request):
        raise WireError(f"{handler.api.name} with acks=0 was refused in part or as a whole")
    return response


def by_both_names(cluster: Cluster, error_of: ErrorOf) -> ErrorOf:
    """Return `error_of`, called with both name and id of a topic that the cluster knows."""

    def error_by_both(name: str, topic_id: UUID, index: int | None) -> KafkaError | None:
        topic = cluster.topics.get(name) if name else cluster.image.topics_by_id.get(topic_id)
        return error_of(name, topic_id, index) if topic is None else error_of(topic.name, topic.topic_id, index)

    return error_by_both


def places_of(ctx: RequestContext, request: Any) -> Iterable[Place]:
    """Return all topics and partitions that a request is about, including those of its session."""
    places = list(places_in(request))
    if isinstance(request, k01_fetch.Request):
        session = session_of(ctx, request)
        places += _places_of_session(session, request) if session is not None else ()
    elif isinstance(request, k78_share_fetch.Request):
        places += _places_of_share_session(ctx, request)
    return dict.fromkeys(places)


def session_of(ctx: RequestContext, request: k01_fetch.Request) -> Any:
    """Return the session that a Fetch continues."""
    sessions = ctx.broker.fetch_sessions
    return None if sessions is None or request.session_epoch <= _OPENING_EPOCH else sessions.get(request.session_id)


def _places_of_session(session: Any, request: k01_fetch.Request) -> Iterator[Place]:
    forgotten = {
        (each.topic_id if session.uses_topic_ids else each.topic, index)
        for each in request.forgotten_topics_data
        for index in each.partitions
    }
    for topic, index in session.partitions:
        if (topic, index) not in forgotten:
            yield Place("", topic, index) if isinstance(topic, UUID) else Place(topic, NIL_UUID, index)


def _places_of_share_session(ctx: RequestContext, request: k78_share_fetch.Request) -> Iterator[Place]:
    if request.share_session_epoch <= _OPENING_EPOCH or request.group_id is None:
        return
    try:
        session = ctx.broker.coordinators.share_partitions.session(
            ctx.broker.nodes.own.node_id, (request.group_id, request.member_id or "")
        )
    except ShareSessionNotFound:
        return
    forgotten = {(each.topic_id, index) for each in request.forgotten_topics_data for index in each.partitions}
    for topic_id, index in session.partitions:
        if (topic_id, index) not in forgotten:
            yield Place("", topic_id, index)


def _fetch(handler: Handler, ctx: RequestContext, request: Any, error_of: ErrorOf) -> Any:
    """Reject partitions that the handler looks up: now, which ends the wait, or when they move while it waits."""
    refused = [place for place in places_of(ctx, request) if error_of(*place) is not None]
    if not refused and request.max_wait_ms <= 0:
        return handler.handle(ctx, request)
    session = session_of(ctx, request) if isinstance(request, k01_fetch.Request) else None
    if session is not None:
        for place in refused:
            if place.partition is not None:
                session.look_again(place.topic_id if session.uses_topic_ids else place.topic, place.partition)
    ctx.cluster = cast("Cluster", RefusingCluster(ctx.cluster, error_of))
    result = handler.handle(ctx, replace(request, max_wait_ms=0) if refused else request)
    return after(result, lambda response: with_leaders(handler, ctx, response))


def with_leaders(handler: Handler, ctx: RequestContext, response: Any) -> Any:
    """Add the leaders of partitions that another broker leads, in APIs and versions that have a field for it."""
    routing = handler.api.routed_by
    if not isinstance(routing, PartitionLeader) or routing.names_leader_since is None or ctx.api_version < routing.names_leader_since:
        return response
    codes = _MOVED_FOR_PRODUCE if isinstance(response, k00_produce.Response) else _MOVED
    schema = sys.modules[handler.api.Response.__module__]
    leader_ids: set[int] = set()
    for topic in response.responses:
        for result in getattr(topic, partitions_field(type(topic)) or ""):
            if result.error_code in codes:
                result.current_leader = _leader(ctx, topic, result)
                leader_ids.add(result.current_leader.leader_id)
    leader_ids.discard(-1)
    if leader_ids:
        known = {each.node_id for each in response.node_endpoints}
        response.node_endpoints = [*response.node_endpoints, *ctx.endpoints(schema, leader_ids - known)]
    return response


def _leader(ctx: RequestContext, topic: Any, result: Any) -> Any:
    """Return a partition's leader as the type that the result has for it; -1 if it is not known."""
    kind = type(result.current_leader)
    cluster = ctx.broker.cluster
    index = index_of(result)
    name, topic_id = topic_of(topic) or ("", NIL_UUID)
    found = cluster.topics.get(name) if name else cluster.image.topics_by_id.get(topic_id)
    if found is None or index is None or not 0 <= index < len(found.partitions):
        return kind(leader_id=-1, leader_epoch=-1)
    partition = found.partitions[index]
    return kind(leader_id=ctx.broker.nodes.leader_of(partition), leader_epoch=partition.leader_epoch)
