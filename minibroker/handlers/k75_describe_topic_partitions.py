"""DescribeTopicPartitions (key 75): topics and partitions in pages, ordered by topic name.

Versions: 0, flexible. A request without names gets all topics. Repeated names have one result. A
page has up to response_partition_limit partitions, or the broker's max.request.partition.size.limit
if that is smaller, but at least one. next_cursor is the start of the next page. It can be a topic
that does not exist: errors do not count towards the limit, but those after the last partition of a
full page are on the next one. A cursor must name one of the requested topics (INVALID_REQUEST). If
all were requested, it may name a deleted one. A partition without a leader has leader -1 and no
error, unlike in Metadata. Several simulated brokers have eligible leaders and a last leader. With
one broker these lists are empty, like those of Kafka's partitions that are in sync. Topics are
never created. The authorized operations are always returned; without an authorizer these are all
operations. An empty name is INVALID_TOPIC_EXCEPTION. Apache Kafka 4.3.1 fails the whole request
with UNKNOWN_SERVER_ERROR.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Final

from minibroker.cluster.nodes import Nodes
from minibroker.cluster.partition import Partition
from minibroker.cluster.topic import Topic
from minibroker.cluster.topic_rules import TOPIC_OPERATIONS, check_name
from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.delayed import Delayed
from minibroker.dispatch.registry import handles
from minibroker.dispatch.slices import SORTED_AT_ONCE, Steps, in_order
from minibroker.errors import InvalidRequest, KafkaError, UnknownTopicOrPartition
from minibroker.schemas import k75_describe_topic_partitions as schema

_STEP: Final = 100  #: topics described between two pauses; a page has few partitions


@handles(schema, has_long_answer=True)
def describe_topic_partitions(ctx: RequestContext, request: schema.Request) -> schema.Response | Delayed:
    """Return one page."""
    return ctx.broker.slices.run(_describe(ctx, request))


def _describe(ctx: RequestContext, request: schema.Request) -> Steps:
    first_name, first_index = _start(request)
    names = yield from _names(ctx, request, first_name)
    remaining = max(min(request.response_partition_limit, ctx.broker.config.max_request_partition_size_limit), 1)
    described: list[schema.TopicResult] = []
    for number, name in enumerate(names):
        if number % _STEP == _STEP - 1:
            yield None
        topic = ctx.cluster.topics.get(name)
        if topic is None and not request.topics:
            continue  # it was deleted during a pause
        if remaining == 0:
            return _page(described, name, 0)
        if topic is None:
            described.append(_unknown(name))
            continue
        start = first_index if name == first_name else 0
        described.append(_known(ctx, topic, start, remaining))
        if start + remaining < len(topic.partitions):
            return _page(described, name, start + remaining)
        remaining -= len(described[-1].partitions)
    return schema.Response(topics=described)


def _names(ctx: RequestContext, request: schema.Request, first_name: str) -> Generator[None, None, Iterator[str]]:
    """Return the names from `first_name` on, sorted and without repetition."""
    if not request.topics:
        return (yield from in_order([name for name in ctx.cluster.topics if name >= first_name]))
    names: set[str] = set()
    for start in range(0, len(request.topics), SORTED_AT_ONCE):
        names.update(topic.name for topic in request.topics[start : start + SORTED_AT_ONCE] if topic.name >= first_name)
        yield
    return (yield from in_order(names))


def _page(topics: list[schema.TopicResult], next_name: str, next_index: int) -> schema.Response:
    return schema.Response(topics=topics, next_cursor=schema.Cursor(topic_name=next_name, partition_index=next_index))


def _start(request: schema.Request) -> tuple[str, int]:
    """Return the topic name and partition index where the page starts."""
    cursor = request.cursor
    if cursor is None:
        return "", 0
    if request.topics and all(topic.name != cursor.topic_name for topic in request.topics):
        raise InvalidRequest(f"DescribeTopicPartitionsRequest topic list should contain the cursor topic: {cursor.topic_name}")
    if cursor.partition_index < 0:
        raise InvalidRequest(f"DescribeTopicPartitionsRequest cursor partition must be valid: {cursor}")
    return cursor.topic_name, cursor.partition_index


def _unknown(name: str) -> schema.TopicResult:
    error: KafkaError = UnknownTopicOrPartition()
    try:
        check_name(name)
    except KafkaError as refusal:
        error = refusal
    return schema.TopicResult(error_code=error.code, name=name, partitions=[], topic_authorized_operations=TOPIC_OPERATIONS)


def _known(ctx: RequestContext, topic: Topic, start: int, most: int) -> schema.TopicResult:
    nodes = ctx.broker.nodes
    return schema.TopicResult(
        error_code=0,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=[_partition(partition, nodes) for partition in topic.partitions[start : start + most]],
        topic_authorized_operations=TOPIC_OPERATIONS,
    )


def _partition(partition: Partition, nodes: Nodes) -> schema.PartitionResult:
    found, leaders = nodes.of(partition), nodes.eligible(partition)
    return schema.PartitionResult(
        error_code=0,
        partition_index=partition.index,
        leader_id=found.leader_id,
        leader_epoch=partition.leader_epoch,
        replica_nodes=found.replicas,
        isr_nodes=found.in_sync,
        eligible_leader_replicas=leaders.eligible,
        last_known_elr=leaders.last_known,
        offline_replicas=found.offline,
    )
