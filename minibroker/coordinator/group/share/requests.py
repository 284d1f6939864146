"""Requests of members of share groups, their answers, and the checks that do not depend on the group.

Source: GroupCoordinatorService.throwIfShareGroupHeartbeatRequestIsInvalid of Apache Kafka 4.3.1,
which has the same messages.
"""

from __future__ import annotations

from typing import NamedTuple

from minibroker.coordinator.group.member_epochs import JOINS, LEAVES
from minibroker.coordinator.group.modern import Assignment
from minibroker.errors import InvalidRequest


class ShareHeartbeat(NamedTuple):
    """A ShareGroupHeartbeat request. None means: as in the last one."""

    member_id: str
    member_epoch: int
    client_id: str = ""
    client_host: str = ""
    rack_id: str | None = None
    topic_names: tuple[str, ...] | None = None


class ShareHeartbeatAnswer(NamedTuple):
    """The answer to a heartbeat. `assignment` is None if it has not changed."""

    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int = 0
    assignment: Assignment | None = None


def check_heartbeat(group_id: str, request: ShareHeartbeat) -> None:
    """Check a heartbeat; InvalidRequest. The caller checks the member id."""
    if not group_id:
        raise InvalidRequest("GroupId can't be empty.")
    if request.rack_id == "":
        raise InvalidRequest("RackId can't be empty.")
    if request.member_epoch == JOINS and not request.topic_names:
        raise InvalidRequest("SubscribedTopicNames must be set in first request.")
    if request.member_epoch < LEAVES:
        raise InvalidRequest("MemberEpoch is invalid.")
