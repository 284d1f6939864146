"""A share group and its members, driven by hand: heartbeats, answers, stored records, the share coordinator, time, topics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from minibroker.clock import ManualClock
from minibroker.coordinator.group.share.group import Limits, ShareGroup
from minibroker.coordinator.group.share.image import GroupImage
from minibroker.coordinator.group.share.requests import Heartbeat, HeartbeatAnswer
from minibroker.coordinator.record_frame import CONSUMER_OFFSETS, CoordinatorRecord
from minibroker.coordinator.share.values import InitialState, StateSummary
from minibroker.errors import CoordinatorLoadInProgress, KafkaError, NotCoordinator, UnknownServerError
from tests.coordinator.group.consumer.world import KnownTopics

SESSION_MS = 45_000
AT_ONCE = Limits(assignment_interval_ms=0)

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


class World:
    """One group."""

    def __init__(self, *, limits: Limits = AT_ONCE, topics: KnownTopics | None = None, group_id: str = "sharers") -> None:
        self.group_id = group_id
        self.clock = ManualClock()
        self.topics = topics or KnownTopics(t=4)
        self.states = KnownStates()
        self.stored: list[CoordinatorRecord] = []
        self.batches: list[int] = []  #: sizes
        self.gone: list[str] = []
        self.limits = limits
        self.fails = False
        self.image = GroupImage()
        self.group = self._make()

    def _make(self) -> ShareGroup:
        return ShareGroup(
            self.group_id,
            clock=self.clock,
            topics=self.topics,
            persist=self._persist,
            states=self.states,
            image=self.image,
            limits=lambda: self.limits,
            on_member_gone=self.gone.append,
        )

    def _persist(self, records: Sequence[CoordinatorRecord]) -> None:
        if self.fails:
            raise NotCoordinator
        assert records
        self.batches.append(len(records))
        for record in records:
            value = None if record.value is None else CONSUMER_OFFSETS.encode_value(record.key, record.value, record.version)
            found = CONSUMER_OFFSETS.decode(CONSUMER_OFFSETS.encode_key(record.key), value)
            assert found is not None
            self.stored.append(found)
            self.image.replay(found)

    def replayed(self) -> GroupImage:
        """What the log says."""
        image = GroupImage()
        for record in self.stored:
            image.replay(record)
        return image

    def restart(self) -> None:
        """Another group object, made of the log."""
        self.group.unload()
        self.image = self.replayed()
        self.group = self._make()
        self.group.resume()

    @property
    def state(self) -> str:
        return self.group.state.value

    def ask(self, member_id: str, member_epoch: int, **said: Any) -> HeartbeatAnswer:
        return self.group.heartbeat(Heartbeat(member_id, member_epoch, "client", "/127.0.0.1", **said))

    def join(self, member_id: str, *topics: str, **said: Any) -> Told:
        """The epoch and the assignment."""
        return self.told(self.ask(member_id, 0, topic_names=topics or ("t",), **said))

    def beat(self, member_id: str, epoch: int, **said: Any) -> Told:
        return self.told(self.ask(member_id, epoch, **said))

    def leave(self, member_id: str) -> int:
        return self.ask(member_id, -1).member_epoch

    def refused(self, member_id: str, epoch: int, **said: Any) -> tuple[int, str]:
        """Code and message."""
        try:
            answer = self.ask(member_id, epoch, **said)
        except KafkaError as error:
            return error.code, str(error)
        raise AssertionError(answer)

    def told(self, answer: HeartbeatAnswer) -> Told:
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

    def let_pass(self, delta_ms: int) -> None:
        self.clock.advance(delta_ms)
