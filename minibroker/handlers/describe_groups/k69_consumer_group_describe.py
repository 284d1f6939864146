"""ConsumerGroupDescribe (key 69): consumer groups (KIP-848), their states, members and assignments.

Versions: 0 to 1; both flexible; 1 adds the protocol that a member uses. The assignment of a member
includes partitions that it must still revoke. Partitions of deleted topics are left out.
GROUP_ID_NOT_FOUND: the group does not exist, or has another type; the message says which. All
operations are authorized, because there are no ACLs.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Final
from uuid import UUID

from minibroker.coordinator.group.consumer.group import ConsumerGroup
from minibroker.coordinator.group.consumer.members import ConsumerMember
from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.pieces import Pieces
from minibroker.dispatch.registry import handles
from minibroker.handlers.describe_groups import describe_each, reject_each, rejected_group
from minibroker.schemas import k69_consumer_group_describe as schema

CLASSIC_MEMBER: Final = 0
MEMBER: Final = 1

_rejected = partial(rejected_group, schema.Group, assignor_name="")
on_error = partial(reject_each, schema.Response, _rejected)


@handles(schema, Pieces("group_ids", "groups", size=50))
def consumer_group_describe(ctx: RequestContext, request: schema.Request) -> schema.Response:
    """Describe each group."""
    ctx.broker.check_group_protocol("consumer")
    return schema.Response(groups=describe_each(request, partial(_describe, ctx), _rejected))


def _describe(ctx: RequestContext, group_id: str, operations: int) -> schema.Group:
    group = ctx.broker.coordinators.groups.consumer.describe(group_id)
    image = group.image
    return schema.Group(
        error_code=0,
        group_id=group_id,
        group_state=group.state.value,
        group_epoch=image.epoch,
        assignment_epoch=image.assignment_epoch,
        assignor_name=group.assignor,
        members=[_member(ctx, group, member) for member in image.members.values()],
        authorized_operations=operations,
    )


def _member(ctx: RequestContext, group: ConsumerGroup, member: ConsumerMember) -> schema.Member:
    target = group.image.targets.get(member.member_id, {})
    owned = ((topic_id, index) for each in (member.assigned, member.pending_revocation) for topic_id in each for index in each[topic_id])
    return schema.Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.topic_names),
        subscribed_topic_regex=member.topic_regex,
        assignment=_assignment(ctx, owned),
        target_assignment=_assignment(ctx, ((topic_id, index) for topic_id in target for index in target[topic_id])),
        member_type=MEMBER if member.classic is None else CLASSIC_MEMBER,
    )


def _assignment(ctx: RequestContext, partitions: Iterable[tuple[UUID, int]]) -> schema.Assignment:
    indexes: dict[UUID, list[int]] = {}
    for topic_id, index in partitions:
        indexes.setdefault(topic_id, []).append(index)
    known = ctx.cluster.image.topics_by_id
    return schema.Assignment(
        topic_partitions=[
            schema.TopicPartitions(topic_id=topic_id, topic_name=known[topic_id].name, partitions=sorted(indexes[topic_id]))
            for topic_id in sorted(indexes)
            if topic_id in known
        ]
    )
