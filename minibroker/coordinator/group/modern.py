"""The common base of consumer (KIP-848), share (KIP-932) and streams groups (KIP-1071), whose partitions the coordinator assigns.

The records of such a group have its members (member metadata), the partitions that each member is
to have (target assignment) and has (current assignment), and the epochs of these. A ModernImage is
the state that these records describe, and only `replay` changes it. A ModernStep creates the
records of one request or time-out.

A member is at the epoch of the assignment that it last reached. A client that sends another epoch
missed something: the member was removed, an answer was lost, or another process uses its id. The
checks of member epochs decide which members are fenced, and which may commit and fetch offsets.

Source: ModernGroup, GroupMetadataManager.replay; ConsumerGroup.validateMemberEpoch,
validateOffsetCommit, validateOffsetFetch and the same of StreamsGroup of Apache Kafka 4.3.1.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from copy import copy
from functools import partial
from typing import Any, ClassVar, Final, Generic, NamedTuple, Protocol, Self, TypeVar
from uuid import UUID

from minibroker.clock import Clock, Timer
from minibroker.coordinator.group.kind import Membership
from minibroker.errors import FencedMemberEpoch, KafkaError, StaleMemberEpoch, UnknownMemberId
from minibroker.storage.record_frame import CoordinatorRecord

FIRST_EPOCH: Final = 1  #: of a group without records, and of its target assignment; the first member makes it 2
NEVER: Final = 0  #: the time of the target assignment if there is none

Replays = Mapping[type, Callable[[Any, Any, Any], None]]  #: how an image replays key and value, by type of the key

M = TypeVar("M")
T = TypeVar("T")


class ModernImage(ABC, Generic[M, T]):
    """The records of one group, replayed. Attributes are for reading."""

    __slots__ = ("assignment_epoch", "assignment_timestamp_ms", "epoch", "members", "metadata_hash", "targets")

    replays: ClassVar[Replays]

    def __init__(self) -> None:
        self.epoch = FIRST_EPOCH
        self.metadata_hash = 0
        self.assignment_epoch = FIRST_EPOCH
        self.assignment_timestamp_ms = NEVER
        self.members: dict[str, M] = {}  #: in the order in which they joined
        self.targets: dict[str, T] = {}

    def copy(self) -> Self:
        """Return a copy that can be changed alone."""
        copied = copy(self)
        copied.members, copied.targets = dict(self.members), dict(self.targets)
        return copied

    def replay(self, record: CoordinatorRecord) -> None:
        """Replay one record.

        Records of other kinds are ignored. Compaction may have changed the order of records.
        """
        if (take := self.replays.get(type(record.key))) is not None:
            take(self, record.key, record.value)

    def replay_epoch(self, _: Any, value: Any) -> None:
        """Replay the epoch of the group."""
        self.epoch, self.metadata_hash = (FIRST_EPOCH, 0) if value is None else (value.epoch, value.metadata_hash)

    def replay_target_epoch(self, _: Any, value: Any) -> None:
        """Replay the epoch of the target assignment."""
        found = (FIRST_EPOCH, NEVER) if value is None else (value.assignment_epoch, value.assignment_timestamp)
        self.assignment_epoch, self.assignment_timestamp_ms = found

    def replay_target(self, key: Any, value: Any) -> None:
        """Replay the target assignment of one member."""
        if value is None:
            self.targets.pop(key.member_id, None)
        else:
            self.targets[key.member_id] = self.target_of(value)

    @staticmethod
    @abstractmethod
    def target_of(value: Any) -> T:
        """Decode a target assignment."""


Image = TypeVar("Image", bound=ModernImage[Any, Any])


class ModernStep(Generic[Image]):
    """The records of one step, and a copy of the image that includes them.

    The image itself changes when the records are stored.
    """

    def __init__(self, group_id: str, image: Image, now_ms: int) -> None:
        self.records: list[CoordinatorRecord] = []
        self.image = image
        self._group_id = group_id
        self._now_ms = now_ms

    def _write(self, *written: CoordinatorRecord) -> None:
        if not self.records:
            self.image = self.image.copy()
        for record in written:
            self.image.replay(record)
        self.records += written


Assignment = Mapping[UUID, frozenset[int]]  #: partitions by topic; immutable, without topics that have no partitions
Epochs = Mapping[UUID, Mapping[int, int]]  #: likewise, with the member epoch at which the member got each partition

NOTHING: Final[Assignment] = {}
NO_EPOCHS: Final[Epochs] = {}


class MemberSpec(NamedTuple):
    """A member, as an assignor sees it."""

    topics: frozenset[UUID]  #: existing topics that it is subscribed to
    assignment: Assignment = NOTHING  #: its present target assignment
    instance_id: str | None = None


def frozen(partitions: Mapping[UUID, Iterable[int]]) -> Assignment:
    """Return an assignment without topics that have no partitions."""
    return {topic_id: frozenset(indexes) for topic_id, indexes in partitions.items() if indexes}


def without_epochs(epochs: Epochs) -> Assignment:
    """Return the partitions without their epochs."""
    return {topic_id: frozenset(partitions) for topic_id, partitions in epochs.items()}


_LOG = logging.getLogger(__name__)


class MemberTimeouts:
    """Timers by member id.

    When one expires, its member is removed. If the removal cannot be stored, the timer starts
    again.
    """

    __slots__ = ("_clock", "_group_id", "_remove", "_timers", "_why")

    def __init__(self, group_id: str, clock: Clock, remove: Callable[[str], None], why: str) -> None:
        """Create the time-outs.

        `remove` raises KafkaError if the removal cannot be stored; `why` is for the log.
        """
        self._group_id = group_id
        self._clock = clock
        self._remove = remove
        self._why = why
        self._timers: dict[str, Timer] = {}

    @property
    def member_ids(self) -> AbstractSet[str]:
        """The members whose time-out runs."""
        return self._timers.keys()

    def arm(self, member_id: str, delay_ms: int) -> None:
        """Start or restart the time-out of a member."""
        self.cancel(member_id)
        self._timers[member_id] = self._clock.call_later_ms(delay_ms, partial(self._time_out, member_id, delay_ms))

    def cancel(self, member_id: str) -> None:
        """Cancel the time-out of a member, if it runs."""
        timer = self._timers.pop(member_id, None)
        if timer is not None:
            timer.cancel()

    def clear(self) -> None:
        """Cancel all time-outs."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _time_out(self, member_id: str, delay_ms: int) -> None:
        try:
            self._remove(member_id)
        except KafkaError as error:
            _LOG.warning("group %s: could not remove member %s, though %s: %s (will retry)", self._group_id, member_id, self._why, error)
            self.arm(member_id, delay_ms)
        else:
            _LOG.info("group %s: member %s was removed: %s", self._group_id, member_id, self._why)


# Member epochs

JOINS: Final = 0  #: the epoch that a joining member sends
LEAVES: Final = -1
LEAVES_FOR_A_WHILE: Final = -2  #: a static member that will return: it keeps its assignment until its session times out


class HasEpochs(Protocol):
    """A member of a consumer or streams group."""

    @property
    def member_epoch(self) -> int:
        """The epoch in its last answer."""

    @property
    def previous_member_epoch(self) -> int:
        """The epoch before that."""


E = TypeVar("E", bound=HasEpochs)


def known_member(group_id: str, members: Mapping[str, E], member_id: str) -> E:
    """Return a member; UnknownMemberId."""
    member = members.get(member_id)
    if member is None:
        raise unknown_member(group_id, member_id)
    return member


def unknown_member(group_id: str, member_id: str) -> UnknownMemberId:
    """Return the error for an unknown member."""
    return UnknownMemberId(f"Member {member_id} is not a member of group {group_id}.")


def check_epoch(kind: str, member: HasEpochs, epoch: int, has_all: Callable[[], bool]) -> None:
    """Check the epoch of a heartbeat; FencedMemberEpoch.

    The previous epoch is accepted as well, because an answer may have been lost, if `has_all()` is
    true: the member owns no more than the coordinator assigned to it.
    """
    known = member.member_epoch
    if epoch in {JOINS, known}:
        return
    if epoch == member.previous_member_epoch and epoch < known and has_all():
        return
    size = "greater" if epoch > known else "smaller"
    raise FencedMemberEpoch(
        f"The {kind} group member has a {size} member epoch ({epoch}) than the one known by the group coordinator ({known}). "
        "The member must abandon all its partitions and rejoin."
    )


def committing_member(group_id: str, members: Mapping[str, E], membership: Membership, *, is_transactional: bool) -> E | None:
    """Return the member that commits; UnknownMemberId.

    None for a client that may commit though it is not a member.

    Such a client commits to an empty group, or in a transaction.
    """
    member_epoch, member_id, _ = membership
    is_anonymous = is_transactional and member_epoch == LEAVES and not member_id
    if is_anonymous or (member_epoch < JOINS and not members):
        return None
    return known_member(group_id, members, member_id)


def is_current(member: HasEpochs, epoch: int, stale: type[KafkaError] = StaleMemberEpoch) -> bool:
    """Whether a commit has the member's epoch. False if it is older; raises `stale` if it is newer."""
    if epoch > member.member_epoch:
        raise stale(f"Received member epoch {epoch} is newer than current member epoch {member.member_epoch}.")
    return epoch == member.member_epoch


def fetching_member(group_id: str, members: Mapping[str, E], member_id: str | None, epoch: int) -> E | None:
    """Return the member that fetches offsets; UnknownMemberId.

    None if the client is not a member; it may fetch.
    """
    return None if member_id is None and epoch < JOINS else known_member(group_id, members, member_id or "")


def check_fetch(member: HasEpochs, epoch: int, stale: type[KafkaError] = StaleMemberEpoch) -> None:
    """Raise `stale` unless the client sends the member's epoch."""
    if epoch != member.member_epoch:
        raise stale(f"The received member epoch {epoch} does not match the expected member epoch {member.member_epoch}.")
