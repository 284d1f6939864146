"""DescribeTopicPartitions (key 75): topics and partitions a page at a time, by name (KIP-966).

Version: 0, flexible. Topics come in the order of their names, each once; no topics in the request means all. At most
`response_partition_limit` partitions (1 to max.request.partition.size.limit) are answered; `next_cursor` says where to go on. A cursor
must name one of the topics asked for; one that has been deleted since goes on with the next.
Eligible leader replicas are empty: the one replica is always in sync.
"""

from __future__ import annotations

from typing import Final

from minibroker.cluster.partition import Partition
from minibroker.cluster.topic import Topic
from minibroker.cluster.topic_rules import check_name
from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.registry import handles
from minibroker.errors import InvalidRequest, KafkaError, LeaderNotAvailable, UnknownTopicOrPartition
from minibroker.schemas import k75_describe_topic_partitions as schema

TOPIC_OPERATIONS: Final = 0b1101_1111_1000  #: AclOperation bits: read, write, create, delete, alter, describe, describe and alter configs


@handles(schema)
def describe_topic_partitions(ctx: RequestContext, request: schema.Request) -> schema.Response:
    """Fill one page."""
    room = max(1, min(request.response_partition_limit, ctx.config.max_request_partition_size_limit))
    first_name, first_index = _start(request)
    topics: list[schema.TopicResult] = []
    for name in sorted(_wanted(ctx, request, first_name)):
        if room == 0:
            cursor = schema.Cursor(topic_name=name, partition_index=0)
            return schema.Response(topics=topics, next_cursor=cursor)
        start = first_index if name == first_name else 0
        result = _describe(ctx, name, start, room)
        topics.append(result)
        room -= len(result.partitions)
        known = ctx.cluster.topics.get(name)
        end = start + len(result.partitions)
        if known is not None and end < len(known.partitions):
            return schema.Response(topics=topics, next_cursor=schema.Cursor(topic_name=name, partition_index=end))
    return schema.Response(topics=topics)


def _start(request: schema.Request) -> tuple[str, int]:
    cursor = request.cursor
    if cursor is None:
        return "", 0
    if cursor.partition_index < 0:
        raise InvalidRequest(f"the cursor's partition {cursor.partition_index} is below 0")
    if request.topics and all(topic.name != cursor.topic_name for topic in request.topics):
        raise InvalidRequest(f"the cursor's topic {cursor.topic_name} is none of the topics asked for")
    return cursor.topic_name, cursor.partition_index


def _wanted(ctx: RequestContext, request: schema.Request, first_name: str) -> set[str]:
    names = {topic.name for topic in request.topics} or set(ctx.cluster.topics)
    return {name for name in names if name >= first_name}


def _describe(ctx: RequestContext, name: str, start: int, room: int) -> schema.TopicResult:
    try:
        check_name(name)
        topic = ctx.cluster.topic(name)
    except UnknownTopicOrPartition as error:
        return schema.TopicResult(error_code=error.code, name=name, partitions=[], topic_authorized_operations=TOPIC_OPERATIONS)
    except KafkaError as error:
        return schema.TopicResult(error_code=error.code, name=name, partitions=[])
    return _described(ctx, topic, topic.partitions[start : start + room])


def _described(ctx: RequestContext, topic: Topic, partitions: list[Partition]) -> schema.TopicResult:
    replicas = [ctx.cluster.node.node_id]
    return schema.TopicResult(
        error_code=0,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=[_partition(partition, replicas) for partition in partitions],
        topic_authorized_operations=TOPIC_OPERATIONS,
    )


def _partition(partition: Partition, replicas: list[int]) -> schema.PartitionResult:
    is_online = partition.online_log is not None
    return schema.PartitionResult(
        error_code=0 if is_online else LeaderNotAvailable.code,
        partition_index=partition.index,
        leader_id=replicas[0] if is_online else -1,
        leader_epoch=partition.leader_epoch,
        replica_nodes=replicas,
        isr_nodes=replicas if is_online else [],
        eligible_leader_replicas=[],
        last_known_elr=[],
        offline_replicas=[] if is_online else replicas,
    )
