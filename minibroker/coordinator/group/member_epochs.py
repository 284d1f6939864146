"""Epochs of members: whom they fence, and who may commit and ask for offsets, in groups of which both are asked (consumer, streams).

A member is at the epoch of the assignment that it was brought to last. Who says another one missed something: it was removed, or its
answer was lost, or another process goes by its id.

Source: ConsumerGroup.validateMemberEpoch, validateOffsetCommit, validateOffsetFetch and the same of StreamsGroup of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Protocol, TypeVar

from minibroker.coordinator.group.offsets import Membership
from minibroker.errors import FencedMemberEpoch, KafkaError, StaleMemberEpoch, UnknownMemberId

JOINS: Final = 0  #: the member epoch of who joins
LEAVES: Final = -1
LEAVES_FOR_A_WHILE: Final = -2  #: of a static member that means to come back: it keeps what it has until its session is over


class HasEpochs(Protocol):
    """A member."""

    @property
    def member_epoch(self) -> int:
        """It was told."""

    @property
    def previous_member_epoch(self) -> int:
        """Before that."""


M = TypeVar("M", bound=HasEpochs)


def known_member(group_id: str, members: Mapping[str, M], member_id: str) -> M:
    """UnknownMemberId."""
    member = members.get(member_id)
    if member is None:
        raise unknown_member(group_id, member_id)
    return member


def unknown_member(group_id: str, member_id: str) -> UnknownMemberId:
    """To be raised."""
    return UnknownMemberId(f"Member {member_id} is not a member of group {group_id}.")


def check_epoch(kind: str, member: HasEpochs, epoch: int, has_all: Callable[[], bool]) -> None:
    """Whether who beats at `epoch` is that member: FencedMemberEpoch.

    It may be one behind, because an answer was lost, as long as it `has_all` that it owns from the coordinator.
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


def who_commits(group_id: str, members: Mapping[str, M], membership: Membership, *, is_transactional: bool) -> M | None:
    """The member that commits, or None for who is none, and may: where nobody is, or in a transaction. UnknownMemberId."""
    member_epoch, member_id, _ = membership
    is_of_nobody = is_transactional and member_epoch == LEAVES and not member_id
    if is_of_nobody or (member_epoch < JOINS and not members):
        return None
    return known_member(group_id, members, member_id)


def is_current(member: HasEpochs, epoch: int, stale: type[KafkaError] = StaleMemberEpoch) -> bool:
    """Whether a commit is of the member's epoch, and not of an older one; `stale` where it is of a newer one."""
    if epoch > member.member_epoch:
        raise stale(f"Received member epoch {epoch} is newer than current member epoch {member.member_epoch}.")
    return epoch == member.member_epoch


def who_fetches(group_id: str, members: Mapping[str, M], member_id: str | None, epoch: int) -> M | None:
    """The member that asks for offsets, or None for who is none, and may. UnknownMemberId."""
    return None if member_id is None and epoch < JOINS else known_member(group_id, members, member_id or "")


def check_fetch(member: HasEpochs, epoch: int, stale: type[KafkaError] = StaleMemberEpoch) -> None:
    """Whether the member asks at its epoch: `stale`."""
    if epoch != member.member_epoch:
        raise stale(f"The received member epoch {epoch} does not match the expected member epoch {member.member_epoch}.")
