"""Where which partitions are worked at, for interactive queries: an instance that says its endpoint is told all endpoints.

Source: EndpointToPartitionsManager of Apache Kafka 4.3.1, which fails where the topology is not ready, and cuts partitions short wrongly
where topics of a subtopology have different numbers of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from minibroker.coordinator.group.streams.internal_topics import ConfiguredSubtopology
from minibroker.coordinator.group.streams.members import Member
from minibroker.coordinator.group.streams.tasks import TaskSets
from minibroker.coordinator.group.topics import Topics

Partitions = tuple[tuple[str, tuple[int, ...]], ...]  #: topics with their partitions


class Located(NamedTuple):
    """What is at one endpoint."""

    endpoint: tuple[str, int]  #: host and port
    active: Partitions
    standby: Partitions


def locate(members: Iterable[Member], subtopologies: Mapping[str, ConfiguredSubtopology], topics: Topics) -> tuple[Located, ...]:
    """Of all members that say their endpoint."""
    return tuple(
        Located(
            member.user_endpoint,
            _partitions(member.assigned.tasks.active, subtopologies, topics),
            _partitions(member.assigned.standby, subtopologies, topics),
        )
        for member in members
        if member.user_endpoint is not None
    )


def _partitions(tasks: TaskSets, subtopologies: Mapping[str, ConfiguredSubtopology], topics: Topics) -> Partitions:
    found = []
    for each in sorted(tasks.keys() & subtopologies.keys()):
        read = {*subtopologies[each].source_topics, *subtopologies[each].repartition_source_topics}
        for name in sorted(read):
            topic = topics.find(name)
            count = 0 if topic is None else topic.partition_count
            found.append((name, tuple(sorted(partition for partition in tasks[each] if partition < count))))
    return tuple(found)
