"""A member of a share group: what it says of itself, and what it has. Members are values: a step of a group makes new ones.

Source: ShareGroupMember of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from typing import NamedTuple

from minibroker.coordinator.group.assignment import NOTHING, Assignment
from minibroker.coordinator.group.member_epochs import JOINS


class Member(NamedTuple):
    """One member."""

    member_id: str
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: tuple[str, ...] = ()  #: that it subscribed to, sorted
    member_epoch: int = JOINS
    previous_member_epoch: int = JOINS
    assigned: Assignment = NOTHING  #: what it was told

    def with_progress_of(self, other: Member) -> Member:
        """What this one says of itself, as far as `other` is: another kind of record keeps that."""
        return self._replace(member_epoch=other.member_epoch, previous_member_epoch=other.previous_member_epoch, assigned=other.assigned)
