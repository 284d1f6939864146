"""ListPartitionReassignments (key 46): partitions that are moving to other brokers (KIP-455).

Versions: 0; flexible. One node moves no partitions. The response has only reassignments that a
larger Apache Kafka cluster had started in this directory, and those that run with
minibroker.like.kafka. Topics and partitions that do not exist are skipped. `timeout_ms` is not
used.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from minibroker.cluster.partition import Partition
from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.delayed import Delayed
from minibroker.dispatch.pieces import Pieces
from minibroker.dispatch.registry import handles
from minibroker.dispatch.slices import Steps
from minibroker.schemas import k46_list_partition_reassignments as schema

_STEP: Final = 500  #: partitions examined between two pauses


@handles(schema, Pieces("topics.partition_indexes", "topics.partitions"))
def list_partition_reassignments(ctx: RequestContext, request: schema.Request) -> schema.Response | Delayed:
    """List the reassignments of all topics, or of those in the request."""
    if request.topics is None:
        return ctx.broker.slices.run(_list_all(ctx))
    topics = ctx.cluster.topics
    found = [
        (each.name, [topics[each.name].partitions[index] for index in each.partition_indexes if _has(ctx, each.name, index)])
        for each in request.topics
    ]
    return _answer([(name, [moved for each in partitions if (moved := _reassignment(ctx, each))]) for name, partitions in found])


def _list_all(ctx: RequestContext) -> Steps:
    """List reassignments of all current topics, except those that are deleted during a pause."""
    found: list[tuple[str, list[schema.PartitionResult]]] = []
    for name in list(ctx.cluster.topics):
        moving: list[schema.PartitionResult] = []
        index = 0
        while (topic := ctx.cluster.topics.get(name)) is not None and index < len(topic.partitions):
            moving += [moved for each in topic.partitions[index : index + _STEP] if (moved := _reassignment(ctx, each))]
            index += _STEP
            yield None
        found.append((name, moving))
    return _answer(found)


def _answer(found: Iterable[tuple[str, list[schema.PartitionResult]]]) -> schema.Response:
    results = [schema.TopicResult(name=name, partitions=partitions) for name, partitions in found if partitions]
    return schema.Response(error_code=0, error_message=None, topics=results)


def _has(ctx: RequestContext, topic: str, index: int) -> bool:
    return topic in ctx.cluster.topics and 0 <= index < len(ctx.cluster.topics[topic].partitions)


def _reassignment(ctx: RequestContext, partition: Partition) -> schema.PartitionResult | None:
    running = ctx.cluster.leadership.reassignment(partition)
    if running is None:
        return None
    return schema.PartitionResult(
        partition_index=partition.index,
        replicas=running.replicas,
        adding_replicas=running.adding,
        removing_replicas=running.removing,
    )
