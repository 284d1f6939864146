"""Hold high watermarks back, as followers do that stop fetching.

While the high watermark of a partition is held, readers do not see new records. Requests that need
all in-sync replicas do not succeed:

    Produce with acks=all   waits until the high watermark has passed its records
    WriteTxnMarkers         likewise
    DeleteRecords           waits until the low watermark, the lowest log start offset of all replicas, reaches the requested offset
    ListOffsets             OFFSET_NOT_AVAILABLE for the latest offset, while the high watermark is below the start of the leader epoch
                            (KIP-207; LEADER_NOT_AVAILABLE below version 5)

A request waits for its own timeout_ms at most (WriteTxnMarkers: for request.timeout.ms). What is
not replicated by then is REQUEST_TIMED_OUT, although the records are in the log and the leader has
deleted its own. If another broker becomes the leader meanwhile, the answer is
NOT_LEADER_OR_FOLLOWER at once (Partition.checkEnoughReplicasReachOffset). DeleteRecords goes on
waiting, as in Kafka.

A log keeps its offsets while it is held (`PartitionLog.hold`). The handlers do not know about holds:
`with_held_watermarks` wraps them. Golden answers: tests/golden/captures/held.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, TypeGuard

from minibroker.clock import Clock, Timer
from minibroker.cluster.partition import Partition
from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.delayed import Delayed
from minibroker.dispatch.middleware import after, wrapped
from minibroker.dispatch.registry import Handler, Registry
from minibroker.errors import KafkaError, LeaderNotAvailable, NotLeaderOrFollower, OffsetNotAvailable, RequestTimedOut
from minibroker.log.partition_log import PartitionLog
from minibroker.schemas import k00_produce, k02_list_offsets, k21_delete_records, k27_write_txn_markers

ALL_IN_SYNC: Final = -1  #: acks
CONSUMER: Final = -1  #: replica_id
OFFSET_NOT_AVAILABLE_SINCE: Final = 5  #: version of ListOffsets
_HIGH_WATERMARK: Final = -1  #: offset of DeleteRecords
_LATEST: Final = -1  #: timestamp of ListOffsets
_NOT_FOUND: Final = (-1, -1)  #: timestamp and offset
_TIERED: Final = frozenset({-5, -6})  #: timestamps of ListOffsets that are never found


def hold_high_watermark(partition: Partition) -> None:
    """Hold the high watermark until `release_high_watermark`, or until the log is closed: one that is opened again shows all records."""
    partition.log.hold()


def release_high_watermark(partition: Partition) -> None:
    """Let readers see all records, and wake the subscribers; does nothing if the partition is not held."""
    if partition.online_log is not None:
        partition.online_log.release()
        partition.wake()


def low_watermark(log: PartitionLog) -> int:
    """Return the offset below which all replicas have deleted their records."""
    return log.log_start_offset if log.held_log_start_offset is None else log.held_log_start_offset


def _is_held(log: PartitionLog | None) -> TypeGuard[PartitionLog]:
    return log is not None and log.held_log_start_offset is not None


def with_held_watermarks(registry: Registry) -> Registry:
    """Return the same APIs with handlers that wait for held high watermarks."""
    wrap: dict[int, Callable[[Handler, RequestContext, Any], Any]] = {
        k00_produce.API_KEY: _produce,
        k02_list_offsets.API_KEY: _list_offsets,
        k21_delete_records.API_KEY: _delete_records,
        k27_write_txn_markers.API_KEY: _write_txn_markers,
    }

    def held(handler: Handler) -> Handler:
        around = wrap.get(handler.api.key)
        return handler if around is None else handler.around(partial(around, handler))

    return wrapped(registry, held)


class ReplicationWait(NamedTuple):
    """A condition on all replicas of one partition, which a request waits for."""

    partition: Partition
    is_done: Callable[[PartitionLog], bool]
    fail: Callable[[KafkaError], None]  #: called when it cannot become true
    leads: Callable[[Partition], bool] | None = None  #: whether the broker is (still) the leader; None: that does not matter


class DelayedReplication(Delayed):
    """Waits until each `ReplicationWait` is done or has failed."""

    __slots__ = ("_answer", "_logs", "_timer", "_unsubscribe", "_waits")

    def __init__(self, answer: Callable[[], Any], waits: Sequence[ReplicationWait], clock: Clock, timeout_ms: int) -> None:
        """Start to wait; `answer` makes the response at the end."""
        super().__init__()
        self._answer = answer
        self._waits = list(waits)
        self._logs: dict[Partition, PartitionLog | None] = {each.partition: each.partition.online_log for each in waits}
        self._unsubscribe = [partition.subscribe(self._look) for partition in self._logs]
        self._timer: Timer | None = clock.call_later_ms(max(timeout_ms, 0), self._time_out)
        self._look()

    def _look(self) -> None:
        if self.is_done:
            return
        self._waits = [each for each in self._waits if self._is_open(each)]
        if not self._waits:
            self.resolve(self._answer)

    def _is_open(self, wait: ReplicationWait) -> bool:
        """Whether there is still something to wait for."""
        log = wait.partition.online_log
        if log is None or log is not self._logs[wait.partition]:
            wait.fail(wait.partition.offline_cause)
            return False
        if wait.leads is not None and not wait.leads(wait.partition):
            wait.fail(NotLeaderOrFollower())
            return False
        return not wait.is_done(log)

    def _time_out(self) -> None:
        self._timer = None
        for each in self._waits:
            each.fail(RequestTimedOut())
        self._waits = []
        self._look()

    def finished(self) -> None:
        """Cancel the timer and unsubscribe from the partitions."""
        super().finished()
        if self._timer is not None:
            self._timer.cancel()
        for unsubscribe in self._unsubscribe:
            unsubscribe()
        self._unsubscribe = []


def _is_released(log: PartitionLog) -> bool:
    return not _is_held(log)


def _fail(result: Any, error: KafkaError) -> None:
    """Set the error and leave the offset in the answer, as Kafka does: the records are in the log."""
    if not result.error_code:
        result.error_code = error.code


def _produce(handler: Handler, ctx: RequestContext, request: k00_produce.Request) -> Any:
    def replicated(response: Any) -> Any:
        waits: list[ReplicationWait] = []
        for topic in response.responses:
            for result in topic.partition_responses:
                partition = None if result.error_code else _partition(ctx, topic, result.index)
                log = None if partition is None else partition.online_log
                if partition is not None and _is_held(log) and result.base_offset >= log.high_watermark:
                    waits.append(ReplicationWait(partition, _is_released, partial(_fail, result), ctx.broker.nodes.leads))
        return DelayedReplication(lambda: response, waits, ctx.broker.clock, request.timeout_ms) if waits else response

    result = handler.handle(ctx, request)
    return after(result, replicated) if request.acks == ALL_IN_SYNC else result


def _partition(ctx: RequestContext, topic: Any, index: int) -> Partition | None:
    """Return the partition of a result; None if the topic was deleted after the append."""
    cluster = ctx.broker.cluster
    found = cluster.topics.get(topic.name) or cluster.image.topics_by_id.get(topic.topic_id)
    return None if found is None or not 0 <= index < len(found.partitions) else found.partitions[index]


def _write_txn_markers(handler: Handler, ctx: RequestContext, request: k27_write_txn_markers.Request) -> Any:
    topics = ctx.broker.cluster.topics
    held = {
        (topic.name, index): partition
        for marker in request.markers
        for topic in marker.topics
        if topic.name in topics
        for index, partition in enumerate(topics[topic.name].partitions)
        if index in topic.partition_indexes and _is_held(partition.online_log)
    }
    result = handler.handle(ctx, request)
    if not held:
        return result

    def replicated(response: Any) -> Any:
        waits = [
            ReplicationWait(held[topic.name, each.partition_index], _is_released, partial(_fail, each), ctx.broker.nodes.leads)
            for marker in response.markers
            for topic in marker.topics
            for each in topic.partitions
            if not each.error_code and (topic.name, each.partition_index) in held
        ]
        return DelayedReplication(lambda: response, waits, ctx.broker.clock, ctx.broker.config.request_timeout_ms) if waits else response

    return after(result, replicated)


def _delete_records(handler: Handler, ctx: RequestContext, request: k21_delete_records.Request) -> Any:
    def fail(result: Any, error: KafkaError) -> None:
        result.error_code = error.code
        if error.code != RequestTimedOut.code:
            result.low_watermark = -1

    def replicated(response: Any) -> Any:
        offsets = {(topic.name, each.partition_index): each.offset for topic in request.topics for each in topic.partitions}
        waits: list[tuple[Any, ReplicationWait]] = []
        for topic in response.topics:
            for result in topic.partitions:
                log = None if result.error_code else ctx.broker.cluster.partition(topic.name, result.partition_index).online_log
                if _is_held(log):
                    offset = offsets[topic.name, result.partition_index]
                    offset = log.high_watermark if offset == _HIGH_WATERMARK else offset
                    result.low_watermark = low_watermark(log)
                    if result.low_watermark < offset:
                        partition = ctx.broker.cluster.partition(topic.name, result.partition_index)
                        waits.append((result, ReplicationWait(partition, partial(_is_deleted, offset), partial(fail, result))))
        if not waits:
            return response

        def answer() -> Any:
            for result, wait in waits:
                if not result.error_code and wait.partition.online_log is not None:
                    result.low_watermark = low_watermark(wait.partition.online_log)
            return response

        return DelayedReplication(answer, [wait for _, wait in waits], ctx.broker.clock, request.timeout_ms)

    return after(handler.handle(ctx, request), replicated)


def _is_deleted(offset: int, log: PartitionLog) -> bool:
    return low_watermark(log) >= offset


def _list_offsets(handler: Handler, ctx: RequestContext, request: k02_list_offsets.Request) -> Any:
    """Reject look-ups at a new leader that does not know what was committed before its epoch (KIP-207)."""
    error = OffsetNotAvailable if ctx.api_version >= OFFSET_NOT_AVAILABLE_SINCE else LeaderNotAvailable

    def available(response: Any) -> Any:
        timestamps = {(topic.name, each.partition_index): each.timestamp for topic in request.topics for each in topic.partitions}
        for topic in response.topics:
            for position, result in enumerate(topic.partitions):
                index = result.partition_index
                if not result.error_code and _needs_high_watermark(timestamps[topic.name, index], result):
                    log = ctx.broker.cluster.partition(topic.name, index).online_log
                    if _is_held(log) and log.epochs.entries and log.epochs.entries[-1][1] > log.high_watermark:
                        topic.partitions[position] = k02_list_offsets.PartitionResult(partition_index=index, error_code=error.code)
        return response

    result = handler.handle(ctx, request)
    return after(result, available) if ctx.api_version > 0 and request.replica_id == CONSUMER else result


def _needs_high_watermark(timestamp: int, result: Any) -> bool:
    return timestamp == _LATEST or (timestamp not in _TIERED and (result.timestamp, result.offset) == _NOT_FOUND)
