"""A streams group and its members, driven by hand: heartbeats, answers, stored records, time, topics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from minibroker.coordinator.group.streams.group import StreamsGroup, StreamsGroupLimits
from minibroker.coordinator.group.streams.internal_topics import InternalTopic
from minibroker.coordinator.group.streams.members import StreamsGroupImage, TaskSets
from minibroker.coordinator.group.streams.requests import StreamsHeartbeat, StreamsHeartbeatAnswer, heartbeat_of
from minibroker.errors import InvalidConfig
from minibroker.schemas import k88_streams_group_heartbeat as k88
from tests.coordinator.group.modern_world import KnownTopics, ModernWorld

REBALANCE_MS = 60_000
AT_ONCE = StreamsGroupLimits(assignment_interval_ms=0, initial_rebalance_delay_ms=0)

Words = Mapping[str, Iterable[int]]


class Told(NamedTuple):
    """An answer: epoch, tasks as `told_tasks` spells them or None, codes of statuses."""

    epoch: int
    tasks: str | None
    codes: tuple[int, ...] = ()


def topic(name: str, partitions: int = 0, replication_factor: int = -1, **configs: str) -> k88.TopicInfo:
    pairs = [k88.KeyValue(key=key.replace("_", "."), value=value) for key, value in configs.items()]
    return k88.TopicInfo(name=name, partitions=partitions, replication_factor=replication_factor, topic_configs=pairs)


def subtopology(name: str, sources: Sequence[str] = (), **said: Any) -> k88.Subtopology:
    known: dict[str, Any] = {
        "source_topic_regex": [],
        "state_changelog_topics": [],
        "repartition_sink_topics": [],
        "repartition_source_topics": [],
        "copartition_groups": [],
    }
    return k88.Subtopology(subtopology_id=name, source_topics=list(sources), **(known | said))


def topology(*subtopologies: k88.Subtopology, epoch: int = 0) -> k88.Topology:
    return k88.Topology(epoch=epoch, subtopologies=list(subtopologies))


#: as Kafka Streams says of a count of words: subtopology 0 reads `t` and writes what 1 reads and counts
COUNTING = topology(
    subtopology("0", ["t"], repartition_sink_topics=["words"]),
    subtopology("1", repartition_source_topics=[topic("words", retention_ms="-1")], state_changelog_topics=[topic("counts")]),
)
READING = topology(subtopology("0", ["t"]))


class World(ModernWorld[StreamsGroup, StreamsGroupImage]):
    """One group; topic `t` has four partitions."""

    def __init__(self, *, limits: StreamsGroupLimits = AT_ONCE, topics: KnownTopics | None = None) -> None:
        self.limits = limits
        self.refused_topics: set[str] = set()
        super().__init__(StreamsGroupImage(), topics)

    def make(self) -> StreamsGroup:
        return StreamsGroup(
            "app",
            clock=self.clock,
            topics=self.topics,
            persist=self.persist,
            make_topic=self._make_topic,
            limits=lambda: self.limits,
            image=self.image,
        )

    def _make_topic(self, wanted: InternalTopic) -> None:
        if wanted.name in self.refused_topics:
            raise InvalidConfig("no such setting")
        self.topics.create(wanted.name, wanted.partition_count)

    def ask(self, member_id: str, member_epoch: int, **said: Any) -> StreamsHeartbeatAnswer:
        known: dict[str, Any] = {"group_id": "app", "endpoint_information_epoch": -1}
        return self.group.heartbeat(asked(k88.Request(member_id=member_id, member_epoch=member_epoch, **(known | said))))

    def join(self, member_id: str, process_id: str = "", *, of: k88.Topology = READING, **said: Any) -> Told:
        known: dict[str, Any] = {
            "rebalance_timeout_ms": REBALANCE_MS,
            "topology": of,
            "process_id": process_id or f"process of {member_id}",
        }
        return told(self.ask(member_id, 0, **(known | owned({}) | said)))

    def beat(self, member_id: str, epoch: int, active: Words | None = None, standby: Words | None = None, **said: Any) -> Told:
        """`active`: what it owns; without, it does not say."""
        return told(self.ask(member_id, epoch, **(said if active is None else owned(active, standby or {}) | said)))

    def leave(self, member_id: str, **said: Any) -> Told:
        return told(self.ask(member_id, -1, **said))


def asked(request: k88.Request) -> StreamsHeartbeat:
    return heartbeat_of(request, "client", "/127.0.0.1")


def owned(active: Words, standby: Words | None = None) -> dict[str, list[k88.TaskIds]]:
    return {
        "active_tasks": _task_ids(active),
        "standby_tasks": _task_ids(standby or {}),
        "warmup_tasks": [],
    }


def _task_ids(tasks: Words) -> list[k88.TaskIds]:
    return [k88.TaskIds(subtopology_id=each, partitions=list(partitions)) for each, partitions in tasks.items()]


def spelled(tasks: TaskSets) -> str:
    return "/".join(f"{each}:{'.'.join(map(str, sorted(tasks[each])))}" for each in sorted(tasks))


def told(answer: StreamsHeartbeatAnswer) -> Told:
    tasks = None if answer.tasks is None else ";".join(map(spelled, answer.tasks[:2]))
    return Told(answer.member_epoch, tasks, tuple(status.code for status in answer.statuses))
