"""A share group (KIP-932): its heartbeats and their effect.

Operations of administrators are in `offsets.py`.

    state      condition                member epoch    of a known member                      of an unknown member
    Empty      it has no members        0   joins       full answer                            new: a new epoch of the group
    Stable     it has members           its own         alive; the answer has changes (1)      UNKNOWN_MEMBER_ID
                                        the one before  the same: its answer was lost          UNKNOWN_MEMBER_ID
                                        others          FENCED_MEMBER_EPOCH                    UNKNOWN_MEMBER_ID
                                        -1  leaves      removed: a new epoch of the group      UNKNOWN_MEMBER_ID

  (1) Changed fields of the member are stored. A changed subscription starts a new epoch of the
      group.

    timer                     runs for                               when it expires
    session of a member       the session time-out of the group      the member is removed

A heartbeat initializes share partitions of new topics, and the same answer assigns them. (Apache
Kafka initializes them after the request: the first answer to the first member has no partitions,
and a later heartbeat gets them in another epoch of the group.)

Invariants
  - the records of an answer are stored before the answer is sent
  - a member has a partition only if the share coordinator has a state for it
  - no epoch decreases

Source: GroupMetadataManager, GroupCoordinatorService (which has the same messages) of Apache Kafka
4.3.1; KIP-932.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Final, NamedTuple, NoReturn

from minibroker.clock import Clock, Timer
from minibroker.coordinator.group.kind import GroupType, Membership, Persist
from minibroker.coordinator.group.modern import JOINS, LEAVES, Assignment, MemberTimeouts, unknown_member
from minibroker.coordinator.group.share.members import NamedAssignment, ShareGroupImage, ShareMember, group_tombstones
from minibroker.coordinator.group.share.offsets import ShareOffsets, ShareStates
from minibroker.coordinator.group.share.step import ShareGroupStep
from minibroker.coordinator.group.topics import Topics
from minibroker.errors import (
    FencedMemberEpoch,
    GroupIdNotFound,
    GroupMaxSizeReached,
    InvalidRequest,
    KafkaError,
    NonEmptyGroup,
    NotCoordinator,
)
from minibroker.storage.record_frame import CoordinatorRecord


class ShareHeartbeat(NamedTuple):
    """A ShareGroupHeartbeat request. None means that a field has not changed."""

    member_id: str
    member_epoch: int
    client_id: str = ""
    client_host: str = ""
    rack_id: str | None = None
    topic_names: tuple[str, ...] | None = None


class ShareHeartbeatAnswer(NamedTuple):
    """The answer to a heartbeat. `assignment` is None if it has not changed."""

    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int = 0
    assignment: Assignment | None = None


def check_heartbeat(group_id: str, request: ShareHeartbeat) -> None:
    """Check a heartbeat; InvalidRequest. The caller checks the member id."""
    if not group_id:
        raise InvalidRequest("GroupId can't be empty.")
    if request.rack_id == "":
        raise InvalidRequest("RackId can't be empty.")
    if request.member_epoch == JOINS and not request.topic_names:
        raise InvalidRequest("SubscribedTopicNames must be set in first request.")
    if request.member_epoch < LEAVES:
        raise InvalidRequest("MemberEpoch is invalid.")


_LOG = logging.getLogger(__name__)

INITIALIZATION_MS: Final = 20  #: with `initializes_later`; Apache Kafka needs 10 to 50 ms once __share_group_state exists


class ShareGroupState(Enum):
    """The state of a share group, as ShareGroupDescribe and ListGroups spell it."""

    EMPTY = "Empty"
    STABLE = "Stable"


class ShareGroupLimits(NamedTuple):
    """The configs of a share group."""

    max_size: int = 200  #: group.share.max.size
    session_timeout_ms: int = 45_000  #: share.session.timeout.ms, or group.share.session.timeout.ms
    heartbeat_interval_ms: int = 5_000  #: share.heartbeat.interval.ms, or group.share.heartbeat.interval.ms
    assignment_interval_ms: int = 1_000  #: share.assignment.interval.ms, or group.share.assignment.interval.ms


class ShareGroup:
    """One group. `image` is its state in the log, for reading."""

    def __init__(
        self,
        group_id: str,
        *,
        clock: Clock,
        topics: Topics,
        persist: Persist,
        states: ShareStates,
        image: ShareGroupImage,
        limits: Callable[[], ShareGroupLimits] = ShareGroupLimits,
        on_member_gone: Callable[[str], None] = lambda _: None,
        initializes_later: bool = False,
    ) -> None:
        """Create the state machine. If `image` has members, `resume` must follow.

        `persist` replays what it stores into `image`. `on_member_gone` is called with the id of
        each member that left or timed out. With `initializes_later` share partitions are
        initialized after the heartbeat that needs them, as in Apache Kafka.
        """
        self.group_id = group_id
        self.image = image
        self._clock = clock
        self._topics = topics
        self._persist = persist
        self._limits = limits
        self._on_member_gone = on_member_gone
        self.offsets = ShareOffsets(group_id, image=image, topics=topics, clock=clock, persist=self._append, states=states)
        self._has_all_states = False  #: checked since the log was read
        self._is_settled = False  #: nothing was stored since all subscribed partitions had a state and a member
        self._topics_version = -1  #: the version of the topics that the group's epoch was last checked against
        self._sessions = MemberTimeouts(group_id, clock, self._remove, "its session timed out")
        self._initializes_later = initializes_later
        self._initialization: Timer | None = None  #: of share partitions that are initialized later

    # Life

    def resume(self) -> None:
        """Start the session time-outs of all members, after the log was read.

        Drop topics that no longer exist.
        """
        try:
            self.offsets.forget_deleted_topics()
        except KafkaError as error:
            _LOG.warning("group %s: could not drop deleted topics: %s (will retry)", self.group_id, error)
        for member_id in self.image.members:
            self._renew(member_id)

    def unload(self, _error: type[KafkaError] = NotCoordinator, /) -> None:
        """Cancel all timers. No request waits."""
        self._sessions.clear()
        if self._initialization is not None:
            self._initialization.cancel()

    @property
    def state(self) -> ShareGroupState:
        """The state, by the table."""
        return ShareGroupState.STABLE if self.image.members else ShareGroupState.EMPTY

    @property
    def is_empty(self) -> bool:
        """Whether it has no members."""
        return not self.image.members

    # ShareGroupHeartbeat

    def heartbeat(self, request: ShareHeartbeat) -> ShareHeartbeatAnswer:
        """Serve a heartbeat: join, stay alive, or leave.

        Raises the errors of the table and of `check_heartbeat`, or KafkaError of the log.
        """
        check_heartbeat(self.group_id, request)
        if request.member_epoch == LEAVES:
            self._check_member(request.member_id)
            self._remove(request.member_id)
            return ShareHeartbeatAnswer(request.member_id, LEAVES)
        limits = self._limits()
        before = self._find(request, limits.max_size)
        topics_version = self._topics.version
        step = self._step()
        has_changed = step.subscribe(_updated(before, request))
        if topics_version != self._topics_version:
            step.forget_deleted_topics()
        if has_changed or topics_version != self._topics_version:
            has_changed = step.follow_subscriptions(has_changed=has_changed)
        if not self._is_settled or step.records:
            self._is_settled = True  # unless something is stored
            self._look_for_lost_states(step)
            step = self._initialize(step)
            if step.image.assignment_epoch >= step.image.epoch and step.is_anything_unassigned:
                has_changed = step.follow_subscriptions(has_changed=True)
        step.assign(limits.assignment_interval_ms)
        member = step.give_target(request.member_id, has_changed=has_changed)
        self._store(step)
        self._topics_version = topics_version
        self._renew(request.member_id)
        has_news = request.member_epoch == JOINS or request.topic_names is not None or before.assigned != member.assigned
        assignment = member.assigned if has_news else None
        return ShareHeartbeatAnswer(member.member_id, member.member_epoch, limits.heartbeat_interval_ms, assignment)

    def _find(self, request: ShareHeartbeat, max_size: int) -> ShareMember:
        """Return the member that sent a heartbeat; a blank one if it is new."""
        members = self.image.members
        if request.member_id not in members and len(members) >= max_size:
            raise GroupMaxSizeReached(f"The share group has reached its maximum capacity of {max_size} members.")
        if request.member_epoch == JOINS:
            return members.get(request.member_id, ShareMember(request.member_id))
        self._check_member(request.member_id)
        member = members[request.member_id]
        _check_epoch(member, request.member_epoch)
        return member

    def _check_member(self, member_id: str) -> None:
        if member_id not in self.image.members:
            raise unknown_member(self.group_id, member_id)

    # Steps

    def _step(self) -> ShareGroupStep:
        return ShareGroupStep(self.group_id, self.image, self._topics, self._clock.now_ms())

    def _store(self, step: ShareGroupStep) -> None:
        if step.records:
            self._append(step.records)

    def _append(self, records: Sequence[CoordinatorRecord]) -> None:
        self._is_settled = False
        self._persist(records)

    def _remove(self, member_id: str) -> None:
        step = self._step()
        step.remove(member_id)
        self._store(step)
        self._sessions.cancel(member_id)
        self._on_member_gone(member_id)

    # Time-outs, and initialization of share partitions

    def _renew(self, member_id: str) -> None:
        self._sessions.arm(member_id, self._limits().session_timeout_ms)

    def _look_for_lost_states(self, step: ShareGroupStep) -> None:
        """Initialize states again that the share coordinator lost in a power loss, while the group's log still has them."""
        if self._has_all_states:
            return
        lost = self.offsets.lost()
        self._has_all_states = lost == {}
        if lost is None:
            self._is_settled = False  # the next heartbeat looks again
        elif lost:
            _LOG.warning(
                "group %s: states of share partitions were lost, and are initialized again: %s", self.group_id, list(lost.values())
            )
            step.store_state_partitions(step.image.state_partitions.lose(lost))

    def _initialize(self, step: ShareGroupStep) -> ShareGroupStep:
        """Initialize share partitions that members subscribed to.

        If that fails, the next heartbeat tries again.
        """
        missing = step.uninitialized()
        if not missing or self._initialization is not None:
            return step
        step.store_state_partitions(step.image.state_partitions.initialize(missing))
        self._store(step)
        for member_id in self.image.members.keys() - self._sessions.member_ids:
            self._renew(member_id)  # it is a member now, even if the initialization fails
        if self._initializes_later:
            self._initialization = self._clock.call_later_ms(INITIALIZATION_MS, lambda: self._initialize_now(missing))
        else:
            self._initialize_states(missing)
        return self._step()

    def _initialize_now(self, missing: NamedAssignment) -> None:
        self._initialization = None
        try:
            self._initialize_states(missing)
        except KafkaError as error:
            _LOG.warning("group %s: could not initialize share partitions: %s (will retry at the next heartbeat)", self.group_id, error)

    def _initialize_states(self, missing: NamedAssignment) -> None:
        failed = self.offsets.initialize(missing)
        if failed:
            _LOG.warning(
                "group %s: could not initialize %d share partitions: %s (will retry at the next heartbeat)",
                self.group_id,
                len(failed),
                next(iter(failed.values())),
            )

    # Deletion

    def check_empty(self) -> None:
        """Raise NonEmptyGroup unless it is empty."""
        if self.image.members:
            raise NonEmptyGroup

    def check_delete(self) -> None:
        """Raise NonEmptyGroup unless it is empty. Delete its share states; KafkaError."""
        self.check_empty()
        self.offsets.delete_all()

    def tombstones(self) -> list[CoordinatorRecord]:
        """Return the tombstones of its records. The group must have no members."""
        return group_tombstones(self.group_id)

    # The rest of LiveGroup. A share group has no committed offsets.

    @property
    def group_type(self) -> GroupType:
        """The kind of the group."""
        return GroupType.SHARE

    @property
    def protocol_type(self) -> str:
        """The protocol type, as ListGroups spells it."""
        return "share"

    @property
    def do_offsets_expire(self) -> bool:
        """False: it has no committed offsets."""
        return False

    def check_offset_commit(self, _membership: Membership, *, is_transactional: bool, has_member_epoch: bool = True) -> NoReturn:  # noqa: ARG002  the protocol of all kinds
        """Raise GroupIdNotFound: no client may commit."""
        self.check_offset_delete()

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Allow it: the answer is empty."""

    def check_offset_delete(self) -> NoReturn:
        """Raise GroupIdNotFound: it has no committed offsets."""
        raise GroupIdNotFound(f"Group {self.group_id} is not a consumer group.")

    def is_subscribed(self, topic: str) -> bool:
        """Whether a member is subscribed to the topic."""
        return topic in self.image.subscribed


def _updated(before: ShareMember, request: ShareHeartbeat) -> ShareMember:
    """Return the member with the fields of this heartbeat."""
    return before._replace(
        rack_id=before.rack_id if request.rack_id is None else request.rack_id,
        client_id=request.client_id,
        client_host=request.client_host,
        topic_names=before.topic_names if request.topic_names is None else tuple(sorted(set(request.topic_names))),
    )


def _check_epoch(member: ShareMember, epoch: int) -> None:
    known, previous = member.member_epoch, member.previous_member_epoch
    if epoch > known:
        raise FencedMemberEpoch(
            f"The share group member has a greater member epoch ({epoch}) than the one known by the group coordinator ({known}). "
            "The member must abandon all its partitions and rejoin."
        )
    if epoch < known and epoch != previous:
        raise FencedMemberEpoch(
            f"The share group member has a smaller member epoch ({epoch}) than the one known by the group coordinator ({known}), "
            f"and it does not match the previous member epoch ({previous}). The member must abandon all its partitions and rejoin."
        )
