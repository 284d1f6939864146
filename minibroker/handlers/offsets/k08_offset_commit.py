"""OffsetCommit (key 8): store how far a group has read.

Versions: 2 to 10; 8 is flexible; up to 4 a commit may have a retention time; 10 names topics by id.
Partitions that do not exist are rejected one by one, and come first in the response. The others are
committed as one batch, or rejected together (coordinator/group/coordinator.py). Offsets and epochs
are stored unchecked, including negative ones, as in Apache Kafka. Before the first FindCoordinator
of a group there is no `__consumer_offsets`: NOT_COORDINATOR. For a group with members,
coordinator/group/classic/group.py and consumer/group.py check whether the client may commit.
Members of KIP-848 commit with their epoch from version 9 on. Lower versions are UNSUPPORTED_VERSION
for them.
"""

from __future__ import annotations

from typing import Any, Final

from minibroker.cluster.partition import Partition
from minibroker.coordinator.group.kind import Membership
from minibroker.coordinator.group.offsets import NewOffset
from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.pieces import Pieces
from minibroker.dispatch.registry import handles
from minibroker.handlers.offsets import OFFSETS_AT_ONCE, Committed, OffsetCommits
from minibroker.schemas import k08_offset_commit as schema

MEMBER_EPOCH_SINCE: Final = 9
TOPIC_IDS_SINCE: Final = 10


@handles(schema, Pieces("topics.partitions", "topics.partitions", size=OFFSETS_AT_ONCE))
def offset_commit(ctx: RequestContext, request: schema.Request) -> Any:
    """Commit the offsets. Returns Delayed if the log must be synced first."""

    def find(topic: schema.Topic, index: int) -> Partition:
        if ctx.api_version >= TOPIC_IDS_SINCE:
            return ctx.cluster.partition_by_id(topic.topic_id, index)
        return ctx.cluster.partition(topic.name, index)

    def commit(offsets: list[NewOffset]) -> Committed:
        errors, log = ctx.broker.coordinators.groups.commit(
            request.group_id,
            offsets,
            Membership(request.generation_id_or_member_epoch, request.member_id, request.group_instance_id),
            retention_ms=request.retention_time_ms,
            has_member_epoch=ctx.api_version >= MEMBER_EPOCH_SINCE,
        )
        return errors, [] if log is None else [log]

    return OffsetCommits(schema, request.topics, find).commit(ctx, commit)
