"""A member of a consumer group: what it says of itself, what it has, and how far it is with what it shall have.

Members are values: a step of a group makes new ones. Source: ConsumerGroupMember, MemberState of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from minibroker.coordinator.group.assignment import NO_EPOCHS, Epochs
from minibroker.coordinator.group.member_epochs import JOINS
from minibroker.schemas.internal.consumer_group_records import ClassicMemberMetadata


class MemberState(IntEnum):
    """As records have it; reconciliation.py has the table."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127


class Member(NamedTuple):
    """One member."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: tuple[str, ...] = ()  #: that it subscribed to, sorted
    topic_regex: str = ""  #: and by an expression; "" for none
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    classic: ClassicMemberMetadata | None = None  #: of a member that speaks the classic protocol
    member_epoch: int = JOINS
    previous_member_epoch: int = JOINS
    state: MemberState = MemberState.STABLE
    assigned: Epochs = NO_EPOCHS
    pending_revocation: Epochs = NO_EPOCHS

    @property
    def subscription(self) -> tuple[tuple[str, ...], str]:
        """What it wants to read."""
        return self.topic_names, self.topic_regex

    def with_progress_of(self, other: Member) -> Member:
        """This member as far as `other` is: what it says of itself, and what another kind of record keeps of the other."""
        return self._replace(
            member_epoch=other.member_epoch,
            previous_member_epoch=other.previous_member_epoch,
            state=other.state,
            assigned=other.assigned,
            pending_revocation=other.pending_revocation,
        )

    def is_reconciled(self, assignment_epoch: int) -> bool:
        """Whether it has what it shall have."""
        return self.state is MemberState.STABLE and self.member_epoch == assignment_epoch
