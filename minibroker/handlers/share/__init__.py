"""What requests of members of share groups have in common: checks, and leaders that an answer names.

Source: KafkaApis.processShareFetchResponse, processShareAcknowledgeResponse of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final
from uuid import UUID

from minibroker.config.request_limits import SHARE_PARTITIONS_MAX
from minibroker.dispatch.context import RequestContext
from minibroker.errors import FencedLeaderEpoch, InvalidRequest, KafkaError, NotLeaderOrFollower

MAX_MEMBER_ID_LENGTH: Final = 36
_NAMES_LEADER: Final = frozenset({NotLeaderOrFollower.code, FencedLeaderEpoch.code})


def check_member_id(member_id: str | None) -> None:
    """Raise InvalidRequest if a member id, which the member itself chooses, is empty or too long."""
    if not member_id or len(member_id) > MAX_MEMBER_ID_LENGTH:
        raise InvalidRequest("Invalid member id in the request.")


def check_size(topics: Iterable[Any]) -> None:
    """Raise InvalidRequest if a request has too many topics and partitions."""
    if sum(1 + len(topic.partitions) for topic in topics) > SHARE_PARTITIONS_MAX:
        raise InvalidRequest(f"A request may have {SHARE_PARTITIONS_MAX} topics and partitions at most.")


def leader(ctx: RequestContext, schema: Any, partition: tuple[UUID, int], error_code: int) -> Any:
    """Return the CurrentLeader of a partition result; zeros unless its error sends the client to another broker or epoch."""
    if error_code not in _NAMES_LEADER:
        return schema.CurrentLeader()
    try:
        found = ctx.cluster.partition_by_id(*partition)
    except KafkaError:
        return schema.CurrentLeader(leader_id=-1, leader_epoch=-1)
    return schema.CurrentLeader(leader_id=ctx.broker.nodes.leader_of(found), leader_epoch=found.leader_epoch)


def endpoints(ctx: RequestContext, schema: Any, results: Iterable[Any]) -> list[Any]:
    """Return the NodeEndpoint of each broker that `leader` named in partition results."""
    return ctx.endpoints(schema, [each.current_leader.leader_id for each in results if each.error_code in _NAMES_LEADER])
