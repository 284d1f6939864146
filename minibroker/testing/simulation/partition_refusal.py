"""Serve a request of which some topics or partitions are refused, whatever its API: for faults, and for partitions that others lead.

    registry = wrapped(load(), lambda handler: handler.around(lambda ctx, request: serve(handler, ctx, request, error_of_this_node)))

Most requests are split (partition_split.py). Fetch and ShareFetch go to their handlers whole, since these keep the sessions, and find
partitions refused when they look them up: nothing is waited for then. One that is refused later ends the wait of a Fetch, as in Kafka's
DelayedFetch, and that of a ShareFetch once all are. A partition of a session counts whether the request names it or not. Where an error
says that another leads, the answer names the leader as Apache Kafka 4.3.1 does, in the versions that can (KIP-951): Produce from 10 on,
Fetch from 16 on, those of share groups.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Any, Final, cast
from uuid import UUID

from minibroker.cluster.cluster import Cluster
from minibroker.cluster.partition import Partition
from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.middleware import after, then
from minibroker.dispatch.registry import Handler
from minibroker.errors import FencedLeaderEpoch, KafkaError, NotLeaderOrFollower, ShareSessionNotFound, WireError
from minibroker.schemas import k00_produce, k01_fetch, k78_share_fetch
from minibroker.testing.simulation.partition_places import Place, index_of, partitions_field, places_in, topic_of
from minibroker.testing.simulation.partition_split import ErrorOf, join, split
from minibroker.wire.routing import PartitionLeader
from minibroker.wire.schema import NIL_UUID, replace

_OPENING_EPOCH = 0  #: of a session of Fetch or ShareFetch

_FETCHING: Final = frozenset({k01_fetch.API_KEY, k78_share_fetch.API_KEY})
_MOVED: Final = frozenset({NotLeaderOrFollower.code, FencedLeaderEpoch.code})  #: errors with which a response names the leader
_MOVED_FOR_PRODUCE: Final = frozenset({NotLeaderOrFollower.code})


def serve(handler: Handler, ctx: RequestContext, request: Any, error_of: ErrorOf) -> Any:
    """What the handler gives to the request without the places that `error_of` refuses, joined with their errors.

    `error_of` gets a topic's name and its id where there is such a topic, however the request names it, and is to say the same until
    something changes: a Fetch that waits asks again whenever it looks.
    Where nothing is refused this is the handler's own answer.
    """
    named = by_both_names(ctx.cluster, error_of)
    if handler.api.key in _FETCHING:
        return _fetch(handler, ctx, request, named)
    found = split(handler.api, ctx.api_version, request, named)
    if found.refused is None:
        return handler.handle(ctx, request)
    if found.rest is None:
        return _loud(handler, request, tell_leaders(handler, ctx, found.refused))
    if _is_silent(request):
        return then(handler.handle(ctx, found.rest), lambda _: _loud(handler, request, None))
    return after(handler.handle(ctx, found.rest), lambda response: tell_leaders(handler, ctx, join(response, found.refused)))


def _is_silent(request: Any) -> bool:
    return isinstance(request, k00_produce.Request) and request.acks == 0


def _loud(handler: Handler, request: Any, response: Any) -> Any:
    """The response, where the client waits for one; a Produce with acks=0 of which something failed closes the connection, as in Kafka."""
    if _is_silent(request):
        raise WireError(f"{handler.api.name} with acks=0 was refused in part or as a whole")
    return response


def by_both_names(cluster: Cluster, error_of: ErrorOf) -> ErrorOf:
    """`error_of` with both the name and the id of a topic, where the cluster knows it."""

    def asked(name: str, topic_id: UUID, index: int | None) -> KafkaError | None:
        topic = cluster.topics.get(name) if name else cluster.image.topics_by_id.get(topic_id)
        return error_of(name, topic_id, index) if topic is None else error_of(topic.name, topic.topic_id, index)

    return asked


def places_of(ctx: RequestContext, request: Any) -> Iterable[Place]:
    """Every place that a request is about, those of its session among them."""
    places = list(places_in(request))
    if isinstance(request, k01_fetch.Request):
        session = session_of(ctx, request)
        places += _places_of_session(session, request) if session is not None else ()
    elif isinstance(request, k78_share_fetch.Request):
        places += _places_of_share_session(ctx, request)
    return dict.fromkeys(places)


def session_of(ctx: RequestContext, request: k01_fetch.Request) -> Any:
    """The session that a Fetch goes on with."""
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
    """Let the handler find partitions refused: now, which ends the wait, or when they move while it waits."""
    refused = [place for place in places_of(ctx, request) if error_of(*place) is not None]
    if not refused and request.max_wait_ms <= 0:
        return handler.handle(ctx, request)
    session = session_of(ctx, request) if isinstance(request, k01_fetch.Request) else None
    if session is not None:
        for place in refused:
            if place.partition is not None:
                session.look_again(place.topic_id if session.uses_topic_ids else place.topic, place.partition)
    ctx.cluster = cast("Cluster", _RefusingCluster(ctx.cluster, error_of))
    result = handler.handle(ctx, replace(request, max_wait_ms=0) if refused else request)
    return after(result, lambda response: tell_leaders(handler, ctx, response))


class _RefusingCluster:
    """A cluster for one request, in which some partitions are not to be had."""

    __slots__ = ("_cluster", "_error_of")

    def __init__(self, cluster: Cluster, error_of: ErrorOf) -> None:
        self._cluster = cluster
        self._error_of = error_of

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)

    def partition(self, topic: str, index: int) -> Partition:
        """As Cluster."""
        error = self._error_of(topic, NIL_UUID, index)
        if error is not None:
            raise error.with_traceback(None)
        return self._cluster.partition(topic, index)

    def partition_by_id(self, topic_id: UUID, index: int) -> Partition:
        """As Cluster."""
        error = self._error_of("", topic_id, index)
        if error is not None:
            raise error.with_traceback(None)
        return self._cluster.partition_by_id(topic_id, index)


def tell_leaders(handler: Handler, ctx: RequestContext, response: Any) -> Any:
    """The answer with the leaders of partitions that said they have another, in the APIs and versions that can tell."""
    routing = handler.api.routed_by
    if not isinstance(routing, PartitionLeader) or routing.names_leader_since is None or ctx.api_version < routing.names_leader_since:
        return response
    codes = _MOVED_FOR_PRODUCE if isinstance(response, k00_produce.Response) else _MOVED
    schema = sys.modules[handler.api.Response.__module__]
    told: set[int] = set()
    for topic in response.responses:
        for result in getattr(topic, partitions_field(type(topic)) or ""):
            if result.error_code in codes:
                result.current_leader = _leader(ctx, topic, result)
                told.add(result.current_leader.leader_id)
    told.discard(-1)
    if told:
        known = {each.node_id for each in response.node_endpoints}
        response.node_endpoints = [*response.node_endpoints, *ctx.endpoints(schema, told - known)]
    return response


def _leader(ctx: RequestContext, topic: Any, result: Any) -> Any:
    """A partition's leader by the nodes that clients are told of, of the type that the result has for it; -1 where nobody knows."""
    kind = type(result.current_leader)
    cluster = ctx.broker.cluster
    index = index_of(result)
    name, topic_id = topic_of(topic) or ("", NIL_UUID)
    found = cluster.topics.get(name) if name else cluster.image.topics_by_id.get(topic_id)
    if found is None or index is None or not 0 <= index < len(found.partitions):
        return kind(leader_id=-1, leader_epoch=-1)
    partition = found.partitions[index]
    return kind(leader_id=ctx.broker.nodes.leader_of(partition), leader_epoch=partition.leader_epoch)
