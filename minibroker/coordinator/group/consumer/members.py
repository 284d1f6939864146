"""Members of a consumer group, and the image of its records.

Members are immutable: a step makes new ones. Only replay changes an image: a step makes records,
and these are replayed.

Invariants
  - a partition has one owner at most: the member that has it or must still give it up
  - epochs of a group grow

Source: ConsumerGroupMember, MemberState, GroupMetadataManager.replay, ConsumerGroup of Apache Kafka
4.3.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any, ClassVar, Final, NamedTuple, Self
from uuid import UUID

from minibroker.coordinator.group.member_epochs import JOINS
from minibroker.coordinator.group.modern import NO_EPOCHS, Assignment, Epochs, ModernImage, Replays, frozen
from minibroker.schemas.internal.consumer_group_records import (
    AssignedPartitions,
    ClassicMemberMetadata,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
)


class ResolvedRegex(NamedTuple):
    """The topics that an expression matched."""

    topics: tuple[str, ...]
    version: int  #: of the topics
    timestamp_ms: int


class MemberState(IntEnum):
    """The state of a member, as records have it. reconciliation.py has the table."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127


class ConsumerMember(NamedTuple):
    """One member."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: tuple[str, ...] = ()  #: sorted
    topic_regex: str = ""  #: another subscription, by an expression; "" for none
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    classic: ClassicMemberMetadata | None = None  #: of a member that speaks the classic protocol; else None
    member_epoch: int = JOINS
    previous_member_epoch: int = JOINS
    state: MemberState = MemberState.STABLE
    assigned: Epochs = NO_EPOCHS
    pending_revocation: Epochs = NO_EPOCHS

    @property
    def subscription(self) -> tuple[tuple[str, ...], str]:
        """Its topics and its expression."""
        return self.topic_names, self.topic_regex

    def with_progress_of(self, other: ConsumerMember) -> ConsumerMember:
        """Return this member with the epochs, state and partitions of `other`, which another kind of record has."""
        return self._replace(
            member_epoch=other.member_epoch,
            previous_member_epoch=other.previous_member_epoch,
            state=other.state,
            assigned=other.assigned,
            pending_revocation=other.pending_revocation,
        )

    def is_reconciled(self, assignment_epoch: int) -> bool:
        """Whether it has its target assignment."""
        return self.state is MemberState.STABLE and self.member_epoch == assignment_epoch


_STATES: Final = {state.value: state for state in MemberState}


class ConsumerGroupImage(ModernImage[ConsumerMember, Assignment]):
    """One group. Attributes are for reading; `replay` writes them."""

    __slots__ = ("instances", "owners", "regexes")

    def __init__(self) -> None:
        super().__init__()
        self.instances: dict[str, str] = {}  #: instance id -> member id
        self.owners: dict[tuple[UUID, int], str] = {}
        self.regexes: dict[str, ResolvedRegex] = {}

    def copy(self) -> Self:
        """Return a copy that can be changed alone."""
        copied = super().copy()
        copied.instances, copied.owners, copied.regexes = dict(self.instances), dict(self.owners), dict(self.regexes)
        return copied

    def topic_names_of(self, member: ConsumerMember) -> set[str]:
        """Return all topics that a member is subscribed to, by name and by expression, whether they exist or not."""
        resolved = self.regexes.get(member.topic_regex)
        return {*member.topic_names, *(resolved.topics if resolved is not None else ())}

    @staticmethod
    def target_of(value: Any) -> Assignment:
        """Decode a target assignment."""
        return frozen({each.topic_id: each.partitions for each in value.topic_partitions})

    def _replay_regex(self, key: Any, value: Any) -> None:
        if value is None:
            self.regexes.pop(key.regular_expression, None)
        else:
            self.regexes[key.regular_expression] = ResolvedRegex(tuple(value.topics), value.version, value.timestamp)

    def _replay_member(self, key: Any, value: Any) -> None:
        before = self.members.get(key.member_id, ConsumerMember(key.member_id))
        if before.instance_id is not None and self.instances.get(before.instance_id) == key.member_id:
            del self.instances[before.instance_id]
        if value is None:
            self._disown(before)
            self.members.pop(key.member_id, None)
            return
        described = ConsumerMember(
            member_id=key.member_id,
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            topic_names=tuple(sorted(set(value.subscribed_topic_names))),
            topic_regex=value.subscribed_topic_regex or "",
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            server_assignor=value.server_assignor,
            classic=value.classic_member_metadata,
        )
        self.members[key.member_id] = described.with_progress_of(before)
        if value.instance_id is not None:
            self.instances[value.instance_id] = key.member_id

    def _replay_current(self, key: Any, value: Any) -> None:
        before = self.members.get(key.member_id)
        if before is not None:
            self._disown(before)
        if value is None:
            if before is not None:
                self.members[key.member_id] = before.with_progress_of(ConsumerMember(key.member_id))
            return
        member = (before or ConsumerMember(key.member_id))._replace(
            member_epoch=value.member_epoch,
            previous_member_epoch=value.previous_member_epoch,
            state=_STATES.get(value.state, MemberState.UNKNOWN),
            assigned=_epochs(value.assigned_partitions),
            pending_revocation=_epochs(value.partitions_pending_revocation),
        )
        self.members[key.member_id] = member
        for partition in _partitions(member):
            self.owners[partition] = key.member_id

    def _disown(self, member: ConsumerMember) -> None:
        for partition in _partitions(member):
            if self.owners.get(partition) == member.member_id:
                del self.owners[partition]

    replays: ClassVar[Replays] = {
        ConsumerGroupMetadataKey: ModernImage.replay_epoch,
        ConsumerGroupMemberMetadataKey: _replay_member,
        ConsumerGroupRegularExpressionKey: _replay_regex,
        ConsumerGroupTargetAssignmentMetadataKey: ModernImage.replay_target_epoch,
        ConsumerGroupTargetAssignmentMemberKey: ModernImage.replay_target,
        ConsumerGroupCurrentMemberAssignmentKey: _replay_current,
    }


def _partitions(member: ConsumerMember) -> list[tuple[UUID, int]]:
    both = (member.assigned, member.pending_revocation)
    return [(topic_id, partition) for each in both for topic_id, epochs in each.items() for partition in epochs]


def _epochs(stored: Sequence[AssignedPartitions]) -> Epochs:
    """Decode partitions with epochs. Older versions of Apache Kafka do not store the epochs."""
    return {
        each.topic_id: dict(zip(each.partitions, each.assignment_epochs or [JOINS] * len(each.partitions), strict=False))
        for each in stored
        if each.partitions
    } or NO_EPOCHS
