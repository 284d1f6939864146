"""Checks of member epochs in consumer and streams groups: which members are fenced, and which may commit and fetch offsets.

A member is at the epoch of the assignment that it last reached. A client that sends another epoch
missed something: the member was removed, an answer was lost, or another process uses its id.

Source: ConsumerGroup.validateMemberEpoch, validateOffsetCommit, validateOffsetFetch and the same of
StreamsGroup of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Protocol, TypeVar

from minibroker.coordinator.group.kind import Membership
from minibroker.errors import FencedMemberEpoch, KafkaError, StaleMemberEpoch, UnknownMemberId

JOINS: Final = 0  #: the epoch that a joining member sends
LEAVES: Final = -1
LEAVES_FOR_A_WHILE: Final = -2  #: a static member that will return: it keeps its assignment until its session times out


class HasEpochs(Protocol):
    """A member of either kind."""

    @property
    def member_epoch(self) -> int:
        """The epoch in its last answer."""

    @property
    def previous_member_epoch(self) -> int:
        """The epoch before that."""


M = TypeVar("M", bound=HasEpochs)


def known_member(group_id: str, members: Mapping[str, M], member_id: str) -> M:
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

    The previous epoch is accepted as well, because an answer may have been lost, if `has_all()`
    returns that the member owns no more than the coordinator gave it.
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
    """Return the member that commits; UnknownMemberId. None for other clients that may: in an empty group, or in a transaction."""
    member_epoch, member_id, _ = membership
    is_of_nobody = is_transactional and member_epoch == LEAVES and not member_id
    if is_of_nobody or (member_epoch < JOINS and not members):
        return None
    return known_member(group_id, members, member_id)


def is_current(member: HasEpochs, epoch: int, stale: type[KafkaError] = StaleMemberEpoch) -> bool:
    """Whether a commit has the member's epoch. False if it is older; raises `stale` if it is newer."""
    if epoch > member.member_epoch:
        raise stale(f"Received member epoch {epoch} is newer than current member epoch {member.member_epoch}.")
    return epoch == member.member_epoch


def who_fetches(group_id: str, members: Mapping[str, M], member_id: str | None, epoch: int) -> M | None:
    """Return the member that fetches offsets; UnknownMemberId. None if the client is no member, which may fetch."""
    return None if member_id is None and epoch < JOINS else known_member(group_id, members, member_id or "")


def check_fetch(member: HasEpochs, epoch: int, stale: type[KafkaError] = StaleMemberEpoch) -> None:
    """Raise `stale` unless the client sends the member's epoch."""
    if epoch != member.member_epoch:
        raise stale(f"The received member epoch {epoch} does not match the expected member epoch {member.member_epoch}.")
