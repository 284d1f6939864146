"""Metadata (key 3): brokers, topics, partitions and their leaders.

Versions: 0 to 13; 9 is flexible. Topics: null (an empty list in version 0) requests all, an empty
list requests none. Repeated topics have one result. From version 12 on a topic_id takes precedence
over the name. An unknown topic is created if both the request and auto.create.topics.enable allow
it, and is ready in this response. Invalid names are INVALID_TOPIC_EXCEPTION. Brokers have the
advertised address of the listener that the client is connected to. Authorized operations are all
operations, unless there is an authorizer; -2**31 if they were not requested.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from typing import Final
from uuid import UUID

from minibroker.cluster.nodes import NO_LEADER, Node, PartitionNodes
from minibroker.cluster.partition import Partition
from minibroker.cluster.topic import Topic
from minibroker.cluster.topic_rules import CLUSTER_OPERATIONS, METADATA_TOPIC, TOPIC_OPERATIONS, check_name
from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.delayed import Delayed
from minibroker.dispatch.pieces import Pieces
from minibroker.dispatch.registry import handles
from minibroker.dispatch.slices import Steps
from minibroker.errors import InvalidRequest, KafkaError, LeaderNotAvailable
from minibroker.schemas import k03_metadata as schema
from minibroker.wire.schema import NIL_UUID, constructor

BY_ID_SINCE: Final = 12

Key = UUID | str | None  #: topic id or name

_PIECES: Final = Pieces("topics", "topics", size=100, key=lambda _ctx, topic: topic.name if topic.topic_id == NIL_UUID else topic.topic_id)
_AT_ONCE: Final = 1000  #: topics and partitions described in one turn
_STEP: Final = 200  #: partitions described between two pauses

_partition_result = constructor(schema.PartitionResult)
_topic_result = constructor(schema.TopicResult)


@handles(schema, _PIECES, has_long_answer=True)
def metadata(ctx: RequestContext, request: schema.Request) -> schema.Response | Delayed:
    """Describe each requested topic."""
    requested = request.topics
    if not requested and (requested is None or ctx.api_version == 0):
        if not _are_many(ctx.cluster.topics.values()):
            return _response(ctx, request, [_known(ctx, request, topic) for topic in ctx.cluster.topics.values()])
        steps = _all_in_slices(ctx, request)
    else:
        keys = _keys(ctx, requested)
        if not _are_many(_existing(ctx, keys)):
            return _response(ctx, request, _each_once([_answer(ctx, request, key) for key in keys]))
        steps = _some_in_slices(ctx, request, keys)
    return ctx.broker.slices.run(steps)


def _response(ctx: RequestContext, request: schema.Request, topics: list[schema.TopicResult]) -> schema.Response:
    return schema.Response(
        brokers=[_broker(node, *node.advertised(ctx.connection.listener_name)) for node in ctx.broker.nodes.alive],
        cluster_id=ctx.cluster.cluster_id,
        controller_id=ctx.broker.nodes.controller_id,
        topics=topics,
        cluster_authorized_operations=CLUSTER_OPERATIONS
        if request.include_cluster_authorized_operations
        else schema.OPERATIONS_NOT_ASKED_FOR,
    )


def _are_many(topics: Iterable[Topic]) -> bool:
    """Return whether describing the topics would take longer than one turn may."""
    left = _AT_ONCE
    for topic in topics:
        left -= 1 + len(topic.partitions)
        if left < 0:
            return True
    return False


def _all_in_slices(ctx: RequestContext, request: schema.Request) -> Steps:
    """Describe all current topics, except those that are deleted during a pause."""
    results: list[schema.TopicResult] = []
    for name in list(ctx.cluster.topics):
        topic = ctx.cluster.topics.get(name)
        if topic is not None:
            results.append(_known(ctx, request, topic, _STEP))
            yield None
            if len(topic.partitions) > _STEP:
                yield from _add_partitions(ctx, results[-1], topic)
    return _response(ctx, request, results)


def _some_in_slices(ctx: RequestContext, request: schema.Request, keys: list[Key]) -> Steps:
    """Describe each key as `_answer` does, with pauses."""
    results: list[schema.TopicResult] = []
    for key in keys:
        try:
            topic = _find(ctx, request, key)
        except KafkaError as error:
            results.append(_refused(request, key, error))
            continue
        results.append(_known(ctx, request, topic, _STEP))
        yield None
        yield from _add_partitions(ctx, results[-1], topic)
    return _response(ctx, request, _each_once(results))


def _add_partitions(ctx: RequestContext, result: schema.TopicResult, topic: Topic) -> Generator[None, None, None]:
    """Describe the partitions after the first _STEP."""
    for start in range(_STEP, len(topic.partitions), _STEP):
        result.partitions.extend(_partition(each, ctx.broker.nodes.of(each)) for each in topic.partitions[start : start + _STEP])
        yield


def _broker(node: Node, host: str, port: int) -> schema.Broker:
    return schema.Broker(node_id=node.node_id, host=host, port=port, rack=node.rack)


def _keys(ctx: RequestContext, requested: list[schema.Topic]) -> list[Key]:
    """Return the requested ids and names, each once."""
    if ctx.api_version < BY_ID_SINCE and any(topic.name is None or topic.topic_id != NIL_UUID for topic in requested):
        raise InvalidRequest(f"topics by id need version {BY_ID_SINCE}")
    return list(dict.fromkeys(topic.topic_id if topic.topic_id != NIL_UUID else topic.name for topic in requested))


def _existing(ctx: RequestContext, keys: Iterable[Key]) -> Iterator[Topic]:
    by_name, by_id = ctx.cluster.topics, ctx.cluster.image.topics_by_id
    for key in keys:
        topic = by_id.get(key) if isinstance(key, UUID) else by_name.get(key or "")
        if topic is not None:
            yield topic


def _each_once(answers: list[schema.TopicResult]) -> list[schema.TopicResult]:
    """Remove repeated topics: a request may contain both the id and the name of a topic."""
    return list({(answer.name, answer.topic_id): answer for answer in answers}.values())


def _answer(ctx: RequestContext, request: schema.Request, key: Key) -> schema.TopicResult:
    try:
        return _known(ctx, request, _find(ctx, request, key))
    except KafkaError as error:
        return _refused(request, key, error)


def _refused(request: schema.Request, key: Key, error: KafkaError) -> schema.TopicResult:
    return schema.TopicResult(
        error_code=error.code,
        name=None if isinstance(key, UUID) else key or "",
        topic_id=key if isinstance(key, UUID) else NIL_UUID,
        partitions=[],
        topic_authorized_operations=schema.OPERATIONS_NOT_ASKED_FOR if isinstance(key, UUID) else _operations(request),
    )


def _find(ctx: RequestContext, request: schema.Request, key: Key) -> Topic:
    if key is None:
        raise InvalidRequest("a topic without name and id")
    if isinstance(key, UUID):
        return ctx.cluster.topic_by_id(key)
    topic = ctx.cluster.topics.get(key)
    if topic is not None:
        return topic
    if request.allow_auto_topic_creation and key != METADATA_TOPIC:
        requested = request.topics or ()
        if len(requested) > 1:
            ctx.cluster.auto_create_topics(
                topic.name for topic in requested if topic.name is not None and topic.topic_id == NIL_UUID and topic.name != METADATA_TOPIC
            )
        return ctx.cluster.auto_create_topic(key)
    check_name(key)
    return ctx.cluster.topic(key)


def _known(ctx: RequestContext, request: schema.Request, topic: Topic, most: int | None = None) -> schema.TopicResult:
    """Describe a topic with its partitions, or with the first `most` of them."""
    nodes_of = ctx.broker.nodes.of
    return _topic_result(
        error_code=0,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=[_partition(partition, nodes_of(partition)) for partition in topic.partitions[:most]],
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
