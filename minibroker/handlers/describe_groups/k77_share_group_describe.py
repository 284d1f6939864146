"""ShareGroupDescribe (key 77): states, members and assignments of share groups (KIP-932).

Versions: 1 alone, flexible. Each group is answered on its own; one that is not there, or of another kind, is GROUP_ID_NOT_FOUND. There are
no ACLs: all operations that a group has are allowed. UNSUPPORTED_VERSION where the cluster has not finalized share.version 1.
"""

from __future__ import annotations

from functools import partial

from minibroker.coordinator.group.share.assignor import SIMPLE
from minibroker.coordinator.group.share.members import ShareMember
from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.group_protocols import check_share_groups
from minibroker.dispatch.pieces import Pieces
from minibroker.dispatch.registry import handles
from minibroker.errors import GroupIdNotFound, KafkaError
from minibroker.handlers.describe_groups.describe import describe_each
from minibroker.schemas import k77_share_group_describe as schema


@handles(schema, Pieces("group_ids", "groups", size=50))
def share_group_describe(ctx: RequestContext, request: schema.Request) -> schema.Response:
    """Each group on its own."""
    check_share_groups(ctx)
    return schema.Response(groups=describe_each(request, partial(_describe, ctx), _refused))


def on_error(_ctx: RequestContext, request: schema.Request, error: KafkaError) -> schema.Response:
    """All groups failed."""
    return schema.Response(groups=[_refused(group_id, error) for group_id in request.group_ids])


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


def _refused(group_id: str, error: KafkaError) -> schema.Group:
    return schema.Group(
        error_code=error.code,
        error_message=str(error) if isinstance(error, GroupIdNotFound) else None,
        group_id=group_id,
        group_state="",
        group_epoch=0,
        assignment_epoch=0,
        assignor_name="",
        members=[],
    )
