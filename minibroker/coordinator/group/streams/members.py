"""A member of a streams group: what it says of itself, what it has, and how far it is with what it shall have.

Members are values: a step of a group makes new ones. Source: StreamsGroupMember, MemberState of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple

from minibroker.coordinator.group.member_epochs import JOINS
from minibroker.coordinator.group.streams.tasks import NO_HELD_TASKS, HeldTasks


class MemberState(IntEnum):
    """As records have it; reconciliation.py has the table."""

    STABLE = 1
    UNREVOKED_TASKS = 2
    UNRELEASED_TASKS = 3
    UNKNOWN = 127


class Member(NamedTuple):
    """One member."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topology_epoch: int = -1
    process_id: str = ""  #: of the instance of the application that it is a part of
    user_endpoint: tuple[str, int] | None = None  #: host and port for interactive queries
    client_tags: Mapping[str, str] = {}  #: never changed, as all of a member
    member_epoch: int = JOINS
    previous_member_epoch: int = JOINS
    state: MemberState = MemberState.STABLE
    assigned: HeldTasks = NO_HELD_TASKS
    pending_revocation: HeldTasks = NO_HELD_TASKS

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
