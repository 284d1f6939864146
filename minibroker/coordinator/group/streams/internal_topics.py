"""Internal topics of a Kafka Streams application: the needed topics, their partition counts, and the resulting number of tasks.

    1. every source topic must exist, or the group is not ready: MISSING_SOURCE_TOPICS
    2. a repartition topic has the partition count that the application sets, or that of the largest topic that its writer reads
    3. copartitioned topics must have equal counts: those of repartition topics are adapted, others are INCORRECTLY_PARTITIONED_TOPICS
    4. a changelog has the partition count of the largest topic that its subtopology reads: one for each task
    5. existing internal topics must have their count, or INCORRECTLY_PARTITIONED_TOPICS; missing ones are MISSING_INTERNAL_TOPICS

The topology of a group is configured again when topics change. Missing internal topics are created
immediately. If that fails, the next heartbeat tries again.

Source: InternalTopicManager, RepartitionTopics, CopartitionedTopicsEnforcer, ChangelogTopics of
Apache Kafka 4.3.1.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from enum import IntEnum
from typing import Final, NamedTuple

from minibroker.config.request_limits import STREAMS_TASKS_MAX
from minibroker.coordinator.group.streams.topology import Topology, copartitioned, topics_read_by
from minibroker.coordinator.group.topics import Topics, metadata_hash
from minibroker.errors import KafkaError, StreamsInvalidTopology, TopicAuthorizationFailed
from minibroker.schemas.internal.streams_group_records import Subtopology, TopologyTopic

_SHOWN_TOPICS: Final = 3


class StatusCode(IntEnum):
    """The statuses in an answer to a heartbeat."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5


class Status(NamedTuple):
    """One status of an answer."""

    code: StatusCode
    detail: str


class InternalTopic(NamedTuple):
    """A repartition topic or changelog of the application."""

    name: str
    partition_count: int
    replication_factor: int  #: 0: the default of the broker
    configs: Mapping[str, str]


class ConfiguredSubtopology(NamedTuple):
    """A subtopology with the partition counts of its topics."""

    task_count: int
    source_topics: Collection[str]
    repartition_sink_topics: Collection[str]
    repartition_source_topics: Mapping[str, InternalTopic]
    state_changelog_topics: Mapping[str, InternalTopic]

    @property
    def is_stateful(self) -> bool:
        """Whether it has state, of which standbys keep copies."""
        return bool(self.state_changelog_topics)


class ConfiguredTopology(NamedTuple):
    """A topology with the present topics."""

    subtopologies: Mapping[str, ConfiguredSubtopology]  #: by id, sorted; empty if the group is not ready
    missing: tuple[InternalTopic, ...] = ()  #: topics to create
    problem: Status | None = None

    @property
    def is_ready(self) -> bool:
        """Whether its tasks can be assigned."""
        return self.problem is None


class _TopicsError(Exception):
    """The topics do not fit the topology."""


def configure(topology: Topology, topics: Topics) -> ConfiguredTopology:
    """Configure a topology with the present topics; StreamsInvalidTopology if no topics could fit."""
    missing = sorted({topic for each in topology.subtopologies.values() for topic in each.source_topics if topics.find(topic) is None})
    if missing:
        return _not_ready(StatusCode.MISSING_SOURCE_TOPICS, f"Source topics {_shown(missing)} are missing.")
    counts = _Counts(topology, topics)
    try:
        counts.decide()
        configured = {each.subtopology_id: _configured(each, counts) for each in topology.subtopologies.values()}
        _check_tasks(configured.values())
        to_create = _missing_topics(configured.values(), topics)
    except _TopicsError as error:
        return _not_ready(StatusCode.INCORRECTLY_PARTITIONED_TOPICS, str(error))
    if not to_create:
        return ConfiguredTopology(configured)
    detail = f"Internal topics are missing: {_shown([topic.name for topic in to_create])}"
    return ConfiguredTopology(configured, to_create, Status(StatusCode.MISSING_INTERNAL_TOPICS, detail))


def _check_tasks(subtopologies: Iterable[ConfiguredSubtopology]) -> None:
    count = sum(each.task_count for each in subtopologies)
    if count > STREAMS_TASKS_MAX:
        raise StreamsInvalidTopology(
            f"A topology may have {STREAMS_TASKS_MAX} tasks at most, and the partitions of its topics make {count}."
        )


def _not_ready(code: StatusCode, detail: str) -> ConfiguredTopology:
    return ConfiguredTopology({}, problem=Status(code, detail))


def _shown(names: list[str]) -> str:
    rest = len(names) - _SHOWN_TOPICS
    return ", ".join(names[:_SHOWN_TOPICS]) + (f" and {rest} additional topics" if rest > 0 else "")


class _Counts:
    """The partition counts of existing topics, and the decided ones of internal topics."""

    def __init__(self, topology: Topology, topics: Topics) -> None:
        self._subtopologies = list(topology.subtopologies.values())
        self._topics = topics
        self.decided: dict[str, int] = {}

    def of(self, name: str) -> int:
        """Return the partition count of a topic."""
        topic = self._topics.find(name)
        return self.decided[name] if topic is None else topic.partition_count

    def decide(self) -> None:
        """Decide the partition counts of all internal topics."""
        self._decide_repartition_topics()
        fixed = {topic.name for each in self._subtopologies for topic in each.repartition_source_topics if topic.partitions}
        flexible = {topic.name for each in self._subtopologies for topic in each.repartition_source_topics} - fixed
        for each in self._subtopologies:
            for together in copartitioned(each):
                if together:
                    self._make_equal(together, fixed, flexible)
        for each in self._subtopologies:
            for topic in each.state_changelog_topics:
                self.decided[topic.name] = self.largest_read_by(each)

    def largest_read_by(self, subtopology: Subtopology) -> int:
        """Return the number of tasks of a subtopology."""
        counts = [self.of(topic) for topic in topics_read_by(subtopology)]
        if not counts:
            raise StreamsInvalidTopology(f"No source topics found for subtopology {subtopology.subtopology_id}")
        return max(counts)

    def _decide_repartition_topics(self) -> None:
        sources = [topic for each in self._subtopologies for topic in each.repartition_source_topics]
        found = {topic.name: topic.partitions for topic in sources if topic.partitions}
        while sinks := [(each, sink) for each in self._subtopologies for sink in each.repartition_sink_topics if sink not in found]:
            size = len(found)
            for subtopology, sink in sinks:
                count = self._count_of_sink(subtopology, found)
                if count is not None:
                    found[sink] = count
            if len(found) == size:
                raise StreamsInvalidTopology(
                    "Failed to compute number of partitions for all repartition topics. There may be loops in the topology that cannot be "
                    "resolved."
                )
        if any(topic.name not in found for topic in sources):
            raise StreamsInvalidTopology(
                "Failed to compute number of partitions for all repartition topics, because a repartition source topic is never used as a "
                "sink topic."
            )
        self.decided |= found

    def _count_of_sink(self, subtopology: Subtopology, found: Mapping[str, int]) -> int | None:
        """Return the largest known count of the topics that the writer of a sink reads."""
        read = [found[topic.name] for topic in subtopology.repartition_source_topics if topic.name in found]
        return max([*read, *(self.of(topic) for topic in subtopology.source_topics)], default=None)

    def _make_equal(self, together: set[str], fixed: set[str], flexible: set[str]) -> None:
        repartitions = {topic: self.of(topic) for topic in together if topic in fixed or topic in flexible}
        others = {topic: self.of(topic) for topic in together if topic not in repartitions}
        if others:
            count = _same(others, others)
        elif fixed:
            count = _same({topic: self.of(topic) for topic in fixed}, repartitions)
        else:
            count = max(repartitions.values())
        for topic, before in repartitions.items():
            if topic in fixed and before != count:
                raise _TopicsError(
                    f"Number of partitions [{before}] of repartition topic [{topic}] doesn't match number of partitions [{count}] of the "
                    "source topic."
                )
        self.decided |= dict.fromkeys(repartitions, count)


def _same(counts: Mapping[str, int], shown: Mapping[str, int]) -> int:
    """Return the count that all topics have."""
    different = set(counts.values())
    if len(different) > 1:
        words = ", ".join(f"{topic}={count}" for topic, count in sorted(shown.items()))
        raise _TopicsError(f"Following topics do not have the same number of partitions: [{{{words}}}]")
    return different.pop()


def _configured(subtopology: Subtopology, counts: _Counts) -> ConfiguredSubtopology:
    return ConfiguredSubtopology(
        task_count=counts.largest_read_by(subtopology),
        source_topics=subtopology.source_topics,
        repartition_sink_topics=subtopology.repartition_sink_topics,
        repartition_source_topics={topic.name: _internal(topic, counts) for topic in subtopology.repartition_source_topics},
        state_changelog_topics={topic.name: _internal(topic, counts) for topic in subtopology.state_changelog_topics},
    )


def _internal(topic: TopologyTopic, counts: _Counts) -> InternalTopic:
    count = topic.partitions or counts.decided[topic.name]
    return InternalTopic(topic.name, count, topic.replication_factor, {each.key: each.value for each in topic.topic_configs})


def _missing_topics(subtopologies: Iterable[ConfiguredSubtopology], topics: Topics) -> tuple[InternalTopic, ...]:
    needed = {
        name: topic
        for each in subtopologies
        for name, topic in (*each.repartition_source_topics.items(), *each.state_changelog_topics.items())
    }
    for name, topic in sorted(needed.items()):
        known = topics.find(name)
        if known is not None and known.partition_count != topic.partition_count:
            raise _TopicsError(
                f"Existing topic {name} has different number of partitions: expected {topic.partition_count}, found {known.partition_count}"
            )
    return tuple(topic for name, topic in sorted(needed.items()) if topics.find(name) is None)


_SHOWN_FAILURES: Final = 3

_LOG = logging.getLogger(__name__)

MakeTopic = Callable[[InternalTopic], None]  #: raises KafkaError


class VersionedTopology(NamedTuple):
    """A topology, configured with one version of the topics."""

    topology: Topology
    topics_version: int
    metadata_hash: int  #: of the required topics
    result: ConfiguredTopology
    problem: Status | None = None  #: of the result, with the reasons why topics could not be created


class GroupTopology:
    """The configured topology of one group."""

    def __init__(self, group_id: str, topics: Topics, make_topic: MakeTopic) -> None:
        self._group_id = group_id
        self._topics = topics
        self._make_topic = make_topic
        self._known: VersionedTopology | None = None

    def configured(self, topology: Topology) -> VersionedTopology:
        """Return the topology with the present topics; StreamsInvalidTopology."""
        known, version = self._known, self._topics.version
        if known is not None and known.topology is not topology and known.topology.is_same(topology):
            known = known._replace(topology=topology)  # so that the next comparison is by identity
        if known is None or known.topics_version != version or known.topology is not topology:
            result = configure(topology, self._topics)
            known = VersionedTopology(topology, version, metadata_hash(topology.required_topics, self._topics), result, result.problem)
        self._known = known
        return known

    def complete(self, topology: Topology) -> VersionedTopology:
        """Create missing topics, then return the topology with the present topics; StreamsInvalidTopology."""
        known = self.configured(topology)
        if not known.result.missing:
            return known
        failures, refused = [], []
        for topic in known.result.missing:
            try:
                self._make_topic(topic)
            except TopicAuthorizationFailed:
                refused.append(topic.name)
            except KafkaError as error:
                failures.append(f"{topic.name} ({error})")
                _LOG.warning(
                    "group %s: could not create topic %s: %s (will retry at the next heartbeat)", self._group_id, topic.name, error
                )
        known = self.configured(topology)
        if refused and known.problem is not None:
            detail = f"{known.problem.detail}; Unauthorized to CREATE on topics {', '.join(refused)}."
            known = known._replace(problem=known.problem._replace(detail=detail))
        return known._replace(problem=_with_failures(known.problem, failures)) if failures else known


def _with_failures(problem: Status | None, failures: list[str]) -> Status | None:
    """Add the reasons why topics could not be created, in Apache Kafka's words."""
    if problem is None:
        return None
    rest = len(failures) - _SHOWN_FAILURES
    words = ", ".join(failures[:_SHOWN_FAILURES]) + (f" and {rest} more" if rest > 0 else "")
    return problem._replace(detail=f"{problem.detail}; Creation failed: {words}.")
