"""Authorize requests about groups: coordinators, offsets, lists, descriptions and heartbeats.

A heartbeat makes the coordinator act for the client: it matches regular expressions, and creates
the internal topics of Kafka Streams. While the handler runs, the coordinator has the client's
permissions (coordinator/group/topics.py).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any, Final

from minibroker.dispatch.authorization.access import STEP, Access, TopicErrors, changed, filtered, keep_allowed
from minibroker.dispatch.authorization.parts import serve_elements, serve_groups, serve_topics
from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.registry import Handler
from minibroker.errors import (
    ClusterAuthorizationFailed,
    GroupAuthorizationFailed,
    KafkaError,
    TopicAuthorizationFailed,
    TransactionalIdAuthorizationFailed,
)
from minibroker.schemas import (
    k09_offset_fetch,
    k10_find_coordinator,
    k14_sync_group,
    k16_list_groups,
    k68_consumer_group_heartbeat,
    k76_share_group_heartbeat,
    k88_streams_group_heartbeat,
    k90_describe_share_group_offsets,
)
from minibroker.security.acl import CLUSTER_NAME, Operation, ResourceType
from minibroker.wire.schema import NIL_UUID, replace

_ERROR_SINCE: Final = 2  #: OffsetFetch has an error of the whole answer
_GROUPS_SINCE: Final = 8  #: OffsetFetch has several groups
_KEYS_SINCE: Final = 4  #: FindCoordinator has several keys
_PROTOCOL_SINCE: Final = 5  #: SyncGroup has the protocol
_DESCRIBE_GROUPS: Final = 15
_NOT_REQUESTED: Final = -(2**31)
_HIDDEN_TOPICS: Final = "The group has described topic(s) that the client is not authorized to describe."


def find_coordinator(handler: Handler, ctx: RequestContext, request: k10_find_coordinator.Request) -> Any:
    """DESCRIBE of each group or transactional id; CLUSTER_ACTION for share coordinators."""
    access = Access(ctx, handler.api.name)

    def error_of(key: str) -> KafkaError | None:
        if request.key_type == k10_find_coordinator.GROUP:
            return None if access.allows(Operation.DESCRIBE, ResourceType.GROUP, key) else GroupAuthorizationFailed()
        if request.key_type == k10_find_coordinator.TRANSACTION:
            is_allowed = access.allows(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, key)
            return None if is_allowed else TransactionalIdAuthorizationFailed()
        if request.key_type == k10_find_coordinator.SHARE and not access.allows(
            Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME
        ):
            return ClusterAuthorizationFailed()
        return None  # the handler rejects other types

    if ctx.api_version >= _KEYS_SINCE:
        return serve_elements(handler, ctx, request, keys="coordinator_keys", results="coordinators", error_of=error_of)
    error = error_of(request.key)
    if error is not None:
        raise error
    return handler.handle(ctx, request)


def sync_group(handler: Handler, ctx: RequestContext, request: k14_sync_group.Request) -> Any:
    """READ of the group. A request without a protocol is rejected first, as in Kafka."""
    lacks_protocol = ctx.api_version >= _PROTOCOL_SINCE and (request.protocol_type is None or request.protocol_name is None)
    if not lacks_protocol and not Access(ctx, handler.api.name).allows(Operation.READ, ResourceType.GROUP, request.group_id):
        raise GroupAuthorizationFailed
    return handler.handle(ctx, request)


def list_groups(handler: Handler, ctx: RequestContext, request: k16_list_groups.Request) -> Any:
    """DESCRIBE of the cluster or of each group; other groups are left out."""
    access = Access(ctx, handler.api.name)
    result = handler.handle(ctx, request)
    if access.may_on_cluster(Operation.DESCRIBE):
        return result
    return keep_allowed(ctx, result, "groups", lambda group: access.may(Operation.DESCRIBE, ResourceType.GROUP, group.group_id))


# Offsets


def offset_fetch(handler: Handler, ctx: RequestContext, request: k09_offset_fetch.Request) -> Any:
    """DESCRIBE of each group and of each topic.

    A request for all topics gets those that the client may describe.
    """
    access = Access(ctx, handler.api.name)
    error_of = access.topic_errors(ctx, Operation.DESCRIBE)
    if ctx.api_version < _GROUPS_SINCE:
        if not access.allows(Operation.DESCRIBE, ResourceType.GROUP, request.group_id):
            if ctx.api_version < _ERROR_SINCE:
                raise GroupAuthorizationFailed
            return k09_offset_fetch.Response(topics=[], error_code=GroupAuthorizationFailed.code)
        result = serve_topics(handler, ctx, request, error_of, _without_metadata)
        if request.topics is not None:
            return result
        return keep_allowed(ctx, result, "topics", lambda topic: access.may(Operation.DESCRIBE, ResourceType.TOPIC, topic.name))

    return _offsets_of_groups(
        handler,
        ctx,
        request,
        is_allowed=lambda group: access.allows(Operation.DESCRIBE, ResourceType.GROUP, group.group_id),
        serve=lambda entries: serve_topics(handler, ctx, entries, error_of, _without_metadata),
        refused=lambda name: k09_offset_fetch.GroupResult(group_id=name, topics=[], error_code=GroupAuthorizationFailed.code),
        is_visible=lambda topic: error_of(topic.name, topic.topic_id) is None,
    )


def _without_metadata(response: Any) -> Any:
    """Return the answer to refused partitions with empty metadata, as in Kafka."""
    for topic in _topics_of(response):
        for each in topic.partitions:
            each.metadata = ""
    return response


def _topics_of(response: Any) -> Iterator[Any]:
    yield from response.topics
    for group in response.groups:
        yield from group.topics


def _offsets_of_groups(
    handler: Handler,
    ctx: RequestContext,
    request: Any,
    *,
    is_allowed: Callable[[Any], bool],
    serve: Callable[[Any], Any],
    refused: Callable[[str], Any],
    is_visible: Callable[[Any], bool],
) -> Any:
    """Serve the allowed groups. A group whose topics are null gets all visible topics."""
    allowed, refused_results = [], []
    for group in request.groups:
        if is_allowed(group):
            allowed.append(group)
        else:
            refused_results.append(refused(group.group_id))
    ids_for_all_topics = {group.group_id for group in allowed if group.topics is None}

    def finish(response: Any) -> Generator[None, None, None]:
        for group in response.groups:
            if group.group_id in ids_for_all_topics:
                group.topics = yield from filtered(group.topics, is_visible)
        response.groups = [*response.groups, *refused_results]

    if not allowed:
        return handler.api.Response(groups=refused_results)
    return changed(ctx, serve(replace(request, groups=allowed)), finish)


def describe_share_offsets(handler: Handler, ctx: RequestContext, request: k90_describe_share_group_offsets.Request) -> Any:
    """DESCRIBE of each group and of each topic.

    A request for all topics gets those that the client may describe.
    """
    access = Access(ctx, handler.api.name)
    error_of = access.topic_errors(ctx, Operation.DESCRIBE)
    error = GroupAuthorizationFailed()
    return _offsets_of_groups(
        handler,
        ctx,
        request,
        is_allowed=lambda group: access.allows(Operation.DESCRIBE, ResourceType.GROUP, group.group_id),
        serve=lambda entries: serve_topics(handler, ctx, entries, error_of),
        refused=lambda name: k90_describe_share_group_offsets.GroupResult(
            group_id=name, topics=[], error_code=error.code, error_message=str(error)
        ),
        is_visible=lambda topic: access.may(Operation.DESCRIBE, ResourceType.TOPIC, topic.topic_name),
    )


# Descriptions


def describe(handler: Handler, ctx: RequestContext, request: Any) -> Any:
    """DESCRIBE of each group, and of the topics of its members or of its topology (ConsumerGroupDescribe and the like)."""
    access = Access(ctx, handler.api.name)
    keys = "groups" if handler.api.key == _DESCRIBE_GROUPS else "group_ids"

    def is_allowed(name: str) -> bool:
        return access.allows(Operation.DESCRIBE, ResourceType.GROUP, name)

    def finish(response: Any) -> Generator[None, None, None]:
        groups = []
        for group in response.groups:
            groups.append((yield from _visible(access, group)))
            yield
        response.groups = groups

    return changed(ctx, serve_groups(handler, ctx, request, keys=keys, results="groups", is_allowed=is_allowed), finish)


def _visible(access: Access, group: Any) -> Generator[None, None, Any]:
    """Return a group with its authorized operations, or an error if the client may not see one of its topics."""
    if group.authorized_operations != _NOT_REQUESTED and group.error_code != GroupAuthorizationFailed.code:
        group.authorized_operations = access.operations(ResourceType.GROUP, group.group_id)
    seen: set[str] = set()
    for number, name in enumerate(_topic_names(group)):
        if number % STEP == STEP - 1:
            yield
        if name in seen:
            continue
        seen.add(name)
        if not access.may(Operation.DESCRIBE, ResourceType.TOPIC, name):
            break
    else:
        return group
    group_type = type(group)
    return group_type(
        error_code=TopicAuthorizationFailed.code,
        error_message=_HIDDEN_TOPICS,
        group_id=group.group_id,
        group_state="",
        group_epoch=0,
        assignment_epoch=0,
        members=[],
        **({"assignor_name": ""} if "assignor_name" in group_type.declared_ else {}),
    )


def _topic_names(group: Any) -> Iterator[str]:
    """Yield the topics in the description of a group.

    A classic group has them in bytes that only its members decode.
    """
    topology = getattr(group, "topology", None)
    if topology is not None:
        for each in topology.subtopologies or ():
            yield from each.source_topics
            yield from each.repartition_sink_topics
            yield from (topic.name for topic in (*each.state_changelog_topics, *each.repartition_source_topics))
        return
    for member in group.members:
        for name in ("assignment", "target_assignment"):
            assignment = getattr(member, name, None)
            for topic in getattr(assignment, "topic_partitions", ()):
                yield topic.topic_name


# Heartbeats


class ClientTopics:
    """The topics that a client may see and create; used by the coordinator."""

    __slots__ = ("_access",)

    def __init__(self, access: Access) -> None:
        self._access = access

    def sees(self, topic: str) -> bool:
        """Whether the client may describe a topic."""
        return self._access.may(Operation.DESCRIBE, ResourceType.TOPIC, topic)

    def may_create(self, topic: str) -> bool:
        """Whether the client may create a topic."""
        return self._access.may_on_cluster(Operation.CREATE) or self._access.allows(Operation.CREATE, ResourceType.TOPIC, topic)


def consumer_heartbeat(handler: Handler, ctx: RequestContext, request: k68_consumer_group_heartbeat.Request) -> Any:
    """DESCRIBE of each subscribed topic.

    A regular expression matches only topics that the client may describe.
    """
    return _heartbeat(handler, ctx, request, request.subscribed_topic_names or ())


def share_heartbeat(handler: Handler, ctx: RequestContext, request: k76_share_group_heartbeat.Request) -> Any:
    """DESCRIBE of each subscribed topic."""
    return _heartbeat(handler, ctx, request, request.subscribed_topic_names or ())


def streams_heartbeat(handler: Handler, ctx: RequestContext, request: k88_streams_group_heartbeat.Request) -> Any:
    """DESCRIBE of each topic of the topology; CREATE of internal topics that are missing."""
    names: list[str] = []
    for each in request.topology.subtopologies if request.topology is not None else ():
        names += each.source_topics
        names += each.repartition_sink_topics
        names += [topic.name for topic in (*each.repartition_source_topics, *each.state_changelog_topics)]
    return _heartbeat(handler, ctx, request, names)


def _heartbeat(handler: Handler, ctx: RequestContext, request: Any, names: Iterable[str]) -> Any:
    access = Access(ctx, handler.api.name)
    error_of = TopicErrors(access, ctx, Operation.DESCRIBE)
    refused = [error for name in names if (error := error_of(name, NIL_UUID)) is not None]
    if refused:
        raise refused[0]
    topics = ctx.broker.coordinators.groups.live.topics
    topics.client = ClientTopics(access)
    try:
        return handler.handle(ctx, request)
    finally:
        topics.client = None
