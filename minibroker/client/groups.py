"""Groups as their coordinators know them: which there are, their states and members; and their end.

A group is asked for as each kind that there is: consumer (KIP-848), whose coordinator assigns partitions; classic, whose members do and
tell each other by the bytes of an embedded protocol, through the coordinator; share (KIP-932), whose coordinator may give a partition to
several members; and streams (KIP-1071), whose coordinator gives out the tasks of an application.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import ModuleType
from typing import Final, NamedTuple

from minibroker.client.client import Client
from minibroker.client.connection import Connection
from minibroker.client.coordinators import ask_coordinators
from minibroker.client.deadline import Deadline
from minibroker.client.errors import UnsupportedByBroker, check, refusal
from minibroker.client.leaders import TopicPartition
from minibroker.client.share_groups import SHARE, ask_for_share_groups
from minibroker.client.streams_groups import STREAMS, ask_for_streams_groups, partition_counts, partitions_read, topics_read
from minibroker.errors import GroupIdNotFound, KafkaError, UnsupportedVersion, WireError
from minibroker.schemas import (
    k15_describe_groups,
    k16_list_groups,
    k42_delete_groups,
    k69_consumer_group_describe,
    k77_share_group_describe,
    k89_streams_group_describe,
)
from minibroker.schemas.internal.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from minibroker.schemas.k10_find_coordinator import GROUP
from minibroker.wire.compiled import decoder

CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"  #: both a type of groups and the protocol type of classic groups whose members read topics
TYPES: Final = (CLASSIC, CONSUMER, SHARE, STREAMS)
EMPTY: Final = "Empty"
DEAD: Final = "Dead"
STATES: Final = (EMPTY, "PreparingRebalance", "CompletingRebalance", "Stable", "Assigning", "Reconciling", DEAD, "NotReady")

STATES_SINCE: Final = 4
TYPES_SINCE: Final = 5
_VERSION_SIZE: Final = 2


class ListedGroup(NamedTuple):
    """A group, and the broker that coordinates it; None for what that broker is too old to tell."""

    group: str
    type: str | None
    state: str | None
    protocol_type: str  #: "consumer", "connect", ...; "" where only offsets were committed
    coordinator: int


class GroupMember(NamedTuple):
    """A member and its partitions."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    host: str  #: "127.0.0.1"
    protocol: str  #: what the member speaks: "classic", "consumer", "share" or "streams"
    member_epoch: int | None  #: None in classic groups
    topics: tuple[str, ...]  #: that it subscribed to by name; none while a classic group is not stable
    topic_regex: str | None
    assignment: tuple[TopicPartition, ...]
    target_assignment: tuple[TopicPartition, ...] | None  #: None in classic groups and share groups


class DescribedGroup(NamedTuple):
    """A group of any type."""

    group: str
    type: str
    state: str
    coordinator: int
    protocol_type: str
    assignor: str | None  #: None while a classic group is not stable
    group_epoch: int | None  #: None for classic groups, whose generation coordinators keep to themselves
    assignment_epoch: int | None
    members: tuple[GroupMember, ...]


def list_groups(client: Client, *, states: Sequence[str] = (), types: Sequence[str] = ()) -> list[ListedGroup]:
    """The groups of all brokers, by name; KafkaError when one broker does not tell its own. Without filters: all."""
    deadline = client.deadline()
    client.metadata([], deadline)
    request = k16_list_groups.Request(states_filter=list(states), types_filter=list(types))
    needed = TYPES_SINCE if types else STATES_SINCE if states else 0
    found = []
    for node_id in sorted(client.brokers):
        answer = client.retrying(lambda node_id=node_id: _list_of(client, node_id, request, needed, deadline), deadline)  # type: ignore[misc]  # mypy does not infer a lambda with a default
        found += [
            ListedGroup(each.group_id, each.group_type or None, each.group_state or None, each.protocol_type, node_id)
            for each in answer.groups
        ]
    return sorted(found, key=lambda each: each.group)


def _list_of(client: Client, node_id: int, request: k16_list_groups.Request, needed: int, deadline: Deadline) -> k16_list_groups.Response:
    connection = client.to_node(node_id, deadline)
    if connection.version_for(k16_list_groups) < needed:
        raise UnsupportedByBroker(f"{connection.address} serves ListGroups below version {needed}, and would not filter so")
    response: k16_list_groups.Response = connection.ask(k16_list_groups, request, deadline)
    check(response.error_code, f"groups of broker {node_id}")
    return response


def describe_groups(client: Client, groups: Iterable[str]) -> dict[str, DescribedGroup | KafkaError]:
    """What the coordinators know of each group, or why they do not."""
    deadline = client.deadline()

    def ask(connection: Connection, keys: list[str]) -> Mapping[str, DescribedGroup | KafkaError]:
        node_id = next((node_id for node_id, address in client.brokers.items() if address == connection.address), -1)
        found: dict[str, DescribedGroup | KafkaError] = {}
        if _serves(connection, k69_consumer_group_describe):
            found = _describe_consumer(connection, keys, node_id, deadline)
        others = [key for key in keys if isinstance(found.get(key), None | GroupIdNotFound | UnsupportedVersion)]
        if others:
            found |= _describe_classic(connection, others, node_id, deadline)
        unknown = [key for key in others if isinstance(found[key], GroupIdNotFound)]
        if unknown and _serves(connection, k77_share_group_describe):
            for key, answer in ask_for_share_groups(connection, unknown, deadline).items():
                if not isinstance(answer, GroupIdNotFound | UnsupportedVersion):
                    found[key] = answer if isinstance(answer, KafkaError) else _share_group(answer, node_id)
        unknown = [key for key in others if isinstance(found[key], GroupIdNotFound)]
        if unknown and _serves(connection, k89_streams_group_describe):
            for key, described in ask_for_streams_groups(connection, unknown, deadline).items():
                if not isinstance(described, GroupIdNotFound | UnsupportedVersion):
                    found[key] = described if isinstance(described, KafkaError) else _streams_group(client, described, node_id, deadline)
        return found

    return ask_coordinators(client, GROUP, groups, ask, deadline)


def delete_groups(client: Client, groups: Iterable[str]) -> dict[str, KafkaError | None]:
    """Delete groups of any type, and their offsets; the error of each, or None."""
    deadline = client.deadline()

    def ask(connection: Connection, keys: list[str]) -> Mapping[str, bool | KafkaError]:
        response: k42_delete_groups.Response = connection.ask(k42_delete_groups, k42_delete_groups.Request(groups_names=keys), deadline)
        return {each.group_id: refusal(each.error_code, f"group {each.group_id}") or True for each in response.results}

    answers = ask_coordinators(client, GROUP, groups, ask, deadline)
    return {group: answer if isinstance(answer, KafkaError) else None for group, answer in answers.items()}


def _serves(connection: Connection, schema: ModuleType) -> bool:
    return any(api.api_key == schema.API_KEY for api in connection.api_versions.api_keys)


def _describe_consumer(
    connection: Connection, groups: list[str], node_id: int, deadline: Deadline
) -> dict[str, DescribedGroup | KafkaError]:
    request = k69_consumer_group_describe.Request(group_ids=groups, include_authorized_operations=False)
    response: k69_consumer_group_describe.Response = connection.ask(k69_consumer_group_describe, request, deadline)
    return {
        each.group_id: refusal(each.error_code, f"group {each.group_id}", each.error_message) or _consumer_group(each, node_id)
        for each in response.groups
    }


def _consumer_group(group: k69_consumer_group_describe.Group, node_id: int) -> DescribedGroup:
    members = [
        GroupMember(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            client_id=member.client_id,
            host=member.client_host.lstrip("/"),
            protocol=CLASSIC if member.member_type == 0 else CONSUMER,
            member_epoch=member.member_epoch,
            topics=tuple(sorted(member.subscribed_topic_names)),
            topic_regex=member.subscribed_topic_regex or None,
            assignment=_partitions(member.assignment),
            target_assignment=_partitions(member.target_assignment),
        )
        for member in group.members
    ]
    return DescribedGroup(
        group=group.group_id,
        type=CONSUMER,
        state=group.group_state,
        coordinator=node_id,
        protocol_type=CONSUMER,
        assignor=group.assignor_name or None,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        members=tuple(sorted(members, key=lambda member: member.member_id)),
    )


def _share_group(group: k77_share_group_describe.Group, node_id: int) -> DescribedGroup:
    members = [
        GroupMember(
            member_id=member.member_id,
            group_instance_id=None,
            client_id=member.client_id,
            host=member.client_host.lstrip("/"),
            protocol=SHARE,
            member_epoch=member.member_epoch,
            topics=tuple(sorted(member.subscribed_topic_names)),
            topic_regex=None,
            assignment=_partitions(member.assignment),
            target_assignment=None,
        )
        for member in group.members
    ]
    return DescribedGroup(
        group=group.group_id,
        type=SHARE,
        state=group.group_state,
        coordinator=node_id,
        protocol_type=SHARE,
        assignor=group.assignor_name or None,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        members=tuple(sorted(members, key=lambda member: member.member_id)),
    )


def _streams_group(client: Client, group: k89_streams_group_describe.Group, node_id: int, deadline: Deadline) -> DescribedGroup:
    topics = topics_read(group)
    counts = partition_counts(client, topics, deadline)
    members = [
        GroupMember(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            client_id=member.client_id,
            host=member.client_host.lstrip("/"),
            protocol=CLASSIC if member.is_classic else STREAMS,
            member_epoch=member.member_epoch,
            topics=tuple(sorted({name for each in topics.values() for name in each})),
            topic_regex=None,
            assignment=partitions_read(member.assignment, topics, counts),
            target_assignment=partitions_read(member.target_assignment, topics, counts),
        )
        for member in group.members
    ]
    return DescribedGroup(
        group=group.group_id,
        type=STREAMS,
        state=group.group_state,
        coordinator=node_id,
        protocol_type=STREAMS,
        assignor=None,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        members=tuple(sorted(members, key=lambda member: member.member_id)),
    )


def _partitions(assignment: k69_consumer_group_describe.Assignment | k77_share_group_describe.Assignment) -> tuple[TopicPartition, ...]:
    return tuple(sorted((topic.topic_name, partition) for topic in assignment.topic_partitions for partition in topic.partitions))


def _describe_classic(
    connection: Connection, groups: list[str], node_id: int, deadline: Deadline
) -> dict[str, DescribedGroup | KafkaError]:
    request = k15_describe_groups.Request(groups=groups)
    response: k15_describe_groups.Response = connection.ask(k15_describe_groups, request, deadline)
    found: dict[str, DescribedGroup | KafkaError] = {}
    for group in response.groups:
        error = refusal(group.error_code, f"group {group.group_id}", group.error_message)
        if error is None and group.group_state == DEAD:  # how a broker below DescribeGroups 6 says so
            error = GroupIdNotFound(f"group {group.group_id}: there is no such group")
        found[group.group_id] = error or _classic_group(group, node_id)
    return found


def _classic_group(group: k15_describe_groups.Group, node_id: int) -> DescribedGroup:
    members = []
    for member in group.members:
        reads_topics = group.protocol_type == CONSUMER
        members.append(
            GroupMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                host=member.client_host.lstrip("/"),
                protocol=CLASSIC,
                member_epoch=None,
                topics=subscribed_topics(member.member_metadata) if reads_topics else (),
                topic_regex=None,
                assignment=assigned_partitions(member.member_assignment) if reads_topics else (),
                target_assignment=None,
            )
        )
    return DescribedGroup(
        group=group.group_id,
        type=CLASSIC,
        state=group.group_state,
        coordinator=node_id,
        protocol_type=group.protocol_type,
        assignor=group.protocol_data or None,
        group_epoch=None,
        assignment_epoch=None,
        members=tuple(sorted(members, key=lambda member: member.member_id)),
    )


def assigned_partitions(data: bytes) -> tuple[TopicPartition, ...]:
    """The partitions in a member's assignment; none where the bytes are no ConsumerProtocolAssignment."""
    if len(data) <= _VERSION_SIZE:
        return ()
    try:
        assignment, _ = decoder(ConsumerProtocolAssignment, 0, flexible=False)(data, _VERSION_SIZE)
    except WireError:
        return ()
    return tuple(sorted((each.topic, partition) for each in assignment.assigned_partitions for partition in each.partitions))


def subscribed_topics(data: bytes) -> tuple[str, ...]:
    """The topics in a member's subscription; none where the bytes are no ConsumerProtocolSubscription. All versions begin like 0."""
    if len(data) <= _VERSION_SIZE:
        return ()
    try:
        subscription, _ = decoder(ConsumerProtocolSubscription, 0, flexible=False)(data, _VERSION_SIZE)
    except WireError:
        return ()
    return tuple(sorted(subscription.topics))
