"""A step of a share group: the records of one request or time-out, and the image of the group with them.

A step starts with the image of the group and changes a copy. The image changes when the records are
stored.

    a member joins, leaves or subscribes to something else; a topic changed     the group has a new epoch
    a partition has a state now and no member                                   the same, unless its epoch is newer than its assignment's
    the epoch of the target assignment is older, and its interval is over       there is a new target assignment, for that epoch
    a member's epoch is older                                                   its next heartbeat returns its target assignment

Source: GroupMetadataManager.shareGroupHeartbeat, TargetAssignmentBuilder,
ShareGroupAssignmentBuilder of Apache Kafka 4.3.1; KIP-932.
"""

from __future__ import annotations

from uuid import UUID

from minibroker.coordinator.group.modern import NOTHING, Assignment, MemberSpec, ModernStep, frozen
from minibroker.coordinator.group.share import records
from minibroker.coordinator.group.share.assignor import assign_simple
from minibroker.coordinator.group.share.members import ShareGroupImage, ShareMember
from minibroker.coordinator.group.share.state_partitions import NamedAssignment, StatePartitions, named
from minibroker.coordinator.group.topics import KnownTopic, Topics, metadata_hash


class ShareGroupStep(ModernStep[ShareGroupImage]):
    """The records of one step, and the image with them."""

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
        self._write(records.member_record(self._group_id, member))
        return before is None or before.topic_names != member.topic_names

    def remove(self, member_id: str) -> None:
        """Remove a member, and start a new epoch."""
        self._write(*records.member_tombstones(self._group_id, member_id))
        self.follow_subscriptions(has_changed=True)

    def follow_subscriptions(self, *, has_changed: bool) -> bool:
        """Start a new epoch if subscriptions or subscribed topics changed. Return whether it did."""
        now = metadata_hash(self.image.subscribed, self._topics)
        if has_changed or now != self.image.metadata_hash:
            self._write(records.epoch_record(self._group_id, self.image.epoch + 1, now))
            return True
        return False

    # Partitions that have a state

    def store_state_partitions(self, partitions: StatePartitions) -> None:
        """Record which partitions have a state, or get or lose one."""
        if partitions != self.image.state_partitions:
            self._write(records.state_partitions_record(self._group_id, partitions))

    def forget_deleted_topics(self) -> None:
        """Drop the ids of topics that no longer exist."""
        partitions = self.image.state_partitions
        names = {each.topic_name for part in partitions[:2] for each in part.values()} | set(partitions.deleting.values())
        there = {topic.topic_id for name in names for topic in self._find(name).values()}
        self.store_state_partitions(partitions.forget(partitions.topic_ids - there))

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
        given: dict[UUID, set[int]] = {}
        for target in self.image.targets.values():
            for topic_id, partitions in target.items():
                given.setdefault(topic_id, set()).update(partitions)
        return any(given.get(topic_id, set()) != partitions for topic_id, partitions in self._assignable().items())

    def assign(self, interval_ms: int) -> None:
        """Make the target assignment of this epoch, unless there is one, or the last one is younger than the interval."""
        image = self.image
        is_due = not 0 <= self._now_ms - image.assignment_timestamp_ms < interval_ms
        if image.assignment_epoch >= image.epoch or not is_due:
            return
        specs = {
            member_id: MemberSpec(self._topic_ids(each), image.targets.get(member_id, NOTHING)) for member_id, each in image.members.items()
        }
        for member_id, target in assign_simple(specs, self._assignable()).items():
            if image.targets.get(member_id) != target:
                self._write(records.target_record(self._group_id, member_id, target))
        self._write(records.target_epoch_record(self._group_id, image.epoch, self._now_ms))

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
            self._write(records.current_record(self._group_id, moved))
        return moved
