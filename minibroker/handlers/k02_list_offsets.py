"""ListOffsets (key 2): the earliest and latest offsets of partitions, or the first at a point in time.

Versions: 0 to 11; 6 is flexible.

    timestamp  means                                   from version   result (timestamp, offset)
    >= 0       first record at or after that time      1              its timestamp and offset; (-1, -1) without such a record
    -1         latest                                  0              (-1, high watermark; under read_committed the last stable offset)
    -2         earliest                                0              (-1, log start)
    -3         the record with the largest timestamp   7              its timestamp and offset; (-1, -1) of an empty log
    -4         earliest on the local disk              8              as -2
    -5         last in tiered storage                  9              (-1, -1): tiered storage is not supported
    -6         earliest pending upload                 11             (-1, -1), as in Kafka without tiered storage

Version 0 does not use the timestamps of records. It returns up to max_num_offsets start offsets of
segments in descending order, from the last segment that was written to at `timestamp` or before.
For -1 the first offset is the high watermark; -2 returns only the log start.

UNSUPPORTED_VERSION: the version does not have the timestamp, or it is another negative number.
Records that the reader may not see (above the high watermark or last stable offset) are not found.
leader_epoch is the epoch of the record, or of the log end for -1.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Final

from minibroker.cluster.partition import NO_EPOCH, Partition, Unopened
from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.delayed import Delayed
from minibroker.dispatch.pieces import Pieces
from minibroker.dispatch.registry import handles
from minibroker.dispatch.slices import Steps
from minibroker.errors import InvalidRequest, KafkaError, UnknownServerError, UnsupportedVersion
from minibroker.log.old_readers import offsets_before
from minibroker.log.partition_log import PartitionLog
from minibroker.log.results import IsolationLevel
from minibroker.records.steps import LongBatch
from minibroker.schemas import k02_list_offsets as schema
from minibroker.wire.schema import constructor

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6

LOOKED_UP_AT_ONCE: Final = 64  #: partitions of one turn: a look-up by timestamp reads files, which takes about 0.2 ms
CONSUMER: Final = -1
NOT_FOUND: Final = (-1, -1, -1)  #: timestamp, offset, leader_epoch

_SINCE: Final = {LATEST: 0, EARLIEST: 0, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}

# Constants are plain numbers, because members of an enum are hashed and compared in Python.
_ISOLATION_LEVELS: Final = frozenset(map(int, IsolationLevel))
_READ_COMMITTED: Final = int(IsolationLevel.READ_COMMITTED)
_LOG_START: Final = frozenset({EARLIEST, EARLIEST_LOCAL})
_TIERED: Final = frozenset({LATEST_TIERED, EARLIEST_PENDING_UPLOAD})
_NONE_REPEATED: Final[frozenset[tuple[str, int]]] = frozenset()

_response: Final = constructor(schema.Response)
_topic_result: Final = constructor(schema.TopicResult)
_partition_result: Final = constructor(schema.PartitionResult)


@handles(schema, Pieces("topics.partitions", "topics.partitions", size=LOOKED_UP_AT_ONCE))
def list_offsets(ctx: RequestContext, request: schema.Request) -> schema.Response | Delayed:
    """Look up each partition. A repeated partition is INVALID_REQUEST and has one result."""
    if request.isolation_level not in _ISOLATION_LEVELS:
        raise UnknownServerError(f"unknown isolation level {request.isolation_level}")  # as in Kafka
    if ctx.api_version == 0:
        return ctx.broker.slices.run(_of_segments(ctx, request))
    repeated = _repeated(request)
    try:
        return _response(
            topics=[
                _topic_result(
                    name=topic.name,
                    partitions=[
                        _answer(ctx, request, topic.name, entry, repeated)
                        for entry in (_once(topic.partitions) if repeated else topic.partitions)
                    ],
                )
                for topic in request.topics
            ]
        )
    except (LongBatch, Unopened):
        return ctx.broker.slices.run(_list_in_slices(ctx, request, repeated))


def _list_in_slices(ctx: RequestContext, request: schema.Request, repeated: frozenset[tuple[str, int]]) -> Steps:
    """Look up one partition after the other.

    New logs are opened, and long batches (records/steps.py) are walked in slices.
    """
    topics: list[schema.TopicResult] = []
    for topic in request.topics:
        results: list[schema.PartitionResult] = []
        for entry in _once(topic.partitions) if repeated else topic.partitions:
            try:
                result = _answer_opening(ctx, request, topic.name, entry, repeated)
            except LongBatch:
                result = yield from _answer_in_slices(ctx, request, topic.name, entry)
            results.append(result)
            yield None
        topics.append(_topic_result(name=topic.name, partitions=results))
    return _response(topics=topics)


def _answer_opening(
    ctx: RequestContext, request: schema.Request, topic: str, entry: schema.Partition, repeated: frozenset[tuple[str, int]]
) -> schema.PartitionResult:
    """Look up a partition as `_answer` does, and open its log first if necessary."""
    try:
        return _answer(ctx, request, topic, entry, repeated)
    except Unopened as unopened:
        partition = unopened.partition
    partition.open_now()
    if partition.is_unopened:  # the log cannot be opened now
        return _failed(entry.partition_index, partition.offline_cause)
    return _answer(ctx, request, topic, entry, repeated)


def _answer_in_slices(
    ctx: RequestContext, request: schema.Request, topic: str, entry: schema.Partition
) -> Generator[Delayed | None, Any, schema.PartitionResult]:
    """Look up a record by timestamp in slices, after all checks."""
    index, timestamp = entry.partition_index, entry.timestamp
    try:
        log = ctx.cluster.partition(topic, index).log
        finding = (
            log.timestamps.max_timestamp_offset_in_steps()
            if timestamp == MAX_TIMESTAMP
            else log.timestamps.offset_for_timestamp_in_steps(timestamp)
        )
        found = yield from ctx.broker.record_steps.do(finding)
        log = ctx.cluster.partition(topic, index).log
        if found is None or found.offset >= _end_for(log, request):
            timestamp, offset, leader_epoch = NOT_FOUND
        else:
            timestamp, offset, leader_epoch = found.timestamp, found.offset, found.leader_epoch
    except KafkaError as error:
        return _failed(index, error)
    return _partition_result(partition_index=index, error_code=0, timestamp=timestamp, offset=offset, leader_epoch=leader_epoch)


def _of_segments(ctx: RequestContext, request: schema.Request) -> Steps:
    """Serve version 0. A repeated partition has several results."""
    topics: list[schema.TopicResult] = []
    for topic in request.topics:
        results: list[schema.PartitionResult] = []
        for entry in topic.partitions:
            results.append(_answer_of_segments(ctx, request, topic.name, entry))
            yield None
        topics.append(_topic_result(name=topic.name, partitions=results))
    return _response(topics=topics)


def _answer_of_segments(ctx: RequestContext, request: schema.Request, topic: str, entry: schema.Partition) -> schema.PartitionResult:
    index = entry.partition_index
    try:
        if entry.timestamp < EARLIEST:
            raise UnsupportedVersion(f"timestamp {entry.timestamp} in version 0")
        if entry.max_num_offsets < 0:
            raise UnknownServerError(f"{entry.max_num_offsets} offsets")  # as in Kafka
        partition = ctx.cluster.partition(topic, index)
        found = offsets_before(partition.log, entry.timestamp, entry.max_num_offsets, now_ms=ctx.broker.clock.now_ms())
        end_offset = _end_for(partition.log, request)
        if found and found[0] > end_offset:
            found = [end_offset, *(offset for offset in found if offset <= end_offset)]
    except KafkaError as error:
        return schema.PartitionResult(partition_index=index, error_code=error.code)
    return schema.PartitionResult(partition_index=index, error_code=0, old_style_offsets=found)


def _repeated(request: schema.Request) -> frozenset[tuple[str, int]]:
    topics = request.topics
    if len(topics) == 1 and len(topics[0].partitions) == 1:
        return _NONE_REPEATED
    seen: set[tuple[str, int]] = set()
    repeated = set()
    for topic in topics:
        for partition in topic.partitions:
            key = topic.name, partition.partition_index
            if key in seen:
                repeated.add(key)
            seen.add(key)
    return frozenset(repeated)


def _once(partitions: list[schema.Partition]) -> list[schema.Partition]:
    return list({partition.partition_index: partition for partition in partitions}.values())


def _answer(
    ctx: RequestContext, request: schema.Request, topic: str, entry: schema.Partition, repeated: frozenset[tuple[str, int]]
) -> schema.PartitionResult:
    index, timestamp = entry.partition_index, entry.timestamp
    try:
        if repeated and (topic, index) in repeated:
            raise InvalidRequest("the request names the partition twice")
        if timestamp < EARLIEST and ctx.api_version < _SINCE.get(timestamp, schema.VERSIONS[1] + 1):
            raise UnsupportedVersion(f"timestamp {timestamp} in version {ctx.api_version}")
        partition = ctx.cluster.partition(topic, index)
        if entry.current_leader_epoch != NO_EPOCH:
            partition.check_leader_epoch(entry.current_leader_epoch)
        timestamp, offset, leader_epoch = _look_up(partition, timestamp, request)
    except KafkaError as error:
        return _failed(index, error)
    return _partition_result(partition_index=index, error_code=0, timestamp=timestamp, offset=offset, leader_epoch=leader_epoch)


def _failed(index: int, error: KafkaError) -> schema.PartitionResult:
    return _partition_result(partition_index=index, error_code=error.code)


def _look_up(partition: Partition, timestamp: int, request: schema.Request) -> tuple[int, int, int]:
    """Return (timestamp, offset, leader_epoch)."""
    log = partition.online_log or partition.opened_log
    if timestamp == LATEST:
        return -1, _end_for(log, request), log.leader_epoch
    if timestamp in _LOG_START:
        return -1, log.log_start_offset, log.epochs.epoch_at(log.log_start_offset)
    if timestamp in _TIERED:
        return NOT_FOUND
    found = log.timestamps.max_timestamp_offset() if timestamp == MAX_TIMESTAMP else log.timestamps.offset_for_timestamp(timestamp)
    if found is not None and found.offset < _end_for(log, request):
        return found.timestamp, found.offset, found.leader_epoch
    return NOT_FOUND


def _end_for(log: PartitionLog, request: schema.Request) -> int:
    """Return the offset after the last record that the client may read."""
    if request.replica_id != CONSUMER:
        return log.log_end_offset
    return log.last_stable_offset if request.isolation_level == _READ_COMMITTED else log.high_watermark
