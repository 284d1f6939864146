"""Requests of members of consumer groups, their answers, and the checks that do not depend on the group.

Source: GroupMetadataManager.throwIfConsumerGroupHeartbeatRequestIsInvalid of Apache Kafka 4.3.1,
which has the same messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from minibroker.coordinator.group.consumer.assignors import ASSIGNORS, check_assignor
from minibroker.coordinator.group.modern import JOINS, LEAVES, LEAVES_FOR_A_WHILE, Assignment
from minibroker.coordinator.group.topics import check_topic_expression
from minibroker.errors import InvalidRegularExpression, InvalidRequest

NOT_SET: Final = -1
_INT_MAX: Final = 2**31 - 1


class ConsumerGroupLimits(NamedTuple):
    """The configs of a consumer group."""

    max_size: int = _INT_MAX  #: group.consumer.max.size
    session_timeout_ms: int = 45_000  #: group.consumer.session.timeout.ms
    heartbeat_interval_ms: int = 5_000  #: group.consumer.heartbeat.interval.ms
    assignment_interval_ms: int = 1_000  #: group.consumer.assignment.interval.ms; 0: assign immediately
    assignors: tuple[str, ...] = ASSIGNORS  #: group.consumer.assignors


class ConsumerHeartbeat(NamedTuple):
    """A ConsumerGroupHeartbeat request. None and -1 mean that a field has not changed."""

    member_id: str
    member_epoch: int
    client_id: str = ""
    client_host: str = ""
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = NOT_SET
    topic_names: tuple[str, ...] | None = None
    topic_regex: str | None = None
    server_assignor: str | None = None
    owned: Assignment | None = None
    draws_own_id: bool = True  #: from version 1 on members choose their ids

    @property
    def is_full(self) -> bool:
        """Whether it has all fields. If so, the answer has all fields as well."""
        has_subscription = self.topic_names is not None or self.topic_regex is not None
        return self.rebalance_timeout_ms != NOT_SET and has_subscription and self.owned is not None


class ConsumerHeartbeatAnswer(NamedTuple):
    """The answer to a heartbeat. `assignment` is None if it has not changed."""

    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int = 0
    assignment: Assignment | None = None


def check_heartbeat(group_id: str, request: ConsumerHeartbeat, assignors: Sequence[str] = ASSIGNORS) -> None:
    """Check a heartbeat; InvalidRequest, UnsupportedAssignor, InvalidRegularExpression."""
    if not request.member_id and (request.draws_own_id or request.member_epoch > JOINS or request.member_epoch == LEAVES):
        raise InvalidRequest("MemberId can't be empty.")
    for value, name in ((group_id, "GroupId"), (request.instance_id, "InstanceId"), (request.rack_id, "RackId")):
        if value == "":
            raise InvalidRequest(f"{name} can't be empty.")
    if request.member_epoch == JOINS:
        _check_join(request)
    elif request.member_epoch == LEAVES_FOR_A_WHILE and request.instance_id is None:
        raise InvalidRequest("InstanceId can't be null.")
    elif request.member_epoch < LEAVES_FOR_A_WHILE:
        raise InvalidRequest("MemberEpoch is invalid.")
    check_assignor(request.server_assignor, assignors)
    _check_regex(request.topic_regex)


def _check_regex(pattern: str | None) -> None:
    if pattern:
        try:
            check_topic_expression(pattern)
        except InvalidRegularExpression as error:
            raise InvalidRegularExpression(f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {error}.") from None


def _check_join(request: ConsumerHeartbeat) -> None:
    if request.rebalance_timeout_ms == NOT_SET:
        raise InvalidRequest("RebalanceTimeoutMs must be provided in first request.")
    if request.owned is None or request.owned:
        raise InvalidRequest("TopicPartitions must be empty when (re-)joining.")
    if request.topic_names is None and request.topic_regex is None:
        raise InvalidRequest("Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.")
