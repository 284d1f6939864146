"""ListPartitionReassignments (key 46): which partitions are being moved to other brokers (KIP-455).

Versions: 0; flexible. One node has no other node to move replicas to, so the answer is empty, except for what an Apache Kafka with more
nodes had begun when its directory came here, and for reassignments that run with minibroker.like.kafka (cluster/reassignments.py).
Topics and partitions that do not exist are skipped.
`timeout_ms` is never used.
"""

from __future__ import annotations

from collections.abc import Iterable

from minibroker.cluster.partition import Partition
from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.pieces import Pieces
from minibroker.dispatch.registry import handles
from minibroker.schemas import k46_list_partition_reassignments as schema


@handles(schema, Pieces("topics.partition_indexes", "topics.partitions"))
def list_partition_reassignments(ctx: RequestContext, request: schema.Request) -> schema.Response:
    """Answer what is under way, of all topics or of those that were named."""
    topics = ctx.cluster.topics
    if request.topics is None:
        asked: list[tuple[str, Iterable[Partition]]] = [(name, topic.partitions) for name, topic in topics.items()]
    else:
        asked = [
            (each.name, [topics[each.name].partitions[index] for index in each.partition_indexes if _has(ctx, each.name, index)])
            for each in request.topics
        ]
    results = [
        schema.TopicResult(name=name, partitions=[moved for partition in partitions if (moved := _under_way(ctx, partition))])
        for name, partitions in asked
    ]
    return schema.Response(error_code=0, error_message=None, topics=[result for result in results if result.partitions])


def _has(ctx: RequestContext, topic: str, index: int) -> bool:
    return topic in ctx.cluster.topics and 0 <= index < len(ctx.cluster.topics[topic].partitions)


def _under_way(ctx: RequestContext, partition: Partition) -> schema.PartitionResult | None:
    leadership = ctx.cluster.leadership
    running = None if leadership is None or leadership.reassignments is None else leadership.reassignments.of(partition)
    if running is not None:
        return schema.PartitionResult(
            partition_index=partition.index,
            replicas=running.replicas,
            adding_replicas=running.adding,
            removing_replicas=running.removing,
        )
    known = ctx.cluster.image.partition_record(partition)
    if not (known.adding_replicas or known.removing_replicas):
        return None
    return schema.PartitionResult(
        partition_index=partition.index,
        replicas=known.replicas,
        adding_replicas=known.adding_replicas,
        removing_replicas=known.removing_replicas,
    )
