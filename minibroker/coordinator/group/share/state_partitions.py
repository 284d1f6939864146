"""The partitions of one share group that have a state at the share coordinator. Members get only those.

    partition       becomes         when
    unknown         initializing    a member subscribes to its topic, or its offset is altered
    initializing    initialized     the share coordinator has created its state
                    unknown         that failed: the next heartbeat tries again
    initialized     initializing    its offset is altered
                    deleting        the group's offsets of its topic, or the group itself, are deleted
    deleting        unknown         the share coordinator has deleted its state
    any             unknown         its topic is deleted (the share coordinator deletes its state)
    initialized     unknown         a power loss took the state, or a client deleted the topic of states

Values are immutable: each step makes another. Source:
ShareGroup.ShareGroupStatePartitionMetadataInfo and its uses in GroupMetadataManager of Apache Kafka
4.3.1.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple
from uuid import UUID

from minibroker.coordinator.group.modern import Assignment


class NamedPartitions(NamedTuple):
    """Partitions of a topic, with the name that it had."""

    topic_name: str
    partitions: frozenset[int]


NamedAssignment = Mapping[UUID, NamedPartitions]
_NONE: Final[NamedAssignment] = {}
_NO_NAMES: Final[Mapping[UUID, str]] = {}


class StatePartitions(NamedTuple):
    """The value of the record. A partition may be both initialized and initializing: its offset is being altered."""

    initializing: NamedAssignment = _NONE
    initialized: NamedAssignment = _NONE
    deleting: Mapping[UUID, str] = _NO_NAMES  #: topic names

    @property
    def assignable(self) -> Assignment:
        """The partitions that members may get."""
        return {topic_id: each.partitions for topic_id, each in self.initialized.items()}

    @property
    def topic_ids(self) -> AbstractSet[UUID]:
        """The ids of all topics in this value."""
        return self.initializing.keys() | self.initialized.keys() | self.deleting.keys()

    def missing(self, topics: NamedAssignment) -> NamedAssignment:
        """Return the partitions of `topics` that are not initialized. It includes those whose initialization failed."""
        found = {}
        for topic_id, topic in topics.items():
            known = self.initialized.get(topic_id)
            partitions = topic.partitions if known is None else topic.partitions - known.partitions
            if partitions:
                found[topic_id] = NamedPartitions(topic.topic_name, partitions)
        return found

    def initialize(self, partitions: NamedAssignment) -> StatePartitions:
        """Start the initialization of partitions."""
        deleting = {topic_id: name for topic_id, name in self.deleting.items() if topic_id not in partitions}
        return self._replace(initializing=_joined(self.initializing, partitions), deleting=deleting)

    def end_initialization(self, done: NamedAssignment, failed: NamedAssignment = _NONE) -> StatePartitions:
        """End an initialization."""
        initializing = _without(_without(self.initializing, done), failed)
        return self._replace(initializing=initializing, initialized=_joined(self.initialized, done))

    def lose(self, partitions: NamedAssignment) -> StatePartitions:
        """Drop initialized partitions whose state was lost."""
        return self._replace(initialized=_without(self.initialized, partitions))

    def delete(self, topic_ids: Collection[UUID]) -> StatePartitions:
        """Start the deletion of the states of topics."""
        known = {**self.initializing, **self.initialized}
        deleting = {topic_id: known[topic_id].topic_name for topic_id in topic_ids if topic_id in known}
        kept = self.forget(topic_ids)
        return kept._replace(deleting={**self.deleting, **deleting})

    def end_deletion(self, topic_ids: Collection[UUID]) -> StatePartitions:
        """End the deletion of the states of topics."""
        return self._replace(deleting={topic_id: name for topic_id, name in self.deleting.items() if topic_id not in topic_ids})

    def forget(self, topic_ids: Collection[UUID]) -> StatePartitions:
        """Drop deleted topics."""
        return StatePartitions(
            {topic_id: each for topic_id, each in self.initializing.items() if topic_id not in topic_ids},
            {topic_id: each for topic_id, each in self.initialized.items() if topic_id not in topic_ids},
            {topic_id: name for topic_id, name in self.deleting.items() if topic_id not in topic_ids},
        )


def named(partitions: Iterable[tuple[UUID, str, Iterable[int]]]) -> NamedAssignment:
    """Merge topic ids, names and partitions. Topics without partitions are left out."""
    found: dict[UUID, NamedPartitions] = {}
    for topic_id, name, indexes in partitions:
        known = found[topic_id].partitions if topic_id in found else frozenset()
        found[topic_id] = NamedPartitions(name, known | frozenset(indexes))
    return {topic_id: each for topic_id, each in found.items() if each.partitions}


def _joined(some: NamedAssignment, others: NamedAssignment) -> NamedAssignment:
    return named((topic_id, each.topic_name, each.partitions) for part in (some, others) for topic_id, each in part.items())


def _without(some: NamedAssignment, others: NamedAssignment) -> NamedAssignment:
    nothing = NamedPartitions("", frozenset())
    return named((topic_id, each.topic_name, each.partitions - others.get(topic_id, nothing).partitions) for topic_id, each in some.items())
