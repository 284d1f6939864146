"""A broker in memory with a coordinator of share groups, and what it says of the group `s`."""

from __future__ import annotations

from typing import Any

from minibroker.schemas import k10_find_coordinator as k10
from minibroker.schemas import k76_share_group_heartbeat as k76
from tests.golden.share_scenario import MAX_SIZE, TOPICS, describe, offsets
from tests.support.broker_in_memory import BrokerInMemory

CONFIG = {
    "group.share.max.size": str(MAX_SIZE),
    "group.share.assignment.interval.ms": "0",
    "group.share.heartbeat.interval.ms": "5000",
    "group.consumer.heartbeat.interval.ms": "5000",
    "offsets.topic.num.partitions": "2",
    "share.coordinator.state.topic.num.partitions": "2",
}


def share_broker(*, config: dict[str, str] | None = None, **options: Any) -> BrokerInMemory:
    """With topics t (4 partitions) and u (1)."""
    broker = BrokerInMemory(topics=TOPICS, config=CONFIG | (config or {}), **options)
    broker.ask(k10.Request(coordinator_keys=["s"], key_type=0), 6)
    return broker


def told(answer: k76.Response) -> tuple[int, int, list[int] | None]:
    """Error, epoch, partitions of the only topic."""
    partitions = None if answer.assignment is None else [index for each in answer.assignment.topic_partitions for index in each.partitions]
    return answer.error_code, answer.member_epoch, partitions


def members(broker: BrokerInMemory, group: str = "s") -> list[str]:
    """Their ids."""
    return [member.member_id for member in broker.ask(describe(group)).groups[0].members]


def known(broker: BrokerInMemory, group: str = "s") -> dict[tuple[str, int], tuple[int, int]]:
    """Start offset and lag by partition."""
    topics = broker.ask(offsets(group)).groups[0].topics
    return {(topic.topic_name, each.partition_index): (each.start_offset, each.lag) for topic in topics for each in topic.partitions}
