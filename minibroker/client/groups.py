"""List and delete groups of all kinds, and describe them in one form, DescribedGroup.

The client asks the coordinator for a group of each kind in turn:

    consumer  KIP-848; the coordinator assigns partitions
    classic   a member assigns partitions, in the bytes of an embedded protocol
    share     KIP-932; the coordinator may assign a partition to several members
    streams   KIP-1071; the coordinator assigns the tasks of an application. A task is a subtopology at one partition: its active
              member reads that partition of every topic of the subtopology that has it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import ModuleType
from typing import Any, Final, NamedTuple

from minibroker.client.client import Client
from minibroker.client.connection import Connection
from minibroker.client.errors import UnsupportedByBroker, check, refusal
from minibroker.client.group_offsets import SHARE
from minibroker.client.routing import TopicPartition, ask_coordinators
from minibroker.client.transport import Deadline
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
CONSUMER: Final = "consumer"  #: a type of groups, and the protocol type of classic groups of consumers
STREAMS: Final = "streams"  #: a type of groups, and their protocol type
TYPES: Final = (CLASSIC, CONSUMER, SHARE, STREAMS)
EMPTY: Final = "Empty"
DEAD: Final = "Dead"
STATES: Final = (EMPTY, "PreparingRebalance", "CompletingRebalance", "Stable", "Assigning", "Reconciling", DEAD, "NotReady")

STATES_SINCE: Final = 4
TYPES_SINCE: Final = 5


class ListedGroup(NamedTuple):
    """A group and its coordinator. Fields that an old broker does not return are None."""

    group: str
    type: str | None
    state: str | None
    protocol_type: str  #: "consumer", "connect", ...; "" for a group that has only offsets
    coordinator: int


def list_groups(client: Client, *, states: Sequence[str] = (), types: Sequence[str] = ()) -> list[ListedGroup]:
    """List the groups of all brokers.

    Args:
        client: a client of the cluster.
        states: list only groups in these states, such as "Stable"; none: all.
        types: list only groups of these types, such as "consumer"; none: all.

    Returns:
        The groups, sorted by name.

    Raises:
        KafkaError: a broker cannot list its groups.
        UnsupportedByBroker: a broker does not support a filter.
    """
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
        raise UnsupportedByBroker(f"{connection.address} serves ListGroups below version {needed}, and does not support this filter")
    response: k16_list_groups.Response = connection.ask(k16_list_groups, request, deadline)
    check(response.error_code, f"groups of broker {node_id}")
    return response


def delete_groups(client: Client, groups: Iterable[str]) -> dict[str, KafkaError | None]:
    """Delete groups of any type, with their offsets.

    Args:
        client: a client of the cluster.
        groups: names of the groups.

    Returns:
        The error of each group, or None, by name.
    """
    deadline = client.deadline()

    def ask(connection: Connection, keys: list[str]) -> Mapping[str, bool | KafkaError]:
        response: k42_delete_groups.Response = connection.ask(k42_delete_groups, k42_delete_groups.Request(groups_names=keys), deadline)
        return {each.group_id: refusal(each.error_code, f"group {each.group_id}") or True for each in response.results}

    answers = ask_coordinators(client, GROUP, groups, ask, deadline)
    return {group: answer if isinstance(answer, KafkaError) else None for group, answer in answers.items()}


_VERSION_SIZE: Final = 2

MembersOf = Callable[[Any], "list[GroupMember]"]
PartitionCounts = Callable[[Iterable[str]], Mapping[str, int]]  #: names of topics -> partitions of those that exist


class GroupMember(NamedTuple):
    """A member and its partitions."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    host: str  #: "127.0.0.1"
    protocol: str  #: the protocol of the member: "classic", "consumer", "share" or "streams"
    member_epoch: int | None  #: None in classic groups
    topics: tuple[str, ...]  #: subscribed to by name; empty while a classic group is not stable
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
    group_epoch: int | None  #: None for classic groups: DescribeGroups does not return their generation
    assignment_epoch: int | None
    members: tuple[GroupMember, ...]


def describe_groups(client: Client, groups: Iterable[str]) -> dict[str, DescribedGroup | KafkaError]:
    """Describe groups of any type.

    Args:
        client: a client of the cluster.
        groups: names of the groups.

    Returns:
        The description or the final error of each group, by name.
    """
    deadline = client.deadline()

    def streams_members(group: k89_streams_group_describe.Group) -> list[GroupMember]:
        return _streams_members(group, lambda names: _partition_counts(client, names, deadline))

    def ask(connection: Connection, keys: list[str]) -> Mapping[str, DescribedGroup | KafkaError]:
        node_id = next((node_id for node_id, address in client.brokers.items() if address == connection.address), -1)

        def as_kind(kind: str, schema: ModuleType, members: MembersOf, groups: list[str]) -> dict[str, DescribedGroup | KafkaError]:
            """Return the groups of a kind. Requests for the newer kinds have the same fields."""
            if not groups or not _serves(connection, schema):
                return {}
            answers = _ask(connection, schema, groups, deadline)
            return {
                group: answer if isinstance(answer, KafkaError) else _described(kind, answer, members(answer), node_id)
                for group, answer in answers.items()
                if not isinstance(answer, GroupIdNotFound | UnsupportedVersion)
            }

        found = as_kind(CONSUMER, k69_consumer_group_describe, _consumer_members, keys)
        remaining = [key for key in keys if key not in found]
        if remaining:
            found |= _describe_classic(connection, remaining, node_id, deadline)
        found |= as_kind(SHARE, k77_share_group_describe, _share_members, _unknown(found))
        return found | as_kind(STREAMS, k89_streams_group_describe, streams_members, _unknown(found))

    return ask_coordinators(client, GROUP, groups, ask, deadline)


def described(kind: str, group: Any, node_id: int, partition_counts: PartitionCounts) -> DescribedGroup:
    """Convert the description of a group in a response.

    Args:
        kind: the group's type, one of TYPES.
        group: the description in the response of this type.
        node_id: the id of the coordinator.
        partition_counts: returns partition counts of topics; called only for streams groups.

    Returns:
        The description in a form that all types share.
    """
    if kind == CLASSIC:
        return _classic_group(group, node_id)
    if kind == STREAMS:
        return _described(kind, group, _streams_members(group, partition_counts), node_id)
    return _described(kind, group, _consumer_members(group) if kind == CONSUMER else _share_members(group), node_id)


def _serves(connection: Connection, schema: ModuleType) -> bool:
    return any(api.api_key == schema.API_KEY for api in connection.api_versions.api_keys)


def _unknown(found: Mapping[str, DescribedGroup | KafkaError]) -> list[str]:
    return [group for group, answer in found.items() if isinstance(answer, GroupIdNotFound)]


def _ask(connection: Connection, schema: ModuleType, groups: list[str], deadline: Deadline) -> dict[str, Any]:
    response = connection.ask(schema, schema.Request(group_ids=groups, include_authorized_operations=False), deadline)
    return {each.group_id: refusal(each.error_code, f"group {each.group_id}", each.error_message) or each for each in response.groups}


def _described(kind: str, group: Any, members: list[GroupMember], node_id: int) -> DescribedGroup:
    return DescribedGroup(
        group=group.group_id,
        type=kind,
        state=group.group_state,
        coordinator=node_id,
        protocol_type=kind,
        assignor=None if kind == STREAMS else group.assignor_name or None,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        members=_sorted(members),
    )


def _sorted(members: Iterable[GroupMember]) -> tuple[GroupMember, ...]:
    return tuple(sorted(members, key=lambda member: member.member_id))


def _consumer_members(group: k69_consumer_group_describe.Group) -> list[GroupMember]:
    return [
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


def _share_members(group: k77_share_group_describe.Group) -> list[GroupMember]:
    return [
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


def _streams_members(group: k89_streams_group_describe.Group, partition_counts: PartitionCounts) -> list[GroupMember]:
    topics = _topics_read(group)
    counts = partition_counts({name for each in topics.values() for name in each})
    return [
        GroupMember(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            client_id=member.client_id,
            host=member.client_host.lstrip("/"),
            protocol=CLASSIC if member.is_classic else STREAMS,
            member_epoch=member.member_epoch,
            topics=tuple(sorted({name for each in topics.values() for name in each})),
            topic_regex=None,
            assignment=_partitions_read(member.assignment, topics, counts),
            target_assignment=_partitions_read(member.target_assignment, topics, counts),
        )
        for member in group.members
    ]


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
        if error is None and group.group_state == DEAD:  # the answer of a broker below DescribeGroups 6
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
        members=_sorted(members),
    )


def assigned_partitions(data: bytes) -> tuple[TopicPartition, ...]:
    """Return the partitions in a member's assignment; empty if the bytes are not a ConsumerProtocolAssignment."""
    if len(data) <= _VERSION_SIZE:
        return ()
    try:
        assignment, _ = decoder(ConsumerProtocolAssignment, 0, flexible=False)(data, _VERSION_SIZE)
    except WireError:
        return ()
    return tuple(sorted((each.topic, partition) for each in assignment.assigned_partitions for partition in each.partitions))


def subscribed_topics(data: bytes) -> tuple[str, ...]:
    """Return the topics in a member's subscription; empty if the bytes are not a ConsumerProtocolSubscription."""
    # All versions start like version 0.
    if len(data) <= _VERSION_SIZE:
        return ()
    try:
        subscription, _ = decoder(ConsumerProtocolSubscription, 0, flexible=False)(data, _VERSION_SIZE)
    except WireError:
        return ()
    return tuple(sorted(subscription.topics))


def _topics_read(group: k89_streams_group_describe.Group) -> dict[str, list[str]]:
    """Return the topics that each subtopology reads: source topics, and repartition topics of other subtopologies."""
    subtopologies = group.topology.subtopologies if group.topology is not None else None
    return {
        each.subtopology_id: [*each.source_topics, *(topic.name for topic in each.repartition_source_topics)]
        for each in subtopologies or ()
    }


def _partition_counts(client: Client, names: Iterable[str], deadline: Deadline) -> dict[str, int]:
    """Return the partition counts of the topics that exist."""
    wanted = sorted(names)
    found = client.metadata(wanted, deadline).topics if wanted else []
    return {topic.name: len(topic.partitions) for topic in found if topic.name is not None and topic.error_code == 0}


def _partitions_read(
    assignment: k89_streams_group_describe.Assignment, topics: Mapping[str, list[str]], counts: Mapping[str, int]
) -> tuple[TopicPartition, ...]:
    """Return the partitions that the active member of these tasks reads."""
    return tuple(
        sorted(
            (name, partition)
            for task in assignment.active_tasks
            for name in topics.get(task.subtopology_id, ())
            for partition in task.partitions
            if partition < counts.get(name, 0)
        )
    )
