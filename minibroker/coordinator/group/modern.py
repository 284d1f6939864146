"""What the groups have in common whose coordinator assigns: consumer (KIP-848), share (KIP-932) and streams groups (KIP-1071).

Their records say who is a member (member metadata), what each shall have (target assignment) and has (current assignment), and of which
epochs those are. An image is what they say: nothing but `replay` writes it. A step writes the records of one request or time-out.

Source: ModernGroup, GroupMetadataManager.replay of Apache Kafka 4.3.1.

Partitions by topic: what a member shall have, has, or must give up.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from typing import Any, ClassVar, Final, Generic, NamedTuple, Self, TypeVar
from uuid import UUID

from minibroker.coordinator.record_frame import CoordinatorRecord

FIRST_EPOCH: Final = 1  #: of a group that has no records yet, and of its target assignment: the first member makes it 2
NEVER: Final = 0  #: the time of an assignment that there was not

Replays = Mapping[type, Callable[[Any, Any, Any], None]]  #: what an image does with key and value, by type of the key

M = TypeVar("M")
T = TypeVar("T")


class ModernImage(ABC, Generic[M, T]):
    """One group. Attributes are for reading; `replay` writes them."""

    __slots__ = ("assignment_epoch", "assignment_timestamp_ms", "epoch", "members", "metadata_hash", "targets")

    replays: ClassVar[Replays]

    def __init__(self) -> None:
        self.epoch = FIRST_EPOCH
        self.metadata_hash = 0
        self.assignment_epoch = FIRST_EPOCH
        self.assignment_timestamp_ms = NEVER
        self.members: dict[str, M] = {}  #: in the order in which they came
        self.targets: dict[str, T] = {}

    def copy(self) -> Self:
        """To be changed without this one."""
        copied = copy(self)
        copied.members, copied.targets = dict(self.members), dict(self.targets)
        return copied

    def replay(self, record: CoordinatorRecord) -> None:
        """Take one record of the group; those of other kinds are passed over. Compaction may have changed their order."""
        if (take := self.replays.get(type(record.key))) is not None:
            take(self, record.key, record.value)

    def replay_epoch(self, _: Any, value: Any) -> None:
        """Of the group."""
        self.epoch, self.metadata_hash = (FIRST_EPOCH, 0) if value is None else (value.epoch, value.metadata_hash)

    def replay_target_epoch(self, _: Any, value: Any) -> None:
        """Of the target assignment."""
        found = (FIRST_EPOCH, NEVER) if value is None else (value.assignment_epoch, value.assignment_timestamp)
        self.assignment_epoch, self.assignment_timestamp_ms = found

    def replay_target(self, key: Any, value: Any) -> None:
        """What one member shall have."""
        if value is None:
            self.targets.pop(key.member_id, None)
        else:
            self.targets[key.member_id] = self.target_of(value)

    @staticmethod
    @abstractmethod
    def target_of(value: Any) -> T:
        """What its record says."""


Image = TypeVar("Image", bound=ModernImage[Any, Any])


class ModernStep(Generic[Image]):
    """Records so far, and the group after them. Until they are stored nobody else sees what they say."""

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


Assignment = Mapping[UUID, frozenset[int]]  #: never changed, no topic without partitions
Epochs = Mapping[UUID, Mapping[int, int]]  #: likewise, with the member epoch at which each partition became the member's

NOTHING: Final[Assignment] = {}
NO_EPOCHS: Final[Epochs] = {}


class MemberSpec(NamedTuple):
    """What an assignor knows of a member."""

    topics: frozenset[UUID]  #: that it subscribed to and that are there
    assignment: Assignment = NOTHING  #: what it shall have at the moment
    instance_id: str | None = None


def frozen(partitions: Mapping[UUID, Iterable[int]]) -> Assignment:
    """Of sets or lists that may be empty."""
    return {topic_id: frozenset(indexes) for topic_id, indexes in partitions.items() if indexes}


def without_epochs(epochs: Epochs) -> Assignment:
    """Which partitions these are."""
    return {topic_id: frozenset(partitions) for topic_id, partitions in epochs.items()}
