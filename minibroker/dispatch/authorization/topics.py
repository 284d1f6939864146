"""Authorize requests about topics (Metadata, DescribeTopicPartitions, CreateTopics, DeleteTopics), configs and the cluster.

For a topic that a client may not describe, the answer is the same whether the topic exists or not.
Lists of all topics do not contain it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Any, Final
from uuid import UUID

from minibroker.cluster.metadata.metadata_image import (
    BROKER_LOGGER_RESOURCE,
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
)
from minibroker.cluster.topic import INTERNAL_TOPICS
from minibroker.dispatch.authorization.access import STEP, Access, allowed, changed, filtered, keep_allowed
from minibroker.dispatch.authorization.parts import serve_elements, serve_topics
from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.delayed import Delayed
from minibroker.dispatch.middleware import after
from minibroker.dispatch.registry import Handler
from minibroker.errors import (
    ClusterAuthorizationFailed,
    GroupAuthorizationFailed,
    KafkaError,
    TopicAuthorizationFailed,
    UnknownTopicOrPartition,
)
from minibroker.schemas import k03_metadata, k19_create_topics, k20_delete_topics, k60_describe_cluster, k75_describe_topic_partitions
from minibroker.security.acl import CLUSTER_NAME, Operation, ResourceType
from minibroker.security.authorizer import rights_key
from minibroker.wire.schema import NIL_UUID, replace

_BY_ID_SINCE: Final = 12  #: of Metadata
_DESCRIBE: Final = rights_key(Operation.DESCRIBE, ResourceType.TOPIC)
_NOT_ASKED_FOR: Final = k03_metadata.OPERATIONS_NOT_ASKED_FOR
_REFUSED: Final = TopicAuthorizationFailed.code
_OPERATIONS_STEP: Final = STEP // 8  #: topics between two pauses; each has eight operations


def metadata(handler: Handler, ctx: RequestContext, request: k03_metadata.Request) -> Any:
    """DESCRIBE of each topic; CREATE of topics that the request creates."""
    requested = request.topics
    if requested and _is_plain(ctx, request, requested):
        return handler.handle(ctx, request)
    access = Access(ctx, handler.api.name)
    if requested is None or (ctx.api_version == 0 and not requested):
        result = handler.handle(ctx, request)
        result = keep_allowed(ctx, result, "topics", lambda topic: access.may(Operation.DESCRIBE, ResourceType.TOPIC, topic.name))
        return changed(ctx, result, lambda response: _add_operations(access, request, response))
    refused: dict[Any, k03_metadata.TopicResult] = {}
    rest = []
    for topic in requested:
        answer = _refusal(access, ctx, request, topic)
        if answer is None:
            rest.append(topic)
        else:
            refused[answer.name or answer.topic_id] = answer
    is_empty_for_all = not rest and ctx.api_version == 0  # in version 0 an empty list means all topics

    def joined(response: Any) -> Any:
        if is_empty_for_all:
            response.topics = []
        response.topics = [*response.topics, *refused.values()]
        return response

    result = handler.handle(ctx, replace(request, topics=rest) if refused else request)
    if request.include_topic_authorized_operations or request.include_cluster_authorized_operations:
        result = changed(ctx, result, lambda response: _add_operations(access, request, response))
    return after(result, joined)


def _is_plain(ctx: RequestContext, request: k03_metadata.Request, requested: Iterable[k03_metadata.Topic]) -> bool:
    """Return whether a request names only topics that exist and that the client may describe, without operations."""
    if request.include_topic_authorized_operations or request.include_cluster_authorized_operations:
        return False
    known, topics = allowed(ctx, _DESCRIBE), ctx.cluster.topics
    return all(topic.name in known and topic.name in topics and not topic.topic_id.int for topic in requested)


def _refusal(
    access: Access, ctx: RequestContext, request: k03_metadata.Request, topic: k03_metadata.Topic
) -> k03_metadata.TopicResult | None:
    """Return the answer for a refused topic; None for an allowed one."""
    if ctx.api_version >= _BY_ID_SINCE and topic.topic_id != NIL_UUID:
        known = ctx.cluster.image.topics_by_id.get(topic.topic_id)
        if known is None or access.allows(Operation.DESCRIBE, ResourceType.TOPIC, known.name):
            return None
        return k03_metadata.TopicResult(error_code=_REFUSED, name=None, topic_id=topic.topic_id, partitions=[])
    name = topic.name
    if name is None:
        return None  # the handler rejects it
    if access.allows(Operation.DESCRIBE, ResourceType.TOPIC, name):
        if name in ctx.cluster.topics or not request.allow_auto_topic_creation or not ctx.broker.config.auto_create_topics_enable:
            return None
        if access.may_on_cluster(Operation.CREATE) or access.allows(Operation.CREATE, ResourceType.TOPIC, name):
            return None
    return k03_metadata.TopicResult(error_code=_REFUSED, name=name, is_internal=name in INTERNAL_TOPICS, partitions=[])


def _add_operations(access: Access, request: k03_metadata.Request, response: Any) -> Generator[None, None, None]:
    if request.include_topic_authorized_operations:
        for number, topic in enumerate(response.topics):
            if number % _OPERATIONS_STEP == _OPERATIONS_STEP - 1:
                yield
            if topic.topic_authorized_operations != _NOT_ASKED_FOR:
                topic.topic_authorized_operations = access.operations(ResourceType.TOPIC, topic.name or "")
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = cluster_operations(access)


def cluster_operations(access: Access) -> int:
    """Return the operations that a client may do on the cluster; 0 if it may not describe the cluster."""
    if not access.may_on_cluster(Operation.DESCRIBE):
        return 0
    return access.operations(ResourceType.CLUSTER, CLUSTER_NAME)


def describe_topic_partitions(handler: Handler, ctx: RequestContext, request: k75_describe_topic_partitions.Request) -> Any:
    """DESCRIBE of each topic. A page of all topics has only those that the client may describe."""
    access = Access(ctx, handler.api.name)
    result = ctx.broker.slices.run(_describe(access, handler, ctx, request))

    def add_operations(response: Any) -> Generator[None, None, None]:
        for number, topic in enumerate(response.topics):
            if number % _OPERATIONS_STEP == _OPERATIONS_STEP - 1:
                yield
            if topic.error_code != _REFUSED:
                topic.topic_authorized_operations = access.operations(ResourceType.TOPIC, topic.name or "")

    return changed(ctx, result, add_operations)


def _describe(
    access: Access, handler: Handler, ctx: RequestContext, request: k75_describe_topic_partitions.Request
) -> Generator[Delayed | None, Any, Any]:
    cursor, is_all = request.cursor, not request.topics
    if is_all:
        first = "" if cursor is None else cursor.topic_name
        names = [name for name in ctx.cluster.topics if name >= first]
        shown = yield from filtered(names, lambda name: access.may(Operation.DESCRIBE, ResourceType.TOPIC, name))
        refused = []
    else:
        names = list(dict.fromkeys(topic.name for topic in request.topics))
        if cursor is not None and cursor.topic_name in names:
            names = [name for name in names if name >= cursor.topic_name]
        shown = yield from filtered(names, lambda name: access.allows(Operation.DESCRIBE, ResourceType.TOPIC, name))
        refused = sorted({*names}.difference(shown))
        if cursor is not None and cursor.topic_name not in names:
            return handler.handle(ctx, request)  # the answer is an error for any topics
    answers = [k75_describe_topic_partitions.TopicResult(error_code=_REFUSED, name=name, partitions=[]) for name in refused]
    if not shown:  # an empty list would mean all topics
        return k75_describe_topic_partitions.Response(topics=answers)
    if cursor is not None and cursor.topic_name not in shown:
        cursor = None
    topics = [k75_describe_topic_partitions.Topic(name=name) for name in shown]
    response = handler.handle(ctx, replace(request, topics=topics, cursor=cursor))
    if isinstance(response, Delayed):
        response = yield response
    if is_all:  # without topics that were deleted in the meantime
        response.topics = [topic for topic in response.topics if topic.error_code != UnknownTopicOrPartition.code]
    response.topics = [*answers, *response.topics]
    return response


def create_topics(handler: Handler, ctx: RequestContext, request: k19_create_topics.Request) -> Any:
    """CREATE of the cluster or of each topic.

    The answer has configs of new topics only for clients with DESCRIBE_CONFIGS.
    """
    access = Access(ctx, handler.api.name)

    def hide_configs(response: Any) -> Any:
        for topic in response.topics:
            if topic.error_code == 0 and not access.may(Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, topic.name):
                topic.topic_config_error_code = _REFUSED
                topic.num_partitions = topic.replication_factor = -1
                topic.configs = []
        return response

    if access.may_on_cluster(Operation.CREATE):
        return after(handler.handle(ctx, request), hide_configs)
    return after(serve_topics(handler, ctx, request, access.topic_errors(ctx, Operation.CREATE)), hide_configs)


def delete_topics(handler: Handler, ctx: RequestContext, request: k20_delete_topics.Request) -> Any:
    """DELETE of the cluster or of each topic.

    The answer hides the name of a topic id from clients that may not describe the topic.
    """
    access = Access(ctx, handler.api.name)
    if access.may_on_cluster(Operation.DELETE):
        return handler.handle(ctx, request)
    by_id, by_name = ctx.cluster.image.topics_by_id, ctx.cluster.topics
    deletable = access.topic_errors(ctx, Operation.DELETE)

    def error_of(name: str, topic_id: UUID, _index: int | None) -> KafkaError | None:
        if name and name not in by_name and access.may(Operation.DESCRIBE, ResourceType.TOPIC, name):
            return None  # the client may see that the topic does not exist
        return deletable(name, topic_id)

    def named(response: Any) -> Any:
        for result in response.responses:
            known = by_id.get(result.topic_id)
            if known is not None and access.may(Operation.DESCRIBE, ResourceType.TOPIC, known.name):
                result.name = known.name
            elif result.topic_id != NIL_UUID:
                result.name = None
        return response

    return serve_topics(handler, ctx, request, error_of, named)


_CLUSTER_RESOURCES: Final = frozenset({BROKER_RESOURCE, BROKER_LOGGER_RESOURCE, CLIENT_METRICS_RESOURCE})


def describe_configs(handler: Handler, ctx: RequestContext, request: Any) -> Any:
    """DESCRIBE_CONFIGS of each topic or group, or of the cluster."""
    return _each_resource(Operation.DESCRIBE_CONFIGS, "results", handler, ctx, request)


def alter_configs(handler: Handler, ctx: RequestContext, request: Any) -> Any:
    """ALTER_CONFIGS of each topic or group, or of the cluster."""
    return _each_resource(Operation.ALTER_CONFIGS, "responses", handler, ctx, request)


def _each_resource(operation: Operation, results: str, handler: Handler, ctx: RequestContext, request: Any) -> Any:
    access = Access(ctx, handler.api.name)

    def error_of(resource: Any) -> KafkaError | None:
        kind = resource.resource_type
        if kind == TOPIC_RESOURCE:
            return None if access.allows(operation, ResourceType.TOPIC, resource.resource_name) else TopicAuthorizationFailed()
        if kind == GROUP_RESOURCE:
            return None if access.allows(operation, ResourceType.GROUP, resource.resource_name) else GroupAuthorizationFailed()
        if kind in _CLUSTER_RESOURCES and not access.allows(operation, ResourceType.CLUSTER, CLUSTER_NAME):
            return ClusterAuthorizationFailed()
        return None  # the handler rejects other types

    return serve_elements(handler, ctx, request, keys="resources", results=results, error_of=error_of)


def describe_cluster(handler: Handler, ctx: RequestContext, request: k60_describe_cluster.Request) -> Any:
    """Allowed for every client. The operations are 0 for a client that may not DESCRIBE the cluster."""

    def with_operations(response: Any) -> Any:
        if request.include_cluster_authorized_operations:
            response.cluster_authorized_operations = cluster_operations(Access(ctx, handler.api.name))
        return response

    return after(handler.handle(ctx, request), with_operations)
