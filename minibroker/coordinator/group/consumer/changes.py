"""Changes of one consumer group: the records of each step, removed members, time-outs, and downgrades.

A step has the records of one request or time-out. It changes a copy of the group's image. The image
itself changes when the records are stored.

    a member joins, leaves or subscribes to something else; a topic changed     the group has a new epoch
    the epoch of the target assignment is older, and its interval is over       there is a new target assignment, for that epoch
    a member's epoch is older                                                   its next heartbeat reconciles it (reconciliation.py)

    timer                       members        runs from                              when it expires
    session                     all            each request, for the time-out that    the member is removed
                                               classic members send when they join
    revocation                  not classic    a heartbeat that must give up          the member is removed: it did not give up in time
                                               partitions, for its rebalance time-out
    joining                     classic        REBALANCE_IN_PROGRESS                  the member is removed
    syncing                     classic        JoinGroup                              the member is removed

When all remaining members use the classic protocol, the group is downgraded: one batch of records
ends the consumer group and starts a classic group (migration.py). `on_downgraded` is then called
once, and the consumer group must not be used any more.

Source: GroupMetadataManager, TargetAssignmentBuilder of Apache Kafka 4.3.1; KIP-848, KIP-1263.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from uuid import UUID

from minibroker.clock import Clock
from minibroker.coordinator.group.classic.members import group_record, value_of_members
from minibroker.coordinator.group.consumer.assignors import assign, preferred
from minibroker.coordinator.group.consumer.members import (
    ConsumerGroupImage,
    ConsumerMember,
    MemberState,
    ResolvedRegex,
    current_record,
    epoch_record,
    group_tombstones,
    member_record,
    member_tombstones,
    regex_record,
    regex_tombstone,
    target_epoch_record,
    target_record,
)
from minibroker.coordinator.group.consumer.migration import ClassicSuccessor, Migration, downgraded
from minibroker.coordinator.group.consumer.reconciliation import Goal, reconcile
from minibroker.coordinator.group.consumer.requests import ConsumerGroupLimits
from minibroker.coordinator.group.kind import Persist
from minibroker.coordinator.group.modern import (
    JOINS,
    LEAVES_FOR_A_WHILE,
    NOTHING,
    Assignment,
    Epochs,
    MemberSpec,
    MemberTimeouts,
    ModernStep,
)
from minibroker.coordinator.group.topics import Topics, metadata_hash
from minibroker.storage.record_frame import CoordinatorRecord


class ConsumerGroupStep(ModernStep[ConsumerGroupImage]):
    """The records of one step, and the image with them."""

    def __init__(
        self, group_id: str, image: ConsumerGroupImage, topics: Topics, now_ms: int, asked_regexes: dict[str, int] | None = None
    ) -> None:
        """Start a step.

        `asked_regexes` is written here. It has, for each expression without a result, the version
        of the topics when the group first requested it.
        """
        super().__init__(group_id, image, now_ms)
        self._topics = topics
        self._asked_regexes = {} if asked_regexes is None else asked_regexes

    # Members

    def subscribe(self, member: ConsumerMember) -> bool:
        """Record a member that is new or changed. Return whether its subscription changed."""
        before = self.image.members.get(member.member_id)
        if before is not None and before == member.with_progress_of(before):
            return False
        self._write(member_record(self._group_id, member))
        return before is None or before.subscription != member.subscription

    def replace(self, before: ConsumerMember, member_id: str) -> ConsumerMember:
        """Give the place of a static member to `member_id`: it keeps its assignment, and starts at epoch 0."""
        target = self.image.targets.get(before.member_id, NOTHING)
        self._write(*member_tombstones(self._group_id, before.member_id))
        member = before._replace(member_id=member_id, member_epoch=JOINS, previous_member_epoch=JOINS)
        self._write(
            member_record(self._group_id, member),
            target_record(self._group_id, member_id, target),
            current_record(self._group_id, member),
        )
        return self.image.members[member_id]

    def leave_for_a_while(self, member: ConsumerMember) -> None:
        """Record that a static member is away.

        It has given up the partitions that it had to give up.
        """
        away = member._replace(member_epoch=LEAVES_FOR_A_WHILE, assigned=_at_epoch_zero(member.assigned), pending_revocation={})
        self._write(current_record(self._group_id, away))

    def remove(self, *member_ids: str) -> None:
        """Remove members, and start a new epoch."""
        for member_id in member_ids:
            self._write(*member_tombstones(self._group_id, member_id))
        self.resolve_regexes()
        self.follow_subscriptions(has_changed=True)

    def end(self, successor: CoordinatorRecord) -> None:
        """End the group: `successor` is the record of the classic group that takes its place."""
        self._write(*group_tombstones(self._group_id, self.image.members, self.image.regexes), successor)

    # Subscriptions

    def resolve_regexes(self) -> bool:
        """Resolve new expressions, or all if topics changed.

        Drop unused ones. Return whether the result of an expression changed.
        """
        known = self.image.regexes
        used = {member.topic_regex for member in self.image.members.values()} - {""}
        for pattern in known.keys() - used:
            self._write(regex_tombstone(self._group_id, pattern))
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
                continue  # a later heartbeat finds the result; this older one is that of another group
            self._asked_regexes.pop(pattern, None)
            resolved = ResolvedRegex(matching.names, matching.version, self._now_ms)
            self._write(regex_record(self._group_id, pattern, resolved))
            has_changed = has_changed or before is None or before.topics != resolved.topics
        return has_changed

    def _is_stale(self, version: int, timestamp_ms: int) -> bool:
        return version != self._topics.version and not 0 <= self._now_ms - timestamp_ms < self._topics.refresh_interval_ms

    def follow_subscriptions(self, *, has_changed: bool) -> None:
        """Start a new epoch if subscriptions or subscribed topics changed."""
        names = {name for member in self.image.members.values() for name in self.image.topic_names_of(member)}
        topics_hash = metadata_hash(names, self._topics)
        if has_changed or topics_hash != self.image.metadata_hash:
            self._write(epoch_record(self._group_id, self.image.epoch + 1, topics_hash))

    # Assignments

    def _find(self, names: Iterable[str]) -> dict[UUID, int]:
        """Return the ids and partition counts of the topics that exist."""
        known = (self._topics.find(name) for name in names)
        return {topic.topic_id: topic.partition_count for topic in known if topic is not None}

    def assign(self, interval_ms: int, assignors: Sequence[str]) -> None:
        """Create the target assignment of this epoch, unless it exists or the last one is younger than the interval."""
        image = self.image
        is_due = not 0 <= self._now_ms - image.assignment_timestamp_ms < interval_ms
        if image.assignment_epoch >= image.epoch or not is_due:
            return
        by_subscription = {each.subscription: each for each in image.members.values()}  # usually all of a thousand members have the same
        found = {subscription: self._find(image.topic_names_of(each)) for subscription, each in by_subscription.items()}
        topics = {subscription: frozenset(each) for subscription, each in found.items()}
        specs = {
            member_id: MemberSpec(topics[each.subscription], image.targets.get(member_id, NOTHING), each.instance_id)
            for member_id, each in image.members.items()
        }
        counts = {topic_id: count for each in found.values() for topic_id, count in each.items()}
        name = preferred((each.server_assignor for each in image.members.values()), assignors)
        for member_id, target in assign(name, specs, counts, is_homogeneous=len(found) == 1).items():
            if image.targets.get(member_id) != target:
                self._write(target_record(self._group_id, member_id, target))
        self._write(target_epoch_record(self._group_id, image.epoch, self._now_ms))

    def reconcile(self, member_id: str, owned: Assignment | None) -> ConsumerMember:
        """Reconcile a member with its target as far as possible."""
        image = self.image
        member = image.members[member_id]
        if image.epoch == image.assignment_epoch and member.is_reconciled(image.epoch):
            return member  # the usual case, without look-ups
        goal = Goal(
            epoch=image.assignment_epoch,
            target=image.targets.get(member_id, NOTHING),
            subscribed=self._find(image.topic_names_of(member)).keys(),
            owners=image.owners,
        )
        moved = reconcile(member, goal, owned)
        if moved != member:
            self._write(current_record(self._group_id, moved))
        return moved


def _at_epoch_zero(assigned: Epochs) -> Epochs:
    return {topic_id: dict.fromkeys(partitions, JOINS) for topic_id, partitions in assigned.items()}


class GroupChanges:
    """The changes of one group. ConsumerGroup and ClassicMembers decide what to change."""

    def __init__(
        self,
        group_id: str,
        *,
        clock: Clock,
        topics: Topics,
        persist: Persist,
        limits: Callable[[], ConsumerGroupLimits],
        image: ConsumerGroupImage,
        migration: Callable[[], Migration],
        on_downgraded: Callable[[ClassicSuccessor], None],
    ) -> None:
        self.group_id = group_id
        self.image = image
        self.topics = topics
        self.limits = limits  #: returns the present configs
        self.migration = migration  #: returns the present policy
        self.sessions = MemberTimeouts(group_id, clock, self.remove, "its session timed out")
        self.revocations = MemberTimeouts(group_id, clock, self.remove, "it did not give up its partitions in time")
        self.joinings = MemberTimeouts(group_id, clock, self.remove, "it did not join again in time")
        self.syncings = MemberTimeouts(group_id, clock, self.remove, "it did not sync in time")
        self._clock = clock
        self._persist = persist
        self._on_downgraded = on_downgraded
        self._topics_version = -1  #: the version of the topics that the group's epoch was last checked against
        self._asked_regexes: dict[str, int] = {}  #: expressions without a result; written by steps

    # Life

    def resume(self) -> None:
        """Start the time-outs of all members, after the log was read."""
        for member in self.image.members.values():
            self.renew(member)
            self.watch_revocation(member)

    def unload(self) -> None:
        """Cancel all time-outs."""
        for timeouts in self._timeouts():
            timeouts.clear()

    # Steps

    def step(self) -> ConsumerGroupStep:
        """Start a step."""
        return ConsumerGroupStep(self.group_id, self.image, self.topics, self._clock.now_ms(), self._asked_regexes)

    def follow(self, step: ConsumerGroupStep, member: ConsumerMember) -> None:
        """Record the member, and a new epoch of the group if its subscription or the topics changed."""
        has_changed = step.subscribe(member)
        has_changed = step.resolve_regexes() or (has_changed and not self._waits_for_regex(step, member))
        if has_changed or self._topics_version != self.topics.version:
            step.follow_subscriptions(has_changed=has_changed)

    def _waits_for_regex(self, step: ConsumerGroupStep, member: ConsumerMember) -> bool:
        """Whether only an expression without a result is new in a subscription.

        The group's epoch grows with the result.
        """
        if not member.topic_regex or member.topic_regex in step.image.regexes:
            return False
        before = self.image.members.get(member.member_id)
        return member.topic_names == (before.topic_names if before is not None else ())

    def assign(self, step: ConsumerGroupStep) -> None:
        """Create a new target assignment if one is due."""
        limits = self.limits()
        step.assign(limits.assignment_interval_ms, limits.assignors)

    def commit(self, step: ConsumerGroupStep) -> None:
        """Store a step that followed the topics, and cancel the time-outs of removed members."""
        topics_version = self.topics.version
        self.store(step)
        self._topics_version = topics_version
        for member_id in self.sessions.member_ids - self.image.members.keys():
            self._cancel_all(member_id)

    def store(self, step: ConsumerGroupStep) -> None:
        """Store the records of a step, if there are any; KafkaError."""
        if step.records:
            self._persist(step.records)

    def remove(self, *member_ids: str) -> None:
        """Remove members, and downgrade the group if only classic members remain; KafkaError."""
        removed = set(member_ids)
        if self.may_downgrade(removed):
            remaining = [member for member_id, member in self.image.members.items() if member_id not in removed]
            self.downgrade(self.step(), downgraded(remaining, self.image, self.topics, must_rebalance=True))
            return
        step = self.step()
        step.remove(*member_ids)
        self.store(step)
        for member_id in member_ids:
            self._cancel_all(member_id)

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        """Return the member that has an instance id; None if there is none."""
        member_id = self.image.instances.get(instance_id or "")
        return None if member_id is None else self.image.members[member_id]

    # Time-outs

    def renew(self, member: ConsumerMember) -> None:
        """Start the session time-out of a member again."""
        classic = member.classic
        self.sessions.arm(member.member_id, self.limits().session_timeout_ms if classic is None else classic.session_timeout_ms)

    def watch_revocation(self, member: ConsumerMember, before: ConsumerMember | None = None) -> None:
        """Start the time-out of a revocation, restart it for each partition that is added, and cancel it when the revocation is over."""
        if member.state is not MemberState.UNREVOKED_PARTITIONS or member.classic is not None:
            self.revocations.cancel(member.member_id)
        elif before is None or before != before.with_progress_of(member):
            self.revocations.arm(member.member_id, member.rebalance_timeout_ms)

    def _cancel_all(self, member_id: str) -> None:
        for timeouts in self._timeouts():
            timeouts.cancel(member_id)

    def _timeouts(self) -> tuple[MemberTimeouts, ...]:
        return self.sessions, self.revocations, self.joinings, self.syncings

    # Downgrade

    def may_downgrade(self, removed: set[str], *, replaced: ConsumerMember | None = None) -> bool:
        """Whether a classic group may continue without the `removed` members.

        A classic member takes the place of `replaced`.
        """
        remaining = [member for member_id, member in self.image.members.items() if member_id not in removed]
        count = len(remaining) + (replaced is not None)
        if any(member.classic is None for member in remaining) or (replaced is not None and replaced.classic is not None):
            return False
        migration = self.migration()
        return migration.may_downgrade and 0 < count <= migration.max_classic_size

    def downgrade(self, step: ConsumerGroupStep, successor: ClassicSuccessor) -> None:
        """Store the end of this group and the start of its successor, then call `on_downgraded`; KafkaError."""
        value = value_of_members(successor.members, successor.generation_id, successor.protocol_name, self._clock.now_ms())
        step.end(group_record(self.group_id, value))
        self.store(step)
        self.unload()
        self._on_downgraded(successor)
