"""Which partitions have a state at the share coordinator, for one share group. Members are given only those.

    partition       becomes         when
    unknown         initializing    a member subscribes to its topic, or its offset is set
    initializing    initialized     the share coordinator has made a state for it
                    unknown         it could not: asked for again with the next heartbeat
    initialized     initializing    its offset is set anew
                    deleting        the group's offsets of its topic, or the group itself, are deleted
    deleting        unknown         the share coordinator has forgotten it
    any             unknown         its topic is deleted (the share coordinator hears of that by itself)
    initialized     unknown         the share coordinator lost the state with the power, or somebody deleted the topic of states

Values of this class are never changed: each step makes another. Source: ShareGroup.ShareGroupStatePartitionMetadataInfo and its uses in
GroupMetadataManager of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple
from uuid import UUID

from minibroker.coordinator.group.modern import Assignment


class NamedPartitions(NamedTuple):
    """Partitions of a topic, by the name that it had."""

    topic_name: str
    partitions: frozenset[int]


NamedAssignment = Mapping[UUID, NamedPartitions]
_NONE: Final[NamedAssignment] = {}
_NO_NAMES: Final[Mapping[UUID, str]] = {}


class StatePartitions(NamedTuple):
    """As the record has them. A partition may be initialized and initializing: its offset is being set anew."""

    initializing: NamedAssignment = _NONE
    initialized: NamedAssignment = _NONE
    deleting: Mapping[UUID, str] = _NO_NAMES  #: topic names

    @property
    def assignable(self) -> Assignment:
        """What members may be given."""
        return {topic_id: each.partitions for topic_id, each in self.initialized.items()}

    @property
    def topic_ids(self) -> AbstractSet[UUID]:
        """Of every topic that is named here."""
        return self.initializing.keys() | self.initialized.keys() | self.deleting.keys()

    def missing(self, topics: NamedAssignment) -> NamedAssignment:
        """What of these has no state yet; what was being initialized when something went wrong counts, too."""
        found = {}
        for topic_id, topic in topics.items():
            known = self.initialized.get(topic_id)
            partitions = topic.partitions if known is None else topic.partitions - known.partitions
            if partitions:
                found[topic_id] = NamedPartitions(topic.topic_name, partitions)
        return found

    def initialize(self, partitions: NamedAssignment) -> StatePartitions:
        """The share coordinator is about to be asked for states of these."""
        deleting = {topic_id: name for topic_id, name in self.deleting.items() if topic_id not in partitions}
        return self._replace(initializing=_joined(self.initializing, partitions), deleting=deleting)

    def end_initialization(self, done: NamedAssignment, failed: NamedAssignment = _NONE) -> StatePartitions:
        """It was asked."""
        initializing = _without(_without(self.initializing, done), failed)
        return self._replace(initializing=initializing, initialized=_joined(self.initialized, done))

    def lose(self, partitions: NamedAssignment) -> StatePartitions:
        """It does not know of these, though they were initialized."""
        return self._replace(initialized=_without(self.initialized, partitions))

    def delete(self, topic_ids: Collection[UUID]) -> StatePartitions:
        """It is about to be asked to forget these topics."""
        known = {**self.initializing, **self.initialized}
        deleting = {topic_id: known[topic_id].topic_name for topic_id in topic_ids if topic_id in known}
        kept = self.forget(topic_ids)
        return kept._replace(deleting={**self.deleting, **deleting})

    def end_deletion(self, topic_ids: Collection[UUID]) -> StatePartitions:
        """It has forgotten these."""
        return self._replace(deleting={topic_id: name for topic_id, name in self.deleting.items() if topic_id not in topic_ids})

    def forget(self, topic_ids: Collection[UUID]) -> StatePartitions:
        """These topics are gone."""
        return StatePartitions(
            {topic_id: each for topic_id, each in self.initializing.items() if topic_id not in topic_ids},
            {topic_id: each for topic_id, each in self.initialized.items() if topic_id not in topic_ids},
            {topic_id: name for topic_id, name in self.deleting.items() if topic_id not in topic_ids},
        )


def named(partitions: Iterable[tuple[UUID, str, Iterable[int]]]) -> NamedAssignment:
    """Topic ids, names and partitions put together; topics without partitions are left out."""
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
