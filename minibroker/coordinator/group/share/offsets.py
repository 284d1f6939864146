"""Share offsets: the operations on the states of one group that the group coordinator requests from the share coordinator.

    operation                                     stored by the group    at the share coordinator
    initialize new share partitions               initializing           a new state, without a start offset
    AlterShareGroupOffsets                        initializing           a new state, with that start offset
    DeleteShareGroupOffsets, of topics            deleting               their states are deleted
    DeleteGroups                                  deleting               all its states are deleted

Each operation is stored before the request to the share coordinator, and its result afterwards. If
the broker crashes in between, or the share coordinator fails, the operation is repeated. Offsets
may be altered or deleted only while the group is empty, which the caller checks.

Source: GroupMetadataManager, GroupCoordinatorService of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, Protocol
from uuid import UUID

from minibroker.clock import Clock
from minibroker.coordinator.group.kind import Persist
from minibroker.coordinator.group.modern import Assignment
from minibroker.coordinator.group.share.members import NamedAssignment, ShareGroupImage, StatePartitions, named
from minibroker.coordinator.group.share.step import ShareGroupStep
from minibroker.coordinator.group.topics import KnownTopic, Topics
from minibroker.coordinator.share_state.records import NO_OFFSET, InitialState, StateSummary
from minibroker.errors import KafkaError, UnknownTopicOrPartition

TopicIdPartition = tuple[UUID, int]

_UNKNOWN: Final = UnknownTopicOrPartition()
_NOTHING_TO_DELETE: Final = UnknownTopicOrPartition("There is no offset information to delete.")


class StartOffset(NamedTuple):
    """The offset at which a group starts to read a partition."""

    topic_name: str
    partition: int
    start_offset: int


class ShareOffsets:
    """The share offsets of one group."""

    def __init__(
        self, group_id: str, *, image: ShareGroupImage, topics: Topics, clock: Clock, persist: Persist, states: ShareStates
    ) -> None:
        self._group_id = group_id
        self._image = image
        self._topics = topics
        self._clock = clock
        self._persist = persist
        self._states = states

    def initialize(self, partitions: NamedAssignment) -> dict[TopicIdPartition, KafkaError]:
        """Initialize share partitions that are stored as initializing.

        Return the errors of those that failed.
        """
        epoch = self._image.epoch
        requested = [
            InitialState(topic_id, index, epoch, NO_OFFSET) for topic_id, each in partitions.items() for index in sorted(each.partitions)
        ]
        return self._initialize(partitions, requested)

    def lost(self) -> NamedAssignment | None:
        """Return initialized partitions that have no state; None if the share coordinator is not available."""
        initialized = self._image.state_partitions.initialized
        requested = [(topic_id, index) for topic_id, each in initialized.items() for index in sorted(each.partitions)]
        if not requested:
            return {}
        try:
            self._states.ensure_topic()
            found = self._states.read_summary(self._group_id, requested)
        except KafkaError:
            return None
        unknown = (partition for partition, summary in zip(requested, found, strict=True) if summary == StateSummary())
        return named((topic_id, initialized[topic_id].topic_name, [index]) for topic_id, index in unknown)

    def alter(self, starts: Sequence[StartOffset]) -> list[KafkaError | None]:
        """Set start offsets.

        Return the error of each: UnknownTopicOrPartition, or that of the share coordinator.
        """
        known = self._find(start.topic_name for start in starts)
        valid = [start for start in starts if start.topic_name in known and 0 <= start.partition < known[start.topic_name].partition_count]
        if not valid:
            return [_UNKNOWN] * len(starts)
        requested = [InitialState(known[each.topic_name].topic_id, each.partition, self._image.epoch, each.start_offset) for each in valid]
        partitions = named((state.topic_id, start.topic_name, [start.partition]) for start, state in zip(valid, requested, strict=True))
        self._store(self._image.state_partitions.initialize(partitions))
        failed = self._initialize(partitions, requested)
        found = {start[:2]: failed.get(state[:2]) for start, state in zip(valid, requested, strict=True)}
        return [found.get(start[:2], _UNKNOWN) for start in starts]

    def delete(self, topic_names: Sequence[str]) -> list[KafkaError | None]:
        """Delete the offsets of topics.

        Return the error of each: UnknownTopicOrPartition, or that of the share coordinator.
        """
        known = self._find(topic_names)
        stored = self._image.state_partitions
        partitions = {}
        for topic in known.values():
            if topic.topic_id in stored.initialized:
                partitions[topic.topic_id] = stored.initialized[topic.topic_id].partitions
            elif topic.topic_id in stored.deleting:
                partitions[topic.topic_id] = frozenset(range(topic.partition_count))
        failed = self._delete(partitions)
        errors: list[KafkaError | None] = []
        for name in topic_names:
            if name not in known:
                errors.append(_UNKNOWN)
            else:
                topic_id = known[name].topic_id
                errors.append(failed.get(topic_id) if topic_id in partitions else _NOTHING_TO_DELETE)
        return errors

    def delete_all(self) -> None:
        """Delete all states of the group; KafkaError if one stays."""
        self.forget_deleted_topics()
        stored = self._image.state_partitions
        partitions = dict(stored.end_initialization(stored.initializing).assignable)
        for topic in self._find(stored.deleting.values()).values():
            partitions[topic.topic_id] = frozenset(range(topic.partition_count))
        for error in self._delete(partitions).values():
            raise error

    def forget_deleted_topics(self) -> None:
        """Drop deleted topics; KafkaError. The share coordinator deletes their states itself."""
        step = self._step()
        step.forget_deleted_topics()
        if step.records:
            self._persist(step.records)

    def _find(self, names: Iterable[str]) -> dict[str, KnownTopic]:
        return {name: topic for name in names if (topic := self._topics.find(name)) is not None}

    def _step(self) -> ShareGroupStep:
        return ShareGroupStep(self._group_id, self._image, self._topics, self._clock.now_ms())

    def _store(self, partitions: StatePartitions) -> None:
        step = self._step()
        step.store_state_partitions(partitions)
        if step.records:
            self._persist(step.records)

    def _initialize(self, partitions: NamedAssignment, requested: Sequence[InitialState]) -> dict[TopicIdPartition, KafkaError]:
        try:
            errors = self._states.initialize(self._group_id, requested)
        except KafkaError as error:
            errors = [error] * len(requested)
        failed = {each[:2]: error for each, error in zip(requested, errors, strict=True) if error is not None}
        done = named(
            (topic_id, each.topic_name, {index for index in each.partitions if (topic_id, index) not in failed})
            for topic_id, each in partitions.items()
        )
        self._store(self._image.state_partitions.end_initialization(done, partitions))
        return failed

    def _delete(self, partitions: Assignment) -> dict[UUID, KafkaError]:
        """Delete states. Return the errors by topic."""
        self._store(self._image.state_partitions.delete(partitions.keys()))
        requested = [(topic_id, index) for topic_id, indexes in partitions.items() for index in sorted(indexes)]
        errors = self._states.delete(self._group_id, requested) if requested else []
        failed = {topic_id: error for (topic_id, _), error in zip(requested, errors, strict=True) if error is not None}
        self._store(self._image.state_partitions.end_deletion(partitions.keys() - failed.keys()))
        return failed


class ShareStates(Protocol):
    """The interface of the share coordinator.

    Errors of single partitions are returned in order; CoordinatorLoadInProgress is raised.
    """

    def ensure_topic(self) -> None:
        """Create the topic of states if it does not exist; KafkaError."""

    def initialize(self, group_id: str, states: Sequence[InitialState]) -> list[KafkaError | None]:
        """Create states, or replace those with the same or an older epoch."""

    def read_summary(self, group_id: str, partitions: Sequence[tuple[UUID, int]]) -> list[StateSummary | KafkaError]:
        """Return summaries; a default StateSummary for an unknown state."""

    def delete(self, group_id: str, partitions: Sequence[tuple[UUID, int]]) -> list[KafkaError | None]:
        """Delete states, if they exist."""
