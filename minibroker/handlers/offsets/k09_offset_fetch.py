"""OffsetFetch (key 9): how far a group has read.

Versions: 1 to 10; 6 is flexible; from 2 on null topics request all; from 8 on a request has several
groups; 10 names topics by id. A partition without a committed offset is -1 without an error, even
if it does not exist, and so is every partition of an unknown group. From 7 on a client may require
stable offsets: UNSTABLE_OFFSET_COMMIT if an open transaction has an offset for the partition. An
unknown topic id is UNKNOWN_TOPIC_ID, after all other topics of the group. An error of a group is
returned for the group; in version 1, which has no field for it, for every partition. From 9 on a
member of a consumer group (KIP-848) sends its id and epoch: UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH.
Classic groups ignore them.
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

from minibroker.coordinator.group.coordinator import GroupOffsets
from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.pieces import Pieces
from minibroker.dispatch.registry import handles
from minibroker.errors import KafkaError, UnknownTopicId
from minibroker.schemas import k09_offset_fetch as schema
from minibroker.wire.schema import NIL_UUID

GROUPS_SINCE: Final = 8
GROUP_ERROR_SINCE: Final = 2
TOPIC_IDS_SINCE: Final = 10
NO_OFFSET: Final = -1


@handles(
    schema, Pieces("groups.topics.partition_indexes", "groups.topics.partitions"), Pieces("topics.partition_indexes", "topics.partitions")
)
def offset_fetch(ctx: RequestContext, request: schema.Request) -> schema.Response:
    """Return the offsets of each group. Requests below version 8 have one group."""
    if ctx.api_version >= GROUPS_SINCE:
        return schema.Response(groups=[_group(ctx, group, require_stable=request.require_stable) for group in request.groups])
    topics = None
    if request.topics is not None:
        topics = [schema.GroupTopic(name=topic.name, partition_indexes=topic.partition_indexes) for topic in request.topics]
    group = schema.Group(group_id=request.group_id, topics=topics)
    result = _group(ctx, group, require_stable=request.require_stable)
    if result.error_code and topics is not None and ctx.api_version < GROUP_ERROR_SINCE:
        result.topics.extend(_refused(topic, result.error_code) for topic in topics)
    return schema.Response(
        error_code=result.error_code,
        topics=[schema.TopicResult(name=topic.name, partitions=[_old(each) for each in topic.partitions]) for topic in result.topics],
    )


def _group(ctx: RequestContext, entry: schema.Group, *, require_stable: bool) -> schema.GroupResult:
    try:
        offsets = ctx.broker.coordinators.groups.fetch(
            entry.group_id, require_stable=require_stable, member_id=entry.member_id, member_epoch=entry.member_epoch
        )
    except KafkaError as error:
        return schema.GroupResult(group_id=entry.group_id, topics=[], error_code=error.code)
    topics = _all(ctx, offsets) if entry.topics is None else entry.topics
    found, refused = [], []
    for topic in topics:
        try:
            name = ctx.cluster.topic_by_id(topic.topic_id).name if ctx.api_version >= TOPIC_IDS_SINCE else topic.name
        except UnknownTopicId as error:
            refused.append(_refused(topic, error.code))
            continue
        results = [_partition(offsets, (name, index)) for index in topic.partition_indexes]
        found.append(schema.GroupTopicResult(name=topic.name, topic_id=topic.topic_id, partitions=results))
    return schema.GroupResult(group_id=entry.group_id, topics=found + refused)


def _all(ctx: RequestContext, offsets: GroupOffsets) -> list[schema.GroupTopic]:
    """Return all committed partitions, in the form of a request."""
    indexes: dict[str, list[int]] = {}
    for name, index in offsets.partitions():
        indexes.setdefault(name, []).append(index)
    return [schema.GroupTopic(name=name, topic_id=_topic_id(ctx, name), partition_indexes=each) for name, each in indexes.items()]


def _topic_id(ctx: RequestContext, name: str) -> UUID:
    topic = ctx.cluster.topics.get(name)
    return NIL_UUID if topic is None else topic.topic_id


def _partition(offsets: GroupOffsets, partition: tuple[str, int]) -> schema.GroupPartitionResult:
    _, index = partition
    try:
        committed = offsets.get(partition)
    except KafkaError as error:
        return _without_offset(index, error.code)
    if committed is None:
        return _without_offset(index, 0)
    return schema.GroupPartitionResult(
        partition_index=index,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        error_code=0,
    )


def _refused(topic: schema.GroupTopic, error_code: int) -> schema.GroupTopicResult:
    results = [_without_offset(index, error_code) for index in topic.partition_indexes]
    return schema.GroupTopicResult(name=topic.name, topic_id=topic.topic_id, partitions=results)


def _without_offset(index: int, error_code: int) -> schema.GroupPartitionResult:
    return schema.GroupPartitionResult(partition_index=index, committed_offset=NO_OFFSET, metadata="", error_code=error_code)


def _old(result: schema.GroupPartitionResult) -> schema.PartitionResult:
    """Convert a result for versions below 8."""
    return schema.PartitionResult(
        partition_index=result.partition_index,
        committed_offset=result.committed_offset,
        committed_leader_epoch=result.committed_leader_epoch,
        metadata=result.metadata,
        error_code=result.error_code,
    )
