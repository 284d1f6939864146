"""Read the partitions of one Fetch, once or again when they have more records.

The rules are in handlers/fetch/k01_fetch.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final, NamedTuple, cast

from minibroker.cluster.directories.deferred import OPENED_AT_ONCE
from minibroker.cluster.partition import Partition
from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.delayed import Watchable
from minibroker.dispatch.slices import Steps
from minibroker.errors import (
    FencedLeaderEpoch,
    KafkaError,
    KafkaStorageError,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    UnknownLeaderEpoch,
    UnknownServerError,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from minibroker.handlers.fetch.session import FetchContext, FetchSession, PartitionAnswer, RequestedPartition, TopicKey
from minibroker.log.old_readers import LongConversion, read_messages
from minibroker.log.partition_log import PartitionLog
from minibroker.log.results import IsolationLevel
from minibroker.schemas import k01_fetch as schema
from minibroker.storage.file_slice import FileSlice
from minibroker.wire.schema import Buffer, constructor, replace

TIMESTAMPS_SINCE: Final = 2  #: message format v1
MAX_BYTES_SINCE: Final = 3
BATCHES_SINCE: Final = 4  #: message format v2
STORAGE_ERROR_SINCE: Final = 6
TOPIC_IDS_SINCE: Final = 13
LEADERS_SINCE: Final = 16

NO_EPOCH: Final = -1  #: any negative epoch means this
_LED_BY_ANOTHER: Final = (NotLeaderOrFollower, FencedLeaderEpoch, UnknownLeaderEpoch)  #: these errors end a wait
_EMPTY: Final = b""
_response: Final = constructor(schema.Response)
_topic_result: Final = constructor(schema.TopicResult)
_partition_result: Final = constructor(schema.PartitionResult)
_DEFAULTS: Final = schema.PartitionResult(partition_index=0, error_code=0, high_watermark=0, records=None)
_NOT_DIVERGING: Final = _DEFAULTS.diverging_epoch  #: encoders recognize default values by identity
_NO_LEADER: Final = _DEFAULTS.current_leader
_SIZE: Final = Struct(">8xi")  #: size field of a batch or message, which does not count these 12 bytes
_BATCH: Final = Struct(">q15xi")  #: base_offset, last_offset_delta
_MESSAGE: Final = Struct(">q")  #: offset of a message, or of the last one in a compressed set
_MAGIC: Final = 16  #: position of the format version
_MAGIC_V2: Final = 2
_READ_COMMITTED: Final = IsolationLevel.READ_COMMITTED
_ISOLATION_LEVELS: Final = {int(level): level for level in IsolationLevel}
_CONVERTED_BYTES: Final = 512 * 1024  #: of one response to an old client, because converting blocks the loop


class ManyUnopened(Exception):  # noqa: N818  not an error: the request has to be served in slices
    """Raised if a Fetch needs more new logs than one turn of the loop may open.

    No response was sent.
    """


class _Extent(NamedTuple):
    """The size and offsets of a log for one isolation level."""

    size: int  #: bytes, including those that the reader may not see yet
    log_start_offset: int
    end_offset: int  #: where the reader stops
    is_all: bool  #: the reader may see all records
    leader_epoch: int

    def growth_since(self, seen: _Extent) -> int | None:
        """Return the number of new bytes that the reader may see; None if only reading can show it.

        The size is not enough if records wait for their transaction to end, or if the log lost
        records, was compacted, or has another leader.
        """
        if self.size < seen.size or self.log_start_offset != seen.log_start_offset or self.leader_epoch != seen.leader_epoch:
            return None
        if self.end_offset == seen.end_offset:
            return 0
        return self.size - seen.size if self.is_all and seen.is_all else None


class _Converted(NamedTuple):
    """A part of a long batch, converted for an old client."""

    messages: bytes
    next_offset: int  #: after the batch


class FetchReading:
    """The reads of one Fetch. They can be repeated when partitions have more records."""

    __slots__ = (
        "_conversions",
        "_isolation",
        "_max_bytes",
        "_opened",
        "_opened_max",
        "_request",
        "_seen",
        "_short_by",
        "_unknown",
        "context",
        "ctx",
        "min_bytes",
        "partitions",
        "requested",
        "watched",
    )

    def __init__(self, ctx: RequestContext, request: schema.Request, context: FetchContext, opened_max: int = OPENED_AT_ONCE) -> None:
        """Prepare the reads.

        `opened_max` is the number of new logs that one turn of the loop may open.
        """
        self.ctx = ctx
        self._request = request
        self.context = context
        self._isolation = _isolation(request.isolation_level)
        self._max_bytes = min(request.max_bytes, ctx.broker.config.fetch_max_bytes)
        if ctx.broker.quotas is not None:
            self._max_bytes = ctx.broker.quotas.fetch_bytes_max(ctx, self._max_bytes)
        if ctx.api_version < BATCHES_SINCE:
            self._max_bytes = min(self._max_bytes, _CONVERTED_BYTES)
        self.min_bytes = min(request.min_bytes, self._max_bytes)
        self._opened = 0  #: logs that this request opened
        self._opened_max = opened_max
        self._short_by = 0  #: bytes missing at the last read
        self.requested: list[RequestedPartition] = []  #: the entries of the last read
        self.partitions: list[Partition | None] = []  #: the partition of each entry; None if it does not exist
        self.watched: list[Partition] | None = None  #: existing partitions of the last read, while the request waits
        self._seen: list[_Extent] = []  #: the extent of each watched log at the last read
        self._unknown: set[tuple[TopicKey, int]] | None = None  #: partitions that did not exist when the wait started

    def attempt(self, is_last: bool) -> schema.Response | None:
        """Return the response, or None if the partitions have too few bytes."""
        if not is_last and self.watched is not None:
            session = self.context.session
            if (session is not None and session.lost) or any(partition.online_log is None for partition in self.watched):
                is_last = True  # deleted, or its disk failed: respond at once
            elif self._seen and not self._may_be_enough():
                return None
        self.requested = self.context.partitions()
        results: list[PartitionAnswer] = []
        self.partitions = []
        size, is_urgent = self.read(self.requested, results, 0)
        if is_last or is_urgent or size >= self.min_bytes or self.has_nothing_to_wait_for():
            return self._respond(results)
        readable = self.readable(results, self.requested) if self.min_bytes > 1 else size
        if readable >= self.min_bytes:
            return self._respond(results)
        self._short_by = self.min_bytes - readable
        if self.watched is not None:
            self._note_extents()
        return None

    def watch(self) -> Sequence[Watchable]:
        """Start waiting.

        Returns the sources of changes that may end the wait. A session watches its settled
        partitions as well.
        """
        watched = self._note_extents()
        session = self.context.session
        if session is None:
            return watched
        for (topic, _), partition in zip(self.requested, self.partitions, strict=True):
            if partition is not None:
                session.watch(topic, partition)
        return [session]

    def _note_extents(self) -> list[Partition]:
        watched = self.watched = [partition for partition in self.partitions if partition is not None]
        self._seen = [self._extent(partition) for partition in watched] if self._needs_extents() else []
        return watched

    def _needs_extents(self) -> bool:
        """Return whether a partition may move without completing the response.

        If so, checking extents before reading saves work.
        """
        return self._short_by > 1 or self._isolation is IsolationLevel.READ_COMMITTED

    def _may_be_enough(self) -> bool:
        """Return whether the ends may have moved far enough for the missing bytes, according to the extents."""
        if self.context.session is not None and len(self.context.partitions()) != len(self.partitions):
            return True  # a settled partition moved
        grown = 0
        for partition, seen in zip(self.watched or (), self._seen, strict=True):
            growth = self._extent(partition).growth_since(seen)
            if growth is None:
                return True
            grown += growth
        return grown >= self._short_by

    def _extent(self, partition: Partition) -> _Extent:
        log = partition.log
        end_offset = self._end_offset(log)
        return _Extent(log.segments.size, log.log_start_offset, end_offset, end_offset == log.log_end_offset, partition.leader_epoch)

    def _end_offset(self, log: PartitionLog) -> int:
        return log.last_stable_offset if self._isolation is _READ_COMMITTED else log.high_watermark

    def partition(self, topic: TopicKey, index: int) -> Partition:
        """Return a partition by the name or id of its topic.

        Raise KafkaError if the client cannot read it here.
        """
        if isinstance(topic, str):
            return self.ctx.cluster.partition(topic, index)
        return self.ctx.cluster.partition_by_id(topic, index)

    def has_nothing_to_wait_for(self) -> bool:
        """Return whether there is no partition to wait for."""
        session = self.context.session
        return not any(self.partitions) and (session is None or not session.has_settled)

    def read(self, entries: Sequence[RequestedPartition], results: list[PartitionAnswer], size: int) -> tuple[int, bool]:
        """Append to the results and to `partitions`, in order.

        Returns bytes of records, and whether the response must be sent at once.

        `size`: the bytes of earlier partitions.
        """
        places = self.partitions
        is_urgent = False
        for topic, entry in entries:
            try:
                partition = self.partition(topic, entry.partition)
            except KafkaError as error:
                # A missing partition does not end the wait, as in Kafka. Otherwise a client with
                # one deleted topic would retry in a loop.
                is_urgent = is_urgent or isinstance(error, _LED_BY_ANOTHER)
                results.append((topic, self._not_there(topic, entry.partition, error)))
                places.append(None)
                continue
            places.append(partition)
            try:
                result = self._read_partition(
                    partition, entry, max(self._max_bytes - size, 0), min_one=size == 0 or self._is_unlimited(size)
                )
            except KafkaError as error:
                result = failed(entry.partition, error, self._leader(partition, error))
                is_urgent = True
            else:
                is_urgent = is_urgent or result.diverging_epoch.epoch >= 0
                size += len(result.records or _EMPTY)
            results.append((topic, result))
        return size, is_urgent

    def _not_there(self, topic: TopicKey, index: int, error: KafkaError) -> schema.PartitionResult:
        """Return a result for a partition that cannot be looked up.

        As in Kafka, a topic id is not unknown if it was deleted during the wait.
        """
        if self.watched is None:
            if self._unknown is None:
                self._unknown = set()
            self._unknown.add((topic, index))
        elif self._unknown is None or (topic, index) not in self._unknown:
            return failed(index, UnknownTopicOrPartition() if isinstance(error, UnknownTopicId) else error)
        return failed(index, error, aborted=[])

    def readable(self, results: list[PartitionAnswer], entries: Sequence[RequestedPartition]) -> int:
        """Return the readable bytes within the limits, including the batch that did not fit, as Kafka counts them."""
        size = 0
        for (topic, entry), (_, result) in zip(entries, results, strict=True):
            if result.error_code:
                continue
            log = self.partition(topic, entry.partition).log
            records = _read(log, result.records or _EMPTY)
            if not records and self.ctx.api_version < BATCHES_SINCE:
                continue  # only control batches, which convert to nothing
            next_offset = _last_offset(records) + 1 if records else entry.fetch_offset
            size += min(entry.partition_max_bytes, self._max_bytes) if next_offset < self._end_offset(log) else len(records)
        return size

    def _read_partition(self, partition: Partition, entry: schema.Partition, max_bytes: int, *, min_one: bool) -> schema.PartitionResult:
        if self._request.replica_id >= 0 or self._request.replica_state.replica_id >= 0:
            raise NotLeaderOrFollower(f"no replica of {partition.topic}-{partition.index} is assigned to another node")
        partition.check_leader_epoch(max(entry.current_leader_epoch, NO_EPOCH))
        log = partition.online_log or self._open_log(partition)
        diverging = _diverging(partition, entry) if entry.last_fetched_epoch >= 0 else None
        if diverging is not None:
            return _result(partition, entry, _EMPTY, None, diverging)
        max_bytes = min(entry.partition_max_bytes, max_bytes)
        records: Buffer | FileSlice
        if self.ctx.api_version >= BATCHES_SINCE:
            records = log.slice(entry.fetch_offset, max_bytes, isolation=self._isolation, min_one=min_one)
        else:
            records = self._read_old(log, entry.fetch_offset, max_bytes, min_one=min_one)
        aborted = None
        if self._isolation is _READ_COMMITTED:
            aborted = []
            if records and log.may_have_aborted(entry.fetch_offset):
                aborted = _aborted(log, entry.fetch_offset, _read(log, records))
        return _result(partition, entry, records, aborted)

    def _open_log(self, partition: Partition) -> PartitionLog:
        """Open the log of a new partition.

        Raises:
            ManyUnopened: this request opened enough in this turn.
            UnknownTopicOrPartition: the same, for a request that waits. Its topic was created in the meantime.
            KafkaError: the partition has no log.
        """
        if partition.is_unopened:
            if self._opened >= self._opened_max:
                if self.watched is None:
                    raise ManyUnopened
                raise UnknownTopicOrPartition
            self._opened += 1
        return partition.log

    def _read_old(self, log: PartitionLog, offset: int, max_bytes: int, *, min_one: bool) -> Buffer:
        """Return messages of an old format.

        Raises LongConversion, but not during a wait: the client gets a response and retries.
        """
        converted: _Converted | KafkaError | None = getattr(self, "_conversions", {}).get(log.name)
        if isinstance(converted, KafkaError):
            raise converted
        if converted is not None:
            if converted.messages:
                return converted.messages
            offset = converted.next_offset
        magic = 1 if self.ctx.api_version >= TIMESTAMPS_SINCE else 0
        try:
            return read_messages(log, offset, max_bytes, magic=magic, isolation=self._isolation, min_one=min_one)
        except LongConversion:
            if self.watched is None:
                raise
            self.min_bytes = 0
            return _EMPTY

    def convert(self, long: LongConversion) -> Steps:
        """Convert long batches for an old client one after the other, and return the response."""
        conversions = self._conversions = dict[str, _Converted | KafkaError]()
        while True:
            long.__traceback__ = None  # its frames hold what was read
            try:
                messages = yield from self.ctx.broker.record_steps.do(long.steps)
                conversions[long.name] = _Converted(messages, long.next_offset)
            except KafkaError as error:
                conversions[long.name] = error
            try:
                return self.attempt(is_last=True)
            except LongConversion as another:
                long = another

    def _is_unlimited(self, size: int) -> bool:
        """Return whether each partition may return its whole first batch, because the request has no limit for all of them."""
        return self.ctx.api_version < MAX_BYTES_SINCE and size < self._max_bytes

    def _leader(self, partition: Partition, error: KafkaError) -> schema.LeaderIdAndEpoch:
        """Return the current leader, for a client with old metadata (KIP-951)."""
        if self.ctx.api_version < LEADERS_SINCE or not isinstance(error, NotLeaderOrFollower | FencedLeaderEpoch):
            return _NO_LEADER
        return schema.LeaderIdAndEpoch(leader_id=self.ctx.broker.nodes.leader_of(partition), leader_epoch=partition.leader_epoch)

    def _respond(self, results: list[PartitionAnswer]) -> schema.Response:
        quotas = self.ctx.broker.quotas
        try:
            if quotas is not None and quotas.is_too_much_to_fetch(
                self.ctx, lambda: quotas.size_of(schema, self.ctx.api_version, schema.Response(responses=by_topic(results)))
            ):
                return schema.Response(session_id=self.context.answer_nothing(), responses=[])
            session_id, changed = self.context.answer(results)
        except KafkaError as error:
            return schema.Response(error_code=error.code, responses=[])
        if self.context.session is not None:
            self.settle(self.context.session, self.requested, results, self.partitions)
        return self.full_response(session_id, changed)

    def full_response(self, session_id: int, changed: list[PartitionAnswer]) -> schema.Response:
        """Return the response with these results, in the form of the request's version."""
        if self.ctx.api_version < STORAGE_ERROR_SINCE:
            changed = [(topic, _without_storage_error(result)) for topic, result in changed]
        endpoints: list[schema.NodeEndpoint] = []
        if self.ctx.api_version >= LEADERS_SINCE and any(
            result.error_code and result.current_leader is not _NO_LEADER for _, result in changed
        ):
            leader_ids = [result.current_leader.leader_id for _, result in changed if result.current_leader is not _NO_LEADER]
            endpoints = self.ctx.endpoints(schema, leader_ids)
        return _response(session_id=session_id, responses=by_topic(changed), node_endpoints=endpoints)

    def settle(
        self,
        session: FetchSession,
        entries: Sequence[RequestedPartition],
        results: Sequence[PartitionAnswer],
        places: Sequence[Partition | None],
    ) -> None:
        """Settle partitions that were read to the reader's end.

        They are not read again until they move.
        """
        is_committed = self._isolation is _READ_COMMITTED
        for (topic, entry), (_, result), partition in zip(entries, results, places, strict=True):
            end_offset = result.last_stable_offset if is_committed else result.high_watermark
            if partition is not None and not result.error_code and entry.fetch_offset >= end_offset and result.diverging_epoch.epoch < 0:
                session.settle(topic, partition)


def _isolation(level: int) -> IsolationLevel:
    try:
        return _ISOLATION_LEVELS[level]
    except KeyError:
        raise UnknownServerError(f"unknown isolation level {level}") from None  # as in Kafka


def _diverging(partition: Partition, entry: schema.Partition) -> schema.EpochEndOffset | None:
    """Return where the client's log diverges from this one, or None (KIP-595)."""
    log = partition.log
    found = log.end_offset_for_epoch(entry.last_fetched_epoch)
    if found.leader_epoch < 0 or found.end_offset < 0:
        raise OffsetOutOfRange(f"no end offset is known for the last fetched epoch {entry.last_fetched_epoch}")
    if entry.fetch_offset < log.log_start_offset:
        raise OffsetOutOfRange(f"offset {entry.fetch_offset} is below the log start offset {log.log_start_offset}")
    if found.leader_epoch < entry.last_fetched_epoch or found.end_offset < entry.fetch_offset:
        return schema.EpochEndOffset(epoch=found.leader_epoch, end_offset=found.end_offset)
    return None


def _result(
    partition: Partition,
    entry: schema.Partition,
    records: Buffer | FileSlice,
    aborted: list[schema.AbortedTransaction] | None,
    diverging: schema.EpochEndOffset = _NOT_DIVERGING,
) -> schema.PartitionResult:
    log = partition.log
    return _partition_result(
        partition_index=entry.partition,
        error_code=0,
        high_watermark=log.high_watermark,
        last_stable_offset=log.last_stable_offset,
        log_start_offset=log.log_start_offset,
        diverging_epoch=diverging,
        aborted_transactions=aborted,
        records=cast("Buffer", records),  # the connection sends a slice from the file; no code reads it before
    )


def failed(
    index: int,
    error: KafkaError,
    leader: schema.LeaderIdAndEpoch = _NO_LEADER,
    aborted: list[schema.AbortedTransaction] | None = None,
) -> schema.PartitionResult:
    """Return a result for a partition that cannot be read."""
    return schema.PartitionResult(
        partition_index=index, error_code=error.code, high_watermark=-1, current_leader=leader, aborted_transactions=aborted, records=_EMPTY
    )


def _read(log: PartitionLog, records: Buffer | FileSlice) -> Buffer:
    return log.read_slice(records) if isinstance(records, FileSlice) else records


def _aborted(log: PartitionLog, first_offset: int, records: Buffer) -> list[schema.AbortedTransaction]:
    """Return the aborted transactions that have records in the response."""
    found = log.aborted_transactions(first_offset, _last_offset(records))
    return [schema.AbortedTransaction(producer_id=each.producer_id, first_offset=each.first_offset) for each in found]


def _last_offset(records: Buffer) -> int:
    position = last_offset = 0
    while position < len(records):
        if records[position + _MAGIC] < _MAGIC_V2:
            last_offset = _MESSAGE.unpack_from(records, position)[0]
        else:
            base_offset, last_offset_delta = _BATCH.unpack_from(records, position)
            last_offset = base_offset + last_offset_delta
        position += 12 + _SIZE.unpack_from(records, position)[0]
    return last_offset


def _without_storage_error(result: schema.PartitionResult) -> schema.PartitionResult:
    if result.error_code != KafkaStorageError.code:
        return result
    return replace(result, error_code=NotLeaderOrFollower.code)


def by_topic(results: list[PartitionAnswer]) -> list[schema.TopicResult]:
    """Group the results. Consecutive partitions of one topic share an entry, as in Kafka."""
    answer: list[schema.TopicResult] = []
    previous: TopicKey | None = None
    for topic, result in results:
        if topic != previous or not answer:
            if isinstance(topic, str):
                answer.append(_topic_result(topic=topic, partitions=[result]))
            else:
                answer.append(_topic_result(topic_id=topic, partitions=[result]))
            previous = topic
        else:
            answer[-1].partitions.append(result)
    return answer
