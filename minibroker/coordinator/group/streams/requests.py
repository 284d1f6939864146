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
from minibroker.coordinator.group.modern import JOINS, LEAVES_FOR_A_WHILE
from minibroker.coordinator.group.streams.internal_topics import ConfiguredSubtopology, Status
from minibroker.coordinator.group.streams.members import StreamsMember, Tasks, TaskSets, frozen
from minibroker.coordinator.group.streams.topology import Topology, topics_named_by, topology_of
from minibroker.coordinator.group.topics import Topics
from minibroker.errors import InvalidRequest, InvalidTopicException, StreamsInvalidTopology
from minibroker.schemas import k88_streams_group_heartbeat as k88

NOT_SET: Final = -1


class StreamsHeartbeat(NamedTuple):
    """A StreamsGroupHeartbeat request. None and -1 mean that a field has not changed."""

    member_id: str
    member_epoch: int
    endpoint_epoch: int = NOT_SET  #: of the endpoints in its last answer
    client_id: str = ""
    client_host: str = ""
    rack_id: str | None = None
    rebalance_timeout_ms: int = NOT_SET
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


def heartbeat_of(request: k88.Request, client_id: str, client_host: str) -> StreamsHeartbeat:
    """Check and convert a request; InvalidRequest, StreamsInvalidTopology."""
    _check(request)
    endpoint, tags, owns = request.user_endpoint, request.client_tags, request.active_tasks is not None
    return StreamsHeartbeat(
        member_id=request.member_id,
        member_epoch=request.member_epoch,
        endpoint_epoch=request.endpoint_information_epoch,
        client_id=client_id,
        client_host=client_host,
        rack_id=request.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        topology=None if request.topology is None else topology_of(request.topology),
        process_id=request.process_id,
        user_endpoint=None if endpoint is None else (endpoint.host, endpoint.port),
        client_tags=None if tags is None else {each.key: each.value for each in tags},
        owned=Tasks(_sets(request.active_tasks), _sets(request.standby_tasks)) if owns else None,
        shuts_down=request.shutdown_application,
    )


def _sets(tasks: Sequence[k88.TaskIds] | None) -> TaskSets:
    return frozen({each.subtopology_id: each.partitions for each in tasks or ()})


def _check(request: k88.Request) -> None:
    _check_names_of_topics(request)
    _check_not_supported(request)
    for value, name in ((request.member_id, "MemberId"), (request.group_id, "GroupId"), (request.rack_id, "RackId")):
        if value == "":
            raise InvalidRequest(f"{name} can't be empty.")
    owned = (request.active_tasks, request.standby_tasks, request.warmup_tasks)
    if request.member_epoch == JOINS:
        _check_join(request)
    elif request.member_epoch == LEAVES_FOR_A_WHILE:
        raise InvalidRequest("InstanceId can't be null.")
    elif request.member_epoch < LEAVES_FOR_A_WHILE:
        raise InvalidRequest(f"MemberEpoch is {request.member_epoch}, but must be greater than or equal to -2.")
    if any(each is None for each in owned) and any(each is not None for each in owned):
        raise InvalidRequest("If one task-type is non-null, all must be non-null.")
    if request.member_epoch != JOINS and request.topology is not None:
        raise InvalidRequest("Topology can only be provided when (re-)joining.")


def _check_names_of_topics(request: k88.Request) -> None:
    if request.topology is None:
        return
    names = dict.fromkeys(topics_named_by(request.topology))
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


def _check_not_supported(request: k88.Request) -> None:
    for value, message in (
        (request.instance_id, "Static membership is not yet supported."),
        (request.task_offsets, "TaskOffsets are not supported yet."),
        (request.task_end_offsets, "TaskEndOffsets are not supported yet."),
        (request.warmup_tasks or None, "WarmupTasks are not supported yet."),
    ):
        if value is not None:
            raise InvalidRequest(message)
    if request.topology is not None and any(each.source_topic_regex for each in request.topology.subtopologies):
        raise InvalidRequest("Regular expressions for source topics are not supported yet.")


def _check_join(request: k88.Request) -> None:
    if request.rebalance_timeout_ms == NOT_SET:
        raise InvalidRequest("RebalanceTimeoutMs must be provided in first request.")
    for tasks, name in (
        (request.active_tasks, "ActiveTasks"),
        (request.standby_tasks, "StandbyTasks"),
        (request.warmup_tasks, "WarmupTasks"),
    ):
        if tasks is None or tasks:
            raise InvalidRequest(f"{name} must be empty when (re-)joining.")
    if request.topology is None:
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
