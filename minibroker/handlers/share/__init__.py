"""APIs of share groups.

This module has their shared code: checks, leaders that an answer names, acknowledgements and
states.

Acknowledgements (ShareFetch, ShareAcknowledge): each partition has its own result, in the order of
the request. Invalid ones are rejected before any other is processed. Offset ranges must be in
order, with one type for a range or one for each offset, and the version and the request must allow
the types.

Requests for states of share partitions (keys 83 to 87): with an empty group id, no topics, or a
topic without partitions the response is empty. Otherwise each partition has a result, in the order
of the request. The response is sent when all records are in the log of `__share_group_state`, and
synced if required.

Source: KafkaApis.processShareFetchResponse, processShareAcknowledgeResponse,
handleAcknowledgements, validateAcknowledgementBatches; ShareCoordinatorService of Apache Kafka
4.3.1.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

from minibroker.config.request_limits import SHARE_PARTITIONS_MAX
from minibroker.coordinator.share_partition.acknowledging import Acknowledgement
from minibroker.coordinator.share_partition.share_partitions import MemberKey, TopicPartition
from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.delayed import Delayed, when_done
from minibroker.dispatch.flush import FlushFailures
from minibroker.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    FencedLeaderEpoch,
    InvalidRequest,
    KafkaError,
    NotCoordinator,
    NotLeaderOrFollower,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from minibroker.log.partition_log import PartitionLog

MAX_MEMBER_ID_LENGTH: Final = 36
_NAMES_LEADER: Final = frozenset({NotLeaderOrFollower.code, FencedLeaderEpoch.code})


def check_member_id(member_id: str | None) -> None:
    """Raise InvalidRequest if a member id, which the member itself chooses, is empty or too long."""
    if not member_id or len(member_id) > MAX_MEMBER_ID_LENGTH:
        raise InvalidRequest("Invalid member id in the request.")


def check_size(topics: Iterable[Any]) -> None:
    """Raise InvalidRequest if a request has too many topics and partitions."""
    if sum(1 + len(topic.partitions) for topic in topics) > SHARE_PARTITIONS_MAX:
        raise InvalidRequest(f"A request may have {SHARE_PARTITIONS_MAX} topics and partitions at most.")


def leader(ctx: RequestContext, schema: Any, partition: tuple[UUID, int], error_code: int) -> Any:
    """Return the CurrentLeader of a partition result; zeros unless its error sends the client to another broker or epoch."""
    if error_code not in _NAMES_LEADER:
        return schema.CurrentLeader()
    try:
        found = ctx.cluster.partition_by_id(*partition)
    except KafkaError:
        return schema.CurrentLeader(leader_id=-1, leader_epoch=-1)
    return schema.CurrentLeader(leader_id=ctx.broker.nodes.leader_of(found), leader_epoch=found.leader_epoch)


def endpoints(ctx: RequestContext, schema: Any, results: Iterable[Any]) -> list[Any]:
    """Return the NodeEndpoint of each broker that `leader` named in partition results."""
    return ctx.endpoints(schema, [each.current_leader.leader_id for each in results if each.error_code in _NAMES_LEADER])


Answer = Callable[[UUID, Any], Any]  #: topic id and partition of the request -> partition result; raises KafkaError


def each_partition(ctx: RequestContext, schema: Any, request: Any, answer: Answer, *, operation: str, **fields: Any) -> Any | Delayed:
    """Return the response with one result for each partition.

    `operation` is for error messages if no log is available. `fields` are the other fields of a
    rejected partition.
    """
    if not request.group_id or not all(topic.partitions for topic in request.topics):
        return schema.Response(results=[])

    def refused(index: int, error: KafkaError, message: str) -> Any:
        return schema.PartitionResult(partition=index, error_code=error.code, error_message=message, **fields)

    def one(topic_id: UUID, entry: Any) -> Any:
        try:
            return answer(topic_id, entry)
        except (CoordinatorLoadInProgress, NotCoordinator) as error:
            return refused(entry.partition, error, f"Unable to {operation}: {error}")
        except KafkaError as error:
            return refused(entry.partition, error, str(error))

    response = schema.Response(
        results=[
            schema.TopicResult(topic_id=topic.topic_id, partitions=[one(topic.topic_id, entry) for entry in topic.partitions])
            for topic in request.topics
        ]
    )
    logs = ctx.broker.coordinators.share_persister.take_unsynced()
    if not logs:
        return response

    def synced(failures: FlushFailures) -> Any:
        if any(log in failures for log in logs):
            raise NotCoordinator
        return response

    return when_done(lambda done: ctx.broker.flush_queue.flush(logs, done), synced)


RENEW_SINCE: Final = 2
_RENEW: Final = 4
_MAX_TYPE: Final = 3


class Outcome(NamedTuple):
    """The result of one partition's acknowledgements."""

    error_code: int = 0
    error_message: str | None = None


_DONE: Final = Outcome()


def acknowledge(
    ctx: RequestContext, member: MemberKey, request: Any
) -> Generator[None, None, tuple[dict[TopicPartition, Outcome], list[PartitionLog]]]:
    """Process the acknowledgements of a request, with a pause after each partition.

    Returns an outcome for each partition, and the logs that must be synced before the response is
    sent. If no valid partition has acknowledgements, only rejected ones have an outcome.
    """
    outcomes: dict[TopicPartition, Outcome] = {}
    logs: dict[PartitionLog, None] = {}
    valid: list[tuple[TopicPartition, Sequence[Acknowledgement]]] = []
    for topic in request.topics:
        for entry in topic.partitions:
            partition = topic.topic_id, entry.partition_index
            error = _problem(
                ctx, partition, entry.acknowledgement_batches, is_renew=ctx.api_version >= RENEW_SINCE and request.is_renew_ack
            )
            if error is not None:
                outcomes[partition] = Outcome(error.code)
            else:
                valid.append((partition, _acknowledgements(entry.acknowledgement_batches)))
    if any(acknowledgements for _, acknowledgements in valid):
        try:
            for partition, acknowledgements in valid:
                outcomes[partition] = _acknowledge(ctx, member, partition, acknowledgements) if acknowledgements else _DONE
                logs.update(
                    dict.fromkeys(ctx.broker.coordinators.share_partitions.take_unsynced())
                )  # during a pause other requests would take them
                yield
        except GeneratorExit:  # the connection was closed
            if logs:
                ctx.broker.flush_queue.flush(list(logs), lambda _: None)
            raise
    return outcomes, list(logs)


def unsynced(outcomes: dict[TopicPartition, Outcome]) -> dict[TopicPartition, Outcome]:
    """Replace successful outcomes by an error, because they could not be synced."""
    lost = CoordinatorNotAvailable()
    failed = Outcome(lost.code, str(lost))
    return {partition: failed if outcome == _DONE else outcome for partition, outcome in outcomes.items()}


def _problem(ctx: RequestContext, partition: tuple[UUID, int], batches: Sequence[Any], *, is_renew: bool) -> KafkaError | None:
    topic = ctx.cluster.image.topics_by_id.get(partition[0])
    if topic is None:
        return UnknownTopicId()
    previous_offset = -1
    for each in batches:
        count = len(each.acknowledge_types)
        is_valid = (
            previous_offset <= each.first_offset <= each.last_offset
            and count in {1, each.last_offset - each.first_offset + 1}
            and all(0 <= kind <= _MAX_TYPE or (kind == _RENEW and is_renew) for kind in each.acknowledge_types)
        )
        if not is_valid:
            return InvalidRequest()
        previous_offset = each.last_offset
    return None if 0 <= partition[1] < len(topic.partitions) else UnknownTopicOrPartition()


def _acknowledgements(batches: Sequence[Any]) -> Sequence[Acknowledgement]:
    return [Acknowledgement(each.first_offset, each.last_offset, each.acknowledge_types) for each in batches]


def _acknowledge(ctx: RequestContext, member: MemberKey, partition: TopicPartition, acknowledgements: Sequence[Acknowledgement]) -> Outcome:
    try:
        ctx.broker.coordinators.share_partitions.acknowledge(member, partition, acknowledgements)
    except KafkaError as error:
        return Outcome(error.code, str(error))
    return _DONE
