"""A streams group (KIP-1071): its states, and the effect of each heartbeat.

    state          condition (the first one that holds)
    Empty          it has no members
    NotReady       topics of the application are missing, or have wrong partition counts
    Assigning      its epoch is newer than that of the target assignment
    Reconciling    a member does not have its target assignment
    Stable         all members have their target assignment

    member epoch        of a known member                            of an unknown member
    0   joins           full answer; owns no tasks                   new: a new epoch of the group (1)
    its own             alive; reconciled (2)                        UNKNOWN_MEMBER_ID
    the one before      the same, if it owns no more than was        UNKNOWN_MEMBER_ID
                        assigned (the answer was lost); else 110
    older, newer        FENCED_MEMBER_EPOCH (110)                    UNKNOWN_MEMBER_ID
    -1  leaves          removed: a new epoch of the group            UNKNOWN_MEMBER_ID

  (1) The first member sets the topology, which stays. Another one with the same epoch or a newer
      one is INVALID_REQUEST. A member with an older epoch gets STALE_TOPOLOGY.
  (2) Changed fields of the member are stored, with a new epoch of the group.

    timer                       runs for                               when it expires
    session of a member         the session time-out of the group      the member is removed
    revocation of a member      its rebalance time-out                 the member is removed: it did not give up its tasks
    first assignment            the initial rebalance delay, after     there is a target assignment; until then no member has tasks
                                a member joined an empty group         (ASSIGNMENT_DELAYED)

Invariants
  - the records of an answer are stored before the answer is sent; if storing fails, nothing
    changes, except that topics may have been created
  - no epoch decreases
  - see step.py for which member gets which tasks

Apache Kafka differs in two cases. It creates internal topics after the answer, so that a new group
is not ready until a later heartbeat. Here they are created immediately, and MISSING_INTERNAL_TOPICS
means that one could not be created. In Kafka a member cannot rejoin a full group.

As in Apache Kafka, an answer has tasks only if the member joins or its assignment changes. A member
that lost an answer must join again.

Source: GroupMetadataManager, StreamsGroup of Apache Kafka 4.3.1; KIP-1071.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import Final, NamedTuple
from uuid import UUID

from minibroker.clock import Clock, Timer
from minibroker.coordinator.group.kind import CheckCommit, GroupType, Membership, Persist, may_commit_all
from minibroker.coordinator.group.modern import (
    FIRST_EPOCH,
    JOINS,
    MemberTimeouts,
    check_epoch,
    check_fetch,
    committing_member,
    fetching_member,
    is_current,
    unknown_member,
)
from minibroker.coordinator.group.streams.internal_topics import ConfiguredTopology, GroupTopology, MakeTopic, Status, StatusCode
from minibroker.coordinator.group.streams.members import MemberState, StreamsGroupImage, StreamsMember, Tasks, group_tombstones, is_part_of
from minibroker.coordinator.group.streams.requests import NOT_SET, Located, StreamsHeartbeat, StreamsHeartbeatAnswer, locate
from minibroker.coordinator.group.streams.step import StreamsGroupStep
from minibroker.coordinator.group.topics import Topics
from minibroker.errors import (
    GroupMaxSizeReached,
    InvalidRequest,
    KafkaError,
    NonEmptyGroup,
    NotCoordinator,
    StaleMemberEpoch,
    UnsupportedVersion,
)
from minibroker.storage.record_frame import CoordinatorRecord

_INT_MAX: Final = 2**31 - 1
_INITIAL_DELAY: Final = Status(StatusCode.ASSIGNMENT_DELAYED, "Assignment delayed due to the configured initial rebalance delay.")
_INTERVAL: Final = Status(StatusCode.ASSIGNMENT_DELAYED, "Assignment delayed due to the configured assignment interval.")

_LOG = logging.getLogger(__name__)


class StreamsGroupState(Enum):
    """The state of a streams group, as StreamsGroupDescribe and ListGroups spell it."""

    EMPTY = "Empty"
    NOT_READY = "NotReady"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class StreamsGroupLimits(NamedTuple):
    """The configs of a streams group."""

    max_size: int = _INT_MAX  #: group.streams.max.size
    session_timeout_ms: int = 45_000  #: streams.session.timeout.ms of the group; the others are named likewise
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 1_000
    initial_rebalance_delay_ms: int = 3_000
    num_standby_replicas: int = 0


class StreamsGroup:
    """One group. `image` is its state in the log, for reading."""

    group_type = GroupType.STREAMS
    protocol_type = "streams"
    do_offsets_expire = True

    def __init__(
        self,
        group_id: str,
        *,
        clock: Clock,
        topics: Topics,
        persist: Persist,
        make_topic: MakeTopic,
        limits: Callable[[], StreamsGroupLimits] = StreamsGroupLimits,
        image: StreamsGroupImage,
    ) -> None:
        """Create the state machine.

        If `image` has members, `resume` must follow. `persist` replays what it stores into `image`.
        """
        self.group_id = group_id
        self.image = image
        self._clock = clock
        self._topics = topics
        self._persist = persist
        self._topology = GroupTopology(group_id, topics, make_topic)
        self._limits = limits  #: returns the present configs
        self._shutdown_requested_by: str | None = None  #: the member that requested a shutdown of the application
        self._endpoint_epoch = 0  #: grows when the tasks of a member with an endpoint change
        self._sessions = MemberTimeouts(group_id, clock, self._remove, "its session timed out")
        self._revocations = MemberTimeouts(group_id, clock, self._remove, "it did not give up its tasks in time")
        self._first_assignment: Timer | None = None

    # Life

    def resume(self) -> None:
        """Start the session time-outs of all members, after the log was read."""
        for member in self.image.members.values():
            self._renew(member.member_id)
            self._watch_revocation(member)

    def unload(self, _error: type[KafkaError] = NotCoordinator, /) -> None:
        """Cancel all timers. No request waits."""
        self._sessions.clear()
        self._revocations.clear()
        self._end_delay()

    @property
    def is_empty(self) -> bool:
        """Whether it has no members."""
        return not self.image.members

    @property
    def state(self) -> StreamsGroupState:
        """The state, by the first row of the table that holds."""
        image = self.image
        if not image.members:
            return StreamsGroupState.EMPTY
        if image.topology is None or image.topology.epoch != image.validated_topology_epoch:
            return StreamsGroupState.NOT_READY
        if image.epoch > image.assignment_epoch:
            return StreamsGroupState.ASSIGNING
        if all(member.is_reconciled(image.assignment_epoch) for member in image.members.values()):
            return StreamsGroupState.STABLE
        return StreamsGroupState.RECONCILING

    def configured(self) -> ConfiguredTopology | None:
        """Return the topology with the present topics; None if the group has no topology.

        StreamsInvalidTopology.
        """
        return None if self.image.topology is None else self._topology.configured(self.image.topology).result

    # StreamsGroupHeartbeat

    def heartbeat(self, request: StreamsHeartbeat) -> StreamsHeartbeatAnswer:
        """Serve a heartbeat: join, stay alive, or leave.

        Raises the errors of the table, or KafkaError of the log.
        """
        if request.member_epoch < JOINS:
            return self._leave(request)
        limits, was_known = self._limits(), self.image.epoch > FIRST_EPOCH
        before = self._find(request, limits)
        step = StreamsGroupStep(self.group_id, self.image, self._clock.now_ms())
        has_changed = step.update(_updated(before, request))
        configured = self._topology.complete(step.initialize(request.topology))
        _check_owned(request.owned, configured.result)
        step.follow(configured.metadata_hash, configured.result, limits.num_standby_replicas, has_changed=has_changed)
        starts_delay = self.is_empty and limits.initial_rebalance_delay_ms > 0
        is_delayed = starts_delay or self._first_assignment is not None
        is_assigned = not is_delayed and step.assign(configured.result, limits.num_standby_replicas, limits.assignment_interval_ms)
        member = step.reconcile(request.member_id, request.owned, is_delayed=is_delayed)
        self._store(step)
        if starts_delay and self._first_assignment is None:
            self._first_assignment = self._clock.call_later_ms(limits.initial_rebalance_delay_ms, self._assign_first)
        self._renew(member.member_id)
        self._watch_revocation(member, before)
        if request.shuts_down:
            self._shut_down(member.member_id)
        is_new = request.member_epoch == JOINS or before.assigned != member.assigned
        if is_new and was_known and member.user_endpoint is not None:
            self._endpoint_epoch += 1
        delayed = () if is_assigned else (_INITIAL_DELAY if is_delayed else _INTERVAL,)
        problems = () if configured.problem is None else (configured.problem,)
        return StreamsHeartbeatAnswer(
            member.member_id,
            member.member_epoch,
            limits.heartbeat_interval_ms,
            statuses=(*self._stale(member), *delayed, *problems, *self._shutdown()),
            tasks=member.assigned.tasks if is_new else None,
            endpoint_epoch=self._endpoint_epoch,
            located=self._locate(member, configured.result) if request.endpoint_epoch != self._endpoint_epoch else None,
        )

    def _find(self, request: StreamsHeartbeat, limits: StreamsGroupLimits) -> StreamsMember:
        """Return the member that sent a heartbeat; a blank one if it is new."""
        member = self.image.members.get(request.member_id)
        if member is not None:
            check_epoch("streams", member, request.member_epoch, lambda: _has_all(member, request.owned))
            return member
        if request.member_epoch != JOINS:
            raise unknown_member(self.group_id, request.member_id)
        if len(self.image.members) >= limits.max_size:
            raise GroupMaxSizeReached(f"The streams group has reached its maximum capacity of {limits.max_size} members.")
        return StreamsMember(request.member_id)

    def _leave(self, request: StreamsHeartbeat) -> StreamsHeartbeatAnswer:
        if request.member_id not in self.image.members:
            raise unknown_member(self.group_id, request.member_id)
        self._remove(request.member_id)
        if request.shuts_down and not self.is_empty:
            self._shut_down(request.member_id)
        return StreamsHeartbeatAnswer(request.member_id, request.member_epoch)

    # Parts of answers besides tasks

    def _stale(self, member: StreamsMember) -> tuple[Status, ...]:
        topology = self.image.topology
        if topology is None or member.topology_epoch >= topology.epoch:
            return ()
        detail = f"The member's topology epoch {member.topology_epoch} is behind the group's topology epoch {topology.epoch}."
        return (Status(StatusCode.STALE_TOPOLOGY, detail),)

    def _shut_down(self, member_id: str) -> None:
        if self._shutdown_requested_by is None:
            _LOG.info("group %s: member %s requested a shutdown of the whole application", self.group_id, member_id)
            self._shutdown_requested_by = member_id

    def _shutdown(self) -> tuple[Status, ...]:
        if self._shutdown_requested_by is None:
            return ()
        return (
            Status(
                StatusCode.SHUTDOWN_APPLICATION,
                f"Streams group member {self._shutdown_requested_by} encountered a fatal error and requested a shutdown for the entire "
                "application.",
            ),
        )

    def _locate(self, member: StreamsMember, configured: ConfiguredTopology) -> tuple[Located, ...]:
        """Return all endpoints, that of the requesting member last, as in Apache Kafka."""
        others = [each for each in self.image.members.values() if each.member_id != member.member_id]
        return locate([*others, member], configured.subtopologies, self._topics)

    # Steps

    def _store(self, step: StreamsGroupStep) -> None:
        if step.records:
            self._persist(step.records)

    def _remove(self, member_id: str) -> None:
        step = StreamsGroupStep(self.group_id, self.image, self._clock.now_ms())
        step.remove(member_id)
        self._store(step)
        self._sessions.cancel(member_id)
        self._revocations.cancel(member_id)
        if self.is_empty:
            self._shutdown_requested_by = None

    # Time-outs

    def _assign_first(self) -> None:
        """Create the first assignment after the initial delay.

        If it fails, the next heartbeat creates it.
        """
        self._first_assignment = None
        if self.is_empty or self.image.topology is None:
            return
        limits, step = self._limits(), StreamsGroupStep(self.group_id, self.image, self._clock.now_ms())
        try:
            step.assign(self._topology.configured(self.image.topology).result, limits.num_standby_replicas, limits.assignment_interval_ms)
            self._store(step)
        except KafkaError as error:
            _LOG.warning("group %s: could not create the first assignment: %s (will retry at the next heartbeat)", self.group_id, error)

    def _end_delay(self) -> None:
        if self._first_assignment is not None:
            self._first_assignment.cancel()
            self._first_assignment = None

    def _renew(self, member_id: str) -> None:
        self._sessions.arm(member_id, self._limits().session_timeout_ms)

    def _watch_revocation(self, member: StreamsMember, before: StreamsMember | None = None) -> None:
        """Start the time-out of a revocation, restart it for each task that is added, and cancel it when the revocation is over."""
        if member.state is not MemberState.UNREVOKED_TASKS:
            self._revocations.cancel(member.member_id)
        elif before is None or before != before.with_progress_of(member):
            self._revocations.arm(member.member_id, member.rebalance_timeout_ms)

    # The rest of LiveGroup

    def check_offset_commit(self, membership: Membership, *, is_transactional: bool = False, has_member_epoch: bool = True) -> CheckCommit:
        """Check whether a client may commit, and return the check of each partition.

        A member may commit with an older epoch for tasks that it has had since that epoch
        (KIP-1251).

        Raises:
            UnknownMemberId: The client is not a member.
            StaleMemberEpoch: It has another epoch.
            UnsupportedVersion: This version of the request has no member epochs.
        """
        member = committing_member(self.group_id, self.image.members, membership, is_transactional=is_transactional)
        if member is None:
            return may_commit_all
        if not has_member_epoch and not is_transactional:
            raise UnsupportedVersion("OffsetCommit version 9 or above must be used by members using the streams group protocol")
        if is_current(member, membership.generation_id):
            return may_commit_all
        return partial(_check_since, member, membership.generation_id, self._subtopologies_by_topic_id())

    def _subtopologies_by_topic_id(self) -> dict[UUID, str]:
        """Return which subtopology reads each topic that exists."""
        read = self.image.topology.subtopology_of_topic if self.image.topology is not None else {}
        return {topic.topic_id: each for name, each in read.items() if (topic := self._topics.find(name)) is not None}

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Check whether a client may fetch offsets: UnknownMemberId, StaleMemberEpoch.

        Clients that are not members may.
        """
        member = fetching_member(self.group_id, self.image.members, member_id, member_epoch)
        if member is not None:
            check_fetch(member, member_epoch)

    def check_offset_delete(self) -> None:
        """Always allow it: offsets of subscribed topics stay."""

    def check_delete(self) -> None:
        """Raise NonEmptyGroup unless it is empty."""
        if not self.is_empty:
            raise NonEmptyGroup

    def tombstones(self) -> list[CoordinatorRecord]:
        """Return the tombstones of its records, without those of its offsets."""
        return group_tombstones(self.group_id)

    def is_subscribed(self, topic: str) -> bool:
        """Whether the application reads the topic."""
        topology = self.image.topology
        return not self.is_empty and topology is not None and topic in topology.subtopology_of_topic


def _updated(before: StreamsMember, request: StreamsHeartbeat) -> StreamsMember:
    """Return the member with the fields of this heartbeat."""
    return before._replace(
        rack_id=before.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=before.rebalance_timeout_ms if request.rebalance_timeout_ms == NOT_SET else request.rebalance_timeout_ms,
        topology_epoch=before.topology_epoch if request.topology is None else request.topology.epoch,
        client_id=request.client_id,
        client_host=request.client_host,
        process_id=before.process_id if request.process_id is None else request.process_id,
        client_tags=before.client_tags if request.client_tags is None else request.client_tags,
        user_endpoint=before.user_endpoint if request.user_endpoint is None else request.user_endpoint,
    )


def _has_all(member: StreamsMember, owned: Tasks | None) -> bool:
    return owned is not None and is_part_of(owned, member.assigned.tasks)


def _check_owned(owned: Tasks | None, configured: ConfiguredTopology) -> None:
    """Raise InvalidRequest if a member owns a task that does not exist."""
    if owned is None or not configured.is_ready:
        return
    for subtopology_id, partitions in (pair for tasks in owned for pair in tasks.items()):
        subtopology = configured.subtopologies.get(subtopology_id)
        if subtopology is None:
            raise InvalidRequest(f"Subtopology {subtopology_id} does not exist in the topology.")
        for partition in sorted(partitions):
            if not 0 <= partition < subtopology.task_count:
                raise InvalidRequest(
                    f"Task {partition} for subtopology {subtopology_id} is invalid. Number of tasks for this subtopology: "
                    f"{subtopology.task_count}"
                )


def _check_since(
    member: StreamsMember, member_epoch: int, subtopologies: dict[UUID, str], topic_id: UUID, partition: int
) -> KafkaError | None:
    """Return None if the member has had the task since that epoch, even if it must now give it up."""
    subtopology_id = subtopologies.get(topic_id)
    if subtopology_id is None:
        return StaleMemberEpoch("The topic is not in the topology.")
    for held in (member.assigned, member.pending_revocation):
        epoch = held.active.get(subtopology_id, {}).get(partition)
        if epoch is not None and member_epoch >= epoch:
            return None
        if epoch is not None:
            return StaleMemberEpoch(
                f"Received member epoch {member_epoch} is older than assignment epoch {epoch} for task {subtopology_id}-{partition}."
            )
    return StaleMemberEpoch(f"Task {subtopology_id}-{partition} is not assigned or pending revocation for member.")
