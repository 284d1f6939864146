"""The topology of a Kafka Streams application: its subtopologies, and the topics that these read, write and keep state in.

The first member of a group sets the topology, which stays until the group is deleted. Source:
StreamsTopology of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Iterator

from minibroker.config.request_limits import STREAMS_SUBTOPOLOGIES_MAX
from minibroker.errors import StreamsInvalidTopology
from minibroker.schemas import k88_streams_group_heartbeat as k88
from minibroker.schemas.internal.streams_group_records import (
    CopartitionGroup,
    StreamsGroupTopologyValue,
    Subtopology,
    TopicConfig,
    TopologyTopic,
)


class Topology:
    """An immutable topology. `stored` is its record."""

    __slots__ = ("epoch", "stored", "subtopologies", "subtopology_of_topic")

    def __init__(self, stored: StreamsGroupTopologyValue) -> None:
        self.stored = stored
        self.epoch = stored.epoch
        self.subtopologies = {each.subtopology_id: each for each in sorted(stored.subtopologies, key=lambda each: each.subtopology_id)}
        #: the subtopology that reads a topic
        self.subtopology_of_topic = {topic: each.subtopology_id for each in self.subtopologies.values() for topic in topics_read_by(each)}

    def is_same(self, other: Topology) -> bool:
        """Whether the two are equal, in any order of their subtopologies."""
        return self.epoch == other.epoch and self.subtopologies == other.subtopologies

    @property
    def required_topics(self) -> set[str]:
        """All topics that must exist before tasks can be assigned."""
        changelogs = {topic.name for each in self.subtopologies.values() for topic in each.state_changelog_topics}
        return changelogs | self.subtopology_of_topic.keys()


def topics_read_by(subtopology: Subtopology) -> list[str]:
    """Return the source topics and repartition topics that a subtopology reads."""
    return [*subtopology.source_topics, *(topic.name for topic in subtopology.repartition_source_topics)]


def copartitioned(subtopology: Subtopology) -> list[set[str]]:
    """Return the groups of topics that must have equal partition counts."""
    sources, repartitions = subtopology.source_topics, subtopology.repartition_source_topics
    return [
        {sources[index] for index in group.source_topics} | {repartitions[index].name for index in group.repartition_source_topics}
        for group in subtopology.copartition_groups
    ]


def topology_of(requested: k88.Topology) -> Topology:
    """Check and convert the topology of a request; StreamsInvalidTopology."""
    _check(requested)
    return Topology(StreamsGroupTopologyValue(epoch=requested.epoch, subtopologies=[_stored(each) for each in requested.subtopologies]))


def topics_named_by(requested: k88.Topology) -> Iterator[str]:
    """Return all topics that a topology names."""
    for each in requested.subtopologies:
        yield from each.source_topics
        yield from each.repartition_sink_topics
        yield from (topic.name for topic in (*each.repartition_source_topics, *each.state_changelog_topics))


def _check(requested: k88.Topology) -> None:
    if len(requested.subtopologies) > STREAMS_SUBTOPOLOGIES_MAX:
        raise StreamsInvalidTopology(
            f"A topology may have {STREAMS_SUBTOPOLOGIES_MAX} subtopologies at most, and this one has {len(requested.subtopologies)}."
        )
    for each in requested.subtopologies:
        for topic in each.state_changelog_topics:
            if topic.partitions != 0:
                raise StreamsInvalidTopology(
                    f"Changelog topic {topic.name} must have an undefined partition count, but it is set to {topic.partitions}."
                )
        for group in each.copartition_groups:
            for indexes, topics in (
                (group.source_topics, each.source_topics),
                (group.repartition_source_topics, each.repartition_source_topics),
            ):
                if any(not 0 <= index < len(topics) for index in indexes):
                    raise StreamsInvalidTopology(
                        f"A copartition group of subtopology {each.subtopology_id} names a topic that is not in it."
                    )
        for topic in each.repartition_source_topics:
            if topic.partitions < 0:
                raise StreamsInvalidTopology(f"Repartition topic {topic.name} cannot have {topic.partitions} partitions.")
    if requested.epoch < 0:
        raise StreamsInvalidTopology("Topology epoch must be non-negative.")
    if len({each.subtopology_id for each in requested.subtopologies}) < len(requested.subtopologies):
        raise StreamsInvalidTopology("Two subtopologies have the same id.")


def _stored(requested: k88.Subtopology) -> Subtopology:
    return Subtopology(
        subtopology_id=requested.subtopology_id,
        source_topics=requested.source_topics,
        source_topic_regex=requested.source_topic_regex,
        state_changelog_topics=[_stored_topic(each) for each in requested.state_changelog_topics],
        repartition_sink_topics=requested.repartition_sink_topics,
        repartition_source_topics=[_stored_topic(each) for each in requested.repartition_source_topics],
        copartition_groups=[
            CopartitionGroup(
                source_topics=each.source_topics,
                source_topic_regex=each.source_topic_regex,
                repartition_source_topics=each.repartition_source_topics,
            )
            for each in requested.copartition_groups
        ],
    )


def _stored_topic(requested: k88.TopicInfo) -> TopologyTopic:
    return TopologyTopic(
        name=requested.name,
        partitions=requested.partitions,
        replication_factor=requested.replication_factor,
        topic_configs=[TopicConfig(key=each.key, value=each.value) for each in requested.topic_configs],
    )
