"""A share group and its members, driven by hand: heartbeats, answers, stored records, the share coordinator, time, topics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from minibroker.coordinator.group.share.group import ShareGroup, ShareGroupLimits, ShareHeartbeat, ShareHeartbeatAnswer
from minibroker.coordinator.group.share.members import ShareGroupImage
from minibroker.coordinator.share_state.records import InitialState, StateSummary
from minibroker.errors import CoordinatorLoadInProgress, KafkaError, UnknownServerError
from tests.coordinator.group.modern_world import KnownTopics, ModernWorld

AT_ONCE = ShareGroupLimits(assignment_interval_ms=0)

Told = tuple[int, dict[str, list[int]] | None]


class KnownStates:
    """The share coordinator: state epochs and start offsets by partition."""

    def __init__(self) -> None:
        self.known: dict[tuple[UUID, int], tuple[int, int]] = {}
        self.refused: set[tuple[UUID, int]] = set()
        self.is_loading = False

    def ensure_topic(self) -> None:
        pass

    def initialize(self, _: str, states: Sequence[InitialState]) -> list[KafkaError | None]:
        if self.is_loading:
            raise CoordinatorLoadInProgress
        for state in states:
            if state[:2] not in self.refused:
                self.known[state[:2]] = state[2:]
        return [UnknownServerError() if state[:2] in self.refused else None for state in states]

    def read_summary(self, _: str, partitions: Sequence[tuple[UUID, int]]) -> list[StateSummary | KafkaError]:
        if self.is_loading:
            raise CoordinatorLoadInProgress
        known = [self.known.get(partition) for partition in partitions]
        return [StateSummary() if each is None else StateSummary(each[0], 0, each[1], 0) for each in known]

    def delete(self, _: str, partitions: Sequence[tuple[UUID, int]]) -> list[KafkaError | None]:
        if self.is_loading:
            raise CoordinatorLoadInProgress
        for partition in partitions:
            if partition not in self.refused:
                self.known.pop(partition, None)
        return [UnknownServerError() if partition in self.refused else None for partition in partitions]


class World(ModernWorld[ShareGroup, ShareGroupImage]):
    """One group."""

    def __init__(self, *, limits: ShareGroupLimits = AT_ONCE, topics: KnownTopics | None = None, group_id: str = "sharers") -> None:
        self.group_id = group_id
        self.states = KnownStates()
        self.gone: list[str] = []
        self.limits = limits
        super().__init__(ShareGroupImage(), topics)

    def make(self) -> ShareGroup:
        return ShareGroup(
            self.group_id,
            clock=self.clock,
            topics=self.topics,
            persist=self.persist,
            states=self.states,
            image=self.image,
            limits=lambda: self.limits,
            on_member_gone=self.gone.append,
        )

    def ask(self, member_id: str, member_epoch: int, **said: Any) -> ShareHeartbeatAnswer:
        return self.group.heartbeat(ShareHeartbeat(member_id, member_epoch, "client", "/127.0.0.1", **said))

    def join(self, member_id: str, *topics: str, **said: Any) -> Told:
        """The epoch and the assignment."""
        return self.told(self.ask(member_id, 0, topic_names=topics or ("t",), **said))

    def beat(self, member_id: str, epoch: int, **said: Any) -> Told:
        return self.told(self.ask(member_id, epoch, **said))

    def leave(self, member_id: str) -> int:
        return self.ask(member_id, -1).member_epoch

    def told(self, answer: ShareHeartbeatAnswer) -> Told:
        if answer.assignment is None:
            return answer.member_epoch, None
        return answer.member_epoch, {self.topics.name_of(topic): sorted(each) for topic, each in sorted(answer.assignment.items())}

    def id_of(self, name: str) -> UUID:
        topic = self.topics.find(name)
        assert topic is not None
        return topic.topic_id

    def offsets(self, name: str) -> dict[int, tuple[int, int]]:
        """What the share coordinator knows of a topic: state epoch and start offset by partition."""
        return {index: state for (topic, index), state in sorted(self.states.known.items()) if topic == self.id_of(name)}
