"""A consumer group and its members, driven by hand: heartbeats, answers, stored records, time, topics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from minibroker.clock import ManualClock
from minibroker.coordinator.group.assignment import Assignment, frozen
from minibroker.coordinator.group.consumer.group import ConsumerGroup, Limits
from minibroker.coordinator.group.consumer.image import GroupImage
from minibroker.coordinator.group.consumer.requests import Heartbeat, HeartbeatAnswer
from minibroker.coordinator.group.topics import KnownTopic
from minibroker.coordinator.record_frame import CONSUMER_OFFSETS, CoordinatorRecord
from minibroker.errors import KafkaError, NotCoordinator

SESSION_MS = 45_000
REBALANCE_MS = 60_000
AT_ONCE = Limits(assignment_interval_ms=0)

Told = tuple[int, dict[str, list[int]] | None]


class KnownTopics:
    """Topics of a cluster: `t` is UUID 1, ..."""

    def __init__(self, **partition_counts: int) -> None:
        self.version = 0
        self._known: dict[str, KnownTopic] = {}
        self._last = 0
        for name, count in partition_counts.items():
            self.create(name, count)

    def create(self, name: str, partition_count: int, topic_id: UUID | None = None) -> None:
        self._last += 1
        self._known[name] = KnownTopic(topic_id or UUID(int=self._last), partition_count)
        self.version += 1

    def grow(self, name: str, partition_count: int) -> None:
        self._known[name] = self._known[name]._replace(partition_count=partition_count)
        self.version += 1

    def delete(self, name: str) -> None:
        del self._known[name]
        self.version += 1

    def names(self) -> Iterable[str]:
        return list(self._known)

    def find(self, name: str) -> KnownTopic | None:
        return self._known.get(name)

    def name_of(self, topic_id: UUID) -> str:
        return next((name for name, topic in self._known.items() if topic.topic_id == topic_id), "deleted")


class World:
    """One group."""

    def __init__(
        self, *, limits: Limits = AT_ONCE, image: GroupImage | None = None, topics: KnownTopics | None = None, group_id: str = "readers"
    ) -> None:
        self.clock = ManualClock()
        self.topics = topics or KnownTopics(t=4)
        self.stored: list[CoordinatorRecord] = []
        self.limits = limits
        self.fails = False
        self.group = ConsumerGroup(
            group_id,
            clock=self.clock,
            topics=self.topics,
            persist=self._persist,
            limits=lambda: limits,
            image=image or GroupImage(),
            draw_member_id=lambda: "drawn",
        )

    def _persist(self, records: Sequence[CoordinatorRecord]) -> None:
        if self.fails:
            raise NotCoordinator
        for record in records:
            value = None if record.value is None else CONSUMER_OFFSETS.encode_value(record.key, record.value, record.version)
            found = CONSUMER_OFFSETS.decode(CONSUMER_OFFSETS.encode_key(record.key), value)
            assert found is not None
            self.stored.append(found)
            self.group.image.replay(found)

    def replayed(self) -> GroupImage:
        """What the log says."""
        image = GroupImage()
        for record in self.stored:
            image.replay(record)
        return image

    def restart(self) -> None:
        """Another group object, made of the log."""
        self.group.unload()
        self.group = ConsumerGroup(
            self.group.group_id,
            clock=self.clock,
            topics=self.topics,
            persist=self._persist,
            limits=lambda: self.limits,
            image=self.replayed(),
        )
        self.group.resume()

    @property
    def state(self) -> str:
        return self.group.state.value

    def ask(self, member_id: str, member_epoch: int, **said: Any) -> HeartbeatAnswer:
        return self.group.heartbeat(Heartbeat(member_id, member_epoch, "client", "/127.0.0.1", **said))

    def join(self, member_id: str, *topics: str, **said: Any) -> Told:
        """The epoch and the assignment."""
        known: dict[str, Any] = {"rebalance_timeout_ms": REBALANCE_MS, "topic_names": topics or ("t",), "owned": {}}
        return self.told(self.ask(member_id, 0, **(known | said)))

    def beat(self, member_id: str, epoch: int, owned: Mapping[str, Iterable[int]] | None = None, **said: Any) -> Told:
        return self.told(self.ask(member_id, epoch, owned=None if owned is None else self.assignment(owned), **said))

    def leave(self, member_id: str, **said: Any) -> int:
        return self.ask(member_id, -1, **said).member_epoch

    def refused(self, member_id: str, epoch: int, **said: Any) -> tuple[int, str]:
        """Code and message."""
        try:
            answer = self.ask(member_id, epoch, **said)
        except KafkaError as error:
            return error.code, str(error)
        raise AssertionError(answer)

    def assignment(self, partitions: Mapping[str, Iterable[int]]) -> Assignment:
        known = {name: self.topics.find(name) for name in partitions}
        return frozen({topic.topic_id: partitions[name] for name, topic in known.items() if topic is not None})

    def told(self, answer: HeartbeatAnswer) -> Told:
        if answer.assignment is None:
            return answer.member_epoch, None
        return answer.member_epoch, {self.topics.name_of(topic): sorted(each) for topic, each in sorted(answer.assignment.items())}

    def let_pass(self, delta_ms: int) -> None:
        self.clock.advance(delta_ms)
