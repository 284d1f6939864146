"""Where a share group is in its partitions, as far as the group coordinator has a say: the share coordinator keeps it.

    asked for                                  the group                 the share coordinator
    a state for each new partition             initializing              makes it, without a start offset
    to begin elsewhere (AlterShareGroupOffsets)     initializing         makes it anew, with that start offset
    to forget topics (DeleteShareGroupOffsets)      deleting             forgets them
    to forget all (DeleteGroups)               deleting                  forgets it

Each is stored before the share coordinator is asked, and what came of it afterwards: when a broker dies between, or the share coordinator
cannot, the same is asked for again. Offsets are altered and deleted only while the group is empty: that is the caller's to see to.

Source: GroupMetadataManager, GroupCoordinatorService of Apache Kafka 4.3.1.

What a share group wants of the share coordinator (coordinator/share/persister.py): a state for each partition that members may fetch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, Protocol
from uuid import UUID

from minibroker.clock import Clock
from minibroker.coordinator.group.kind import Persist
from minibroker.coordinator.group.modern import Assignment
from minibroker.coordinator.group.share.members import ShareGroupImage
from minibroker.coordinator.group.share.state_partitions import NamedAssignment, StatePartitions, named
from minibroker.coordinator.group.share.step import ShareGroupStep
from minibroker.coordinator.group.topics import KnownTopic, Topics
from minibroker.coordinator.share_state.records import InitialState, StateSummary
from minibroker.coordinator.share_state.state_batches import NO_OFFSET
from minibroker.errors import KafkaError, UnknownTopicOrPartition

TopicIdPartition = tuple[UUID, int]

_UNKNOWN: Final = UnknownTopicOrPartition()
_NOTHING_TO_DELETE: Final = UnknownTopicOrPartition("There is no offset information to delete.")


class StartOffset(NamedTuple):
    """Where a group shall begin to read a partition."""

    topic_name: str
    partition: int
    start_offset: int


class ShareOffsets:
    """Of one group."""

    def __init__(self, group_id: str, *, image: ShareGroupImage, topics: Topics, clock: Clock, persist: Persist, states: States) -> None:
        self._group_id = group_id
        self._image = image
        self._topics = topics
        self._clock = clock
        self._persist = persist
        self._states = states

    def initialize(self, partitions: NamedAssignment) -> dict[TopicIdPartition, KafkaError]:
        """Have states made for partitions that are stored as initializing; which have none, and why."""
        epoch = self._image.epoch
        asked = [
            InitialState(topic_id, index, epoch, NO_OFFSET) for topic_id, each in partitions.items() for index in sorted(each.partitions)
        ]
        return self._ask(partitions, asked)

    def lost(self) -> NamedAssignment | None:
        """What was initialized and has no state all the same; None while the share coordinator does not know."""
        initialized = self._image.state_partitions.initialized
        asked = [(topic_id, index) for topic_id, each in initialized.items() for index in sorted(each.partitions)]
        if not asked:
            return {}
        try:
            self._states.ensure_topic()
            found = self._states.read_summary(self._group_id, asked)
        except KafkaError:
            return None
        unknown = (partition for partition, summary in zip(asked, found, strict=True) if summary == StateSummary())
        return named((topic_id, initialized[topic_id].topic_name, [index]) for topic_id, index in unknown)

    def alter(self, starts: Sequence[StartOffset]) -> list[KafkaError | None]:
        """Let the group begin elsewhere: UnknownTopicOrPartition, and what the share coordinator says, of each."""
        known = self._find(start.topic_name for start in starts)
        valid = [start for start in starts if start.topic_name in known and 0 <= start.partition < known[start.topic_name].partition_count]
        if not valid:
            return [_UNKNOWN] * len(starts)
        asked = [InitialState(known[each.topic_name].topic_id, each.partition, self._image.epoch, each.start_offset) for each in valid]
        partitions = named((state.topic_id, start.topic_name, [start.partition]) for start, state in zip(valid, asked, strict=True))
        self._store(self._image.state_partitions.initialize(partitions))
        failed = self._ask(partitions, asked)
        found = {start[:2]: failed.get(state[:2]) for start, state in zip(valid, asked, strict=True)}
        return [found.get(start[:2], _UNKNOWN) for start in starts]

    def delete(self, topic_names: Sequence[str]) -> list[KafkaError | None]:
        """Forget where the group was: UnknownTopicOrPartition, and what the share coordinator says, of each."""
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
        """Nothing of the group may stay at the share coordinator; KafkaError where something does."""
        self.forget_deleted_topics()
        stored = self._image.state_partitions
        partitions = dict(stored.end_initialization(stored.initializing).assignable)
        for topic in self._find(stored.deleting.values()).values():
            partitions[topic.topic_id] = frozenset(range(topic.partition_count))
        for error in self._delete(partitions).values():
            raise error

    def forget_deleted_topics(self) -> None:
        """Topics are gone; KafkaError. The share coordinator hears of that by itself."""
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

    def _ask(self, partitions: NamedAssignment, asked: Sequence[InitialState]) -> dict[TopicIdPartition, KafkaError]:
        try:
            errors = self._states.initialize(self._group_id, asked)
        except KafkaError as error:
            errors = [error] * len(asked)
        failed = {each[:2]: error for each, error in zip(asked, errors, strict=True) if error is not None}
        done = named(
            (topic_id, each.topic_name, {index for index in each.partitions if (topic_id, index) not in failed})
            for topic_id, each in partitions.items()
        )
        self._store(self._image.state_partitions.end_initialization(done, partitions))
        return failed

    def _delete(self, partitions: Assignment) -> dict[UUID, KafkaError]:
        """What the share coordinator did not forget, by topic."""
        self._store(self._image.state_partitions.delete(partitions.keys()))
        asked = [(topic_id, index) for topic_id, indexes in partitions.items() for index in sorted(indexes)]
        errors = self._states.delete(self._group_id, asked) if asked else []
        failed = {topic_id: error for (topic_id, _), error in zip(asked, errors, strict=True) if error is not None}
        self._store(self._image.state_partitions.end_deletion(partitions.keys() - failed.keys()))
        return failed


class States(Protocol):
    """The states of all partitions. Errors of single ones are returned, in the order asked; CoordinatorLoadInProgress is raised."""

    def ensure_topic(self) -> None:
        """There is a place to keep them from now on; KafkaError."""

    def initialize(self, group_id: str, states: Sequence[InitialState]) -> list[KafkaError | None]:
        """Make these states, or set them anew with the epoch they had or a newer one."""

    def read_summary(self, group_id: str, partitions: Sequence[tuple[UUID, int]]) -> list[StateSummary | KafkaError]:
        """What is known of these; the default of StateSummary where nothing is."""

    def delete(self, group_id: str, partitions: Sequence[tuple[UUID, int]]) -> list[KafkaError | None]:
        """Forget these, if there are any."""
