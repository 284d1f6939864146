"""Metadata (key 3): brokers, topics, partitions and their leaders.

Versions: 0 to 13; 9 is flexible. Which topics: all for null (version 0: for an empty list), none for an empty list, else those
named, each once; from version 12 by topic_id where one is given, whatever the name says.
An unknown topic is created when both the request and auto.create.topics.enable allow it, and is ready in this answer. Its
name is checked first: INVALID_TOPIC_EXCEPTION. A client is told the advertised address of the listener that it came in by.
Authorized operations are all that there are, as in Kafka without an authorizer; -2**31 when they were not asked for.
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

from minibroker.cluster.authorized_operations import CLUSTER_OPERATIONS, TOPIC_OPERATIONS
from minibroker.cluster.node import Node
from minibroker.cluster.nodes import NO_LEADER, PartitionNodes
from minibroker.cluster.partition import Partition
from minibroker.cluster.topic import Topic
from minibroker.cluster.topic_rules import METADATA_TOPIC, check_name
from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.delayed import Delayed
from minibroker.dispatch.pieces import Merged, Pieces
from minibroker.dispatch.registry import handles
from minibroker.dispatch.slices import Steps
from minibroker.errors import InvalidRequest, KafkaError, LeaderNotAvailable
from minibroker.schemas import k03_metadata as schema
from minibroker.wire.schema import NIL_UUID, constructor, replace

BY_ID_SINCE: Final = 12

_PIECES: Final = Pieces("topics", "topics", size=100, key=lambda _ctx, topic: topic.name if topic.topic_id == NIL_UUID else topic.topic_id)
_AT_ONCE: Final = 1000  #: topics up to which all are described in one turn

_partition_result = constructor(schema.PartitionResult)


@handles(schema, _PIECES)
def metadata(ctx: RequestContext, request: schema.Request) -> schema.Response | Delayed:
    """Answer each topic on its own."""
    asked = request.topics
    if not asked and (asked is None or ctx.api_version == 0):
        if len(ctx.cluster.topics) > _AT_ONCE:
            answer: schema.Response | Delayed = ctx.slices.run(_all_in_slices(ctx, request))
            return answer
        topics = [_known(ctx, request, topic) for topic in ctx.cluster.topics.values()]
    else:
        topics = _topics(ctx, request, asked)
    return schema.Response(
        brokers=[_broker(node, *node.advertised(ctx.connection.listener_name)) for node in ctx.nodes.alive],
        cluster_id=ctx.cluster.cluster_id,
        controller_id=ctx.nodes.controller_id,
        topics=topics,
        cluster_authorized_operations=CLUSTER_OPERATIONS
        if request.include_cluster_authorized_operations
        else schema.OPERATIONS_NOT_ASKED_FOR,
    )


def _all_in_slices(ctx: RequestContext, request: schema.Request) -> Steps:
    """Describe those topics of now that are still there when their turn comes."""
    merged = Merged(_PIECES, ctx.api_version, flexible=ctx.api_version >= schema.FLEXIBLE_SINCE)
    names = list(ctx.cluster.topics)
    for start in range(0, len(names), _PIECES.size):
        yield None
        there = [name for name in names[start : start + _PIECES.size] if name in ctx.cluster.topics]
        if there:
            merged.add(metadata(ctx, replace(request, topics=[schema.Topic(name=name) for name in there])), 0)
    response: schema.Response = merged.response()
    return response


def _broker(node: Node, host: str, port: int) -> schema.Broker:
    return schema.Broker(node_id=node.node_id, host=host, port=port, rack=node.rack)


def _topics(ctx: RequestContext, request: schema.Request, asked: list[schema.Topic]) -> list[schema.TopicResult]:
    if ctx.api_version < BY_ID_SINCE and any(topic.name is None or topic.topic_id != NIL_UUID for topic in asked):
        raise InvalidRequest(f"topics by id need version {BY_ID_SINCE}")
    answers = {}
    for topic in asked:
        key = topic.topic_id if topic.topic_id != NIL_UUID else topic.name
        if key not in answers:
            answers[key] = _answer(ctx, request, key)
    # One topic may have been asked for by id and by name.
    return list({(answer.name, answer.topic_id): answer for answer in answers.values()}.values())


def _answer(ctx: RequestContext, request: schema.Request, key: UUID | str | None) -> schema.TopicResult:
    try:
        return _known(ctx, request, _find(ctx, request, key))
    except KafkaError as error:
        return schema.TopicResult(
            error_code=error.code,
            name=None if isinstance(key, UUID) else key or "",
            topic_id=key if isinstance(key, UUID) else NIL_UUID,
            partitions=[],
            topic_authorized_operations=schema.OPERATIONS_NOT_ASKED_FOR if isinstance(key, UUID) else _operations(request),
        )


def _find(ctx: RequestContext, request: schema.Request, key: UUID | str | None) -> Topic:
    if key is None:
        raise InvalidRequest("a topic without name and id")
    if isinstance(key, UUID):
        return ctx.cluster.topic_by_id(key)
    topic = ctx.cluster.topics.get(key)
    if topic is not None:
        return topic
    if request.allow_auto_topic_creation and key != METADATA_TOPIC:
        asked = request.topics or ()
        if len(asked) > 1:
            ctx.cluster.auto_create_topics(
                topic.name for topic in asked if topic.name is not None and topic.topic_id == NIL_UUID and topic.name != METADATA_TOPIC
            )
        return ctx.cluster.auto_create_topic(key)
    check_name(key)
    return ctx.cluster.topic(key)


def _known(ctx: RequestContext, request: schema.Request, topic: Topic) -> schema.TopicResult:
    nodes_of = ctx.nodes.of
    return schema.TopicResult(
        error_code=0,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=[_partition(partition, nodes_of(partition)) for partition in topic.partitions],
        topic_authorized_operations=_operations(request),
    )


def _operations(request: schema.Request) -> int:
    return TOPIC_OPERATIONS if request.include_topic_authorized_operations else schema.OPERATIONS_NOT_ASKED_FOR


def _partition(partition: Partition, nodes: PartitionNodes) -> schema.PartitionResult:
    return _partition_result(
        error_code=0 if nodes.leader_id != NO_LEADER else LeaderNotAvailable.code,
        partition_index=partition.index,
        leader_id=nodes.leader_id,
        leader_epoch=partition.leader_epoch,
        replica_nodes=nodes.replicas,
        isr_nodes=nodes.in_sync,
        offline_replicas=nodes.offline,
    )
