"""OffsetCommit (key 8): remember how far a group has read.

Versions: 2 to 10; 8 is flexible; up to 4 a commit may say how long it is to be kept; 10 names topics by id.
A partition that does not exist is refused by itself, and comes first in the answer. What remains is committed as one batch, or refused as
a whole (coordinator/group/coordinator.py). Offsets and epochs are kept as they are, negative ones too, as in Apache Kafka.
Before the first FindCoordinator of a group there is no `__consumer_offsets`: NOT_COORDINATOR.
Who may commit for a group with members is said by coordinator/group/classic/group.py, and consumer/group.py for KIP-848: its members commit
from version 9 on with their epoch, below that they are UNSUPPORTED_VERSION.
"""

from __future__ import annotations

from typing import Any, Final

from minibroker.cluster.partition import Partition
from minibroker.coordinator.group.kind import Membership
from minibroker.coordinator.group.offsets import NewOffset
from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.pieces import Pieces
from minibroker.dispatch.registry import handles
from minibroker.handlers.offsets.commits import OFFSETS_AT_ONCE, Committed, OffsetCommits
from minibroker.schemas import k08_offset_commit as schema

MEMBER_EPOCH_SINCE: Final = 9
TOPIC_IDS_SINCE: Final = 10


@handles(schema, Pieces("topics.partitions", "topics.partitions", size=OFFSETS_AT_ONCE))
def offset_commit(ctx: RequestContext, request: schema.Request) -> Any:
    """Response, or Delayed where the log is to be synced first."""

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
