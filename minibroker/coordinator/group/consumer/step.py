"""A step of a consumer group: the records of one request or time-out, and the image of the group with them.

A step starts with the image of the group and changes a copy, which replaces nothing: the image
changes when the records are stored.

    a member joins, leaves or subscribes to something else; a topic changed     the group has a new epoch
    the epoch of the target assignment is older, and its interval is over       there is a new target assignment, for that epoch
    a member's epoch is older                                                   its next heartbeat reconciles it (reconciliation.py)

Source: GroupMetadataManager, TargetAssignmentBuilder of Apache Kafka 4.3.1; KIP-848, KIP-1263.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from uuid import UUID

from minibroker.coordinator.group.consumer import records
from minibroker.coordinator.group.consumer.assignors import assign, preferred
from minibroker.coordinator.group.consumer.members import ConsumerGroupImage, ConsumerMember, ResolvedRegex
from minibroker.coordinator.group.consumer.reconciliation import Goal, reconcile
from minibroker.coordinator.group.member_epochs import JOINS, LEAVES_FOR_A_WHILE
from minibroker.coordinator.group.modern import NOTHING, Assignment, Epochs, MemberSpec, ModernStep
from minibroker.coordinator.group.topics import Topics, metadata_hash
from minibroker.storage.record_frame import CoordinatorRecord


class ConsumerGroupStep(ModernStep[ConsumerGroupImage]):
    """The records of one step, and the image with them."""

    def __init__(
        self, group_id: str, image: ConsumerGroupImage, topics: Topics, now_ms: int, asked_regexes: dict[str, int] | None = None
    ) -> None:
        """Start a step. `asked_regexes`: the version of the topics when the group first asked for a pending expression; written here."""
        super().__init__(group_id, image, now_ms)
        self._topics = topics
        self._asked_regexes = {} if asked_regexes is None else asked_regexes

    # Members

    def subscribe(self, member: ConsumerMember) -> bool:
        """Record a member that is new or changed. Return whether its subscription changed."""
        before = self.image.members.get(member.member_id)
        if before is not None and before == member.with_progress_of(before):
            return False
        self._write(records.member_record(self._group_id, member))
        return before is None or before.subscription != member.subscription

    def replace(self, before: ConsumerMember, member_id: str) -> ConsumerMember:
        """Give the place of a static member to `member_id`: it keeps its assignment, and starts at epoch 0."""
        target = self.image.targets.get(before.member_id, NOTHING)
        self._write(*records.member_tombstones(self._group_id, before.member_id))
        member = before._replace(member_id=member_id, member_epoch=JOINS, previous_member_epoch=JOINS)
        self._write(
            records.member_record(self._group_id, member),
            records.target_record(self._group_id, member_id, target),
            records.current_record(self._group_id, member),
        )
        return self.image.members[member_id]

    def rest(self, member: ConsumerMember) -> None:
        """Record that a static member is away. It has given up what it had to give up."""
        resting = member._replace(member_epoch=LEAVES_FOR_A_WHILE, assigned=_at_epoch_zero(member.assigned), pending_revocation={})
        self._write(records.current_record(self._group_id, resting))

    def remove(self, *member_ids: str) -> None:
        """Remove members, and start a new epoch."""
        for member_id in member_ids:
            self._write(*records.member_tombstones(self._group_id, member_id))
        self.resolve_regexes()
        self.follow_subscriptions(has_changed=True)

    def end(self, successor: CoordinatorRecord) -> None:
        """End the group: `successor` is the record of the classic group that takes its place."""
        self._write(*records.group_tombstones(self._group_id, self.image.members, self.image.regexes), successor)

    # Subscriptions

    def resolve_regexes(self) -> bool:
        """Resolve new expressions, and all when topics changed; drop unused ones. Return whether one matches other topics now."""
        known = self.image.regexes
        used = {member.topic_regex for member in self.image.members.values()} - {""}
        for pattern in known.keys() - used:
            self._write(records.regex_tombstone(self._group_id, pattern))
        for pattern in self._asked_regexes.keys() - used:
            del self._asked_regexes[pattern]
        has_changed = False
        for pattern in sorted(used):
            before = known.get(pattern)
            if before is not None and not self._is_stale(before.version, before.timestamp_ms):
                continue
            matching = self._topics.matching(pattern)
            oldest = before.version + 1 if before is not None else self._asked_regexes.setdefault(pattern, self._topics.version)
            if matching is None or matching.version < oldest:
                continue  # a later heartbeat finds the result; an older one is that of another group
            self._asked_regexes.pop(pattern, None)
            resolved = ResolvedRegex(matching.names, matching.version, self._now_ms)
            self._write(records.regex_record(self._group_id, pattern, resolved))
            has_changed = has_changed or before is None or before.topics != resolved.topics
        return has_changed

    def _is_stale(self, version: int, timestamp_ms: int) -> bool:
        return version != self._topics.version and not 0 <= self._now_ms - timestamp_ms < self._topics.refresh_interval_ms

    def follow_subscriptions(self, *, has_changed: bool) -> None:
        """Start a new epoch if subscriptions or subscribed topics changed."""
        names = {name for member in self.image.members.values() for name in self.image.topic_names_of(member)}
        now = metadata_hash(names, self._topics)
        if has_changed or now != self.image.metadata_hash:
            self._write(records.epoch_record(self._group_id, self.image.epoch + 1, now))

    # Assignments

    def _find(self, names: Iterable[str]) -> dict[UUID, int]:
        """Return the ids of those topics that exist, with their partition counts."""
        known = (self._topics.find(name) for name in names)
        return {topic.topic_id: topic.partition_count for topic in known if topic is not None}

    def assign(self, interval_ms: int, assignors: Sequence[str]) -> None:
        """Make the target assignment of this epoch, unless there is one, or the last one is younger than the interval."""
        image = self.image
        is_due = not 0 <= self._now_ms - image.assignment_timestamp_ms < interval_ms
        if image.assignment_epoch >= image.epoch or not is_due:
            return
        one_of_each = {each.subscription: each for each in image.members.values()}  # most of a thousand members have the same subscription
        found = {subscription: self._find(image.topic_names_of(each)) for subscription, each in one_of_each.items()}
        topics = {subscription: frozenset(each) for subscription, each in found.items()}
        specs = {
            member_id: MemberSpec(topics[each.subscription], image.targets.get(member_id, NOTHING), each.instance_id)
            for member_id, each in image.members.items()
        }
        counts = {topic_id: count for each in found.values() for topic_id, count in each.items()}
        name = preferred((each.server_assignor for each in image.members.values()), assignors)
        for member_id, target in assign(name, specs, counts, is_homogeneous=len(found) == 1).items():
            if image.targets.get(member_id) != target:
                self._write(records.target_record(self._group_id, member_id, target))
        self._write(records.target_epoch_record(self._group_id, image.epoch, self._now_ms))

    def reconcile(self, member_id: str, owned: Assignment | None) -> ConsumerMember:
        """Reconcile a member with its target as far as possible."""
        image = self.image
        member = image.members[member_id]
        if image.epoch == image.assignment_epoch and member.is_reconciled(image.epoch):
            return member  # the usual case: nothing to look up
        goal = Goal(
            epoch=image.assignment_epoch,
            target=image.targets.get(member_id, NOTHING),
            subscribed=self._find(image.topic_names_of(member)).keys(),
            owners=image.owners,
        )
        moved = reconcile(member, goal, owned)
        if moved != member:
            self._write(records.current_record(self._group_id, moved))
        return moved


def _at_epoch_zero(assigned: Epochs) -> Epochs:
    return {topic_id: dict.fromkeys(partitions, JOINS) for topic_id, partitions in assigned.items()}
