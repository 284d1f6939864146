"""Read batches on executors, a few megabytes at a time: a LogRange of `kafka-log` from files, or a range of offsets from the leader.

The next Fetch is sent before the batches of the last one are counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from minibroker.client.client import Client
from minibroker.client.connection import Connection
from minibroker.client.consumer import AbortedInFetch
from minibroker.client.errors import BrokerUnreachable, check, refusal
from minibroker.client.offsets import ISOLATION_LEVELS, READ_COMMITTED
from minibroker.client.topics import check_topic_id
from minibroker.client.transport import Deadline
from minibroker.errors import CorruptLogError, KafkaError, OffsetOutOfRange
from minibroker.records.any_format import read_batch
from minibroker.records.batch import TRANSACTIONAL_FLAG
from minibroker.schemas import k01_fetch, k03_metadata
from minibroker.spark.client_config import connect_of
from minibroker.spark.failures import SourceError
from minibroker.spark.kafka_log.frames import AbortedBatches, read_head
from minibroker.spark.kafka_log.options import AbortedRange, LogRange, LogSlice
from minibroker.spark.report.counting import Piece
from minibroker.spark.report.pieces import Chunk, IsAborted, nothing_aborted, read_chunk
from minibroker.spark.sources.ranges import PartitionRange
from minibroker.storage.files import READ_ONLY, FileHandle, Files, RealFiles
from minibroker.wire.schema import NIL_UUID

CHUNK_BYTES = 4 << 20
LAST_VERSION_WITH_NAMES = 12
MAX_WAIT_MS = 500


@dataclass(frozen=True, slots=True)
class ReadTask:
    """A task that reads a LogRange."""

    range: LogRange

    def pieces(self) -> Iterator[Piece]:
        """Yield the pieces of the range, in order. CorruptLogError."""
        return pieces_of(RealFiles(), self.range)


def pieces_of(files: Files, wanted: LogRange) -> Iterator[Piece]:
    """Yield the pieces of a LogRange."""
    is_aborted = aborted_by_ranges(wanted.aborted)
    for part in wanted.slices:
        handle = files.handles.handle(part.path, READ_ONLY)
        try:
            yield from _slice_pieces(files, handle, part, wanted, is_aborted)
        finally:
            handle.close()


def _slice_pieces(files: Files, handle: FileHandle, part: LogSlice, wanted: LogRange, is_aborted: IsAborted) -> Iterator[Piece]:
    position, size = part.start_position, CHUNK_BYTES
    while position < part.end_position:
        data = files.read_at(handle.opened(), min(size, part.end_position - position), position)
        chunk = Chunk(data, partial(_where, handle.path, position), is_aborted, wanted.start_offset, wanted.end_offset)
        read = read_chunk(chunk)
        if read.size:
            yield from read.pieces
            if read.next_offset >= wanted.end_offset:
                return
            position += read.size
            size = CHUNK_BYTES
            continue
        head = read_head(data)
        if head is None or not head.is_possible or position + head.size > part.end_position or head.size <= len(data):
            raise CorruptLogError(f"{_where(handle.path, position, 0)}: no batch starts there")
        size = head.size


def _where(path: str, base: int, position: int) -> str:
    return f"{path}, position {base + position}"


def aborted_by_ranges(ranges: Sequence[AbortedRange]) -> IsAborted:
    """Return a function that finds aborted batches, in any order."""
    aborted = AbortedBatches(ranges)
    return lambda headers, _: aborted.among(headers)


@dataclass(frozen=True, slots=True)
class FetchTask:
    """A task that reads a range of a topic with this id ("" if unknown) from a cluster."""

    bootstrap_servers: str
    isolation_level: str
    topic_id: str
    range: PartitionRange
    client_config: Mapping[str, str] = field(repr=False, default_factory=dict)  #: what `executor_config` returned; it has secrets

    def pieces(self) -> Iterator[Piece]:
        """Yield the pieces of the range, in order. SourceError, ClientError, KafkaError, CorruptLogError."""
        with Client(self.bootstrap_servers, connect=connect_of(self.client_config)) as client:
            yield from RangeFetcher(client, self).pieces()


class RangeFetcher:
    """Reads one range to its end; retries retriable errors until the client's time-out."""

    def __init__(self, client: Client, task: FetchTask) -> None:
        self._client = client
        self._topic, self._partition, start_offset, self._end_offset = task.range
        self._position = start_offset
        self._task = task
        self._isolation = ISOLATION_LEVELS[task.isolation_level]
        self._is_throttled = False  # whether the last answer was, and may be empty for that reason
        self._pending: Connection | None = None  # where the next answer comes from
        self._metadata: k03_metadata.TopicResult | None = None

    def pieces(self) -> Iterator[Piece]:
        """Yield the pieces of the range."""
        patience = self._client.deadline()
        while self._position < self._end_offset:
            try:
                result = self._fetched()
            except (BrokerUnreachable, KafkaError) as error:
                if isinstance(error, KafkaError) and not error.retriable:
                    raise
                self._pending = self._metadata = None
                patience.pause(error)
                continue
            data = bytes(result.records or b"")
            if not data:
                if self._reaches_end(result) and not self._is_throttled:
                    return  # compaction removed the end of the range
                patience.pause(SourceError(f"{self._topic}-{self._partition}: the leader sends nothing from offset {self._position} on"))
                continue
            patience = self._client.deadline()
            yield from self._read(data, result)

    def _read(self, data: bytes, result: k01_fetch.PartitionResult) -> Iterator[Piece]:
        """Yield the pieces of one answer; request the next answer before decoding this one."""
        is_aborted: IsAborted = nothing_aborted
        if self._isolation == READ_COMMITTED:
            is_aborted = aborted_in_fetch(result.aborted_transactions or ())
        start_offset = self._position
        found = []
        while data:
            chunk = Chunk(data, self._where, is_aborted, start_offset, self._end_offset)
            read = read_chunk(chunk)
            if not read.size:
                break
            found.append(read)
            self._position = max(self._position, read.next_offset)
            data = data[read.size :]
        if not found:
            raise SourceError(
                f"{self._topic}-{self._partition}: the leader's answer for offset {self._position} does not start with a whole batch"
            )
        if self._position < self._end_offset:
            self._fetch_ahead()
        for read in found:
            yield from read.pieces

    def _where(self, position: int) -> str:
        return f"{self._topic}-{self._partition}, {position} bytes after offset {self._position} in the leader's answer"

    def _fetched(self) -> k01_fetch.PartitionResult:
        deadline = self._deadline()
        if self._pending is None:
            self._send(deadline)
        connection, self._pending = self._pending, None
        if connection is None:  # pragma: no cover  `_send` sets it
            raise BrokerUnreachable("no connection")
        response: k01_fetch.Response = connection.receive(deadline)
        check(response.error_code, f"fetch from {connection.address}")
        self._is_throttled = response.throttle_time_ms > 0
        (result,) = [each for topic in response.responses for each in topic.partitions]
        error = refusal(result.error_code, f"{self._topic}-{self._partition}")
        if isinstance(error, OffsetOutOfRange):
            raise SourceError(
                f"{self._topic}-{self._partition}: offset {self._position} was deleted before it was read: run it again"
            ) from error
        if error is not None:
            raise error
        return result

    def _fetch_ahead(self) -> None:
        """Send the next request; a failure shows when its answer is due."""
        try:
            self._send(self._deadline())
        except (BrokerUnreachable, KafkaError):
            self._pending = None

    def _send(self, deadline: Deadline) -> None:
        topic = self._metadata = self._metadata or self._checked_topic(deadline)
        leader_id = next(each.leader_id for each in topic.partitions if each.partition_index == self._partition)
        wanted = k01_fetch.Partition(partition=self._partition, fetch_offset=self._position, partition_max_bytes=CHUNK_BYTES)
        request = k01_fetch.Request(
            max_wait_ms=MAX_WAIT_MS,
            min_bytes=1,
            max_bytes=CHUNK_BYTES,
            isolation_level=self._isolation,
            topics=[k01_fetch.Topic(topic=self._topic, topic_id=topic.topic_id, partitions=[wanted])],
        )
        connection = self._client.to_node(leader_id, deadline)
        connection.send(k01_fetch, request, deadline, most=LAST_VERSION_WITH_NAMES if topic.topic_id == NIL_UUID else None)
        self._pending = connection

    def _checked_topic(self, deadline: Deadline) -> k03_metadata.TopicResult:
        topic = self._client.retrying(lambda: self._client.topic(self._topic, deadline), deadline)
        check_topic_id(topic, self._task.topic_id, "it was read")
        return topic

    def _deadline(self) -> Deadline:
        timeout_ms = self._client.timeout_ms
        return Deadline(None if timeout_ms is None else timeout_ms + MAX_WAIT_MS)

    def _reaches_end(self, result: k01_fetch.PartitionResult) -> bool:
        """Return whether the leader has the whole range, so that an empty answer means that no record is left."""
        is_committed = self._isolation == READ_COMMITTED and result.last_stable_offset >= 0
        return (result.last_stable_offset if is_committed else result.high_watermark) >= self._end_offset


def aborted_in_fetch(transactions: Iterable[k01_fetch.AbortedTransaction]) -> IsAborted:
    """Return a function that finds the aborted batches of one answer; call it for batches in order."""
    is_aborted = AbortedInFetch(transactions)

    def among(headers: np.ndarray, batches: Sequence[memoryview]) -> np.ndarray:
        found = np.zeros(len(headers), bool)
        if not is_aborted.is_over:
            for index in np.flatnonzero((headers["attributes"] & TRANSACTIONAL_FLAG) != 0).tolist():
                found[index] = is_aborted(read_batch(batches[index]))
        return found

    return among
