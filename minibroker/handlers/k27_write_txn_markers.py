"""WriteTxnMarkers (key 27): end transactions in partitions without their coordinator.

Versions: 1 and 2; flexible. In Kafka coordinators send it to leaders on other nodes. Here only
operators do, to abort a hanging transaction (`kafka-transactions.sh abort`). The coordinator is not
notified: it writes its own marker when the transaction ends. Errors of a partition:
INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED (log/producer_state.py). Markers of one
producer id share an entry of the response, in which unknown partitions come first, as in Kafka. If
`flush.messages` requires it, the response waits until the markers are synced.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from minibroker.cluster.directories.deferred import OPENED_AT_ONCE
from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.delayed import Delayed, when_done
from minibroker.dispatch.flush import FlushFailures
from minibroker.dispatch.pieces import Pieces
from minibroker.dispatch.registry import handles
from minibroker.errors import KafkaError, UnknownServerError, UnknownTopicOrPartition
from minibroker.log.partition_log import PartitionLog
from minibroker.records.control import ControlType, EndTransactionMarker
from minibroker.schemas import k27_write_txn_markers as schema

TopicPartition = tuple[str, int]
Codes = dict[int, dict[TopicPartition, int]]  #: by producer id


class _Wait(NamedTuple):
    """A marker that is valid only once its log is synced."""

    producer_id: int
    partition: TopicPartition
    log: PartitionLog


@handles(schema, Pieces("markers.topics.partition_indexes", "markers.topics.partitions", size=OPENED_AT_ONCE))
def write_txn_markers(ctx: RequestContext, request: schema.Request) -> schema.Response | Delayed:
    """Write the marker to each partition. A failed one does not stop the others."""
    codes: Codes = {}
    waiting: list[_Wait] = []
    for marker in request.markers:
        found = codes.setdefault(marker.producer_id, {})
        partitions = dict.fromkeys(_partitions(marker))
        unknown = {each: UnknownTopicOrPartition.code for each in partitions if not _exists(ctx, *each)}
        found.update(unknown)
        for each in partitions:
            if each not in unknown:
                found[each] = _write(ctx, marker, each, waiting)
    if not waiting:
        return _answer(codes)

    def synced(failures: FlushFailures) -> schema.Response:
        _take_back(codes, waiting, failures)
        return _answer(codes)

    return when_done(partial(ctx.broker.flush_queue.flush, list(dict.fromkeys(each.log for each in waiting))), synced)


def _take_back(codes: Codes, waiting: list[_Wait], failures: FlushFailures) -> None:
    for each in waiting:
        if each.log in failures:
            codes[each.producer_id][each.partition] = failures[each.log].code


def _partitions(marker: schema.Marker) -> Iterator[TopicPartition]:
    return ((topic.name, index) for topic in marker.topics for index in topic.partition_indexes)


def _exists(ctx: RequestContext, topic: str, index: int) -> bool:
    found = ctx.cluster.topics.get(topic)
    return found is not None and 0 <= index < len(found.partitions)


def _write(ctx: RequestContext, marker: schema.Marker, partition: TopicPartition, waiting: list[_Wait]) -> int:
    """Write the marker to one partition. Returns the error code."""
    control_type = ControlType.COMMIT if marker.transaction_result else ControlType.ABORT
    try:
        if marker.producer_id < 0 or marker.producer_epoch < 0:
            raise UnknownServerError  # as in Kafka
        found = ctx.cluster.partition(*partition)
        found.end_transaction(
            EndTransactionMarker(control_type, marker.coordinator_epoch),
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            transaction_version=marker.transaction_version,
        )
    except KafkaError as error:
        return error.code
    log = found.log
    if log.wants_sync:
        waiting.append(_Wait(marker.producer_id, partition, log))
    return 0


def _answer(codes: Codes) -> schema.Response:
    results = []
    for producer_id, found in codes.items():
        topics: dict[str, list[schema.PartitionResult]] = {}
        for (topic, index), code in found.items():
            topics.setdefault(topic, []).append(schema.PartitionResult(partition_index=index, error_code=code))
        results.append(
            schema.MarkerResult(
                producer_id=producer_id, topics=[schema.TopicResult(name=name, partitions=each) for name, each in topics.items()]
            )
        )
    return schema.Response(markers=results)
