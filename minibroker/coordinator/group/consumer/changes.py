"""Changes of one consumer group: steps are stored, members are removed, and time-outs follow them.

    timer                       members        runs from                              when it expires
    session                     all            each request; classic members choose   the member is removed
                                               how long when they join
    revocation                  others         a heartbeat that must give up          the member is removed: it did not give up in time
                                               partitions, for its rebalance time-out
    joining                     classic        REBALANCE_IN_PROGRESS                  the member is removed
    syncing                     classic        JoinGroup                              the member is removed

When all members that are left speak the classic protocol, the group is downgraded: one batch of records ends the consumer group and starts
a classic group (migration.py). `on_downgraded` is then called once, and the consumer group must not be used any more.

Source: GroupMetadataManager of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Callable

from minibroker.clock import Clock
from minibroker.coordinator.group.classic.records import group_record, value_of_members
from minibroker.coordinator.group.consumer.members import ConsumerGroupImage, ConsumerMember, MemberState
from minibroker.coordinator.group.consumer.migration import ClassicSuccessor, Migration, downgraded
from minibroker.coordinator.group.consumer.requests import ConsumerGroupLimits
from minibroker.coordinator.group.consumer.step import ConsumerGroupStep
from minibroker.coordinator.group.kind import Persist
from minibroker.coordinator.group.modern import MemberTimeouts
from minibroker.coordinator.group.topics import Topics


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
        self.limits = limits  #: the present ones
        self.migration = migration  #: the present policy
        self.sessions = MemberTimeouts(group_id, clock, self.remove, "its session timed out")
        self.revocations = MemberTimeouts(group_id, clock, self.remove, "it did not give up its partitions in time")
        self.joinings = MemberTimeouts(group_id, clock, self.remove, "it did not join again in time")
        self.syncings = MemberTimeouts(group_id, clock, self.remove, "it did not sync in time")
        self._clock = clock
        self._persist = persist
        self._on_downgraded = on_downgraded
        self._topics_version = -1  #: of the topics that the group's epoch is known to be right for
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
        """Record what a member says of itself, and a new epoch of the group if its subscription or the topics changed."""
        has_changed = step.subscribe(member)
        has_changed = step.resolve_regexes() or (has_changed and not self._waits_for_regex(step, member))
        if has_changed or self._topics_version != self.topics.version:
            step.follow_subscriptions(has_changed=has_changed)

    def _waits_for_regex(self, step: ConsumerGroupStep, member: ConsumerMember) -> bool:
        """Whether only an expression without a result is new in a subscription. The group's epoch grows with the result."""
        if not member.topic_regex or member.topic_regex in step.image.regexes:
            return False
        before = self.image.members.get(member.member_id)
        return member.topic_names == (before.topic_names if before is not None else ())

    def assign(self, step: ConsumerGroupStep) -> None:
        """Make a new target assignment if one is due."""
        limits = self.limits()
        step.assign(limits.assignment_interval_ms, limits.assignors)

    def commit(self, step: ConsumerGroupStep) -> None:
        """Store a step that followed the topics, and cancel the time-outs of members that are gone."""
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
        """Remove members, and downgrade the group if only classic members are left; KafkaError."""
        gone = set(member_ids)
        if self.may_downgrade(gone):
            left = [member for member_id, member in self.image.members.items() if member_id not in gone]
            self.downgrade(self.step(), downgraded(left, self.image, self.topics, must_rebalance=True))
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
        """Start the time-out of a revocation, again for each partition that is added to it, and cancel it when there is none."""
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

    def may_downgrade(self, gone: set[str], *, replaced: ConsumerMember | None = None) -> bool:
        """Whether a classic group may continue without the members that are `gone`. A classic member takes the place of `replaced`."""
        left = [member for member_id, member in self.image.members.items() if member_id not in gone]
        count = len(left) + (replaced is not None)
        if any(member.classic is None for member in left) or (replaced is not None and replaced.classic is not None):
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
