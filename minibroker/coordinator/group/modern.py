"""What consumer (KIP-848), share (KIP-932) and streams groups (KIP-1071) have in common: the coordinator assigns.

Their records have the members (member metadata), what each shall have (target assignment) and has
(current assignment), and the epochs of these. A ModernImage is what the records of a group say, and
only `replay` writes it. A ModernStep makes the records of one request or time-out.

Source: ModernGroup, GroupMetadataManager.replay of Apache Kafka 4.3.1.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from copy import copy
from functools import partial
from typing import Any, ClassVar, Final, Generic, NamedTuple, Self, TypeVar
from uuid import UUID

from minibroker.clock import Clock, Timer
from minibroker.errors import KafkaError
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
        """Replay one record. Records of other kinds are ignored. Compaction may have changed the order of records."""
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
    """The records of one step, and a copy of the image with them. The image itself changes when the records are stored."""

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
    """Timers by member id, which remove members that let them expire. If a removal cannot be stored, the timer starts again."""

    __slots__ = ("_clock", "_group_id", "_remove", "_timers", "_why")

    def __init__(self, group_id: str, clock: Clock, remove: Callable[[str], None], why: str) -> None:
        """Create the time-outs. `remove` raises KafkaError if the removal cannot be stored; `why` is for the log."""
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
        """Start the time-out of a member, again if it runs."""
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
            _LOG.info("group %s: member %s is gone: %s", self._group_id, member_id, self._why)
