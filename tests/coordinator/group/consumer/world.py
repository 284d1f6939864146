"""A consumer group and its members, driven by hand: heartbeats, answers, stored records, time, topics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from minibroker.coordinator.group.consumer.group import ConsumerGroup
from minibroker.coordinator.group.consumer.members import ConsumerGroupImage
from minibroker.coordinator.group.consumer.requests import ConsumerGroupLimits, ConsumerHeartbeat, ConsumerHeartbeatAnswer
from minibroker.coordinator.group.modern import Assignment, frozen
from tests.coordinator.group.modern_world import KnownTopics, ModernWorld

REBALANCE_MS = 60_000
AT_ONCE = ConsumerGroupLimits(assignment_interval_ms=0)

Told = tuple[int, dict[str, list[int]] | None]


class World(ModernWorld[ConsumerGroup, ConsumerGroupImage]):
    """One group."""

    def __init__(
        self,
        *,
        limits: ConsumerGroupLimits = AT_ONCE,
        image: ConsumerGroupImage | None = None,
        topics: KnownTopics | None = None,
        group_id: str = "readers",
    ) -> None:
        self.group_id = group_id
        self.limits = limits
        super().__init__(image or ConsumerGroupImage(), topics)

    def make(self) -> ConsumerGroup:
        return ConsumerGroup(
            self.group_id,
            clock=self.clock,
            topics=self.topics,
            persist=self.persist,
            limits=lambda: self.limits,
            image=self.image,
            draw_member_id=lambda: "drawn",
        )

    def ask(self, member_id: str, member_epoch: int, **said: Any) -> ConsumerHeartbeatAnswer:
        return self.group.heartbeat(ConsumerHeartbeat(member_id, member_epoch, "client", "/127.0.0.1", **said))

    def join(self, member_id: str, *topics: str, **said: Any) -> Told:
        """The epoch and the assignment."""
        known: dict[str, Any] = {"rebalance_timeout_ms": REBALANCE_MS, "topic_names": topics or ("t",), "owned": {}}
        return self.told(self.ask(member_id, 0, **(known | said)))

    def beat(self, member_id: str, epoch: int, owned: Mapping[str, Iterable[int]] | None = None, **said: Any) -> Told:
        return self.told(self.ask(member_id, epoch, owned=None if owned is None else self.assignment(owned), **said))

    def leave(self, member_id: str, **said: Any) -> int:
        return self.ask(member_id, -1, **said).member_epoch

    def assignment(self, partitions: Mapping[str, Iterable[int]]) -> Assignment:
        known = {name: self.topics.find(name) for name in partitions}
        return frozen({topic.topic_id: partitions[name] for name, topic in known.items() if topic is not None})

    def told(self, answer: ConsumerHeartbeatAnswer) -> Told:
        if answer.assignment is None:
            return answer.member_epoch, None
        return answer.member_epoch, {self.topics.name_of(topic): sorted(each) for topic, each in sorted(answer.assignment.items())}
