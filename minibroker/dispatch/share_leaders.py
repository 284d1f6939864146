"""Whom a member of a share group is to ask instead, where an answer says that this broker does not lead: it does, but not in that epoch.

Source: KafkaApis.processShareFetchResponse, processShareAcknowledgeResponse of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from minibroker.dispatch.context import RequestContext
from minibroker.errors import FencedLeaderEpoch, KafkaError, NotLeaderOrFollower

if TYPE_CHECKING:
    from minibroker.coordinator.share_partition.sessions import TopicPartition

_CODES = frozenset({NotLeaderOrFollower.code, FencedLeaderEpoch.code})


def leader(ctx: RequestContext, schema: Any, partition: TopicPartition, error_code: int) -> Any:
    """The CurrentLeader of a partition's result; zeros where nobody is to ask another."""
    if error_code not in _CODES:
        return schema.CurrentLeader()
    try:
        found = ctx.cluster.partition_by_id(*partition)
    except KafkaError:
        return schema.CurrentLeader(leader_id=-1, leader_epoch=-1)
    return schema.CurrentLeader(leader_id=ctx.broker.nodes.leader_of(found), leader_epoch=found.leader_epoch)


def endpoints(ctx: RequestContext, schema: Any, results: Iterable[Any]) -> list[Any]:
    """The brokers that `leader` named in these partition results."""
    return ctx.endpoints(schema, [each.current_leader.leader_id for each in results if each.error_code in _CODES])
