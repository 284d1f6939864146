"""A consumer that says its rack is told of a replica there, and may read from it (KIP-392).

As Apache Kafka with replica.selector.class=org.apache.kafka.common.replica.RackAwareReplicaSelector: the leader of a partition names a
replica that is in sync, in the consumer's rack, unless it is there itself; it gives no records with that, and does not wait. The consumer
asks again there. In a Fetch session each answer names the partition, whether or not there is news of it, until the consumer takes it out
of the session. Where the selector is not set, nobody is sent anywhere. Nothing is replicated: a replica is never behind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.middleware import after
from minibroker.dispatch.partition_refusal import places_of, serve, session_of
from minibroker.dispatch.partition_split import ErrorOf
from minibroker.dispatch.registry import Handler
from minibroker.wire.schema import replace

if TYPE_CHECKING:
    from uuid import UUID

    from minibroker.cluster.partition import Partition
    from minibroker.schemas import k01_fetch

NOWHERE: Final = -1


def fetch(handler: Handler, ctx: RequestContext, request: k01_fetch.Request, error_of: ErrorOf) -> Any:
    """What the handler gives without what `error_of` refuses, and for a consumer with a rack, where it had better read."""
    if not request.rack_id or request.replica_id >= 0 or not ctx.broker.nodes.selects_replicas:
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
                    session.tell_again(topic.topic_id if session.uses_topic_ids else topic.name, index)
    if not preferred:
        return serve(handler, ctx, request, error_of)

    def told(response: Any) -> Any:
        for topic in response.responses:
            for result in topic.partitions:
                replica = preferred.get((topic.topic or topic.topic_id, result.partition_index), NOWHERE)
                if replica != NOWHERE and not result.error_code:
                    result.preferred_read_replica, result.records, result.aborted_transactions = replica, b"", None
        return response

    return after(serve(handler, ctx, replace(request, max_wait_ms=0), error_of), told)


def preferred_replica(ctx: RequestContext, partition: Partition, rack: str) -> int:
    """Where a consumer of this rack had better read; NOWHERE: at the broker that was asked."""
    nodes = ctx.broker.nodes.of(partition)
    if nodes.leader_id != ctx.broker.nodes.own.node_id or ctx.broker.nodes.own.rack == rack:
        return NOWHERE
    for node_id in nodes.in_sync:
        node = ctx.broker.nodes.find(node_id)
        if node is not None and node.rack == rack:
            return node_id
    return NOWHERE
