"""What ShareFetch and ShareAcknowledge have in common: acknowledgements of records, partition by partition.

Each partition has its own result, in the order of the request. Invalid ones are rejected before any other is processed. Offset ranges must
be in order, with one type for a range or one for each offset, and the version and the request must allow the types.

Source: KafkaApis.handleAcknowledgements, validateAcknowledgementBatches of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

from minibroker.coordinator.share_partition.acknowledging import Acknowledgement
from minibroker.coordinator.share_partition.share_partitions import MemberKey, TopicPartition
from minibroker.dispatch.context import RequestContext
from minibroker.errors import CoordinatorNotAvailable, InvalidRequest, KafkaError, UnknownTopicId, UnknownTopicOrPartition
from minibroker.log.partition_log import PartitionLog

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

    Returns an outcome for each partition, and the logs that must be synced before the response is sent. If no valid partition has
    acknowledgements, only rejected ones have an outcome.
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
                outcomes[partition] = _do(ctx, member, partition, acknowledgements) if acknowledgements else _DONE
                logs.update(
                    dict.fromkeys(ctx.broker.coordinators.share_partitions.take_unsynced())
                )  # during a pause other requests would take them
                yield
        except GeneratorExit:  # the client has disconnected
            if logs:
                ctx.broker.flush_queue.flush(list(logs), lambda _: None)
            raise
    return outcomes, list(logs)


def unsafe(outcomes: dict[TopicPartition, Outcome]) -> dict[TopicPartition, Outcome]:
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


def _do(ctx: RequestContext, member: MemberKey, partition: TopicPartition, acknowledgements: Sequence[Acknowledgement]) -> Outcome:
    try:
        ctx.broker.coordinators.share_partitions.acknowledge(member, partition, acknowledgements)
    except KafkaError as error:
        return Outcome(error.code, str(error))
    return _DONE
