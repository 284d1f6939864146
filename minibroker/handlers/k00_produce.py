"""Produce (key 0): append record batches to partitions.

Versions: 0 to 13; 9 is flexible; 13 names topics by id. Below 3 the records of a partition are a
message set of format v0 or v1, which the log stores as one batch of format v2 (records/convert.py).
A set without a whole message appends nothing and has base_offset -1, as in Apache Kafka 3.9. Kafka
4 closes the connection. acks=1 and acks=-1 mean the same on one node: the records are appended. If
`flush.messages` requires it they are synced first, with one fsync for all requests that arrived in
the same turn of the loop. acks=0 has no response, so an error closes the connection. Transactional
batches are appended only if the coordinator knows that their transaction includes the partition.
From version 12 on the request itself adds it (coordinator/transaction/coordinator.py).
INVALID_PRODUCER_ID_MAPPING rejects a request with batches of several transactional producers, and
TRANSACTIONAL_ID_AUTHORIZATION_FAILED a request with transactional batches but no transactional_id.
A rejected request appends nothing. Batches that take more than a few milliseconds to validate
(records/long_batch.py) are validated in slices between which other clients are served. They are
appended before the next partition of their request, and before the next request of their
connection. The broker's own state topics are INVALID_TOPIC_EXCEPTION for all clients except Kafka's
`__admin_client`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from struct import Struct
from typing import Any, Final, NamedTuple, cast

from minibroker.cluster.partition import Partition
from minibroker.cluster.topic import INTERNAL_TOPICS
from minibroker.coordinator.transaction.coordinator import Admission
from minibroker.coordinator.transaction.records import ProducerIdAndEpoch, TopicPartition
from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.delayed import NO_RESPONSE, Delayed, NoResponse
from minibroker.dispatch.flush import FlushFailures
from minibroker.dispatch.pieces import Pieces
from minibroker.dispatch.registry import handles
from minibroker.dispatch.slices import Steps
from minibroker.errors import (
    BY_CODE,
    CorruptMessage,
    InvalidProducerIdMapping,
    InvalidRecord,
    InvalidRequiredAcks,
    InvalidTopicException,
    KafkaError,
    KafkaStorageError,
    MessageTooLarge,
    RecordListTooLarge,
    TransactionalIdAuthorizationFailed,
    UnsupportedCompressionType,
    WireError,
)
from minibroker.log.partition_log import PartitionLog
from minibroker.records.batch import HEADER_SIZE, MAGIC_V2
from minibroker.records.steps import LongBatch
from minibroker.schemas import k00_produce as schema
from minibroker.wire.schema import Buffer, constructor

BATCHES_SINCE: Final = 3
TOPIC_IDS_SINCE: Final = 13
ADMIN_CLIENT: Final = "__admin_client"  #: AdminUtils.ADMIN_CLIENT_ID of Apache Kafka

_ATTRIBUTES: Final = 22  #: position of the low byte of a batch's attributes
_TRANSACTIONAL: Final = 0x10
_PRODUCER: Final = Struct(">43xqh")  #: producer_id and producer_epoch of a batch
_MAGIC: Final = 16  #: position of the format version
_PAUSE_S: Final = 0.001  #: work on several partitions pauses after this long
_SIZE: Final = Struct(">8xi")  #: size field of a message, which counts the bytes after itself

#: Errors that Kafka finds before it reads the log. Other errors have the log start offset: without it, a Java producer that gets
#: UNKNOWN_PRODUCER_ID only retries.
_NO_LOG_START: Final = (CorruptMessage, KafkaStorageError, MessageTooLarge, RecordListTooLarge, UnsupportedCompressionType)


class _Wait(NamedTuple):
    """A result that is valid only once its log is synced."""

    result: schema.PartitionResult
    log: PartitionLog


Waiting = list[_Wait]

_response: Final = constructor(schema.Response)
_topic_result: Final = constructor(schema.TopicResult)
_partition_result: Final = constructor(schema.PartitionResult)


@handles(schema, Pieces("topic_data.partition_data", "responses.partition_responses"))
def produce(ctx: RequestContext, request: schema.Request) -> schema.Response | Delayed | NoResponse:
    """Append to each partition. A failed partition does not stop the others."""
    _check(request)
    topics = request.topic_data
    if len(topics) == 1 and len(topics[0].partition_data) == 1:  # most requests
        topic = topics[0]
        admission = None if request.transactional_id is None else _admit(ctx, request, request.transactional_id)
        waiting: Waiting = []
        try:
            result = _append(ctx, topic, topic.partition_data[0], admission, waiting)
        except LongBatch:
            pass  # nothing was appended
        else:
            response = _response(responses=[_topic_result(name=topic.name, topic_id=topic.topic_id, partition_responses=[result])])
            return _answer(ctx, request, response, waiting) if waiting or not request.acks else response
    answer: schema.Response | Delayed | NoResponse = ctx.broker.slices.run(_produce_in_slices(ctx, request))
    return answer


def _produce_in_slices(ctx: RequestContext, request: schema.Request) -> Steps:
    """Append to the partitions in order, with pauses if it takes long."""
    admission = None if request.transactional_id is None else _admit(ctx, request, request.transactional_id)
    waiting: Waiting = []
    responses: list[schema.TopicResult] = []
    now_s = ctx.broker.slices.now_s
    deadline_s = now_s() + _PAUSE_S
    for topic in request.topic_data:
        results: list[schema.PartitionResult] = []
        for each in topic.partition_data:
            try:
                result = _append(ctx, topic, each, admission, waiting)
            except LongBatch:
                result = yield from _append_long(ctx, request, topic, each, waiting)
            results.append(result)
            if now_s() >= deadline_s:
                yield None
                deadline_s = now_s() + _PAUSE_S
                if request.transactional_id is not None:  # again: the transaction may have ended during the pause
                    admission = _admit(ctx, request, request.transactional_id)
        responses.append(_topic_result(name=topic.name, topic_id=topic.topic_id, partition_responses=results))
    response = _response(responses=responses)
    answer = _answer(ctx, request, response, waiting) if waiting or not request.acks else response
    return (yield answer) if isinstance(answer, Delayed) else answer


def _append_long(
    ctx: RequestContext, request: schema.Request, topic: schema.Topic, entry: schema.Partition, waiting: Waiting
) -> Generator[Delayed | None, Any, schema.PartitionResult]:
    """Validate a long batch in slices, and append it in the turn in which validation finishes."""
    log_start_offset = -1
    try:
        log = _partition(ctx, topic, entry.index).log
        log_start_offset = log.log_start_offset
        validating = log.validate_in_steps(cast("memoryview", entry.records), produce_version=ctx.api_version)
        batch = yield from ctx.broker.record_steps.do(validating)
        admission = None if request.transactional_id is None else _admit(ctx, request, request.transactional_id)
        partition = _partition(ctx, topic, entry.index)
        _check_admitted(partition, admission)
        appended = partition.append_validated(batch, produce_version=ctx.api_version)
    except KafkaError as error:
        return _failed(entry.index, error, -1 if isinstance(error, _NO_LOG_START) else log_start_offset)
    result = _partition_result(
        index=entry.index,
        error_code=0,
        base_offset=appended.base_offset,
        log_append_time_ms=appended.log_append_time_ms,
        log_start_offset=appended.log_start_offset,
    )
    _note_waits(result, partition.log, admission, waiting)
    return result


def _answer(
    ctx: RequestContext, request: schema.Request, response: schema.Response, waiting: Waiting
) -> schema.Response | Delayed | NoResponse:
    """Respond once the appended records are synced, if that is required."""
    if request.acks == 0:
        return _without_answer(ctx, response, waiting)
    return _when_synced(ctx, response, waiting) if waiting else response


def on_error(_ctx: RequestContext, request: schema.Request, error: KafkaError) -> schema.Response | NoResponse:
    """Return `error` for every partition. With acks=0 there is no response."""
    if request.acks == 0:
        return NO_RESPONSE
    return schema.Response(
        responses=[
            schema.TopicResult(
                name=topic.name, topic_id=topic.topic_id, partition_responses=[_failed(each.index, error) for each in topic.partition_data]
            )
            for topic in request.topic_data
        ]
    )


def _check(request: schema.Request) -> None:
    """Check the request as a whole.

    Raises InvalidRequiredAcks or TransactionalIdAuthorizationFailed.
    """
    if not -1 <= request.acks <= 1:
        raise InvalidRequiredAcks
    if request.transactional_id is not None:
        return
    for topic in request.topic_data:
        for partition in topic.partition_data:
            records = partition.records
            if (
                records is not None
                and len(records) >= HEADER_SIZE
                and records[_ATTRIBUTES] & _TRANSACTIONAL
                and records[_MAGIC] == MAGIC_V2
            ):
                raise TransactionalIdAuthorizationFailed("transactional records without a transactional_id")


def _is_transactional(records: Buffer) -> bool:
    # Formats v0 and v1 have part of a timestamp at this position.
    return len(records) >= HEADER_SIZE and records[_ATTRIBUTES] & _TRANSACTIONAL != 0 and records[_MAGIC] == MAGIC_V2


def _admit(ctx: RequestContext, request: schema.Request, transactional_id: str) -> Admission | None:
    """Add the partitions of the batches to the transaction.

    Returns None if it includes all of them already.
    """
    from minibroker.coordinator.transaction.coordinator import admit  # noqa: PLC0415  most producers have no transactions

    producers: set[ProducerIdAndEpoch] = set()
    partitions: list[TopicPartition] = []
    for topic in request.topic_data:
        for each in topic.partition_data:
            if each.records is None or not _is_transactional(each.records):
                continue
            ids = ProducerIdAndEpoch(*_PRODUCER.unpack_from(each.records))
            producers.add(ids)
            try:
                partition = _partition(ctx, topic, each.index)
                # A log that was never opened is empty. The append opens it: a request may name
                # hundreds, too many for one turn.
                log = None if partition.is_unopened else partition.log
                if log is None or not (
                    log.producers.has_open_transaction(*ids) or log.producers.is_fenced(*ids)  # the append rejects a fenced producer
                ):
                    partitions.append((partition.topic, partition.index))
            except KafkaError:
                continue  # the append reports it
    if len(producers) > 1:
        raise InvalidProducerIdMapping("Transactional records contained more than one producer ID")
    if not partitions:
        return None
    return admit(
        ctx.broker.coordinators.transactions, transactional_id, producers.pop(), frozenset(partitions), produce_version=ctx.api_version
    )


def _append(
    ctx: RequestContext, topic: schema.Topic, entry: schema.Partition, admission: Admission | None, waiting: Waiting
) -> schema.PartitionResult:
    log_start_offset = -1
    try:
        partition = _partition(ctx, topic, entry.index)
        if admission is not None:
            _check_admitted(partition, admission)
        log = partition.log
        log_start_offset = log.log_start_offset
        records = entry.records
        if ctx.api_version < BATCHES_SINCE and records is not None and _has_no_message(records):
            return schema.PartitionResult(index=entry.index, error_code=0, base_offset=-1)
        if not isinstance(records, memoryview) or not records:
            raise InvalidRecord("no record batch")
        appended = partition.append(records, produce_version=ctx.api_version)
    except KafkaError as error:
        return _failed(entry.index, error, -1 if isinstance(error, _NO_LOG_START) else log_start_offset)
    result = _partition_result(
        index=entry.index,
        error_code=0,
        base_offset=appended.base_offset,
        log_append_time_ms=appended.log_append_time_ms,
        log_start_offset=appended.log_start_offset,
    )
    if log.is_synced_before_shown or admission is not None:
        _note_waits(result, log, admission, waiting)
    return result


def _check_admitted(partition: Partition, admission: Admission | None) -> None:
    if admission is not None and (partition.topic, partition.index) in admission.refused:
        raise admission.refused[partition.topic, partition.index]


def _note_waits(result: schema.PartitionResult, log: PartitionLog, admission: Admission | None, waiting: Waiting) -> None:
    """Note the logs that must be synced before an append is acknowledged."""
    if log.is_synced_before_shown and log.wants_sync:
        waiting.append(_Wait(result, log))
    if admission is not None and admission.log is not None:
        waiting.append(_Wait(result, admission.log))


def _partition(ctx: RequestContext, topic: schema.Topic, index: int) -> Partition:
    """Return the partition. Raises InvalidTopicException if clients may not write to it."""
    if ctx.api_version >= TOPIC_IDS_SINCE:
        partition = ctx.cluster.partition_by_id(topic.topic_id, index)
    else:
        partition = ctx.cluster.partition(topic.name, index)
    if partition.topic in INTERNAL_TOPICS and ctx.client_id != ADMIN_CLIENT:
        raise InvalidTopicException
    return partition


def _has_no_message(records: Buffer) -> bool:
    """Return whether the message set ends before the end of its first message."""
    return len(records) < _SIZE.size or len(records) - _SIZE.size < _SIZE.unpack_from(records)[0]


def _failed(index: int, error: KafkaError, log_start_offset: int = -1) -> schema.PartitionResult:
    return schema.PartitionResult(
        index=index,
        error_code=error.code,
        base_offset=-1,
        log_start_offset=log_start_offset,
        record_errors=[
            schema.RecordError(batch_index=position, batch_index_error_message=message)
            for position, message in getattr(error, "record_errors", ())
        ],
        error_message=str(error) if error.args else None,  # Kafka does not send the default messages of error codes
    )


def _without_answer(ctx: RequestContext, response: schema.Response, waiting: Waiting) -> NoResponse:
    if waiting:
        _flush(ctx, waiting, lambda _: None)
    for topic in response.responses:
        for result in topic.partition_responses:
            if result.error_code:
                reason = result.error_message or BY_CODE[result.error_code].name
                raise WireError(f"Produce with acks=0 to {topic.name or str(topic.topic_id)!r}-{result.index} failed: {reason}")
    return NO_RESPONSE


def _flush(ctx: RequestContext, waiting: Waiting, done: Callable[[FlushFailures], None]) -> None:
    ctx.broker.flush_queue.flush([each.log for each in waiting], done)


def _when_synced(ctx: RequestContext, response: schema.Response, waiting: Waiting) -> Delayed:
    delayed = Delayed()

    def synced(failures: FlushFailures) -> None:
        for each in waiting:
            if each.log in failures:
                _fail_result(each.result, failures[each.log])
        delayed.complete(response)

    _flush(ctx, waiting, synced)
    return delayed


def _fail_result(result: schema.PartitionResult, error: KafkaStorageError) -> None:
    """Replace a result by an error, because its log could not be synced."""
    failed = _failed(result.index, error)
    for name in ("error_code", "base_offset", "log_append_time_ms", "log_start_offset", "error_message"):
        setattr(result, name, getattr(failed, name))
