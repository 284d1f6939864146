"""ShareGroupDescribe (key 77): states, members and assignments of share groups (KIP-932).

Version 1, flexible. GROUP_ID_NOT_FOUND: the group does not exist, or has another type.
UNSUPPORTED_VERSION: the cluster has not finalized share.version 1. All operations are authorized,
because there are no ACLs.
"""

from __future__ import annotations

from functools import partial

from minibroker.coordinator.group.share.members import ShareMember
from minibroker.coordinator.group.share.step import SIMPLE
from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.pieces import Pieces
from minibroker.dispatch.registry import handles
from minibroker.errors import GroupIdNotFound, KafkaError
from minibroker.handlers.describe_groups import describe_each, reject_each, rejected_group
from minibroker.schemas import k77_share_group_describe as schema


@handles(schema, Pieces("group_ids", "groups", size=50))
def share_group_describe(ctx: RequestContext, request: schema.Request) -> schema.Response:
    """Describe each group."""
    ctx.broker.check_group_protocol("share")
    return schema.Response(groups=describe_each(request, partial(_describe, ctx), _rejected))


def _describe(ctx: RequestContext, group_id: str, operations: int) -> schema.Group:
    group = ctx.broker.coordinators.groups.share.describe(group_id)
    return schema.Group(
        error_code=0,
        group_id=group_id,
        group_state=group.state.value,
        group_epoch=group.image.epoch,
        assignment_epoch=group.image.assignment_epoch,
        assignor_name=SIMPLE,
        members=[_member(ctx, member) for member in group.image.members.values()],
        authorized_operations=operations,
    )


def _member(ctx: RequestContext, member: ShareMember) -> schema.Member:
    topics = [
        (topic, each) for topic_id, each in member.assigned.items() if (topic := ctx.cluster.image.topics_by_id.get(topic_id)) is not None
    ]
    partitions = [schema.TopicPartitions(topic_id=topic.topic_id, topic_name=topic.name, partitions=sorted(each)) for topic, each in topics]
    return schema.Member(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.topic_names),
        assignment=schema.Assignment(topic_partitions=partitions),
    )


def _rejected(group_id: str, error: KafkaError) -> schema.Group:
    message = str(error) if isinstance(error, GroupIdNotFound) else None
    return rejected_group(schema.Group, group_id, error, assignor_name="", error_message=message)


on_error = partial(reject_each, schema.Response, _rejected)
