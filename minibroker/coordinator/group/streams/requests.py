"""Requests of members of streams groups, their answers, and the checks that do not depend on the group.

An instance that sends its endpoint gets all endpoints with their partitions, for interactive
queries.

Source: GroupCoordinatorService.throwIfStreamsGroupHeartbeatRequestIs... and KafkaApis of Apache
Kafka 4.3.1, which have the same messages; EndpointToPartitionsManager, which fails if the topology
is not ready, and cuts off partitions if topics of a subtopology have different partition counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from minibroker.cluster.topic import INTERNAL_TOPICS
from minibroker.cluster.topic_rules import check_name
from minibroker.coordinator.group.member_epochs import JOINS, LEAVES_FOR_A_WHILE
from minibroker.coordinator.group.streams.internal_topics import ConfiguredSubtopology, Status
from minibroker.coordinator.group.streams.members import StreamsMember
from minibroker.coordinator.group.streams.tasks import Tasks, TaskSets, frozen
from minibroker.coordinator.group.streams.topology import Topology, topics_named_by, topology_of
from minibroker.coordinator.group.topics import Topics
from minibroker.errors import InvalidRequest, InvalidTopicException, StreamsInvalidTopology
from minibroker.schemas import k88_streams_group_heartbeat as k88

NOT_SAID: Final = -1


class StreamsHeartbeat(NamedTuple):
    """A StreamsGroupHeartbeat request. None and -1 mean: as in the last one."""

    member_id: str
    member_epoch: int
    endpoint_epoch: int = NOT_SAID  #: of the endpoints in its last answer
    client_id: str = ""
    client_host: str = ""
    rack_id: str | None = None
    rebalance_timeout_ms: int = NOT_SAID
    topology: Topology | None = None
    process_id: str | None = None
    user_endpoint: tuple[str, int] | None = None
    client_tags: Mapping[str, str] | None = None
    owned: Tasks | None = None
    shuts_down: bool = False  #: whether it requests a shutdown of all members


class StreamsHeartbeatAnswer(NamedTuple):
    """The answer to a heartbeat. `tasks` and `located` are None if they have not changed."""

    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int = 0
    statuses: tuple[Status, ...] = ()
    tasks: Tasks | None = None
    endpoint_epoch: int = 0
    located: tuple[Located, ...] | None = None


def heartbeat_of(asked: k88.Request, client_id: str, client_host: str) -> StreamsHeartbeat:
    """Check and convert a request; InvalidRequest, StreamsInvalidTopology."""
    _check(asked)
    endpoint, tags, owns = asked.user_endpoint, asked.client_tags, asked.active_tasks is not None
    return StreamsHeartbeat(
        member_id=asked.member_id,
        member_epoch=asked.member_epoch,
        endpoint_epoch=asked.endpoint_information_epoch,
        client_id=client_id,
        client_host=client_host,
        rack_id=asked.rack_id,
        rebalance_timeout_ms=asked.rebalance_timeout_ms,
        topology=None if asked.topology is None else topology_of(asked.topology),
        process_id=asked.process_id,
        user_endpoint=None if endpoint is None else (endpoint.host, endpoint.port),
        client_tags=None if tags is None else {each.key: each.value for each in tags},
        owned=Tasks(_sets(asked.active_tasks), _sets(asked.standby_tasks)) if owns else None,
        shuts_down=asked.shutdown_application,
    )


def _sets(tasks: Sequence[k88.TaskIds] | None) -> TaskSets:
    return frozen({each.subtopology_id: each.partitions for each in tasks or ()})


def _check(asked: k88.Request) -> None:
    _check_names_of_topics(asked)
    _check_not_supported(asked)
    for value, name in ((asked.member_id, "MemberId"), (asked.group_id, "GroupId"), (asked.rack_id, "RackId")):
        if value == "":
            raise InvalidRequest(f"{name} can't be empty.")
    owned = (asked.active_tasks, asked.standby_tasks, asked.warmup_tasks)
    if asked.member_epoch == JOINS:
        _check_join(asked)
    elif asked.member_epoch == LEAVES_FOR_A_WHILE:
        raise InvalidRequest("InstanceId can't be null.")
    elif asked.member_epoch < LEAVES_FOR_A_WHILE:
        raise InvalidRequest(f"MemberEpoch is {asked.member_epoch}, but must be greater than or equal to -2.")
    if any(each is None for each in owned) and any(each is not None for each in owned):
        raise InvalidRequest("If one task-type is non-null, all must be non-null.")
    if asked.member_epoch != JOINS and asked.topology is not None:
        raise InvalidRequest("Topology can only be provided when (re-)joining.")


def _check_names_of_topics(asked: k88.Request) -> None:
    if asked.topology is None:
        return
    names = dict.fromkeys(topics_named_by(asked.topology))
    if internal := [name for name in names if name in INTERNAL_TOPICS]:
        raise StreamsInvalidTopology(f"Use of Kafka internal topics {','.join(internal)} in a Kafka Streams topology is prohibited.")
    if invalid := [name for name in names if not _is_topic_name(name)]:
        raise StreamsInvalidTopology(f"Topic names {','.join(invalid)} are not valid topic names.")


def _is_topic_name(name: str) -> bool:
    try:
        check_name(name)
    except InvalidTopicException:
        return False
    return True


def _check_not_supported(asked: k88.Request) -> None:
    for value, what in (
        (asked.instance_id, "Static membership is not yet supported."),
        (asked.task_offsets, "TaskOffsets are not supported yet."),
        (asked.task_end_offsets, "TaskEndOffsets are not supported yet."),
        (asked.warmup_tasks or None, "WarmupTasks are not supported yet."),
    ):
        if value is not None:
            raise InvalidRequest(what)
    if asked.topology is not None and any(each.source_topic_regex for each in asked.topology.subtopologies):
        raise InvalidRequest("Regular expressions for source topics are not supported yet.")


def _check_join(asked: k88.Request) -> None:
    if asked.rebalance_timeout_ms == NOT_SAID:
        raise InvalidRequest("RebalanceTimeoutMs must be provided in first request.")
    for tasks, name in ((asked.active_tasks, "ActiveTasks"), (asked.standby_tasks, "StandbyTasks"), (asked.warmup_tasks, "WarmupTasks")):
        if tasks is None or tasks:
            raise InvalidRequest(f"{name} must be empty when (re-)joining.")
    if asked.topology is None:
        raise InvalidRequest("Topology must be non-null when (re-)joining.")


Partitions = tuple[tuple[str, tuple[int, ...]], ...]  #: topics with their partitions


class Located(NamedTuple):
    """The partitions of the tasks at one endpoint."""

    endpoint: tuple[str, int]  #: host and port
    active: Partitions
    standby: Partitions


def locate(members: Iterable[StreamsMember], subtopologies: Mapping[str, ConfiguredSubtopology], topics: Topics) -> tuple[Located, ...]:
    """Return the endpoints of all members that have one."""
    return tuple(
        Located(
            member.user_endpoint,
            _partitions(member.assigned.tasks.active, subtopologies, topics),
            _partitions(member.assigned.standby, subtopologies, topics),
        )
        for member in members
        if member.user_endpoint is not None
    )


def _partitions(tasks: TaskSets, subtopologies: Mapping[str, ConfiguredSubtopology], topics: Topics) -> Partitions:
    found = []
    for each in sorted(tasks.keys() & subtopologies.keys()):
        read = {*subtopologies[each].source_topics, *subtopologies[each].repartition_source_topics}
        for name in sorted(read):
            topic = topics.find(name)
            count = 0 if topic is None else topic.partition_count
            found.append((name, tuple(sorted(partition for partition in tasks[each] if partition < count))))
    return tuple(found)
