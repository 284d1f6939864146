"""A step of a share group: the records of one request or time-out, and a copy of the group's image that includes them.

The image itself changes when the records are stored.

    a member joins, leaves or subscribes to something else; a topic changed     the group has a new epoch
    a partition has got a state, and has no member                              the same, unless its epoch is newer than its assignment's
    the epoch of the target assignment is older, and its interval is over       there is a new target assignment, for that epoch
    a member's epoch is older                                                   its next heartbeat returns its target assignment

Source: GroupMetadataManager.shareGroupHeartbeat, TargetAssignmentBuilder,
ShareGroupAssignmentBuilder of Apache Kafka 4.3.1; KIP-932.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from math import ceil
from typing import Final
from uuid import UUID

from minibroker.coordinator.group.modern import NOTHING, Assignment, MemberSpec, ModernStep, frozen
from minibroker.coordinator.group.share.members import (
    NamedAssignment,
    ShareGroupImage,
    ShareMember,
    StatePartitions,
    current_record,
    epoch_record,
    member_record,
    member_tombstones,
    named,
    state_partitions_record,
    target_epoch_record,
    target_record,
)
from minibroker.coordinator.group.topics import KnownTopic, Topics, metadata_hash

SIMPLE: Final = "simple"  #: its name in configs and answers

Partition = tuple[UUID, int]


def assign_simple(members: Mapping[str, MemberSpec], assignable: Assignment) -> dict[str, Assignment]:
    """Assign by `simple`: members share all assignable partitions evenly, and several members may have one partition.

    If all members have the same subscription, all partitions are assigned together, otherwise each
    topic among its subscribers:

        1. each partition gets as many members as there are members for one partition, rounded up; each member gets an even share
        2. a member with more than its share gives up its first partitions
        3. a partition with too many members loses its first ones
        4. partitions with too few members get members below their share, in turn

    A member keeps its partitions as far as possible. Source: SimpleHomogeneousAssignmentBuilder,
    SimpleHeterogeneousAssignmentBuilder of Apache Kafka 4.3.1. Their hash tables order partitions
    differently. Here partitions are sorted by topic id and index.
    """
    found: dict[str, dict[UUID, set[int]]] = {member_id: {} for member_id in members}
    is_homogeneous = len({member.topics for member in members.values()}) == 1
    topics = sorted({topic_id for member in members.values() for topic_id in member.topics})
    for together in [topics] if is_homogeneous else [[topic_id] for topic_id in topics]:
        partitions = [(topic_id, index) for topic_id in together for index in sorted(assignable.get(topic_id, ()))]
        subscribers = {member_id: member for member_id, member in members.items() if member.topics.issuperset(together)}
        if partitions:
            _share(subscribers, partitions, found)
    return {member_id: frozen(each) for member_id, each in found.items()}


def _share(members: Mapping[str, MemberSpec], partitions: Sequence[Partition], found: dict[str, dict[UUID, set[int]]]) -> None:
    sharing = -(-len(members) // len(partitions))
    each = sharing * len(partitions) / len(members)
    quotas = {member_id: ceil(each * (index + 1)) - ceil(each * index) for index, member_id in enumerate(members)}
    readers: dict[Partition, list[str]] = {partition: [] for partition in partitions}
    for member_id, member in members.items():
        kept = sorted(partition for partition in _partitions(member.assignment) if partition in readers)
        for partition in kept[max(len(kept) - quotas[member_id], 0) :]:
            readers[partition].append(member_id)
    for partition in partitions:
        del readers[partition][: max(len(readers[partition]) - sharing, 0)]
    for member_ids in readers.values():
        for member_id in member_ids:
            quotas[member_id] -= 1
    _fill(readers, {member_id: missing for member_id, missing in quotas.items() if missing > 0}, sharing)
    for (topic_id, index), member_ids in readers.items():
        for member_id in member_ids:
            found[member_id].setdefault(topic_id, set()).add(index)


def _partitions(assignment: Assignment) -> Iterator[Partition]:
    return ((topic_id, index) for topic_id, indexes in assignment.items() for index in indexes)


def _fill(readers: dict[Partition, list[str]], missing: dict[str, int], sharing: int) -> None:
    """Give partitions to members below their share, in turn.

    A partition that all of them already have keeps fewer members.
    """
    turn = deque(missing)
    for member_ids in readers.values():
        passed = 0  #: members in a row that already have this partition
        while len(member_ids) < sharing and passed < len(turn):
            member_id = turn.popleft()
            if member_id in member_ids:
                passed += 1
                turn.append(member_id)
                continue
            member_ids.append(member_id)
            passed = 0
            missing[member_id] -= 1
            if missing[member_id]:
                turn.append(member_id)


class ShareGroupStep(ModernStep[ShareGroupImage]):
    """The records of one step, and the image that includes them."""

    def __init__(self, group_id: str, image: ShareGroupImage, topics: Topics, now_ms: int) -> None:
        super().__init__(group_id, image, now_ms)
        self._topics = topics

    def _find(self, name: str) -> dict[str, KnownTopic]:
        topic = self._topics.find(name)
        return {} if topic is None else {name: topic}

    # Members

    def subscribe(self, member: ShareMember) -> bool:
        """Record a member that is new or changed. Return whether its subscription changed."""
        before = self.image.members.get(member.member_id)
        if before is not None and before == member.with_progress_of(before):
            return False
        self._write(member_record(self._group_id, member))
        return before is None or before.topic_names != member.topic_names

    def remove(self, member_id: str) -> None:
        """Remove a member, and start a new epoch."""
        self._write(*member_tombstones(self._group_id, member_id))
        self.follow_subscriptions(has_changed=True)

    def follow_subscriptions(self, *, has_changed: bool) -> bool:
        """Start a new epoch if subscriptions or subscribed topics changed. Return whether it did."""
        topics_hash = metadata_hash(self.image.subscribed, self._topics)
        if has_changed or topics_hash != self.image.metadata_hash:
            self._write(epoch_record(self._group_id, self.image.epoch + 1, topics_hash))
            return True
        return False

    # Partitions that have a state

    def store_state_partitions(self, partitions: StatePartitions) -> None:
        """Record which partitions have, get or lose a state."""
        if partitions != self.image.state_partitions:
            self._write(state_partitions_record(self._group_id, partitions))

    def forget_deleted_topics(self) -> None:
        """Drop the ids of topics that no longer exist."""
        partitions = self.image.state_partitions
        names = {each.topic_name for part in partitions[:2] for each in part.values()} | set(partitions.deleting.values())
        existing = {topic.topic_id for name in names for topic in self._find(name).values()}
        self.store_state_partitions(partitions.forget(partitions.topic_ids - existing))

    def uninitialized(self) -> NamedAssignment:
        """Return subscribed partitions that have no state yet."""
        topics = [(name, topic) for name in sorted(self.image.subscribed) for topic in self._find(name).values()]
        return self.image.state_partitions.missing(named((topic.topic_id, name, range(topic.partition_count)) for name, topic in topics))

    def _assignable(self) -> Assignment:
        """Return subscribed partitions that have a state and exist."""
        known = self.image.state_partitions.initialized
        found = {}
        for name in self.image.subscribed:
            for topic in self._find(name).values():
                if topic.topic_id in known:
                    found[topic.topic_id] = known[topic.topic_id].partitions & frozenset(range(topic.partition_count))
        return frozen(found)

    # Assignments

    @property
    def is_anything_unassigned(self) -> bool:
        """Whether a partition that a member could have has no member."""
        assigned: dict[UUID, set[int]] = {}
        for target in self.image.targets.values():
            for topic_id, partitions in target.items():
                assigned.setdefault(topic_id, set()).update(partitions)
        return any(assigned.get(topic_id, set()) != partitions for topic_id, partitions in self._assignable().items())

    def assign(self, interval_ms: int) -> None:
        """Create the target assignment of this epoch, unless it exists or the last one is younger than the interval."""
        image = self.image
        is_due = not 0 <= self._now_ms - image.assignment_timestamp_ms < interval_ms
        if image.assignment_epoch >= image.epoch or not is_due:
            return
        specs = {
            member_id: MemberSpec(self._topic_ids(each), image.targets.get(member_id, NOTHING)) for member_id, each in image.members.items()
        }
        for member_id, target in assign_simple(specs, self._assignable()).items():
            if image.targets.get(member_id) != target:
                self._write(target_record(self._group_id, member_id, target))
        self._write(target_epoch_record(self._group_id, image.epoch, self._now_ms))

    def _topic_ids(self, member: ShareMember) -> frozenset[UUID]:
        return frozenset(topic.topic_id for name in member.topic_names for topic in self._find(name).values())

    def give_target(self, member_id: str, *, has_changed: bool) -> ShareMember:
        """Give a member its target assignment if that has another epoch, or if its subscription changed."""
        image = self.image
        member = image.members[member_id]
        if member.member_epoch == image.assignment_epoch and not has_changed:
            return member
        subscribed_ids = self._topic_ids(member)
        assigned = {topic_id: each for topic_id, each in image.targets.get(member_id, NOTHING).items() if topic_id in subscribed_ids}
        moved = member._replace(assigned=assigned)
        if member.member_epoch != image.assignment_epoch:
            moved = moved._replace(member_epoch=image.assignment_epoch, previous_member_epoch=member.member_epoch)
        if moved != member:
            self._write(current_record(self._group_id, moved))
        return moved
