"""Members of a share group, the partitions that have a state, their records, and the image that the records replay into.

Members are immutable: a step creates new ones. Only replay changes an image: a step creates
records, and these are replayed.

    ShareGroupMetadata                     the group's epoch
    ShareGroupMemberMetadata               the fields that a member sends
    ShareGroupTargetAssignmentMetadata     the epoch of the target assignment
    ShareGroupTargetAssignmentMember       the target assignment of a member
    ShareGroupCurrentMemberAssignment      the assignment in the last answer to a member
    ShareGroupStatePartitionMetadata       the partitions that have a state at the share coordinator

Invariants: epochs of a group grow; members have only partitions that were initialized.

Source: ShareGroupMember, GroupMetadataManager.replay, ShareGroup, GroupCoordinatorRecordHelpers of
Apache Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, ClassVar, Final, NamedTuple
from uuid import UUID

from minibroker.coordinator.group.modern import JOINS, NOTHING, Assignment, ModernImage, Replays, frozen
from minibroker.schemas.internal.share_group_records import (
    AssignedPartitions,
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
    StateTopic,
    TargetPartitions,
)
from minibroker.schemas.internal.share_group_records import StatePartitions as StoredPartitions
from minibroker.storage.record_frame import CoordinatorRecord


class NamedPartitions(NamedTuple):
    """Partitions of a topic, with the name that it had."""

    topic_name: str
    partitions: frozenset[int]


NamedAssignment = Mapping[UUID, NamedPartitions]
_NONE: Final[NamedAssignment] = {}
_NO_NAMES: Final[Mapping[UUID, str]] = {}


class StatePartitions(NamedTuple):
    """The partitions that have a state at the share coordinator. Members get only these.

        partition       becomes         when
        unknown         initializing    a member subscribes to its topic, or its offset is altered
        initializing    initialized     the share coordinator has created its state
                        unknown         that failed: the next heartbeat tries again
        initialized     initializing    its offset is altered
                        deleting        the group's offsets of its topic, or the group itself, are deleted
        deleting        unknown         the share coordinator has deleted its state
        any             unknown         its topic is deleted (the share coordinator deletes its state)
        initialized     unknown         a power loss took the state, or a client deleted the topic of states

    A partition may be both initialized and initializing: its offset is being altered. Values are
    immutable. Source: ShareGroup.ShareGroupStatePartitionMetadataInfo and its uses in
    GroupMetadataManager of Apache Kafka 4.3.1.
    """

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
        """Return the partitions of `topics` that are not initialized, including those whose initialization failed."""
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


def _joined(first: NamedAssignment, second: NamedAssignment) -> NamedAssignment:
    return named((topic_id, each.topic_name, each.partitions) for part in (first, second) for topic_id, each in part.items())


def _without(some: NamedAssignment, removed: NamedAssignment) -> NamedAssignment:
    nothing = NamedPartitions("", frozenset())
    return named(
        (topic_id, each.topic_name, each.partitions - removed.get(topic_id, nothing).partitions) for topic_id, each in some.items()
    )


class ShareMember(NamedTuple):
    """One member."""

    member_id: str
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: tuple[str, ...] = ()  #: sorted
    member_epoch: int = JOINS
    previous_member_epoch: int = JOINS
    assigned: Assignment = NOTHING  #: in its last answer

    def with_progress_of(self, other: ShareMember) -> ShareMember:
        """Return this member with the epochs and partitions of `other`, which are in a record of their own."""
        return self._replace(member_epoch=other.member_epoch, previous_member_epoch=other.previous_member_epoch, assigned=other.assigned)


class ShareGroupImage(ModernImage[ShareMember, Assignment]):
    """One group. Attributes are for reading; `replay` writes them."""

    __slots__ = ("state_partitions",)

    def __init__(self) -> None:
        super().__init__()
        self.state_partitions = StatePartitions()

    @property
    def subscribed(self) -> set[str]:
        """The names of all subscribed topics, whether they exist or not."""
        return {name for member in self.members.values() for name in member.topic_names}

    @staticmethod
    def target_of(value: Any) -> Assignment:
        """Decode a target assignment."""
        return _assignment(value.topic_partitions)

    def _replay_member(self, key: Any, value: Any) -> None:
        if value is None:
            self.members.pop(key.member_id, None)
            return
        described = ShareMember(
            key.member_id, value.rack_id, value.client_id, value.client_host, tuple(sorted(set(value.subscribed_topic_names)))
        )
        self.members[key.member_id] = described.with_progress_of(self.members.get(key.member_id, described))

    def _replay_current(self, key: Any, value: Any) -> None:
        before = self.members.get(key.member_id)
        if value is not None:
            replayed = ShareMember(
                key.member_id, None, "", "", (), value.member_epoch, value.previous_member_epoch, _assignment(value.assigned_partitions)
            )
            self.members[key.member_id] = (before or replayed).with_progress_of(replayed)
        elif before is not None:
            self.members[key.member_id] = before.with_progress_of(ShareMember(key.member_id))

    def _replay_state_partitions(self, _: Any, value: Any) -> None:
        self.state_partitions = (
            StatePartitions()
            if value is None
            else StatePartitions(
                _named(value.initializing_topics),
                _named(value.initialized_topics),
                {each.topic_id: each.topic_name for each in value.deleting_topics},
            )
        )

    replays: ClassVar[Replays] = {
        ShareGroupMetadataKey: ModernImage.replay_epoch,
        ShareGroupMemberMetadataKey: _replay_member,
        ShareGroupTargetAssignmentMetadataKey: ModernImage.replay_target_epoch,
        ShareGroupTargetAssignmentMemberKey: ModernImage.replay_target,
        ShareGroupCurrentMemberAssignmentKey: _replay_current,
        ShareGroupStatePartitionMetadataKey: _replay_state_partitions,
    }


def _assignment(stored: Sequence[Any]) -> Assignment:
    return frozen({each.topic_id: each.partitions for each in stored})


def _named(stored: Sequence[Any]) -> NamedAssignment:
    return named((each.topic_id, each.topic_name, each.partitions) for each in stored)


_VERSION: Final = 0
_TOMBSTONE: Final = -1
_STABLE: Final = 0


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> CoordinatorRecord:
    """Return the record of a new epoch of the group."""
    value = ShareGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return CoordinatorRecord(ShareGroupMetadataKey(group_id=group_id), value, _VERSION)


def member_record(group_id: str, member: ShareMember) -> CoordinatorRecord:
    """Return the record of a member that is new or changed."""
    value = ShareGroupMemberMetadataValue(
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.topic_names),
    )
    return CoordinatorRecord(ShareGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id), value, _VERSION)


def target_epoch_record(group_id: str, assignment_epoch: int, timestamp_ms: int) -> CoordinatorRecord:
    """Return the record of the epoch of a target assignment."""
    value = ShareGroupTargetAssignmentMetadataValue(assignment_epoch=assignment_epoch, assignment_timestamp=timestamp_ms)
    return CoordinatorRecord(ShareGroupTargetAssignmentMetadataKey(group_id=group_id), value, _VERSION)


def target_record(group_id: str, member_id: str, assignment: Assignment) -> CoordinatorRecord:
    """Return the record of a member's target assignment."""
    value = ShareGroupTargetAssignmentMemberValue(
        topic_partitions=[TargetPartitions(topic_id=each, partitions=sorted(assignment[each])) for each in sorted(assignment)]
    )
    return CoordinatorRecord(ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), value, _VERSION)


def current_record(group_id: str, member: ShareMember) -> CoordinatorRecord:
    """Return the record of a member's epoch and assignment."""
    value = ShareGroupCurrentMemberAssignmentValue(
        member_epoch=member.member_epoch,
        previous_member_epoch=member.previous_member_epoch,
        state=_STABLE,
        assigned_partitions=[
            AssignedPartitions(topic_id=each, partitions=sorted(member.assigned[each])) for each in sorted(member.assigned)
        ],
    )
    return CoordinatorRecord(ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id), value, _VERSION)


def state_partitions_record(group_id: str, partitions: StatePartitions) -> CoordinatorRecord:
    """Return the record of the partitions that have, get or lose a state."""
    value = ShareGroupStatePartitionMetadataValue(
        initializing_topics=_stored(partitions.initializing),
        initialized_topics=_stored(partitions.initialized),
        deleting_topics=[StateTopic(topic_id=topic_id, topic_name=name) for topic_id, name in sorted(partitions.deleting.items())],
    )
    return CoordinatorRecord(ShareGroupStatePartitionMetadataKey(group_id=group_id), value, _VERSION)


def _stored(partitions: NamedAssignment) -> list[StoredPartitions]:
    return [
        StoredPartitions(topic_id=topic_id, topic_name=each.topic_name, partitions=sorted(each.partitions))
        for topic_id, each in sorted(partitions.items())
    ]


def member_tombstones(group_id: str, member_id: str) -> list[CoordinatorRecord]:
    """Return the tombstones of a member."""
    keys = (ShareGroupCurrentMemberAssignmentKey, ShareGroupTargetAssignmentMemberKey, ShareGroupMemberMetadataKey)
    return [CoordinatorRecord(key(group_id=group_id, member_id=member_id), None, _TOMBSTONE) for key in keys]


def group_tombstones(group_id: str) -> list[CoordinatorRecord]:
    """Return the tombstones of a group without members."""
    keys = (ShareGroupTargetAssignmentMetadataKey, ShareGroupStatePartitionMetadataKey, ShareGroupMetadataKey)
    return [CoordinatorRecord(key(group_id=group_id), None, _TOMBSTONE) for key in keys]
