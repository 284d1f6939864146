"""Reject requests sent to the wrong broker (NOT_LEADER_OR_FOLLOWER, NOT_COORDINATOR), by the `ROUTED_BY` of their schemas.

    PartitionLeader     NOT_LEADER_OR_FOLLOWER for a partition that another broker leads, or none. The answer names the leader where the API
                        can (partition_refusal.py). A replica first checks the leader epoch of the request: FENCED_LEADER_EPOCH.
                        Any replica answers DescribeProducers, and ListOffsets of a debugging replica (replica_id -2).
                        From Fetch 11 on a consumer may read from any replica, and is sent to one in its rack (KIP-392).
                        Produce with acks=all is NOT_ENOUGH_REPLICAS while fewer than min.insync.replicas, and not all, are in sync
    Coordinator         NOT_COORDINATOR for a group or transactional id whose partition of the internal topic another broker leads
    CoordinatorOfEach   the same, for each key on its own
    EachCoordinator     the groups or transactions that this broker coordinates
    EachBroker          the partitions of which this broker has a replica

A consumer that names its rack is sent to a replica there, as by
replica.selector.class=RackAwareReplicaSelector: the leader of a partition names a replica that is
in sync and in the consumer's rack, unless the leader is in that rack. It returns no records then
and does not wait. In a Fetch session each answer names the partition until the consumer removes it
from the session. The selector is active when brokers are in different racks. Nothing is replicated,
so a replica is never behind the leader.

As Apache Kafka's brokers do (KafkaApis, ReplicaManager of 4.3.1). Any broker accepts requests for
the controller, so no client gets NOT_CONTROLLER. All brokers share one share coordinator, so
requests between brokers about share states are never rejected.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from minibroker.cluster.partition import NO_EPOCH
from minibroker.cluster.topic import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from minibroker.coordinator.stored_topic import partition_of
from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.middleware import after, refusal, wrapped
from minibroker.dispatch.partition_split import ErrorOf, index_of, topic_of
from minibroker.dispatch.registry import Handler, Registry
from minibroker.errors import FencedLeaderEpoch, KafkaError, NotCoordinator, NotEnoughReplicas, NotLeaderOrFollower, UnknownLeaderEpoch
from minibroker.schemas import k00_produce, k01_fetch, k02_list_offsets
from minibroker.testing.simulation.partition_refusal import places_of, serve, session_of
from minibroker.wire.routing import Coordinator, CoordinatorOfEach, CoordinatorType, EachBroker, EachCoordinator, PartitionLeader
from minibroker.wire.schema import replace

if TYPE_CHECKING:
    from minibroker.cluster.partition import Partition
    from minibroker.cluster.topic import Topic

READ_FROM_REPLICAS_SINCE: Final = 11
ALL_IN_SYNC: Final = -1  #: acks
DEBUGGING_REPLICA: Final = -2  #: replica_id of a client that reads any replica
NOWHERE: Final = -1  #: of a preferred read replica
_IN_SYNC_MIN: Final = "min.insync.replicas"

#: the internal topic whose leaders are the coordinators of this type
_TOPICS: Final = {CoordinatorType.GROUP: CONSUMER_OFFSETS_TOPIC, CoordinatorType.TRANSACTION: TRANSACTION_STATE_TOPIC}


def with_routing(registry: Registry) -> Registry:
    """Return the same APIs, with handlers that reject what another broker has to serve (`ROUTED_BY` in the schemas)."""
    return wrapped(registry, _guard)


def _guard(handler: Handler) -> Handler:
    routing = handler.api.routed_by
    if isinstance(routing, PartitionLeader):
        return handler.around(partial(_of_leaders, routing, handler))
    if isinstance(routing, Coordinator) and routing.key is not None:
        return handler.around(partial(_of_one_key, routing.type, routing.key, handler))
    if isinstance(routing, CoordinatorOfEach):
        return handler.around(partial(_of_keys, routing, handler))
    if isinstance(routing, EachCoordinator):
        return handler.around(partial(_listing, routing, handler))
    if isinstance(routing, EachBroker):
        return handler.around(partial(_log_dirs, routing, handler))
    return handler


# Partitions


def _of_leaders(routing: PartitionLeader, handler: Handler, ctx: RequestContext, request: Any) -> Any:
    is_fetch = handler.api.key == k01_fetch.API_KEY
    is_wrong = _wrong_place(routing, handler, ctx, request)
    is_durable = handler.api.key == k00_produce.API_KEY and request.acks == ALL_IN_SYNC

    def error_of(name: str, _topic_id: UUID, index: int | None) -> KafkaError | None:
        topic = ctx.broker.cluster.topics.get(name)
        if topic is None or index is None or not 0 <= index < len(topic.partitions):
            return None
        found = topic.partitions[index]
        if not found.is_online:
            return None  # the handler answers that
        if is_wrong(ctx, found):
            return (_wrong_epoch(ctx, request, found) if routing.fences else None) or NotLeaderOrFollower()
        if is_durable and _lacks_replicas(ctx, topic, found):
            return NotEnoughReplicas()
        return None

    if is_fetch:
        return after(_fetch(handler, ctx, request, error_of), _without_transactions)
    result = serve(handler, ctx, request, error_of)
    if handler.api.key == k00_produce.API_KEY:
        return after(result, partial(_without_messages, ctx))
    return after(result, _by_code_alone) if routing.any_replica else result


def _wrong_place(
    routing: PartitionLeader, handler: Handler, ctx: RequestContext, request: Any
) -> Callable[[RequestContext, Partition], bool]:
    """Return the test for partitions that this broker rejects.

    A ListOffsets of a debugging replica does not need the leader.
    """
    api_key = handler.api.key
    if api_key == k01_fetch.API_KEY and ctx.api_version >= READ_FROM_REPLICAS_SINCE:
        return _is_wrong_reader
    if routing.any_replica or (api_key == k02_list_offsets.API_KEY and request.replica_id == DEBUGGING_REPLICA):
        return _lacks_replica
    return _is_wrong_leader


def _wrong_epoch(ctx: RequestContext, request: Any, partition: Partition) -> KafkaError | None:
    """Return the error of a wrong leader epoch, which a replica checks before it checks the leader (Kafka's Partition.getLocalLog)."""
    if ctx.broker.nodes.own.node_id not in ctx.broker.nodes.of(partition).replicas:
        return None
    try:
        partition.check_leader_epoch(max(_requested_epoch(ctx, request, partition), NO_EPOCH))
    except KafkaError as error:
        return error.with_traceback(None)
    return None


def _requested_epoch(ctx: RequestContext, request: Any, partition: Partition) -> int:
    """Return the epoch in the request, or in its Fetch session."""
    names = {partition.topic, partition.topic_id}
    for topic in request.topics:
        if not names.isdisjoint(topic_of(topic) or ()):
            for each in topic.partitions:
                if index_of(each) == partition.index:
                    return int(each.current_leader_epoch)
    session = session_of(ctx, request) if isinstance(request, k01_fetch.Request) else None
    if session is None:
        return NO_EPOCH
    known = session.partitions.get((partition.topic_id if session.uses_topic_ids else partition.topic, partition.index))
    return NO_EPOCH if known is None else known.entry.current_leader_epoch


def _without_messages(ctx: RequestContext, response: Any) -> Any:
    """Leave out error messages, as Kafka does, and add the log start offset where this broker has the log."""
    for topic in response.responses:
        for result in topic.partition_responses:
            if result.error_code in {NotLeaderOrFollower.code, NotEnoughReplicas.code}:
                result.error_message = None
            if result.error_code == NotEnoughReplicas.code:
                cluster = ctx.broker.cluster
                found = cluster.topics.get(topic.name) or cluster.image.topics_by_id.get(topic.topic_id)
                log = None if found is None else found.partitions[result.index].online_log
                result.log_start_offset = -1 if log is None else log.log_start_offset
    return response


def _by_code_alone(response: Any) -> Any:
    for topic in response.topics:
        for result in topic.partitions:
            if result.error_code == NotLeaderOrFollower.code:
                result.error_message = None
    return response


def _without_transactions(response: Any) -> Any:
    """Leave out aborted transactions of rejected partitions, as Kafka does."""
    for topic in response.responses:
        for result in topic.partitions:
            if result.error_code in {NotLeaderOrFollower.code, FencedLeaderEpoch.code, UnknownLeaderEpoch.code}:
                result.aborted_transactions = None
    return response


def _is_wrong_leader(ctx: RequestContext, partition: Partition) -> bool:
    return not ctx.broker.nodes.leads(partition)


def _is_wrong_reader(ctx: RequestContext, partition: Partition) -> bool:
    nodes = ctx.broker.nodes.of(partition)
    return nodes.leader_id < 0 or ctx.broker.nodes.own.node_id not in nodes.replicas


def _lacks_replica(ctx: RequestContext, partition: Partition) -> bool:
    return ctx.broker.nodes.own.node_id not in ctx.broker.nodes.of(partition).replicas


def _lacks_replicas(ctx: RequestContext, topic: Topic, partition: Partition) -> bool:
    """Whether fewer replicas are in sync than acks=all needs, which is at most all of them (Partition.effectiveMinIsr)."""
    nodes = ctx.broker.nodes.of(partition)
    text = topic.config.get(_IN_SYNC_MIN)
    in_sync_min = ctx.broker.config.min_insync_replicas if text is None else int(text)
    return len(nodes.in_sync) < min(in_sync_min, len(nodes.replicas))


# Consumers that read from a replica in their rack (KIP-392)


def _fetch(handler: Handler, ctx: RequestContext, request: k01_fetch.Request, error_of: ErrorOf) -> Any:
    """Serve a Fetch without the partitions that `error_of` rejects, and send a consumer with a rack to replicas there."""
    if not request.rack_id or request.replica_id >= 0 or not _selects_replicas(ctx):
        return serve(handler, ctx, request, error_of)
    cluster = ctx.broker.cluster
    session = session_of(ctx, request)
    preferred: dict[tuple[str | UUID, int], int] = {}
    for name, topic_id, index in places_of(ctx, request):
        topic = cluster.topics.get(name) if name else cluster.image.topics_by_id.get(topic_id)
        if topic is not None and index is not None and 0 <= index < len(topic.partitions):
            found = preferred_replica(ctx, topic.partitions[index], request.rack_id)
            if found != NOWHERE:
                preferred[topic.name, index] = preferred[topic.topic_id, index] = found
                if session is not None:
                    session.include_again(topic.topic_id if session.uses_topic_ids else topic.name, index)
    if not preferred:
        return serve(handler, ctx, request, error_of)

    def with_preferred(response: Any) -> Any:
        for topic in response.responses:
            for result in topic.partitions:
                replica = preferred.get((topic.topic or topic.topic_id, result.partition_index), NOWHERE)
                if replica != NOWHERE and not result.error_code:
                    result.preferred_read_replica, result.records, result.aborted_transactions = replica, b"", None
        return response

    return after(serve(handler, ctx, replace(request, max_wait_ms=0), error_of), with_preferred)


def _selects_replicas(ctx: RequestContext) -> bool:
    """Whether consumers are sent to replicas in their racks: brokers are in different racks."""
    return len({node.rack for node in ctx.broker.nodes.registered}) > 1


def preferred_replica(ctx: RequestContext, partition: Partition, rack: str) -> int:
    """Return the replica from which a consumer in this rack should read; NOWHERE: from this broker."""
    nodes = ctx.broker.nodes.of(partition)
    if nodes.leader_id != ctx.broker.nodes.own.node_id or ctx.broker.nodes.own.rack == rack:
        return NOWHERE
    for node_id in nodes.in_sync:
        node = ctx.broker.nodes.find(node_id)
        if node is not None and node.rack == rack:
            return node_id
    return NOWHERE


# Coordinators


def _coordinates(ctx: RequestContext, coordinator_type: CoordinatorType, key: str) -> bool:
    """Whether this broker coordinates the key.

    Every broker does while the internal topic does not exist.
    """
    topic = ctx.broker.cluster.topics.get(_TOPICS[coordinator_type])
    return topic is None or ctx.broker.nodes.leads(topic.partitions[partition_of(key, len(topic.partitions))])


def _of_one_key(coordinator_type: CoordinatorType, field: str, handler: Handler, ctx: RequestContext, request: Any) -> Any:
    key = getattr(request, field)
    if key is not None and not _coordinates(ctx, coordinator_type, key):
        raise NotCoordinator
    return handler.handle(ctx, request)


def _of_keys(routing: CoordinatorOfEach, handler: Handler, ctx: RequestContext, request: Any) -> Any:
    keys = getattr(request, routing.keys)
    if not keys and routing.single_key is not None:
        return _of_one_key(routing.type, routing.single_key, handler, ctx, request)
    own = [each for each in keys if _coordinates(ctx, routing.type, each if routing.key is None else getattr(each, routing.key))]
    if len(own) == len(keys):
        return handler.handle(ctx, request)
    others = [each for each in keys if each not in own]
    refused = refusal(handler, ctx, replace(request, **{routing.keys: others}), NotCoordinator())
    if not own:
        return refused

    def joined(response: Any) -> Any:
        return replace(response, **{routing.results: [*getattr(response, routing.results), *getattr(refused, routing.results)]})

    return after(handler.handle(ctx, replace(request, **{routing.keys: own})), joined)


def _listing(routing: EachCoordinator, handler: Handler, ctx: RequestContext, request: Any) -> Any:
    def own(response: Any) -> Any:
        listed = getattr(response, routing.results)
        return replace(
            response, **{routing.results: [each for each in listed if _coordinates(ctx, routing.type, getattr(each, routing.key))]}
        )

    return after(handler.handle(ctx, request), own)


# Directories


def _log_dirs(routing: EachBroker, handler: Handler, ctx: RequestContext, request: Any) -> Any:
    def own(response: Any) -> Any:
        for directory in getattr(response, routing.results):
            for topic in directory.topics:
                topic.partitions = [each for each in topic.partitions if _has_replica(ctx, topic.name, each.partition_index)]
            directory.topics = [topic for topic in directory.topics if topic.partitions]
        return response

    return after(handler.handle(ctx, request), own)


def _has_replica(ctx: RequestContext, topic_name: str, index: int) -> bool:
    topic = ctx.broker.cluster.topics.get(topic_name)
    return (
        topic is not None
        and index < len(topic.partitions)
        and ctx.broker.nodes.own.node_id in ctx.broker.nodes.of(topic.partitions[index]).replicas
    )
