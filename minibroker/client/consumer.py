"""Read records of one topic from given offsets on, without a group.

Invariants:
- `poll` returns each record from a partition's position on once, in the order of its partition. Then it advances the position.
- read_committed skips records of aborted transactions. Markers are always skipped.
- A batch whose CRC is wrong raises an error.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from minibroker.client.client import Client
from minibroker.client.connection import Connection
from minibroker.client.errors import BrokerUnreachable, check, refusal
from minibroker.client.offsets import EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED, FoundOffset, list_offsets
from minibroker.client.topics import check_topic_id, topic_id_of
from minibroker.client.transport import Deadline
from minibroker.errors import CorruptMessage, KafkaError, OffsetOutOfRange, UnknownTopicOrPartition
from minibroker.records.any_format import decode_records, split_batches
from minibroker.records.batch import RecordBatch, TimestampType
from minibroker.records.control import ControlType, parse_control_key
from minibroker.records.record import Record
from minibroker.schemas import k01_fetch, k03_metadata
from minibroker.wire.schema import NIL_UUID

LAST_VERSION_WITH_NAMES = 12
MAX_BYTES = 32 * 1024 * 1024
PARTITION_MAX_BYTES = 4 * 1024 * 1024


class ConsumedRecord(NamedTuple):
    """A record, its topic and its partition."""

    topic: str
    partition: int
    timestamp_type: TimestampType
    record: Record


class Consumer:
    """Fetches from the leaders of partitions, and advances its positions.

    Args:
        client: a client of the cluster.
        topic: the name of the topic.
        positions: the first offset to read, by partition.
        isolation: READ_UNCOMMITTED, or READ_COMMITTED, which skips records of open and aborted transactions.
    """

    def __init__(self, client: Client, topic: str, positions: Mapping[int, int], *, isolation: int = READ_UNCOMMITTED) -> None:
        self.positions = dict(positions)  #: the next offset, by partition
        self._client = client
        self._name = topic
        self._isolation = isolation
        self._topic: k03_metadata.TopicResult = client.topic(topic)
        self._deadline = client.deadline()
        self._turn: deque[int] = deque(self.positions)

    def stop_reading(self, partition: int) -> None:
        """Stop fetching a partition."""
        del self.positions[partition]
        self._turn.remove(partition)

    def poll(self, max_wait_ms: int) -> Iterator[ConsumedRecord]:
        """Fetch once from each leader. After a retriable error, the next poll tries again.

        Args:
            max_wait_ms: how long a broker waits for a first record.

        Returns:
            The records, which may be none.

        Raises:
            KafkaError: an error that is not retriable.
            TimedOut: no poll has succeeded for the client's `timeout_ms`.
        """
        problem: Exception | None = None
        polled: list[Connection] = []
        deadline = Deadline(None if self._client.timeout_ms is None else self._client.timeout_ms + max_wait_ms)
        for leader, partitions in self._by_leader().items():
            try:
                connection = self._client.to_node(leader, deadline)
                self._send(connection, partitions, max_wait_ms, deadline)
                polled.append(connection)
            except (BrokerUnreachable, KafkaError) as error:
                problem = error
        results: list[k01_fetch.PartitionResult] = []
        for connection in polled:
            try:
                response: k01_fetch.Response = connection.receive(deadline)
                check(response.error_code, f"fetch from {connection.address}")
                results += [partition for topic in response.responses for partition in topic.partitions]
            except (BrokerUnreachable, KafkaError) as error:
                problem = error
        for result in results:
            failure = self._failure(result)
            if failure is None:
                yield from self._records(result)
            else:
                problem = failure
        self._recover(problem)
        self._turn.rotate(-1)

    def _records(self, result: k01_fetch.PartitionResult) -> Iterator[ConsumedRecord]:
        partition = result.partition_index
        is_aborted = AbortedInFetch(result.aborted_transactions or ()) if self._isolation == READ_COMMITTED else None
        for batch in split_batches(result.records or b"", allow_partial=True):
            position = self.positions.get(partition)
            if position is None:
                return
            if batch.next_offset <= position:
                continue
            if not batch.check_crc():
                raise CorruptMessage(f"{self._name}-{partition}: the batch at offset {batch.base_offset} has a wrong CRC")
            if (is_aborted is None or not is_aborted(batch)) and not batch.is_control:
                for record in decode_records(batch):
                    if record.offset >= position:
                        self.positions[partition] = record.offset + 1
                        yield ConsumedRecord(self._name, partition, batch.timestamp_type, record)
                        if partition not in self.positions:
                            return
            self.positions[partition] = batch.next_offset

    def _failure(self, result: k01_fetch.PartitionResult) -> KafkaError | None:
        partition = result.partition_index
        error = refusal(result.error_code, f"{self._name}-{partition}")
        if isinstance(error, OffsetOutOfRange):
            return self._out_of_range(partition)
        return error

    def _out_of_range(self, partition: int) -> OffsetOutOfRange:
        bounds = []
        for time in (EARLIEST, LATEST):
            found = list_offsets(self._client, {(self._name, partition): time}, isolation=self._isolation)[self._name, partition]
            bounds.append(found.offset if isinstance(found, FoundOffset) else -1)
        start, end = bounds
        content = f"it is empty, and the next offset is {end}" if start == end else f"it contains {start} up to {end}"
        return OffsetOutOfRange(f"offset {self.positions[partition]} of {self._name}-{partition} does not exist: {content}")

    def _recover(self, problem: Exception | None) -> None:
        """Restart the time-out after a success. Otherwise find the leaders again; raise errors that are not retriable."""
        if problem is None:
            self._deadline = self._client.deadline()
            return
        if isinstance(problem, KafkaError) and (not problem.retriable or isinstance(problem, UnknownTopicOrPartition)):
            raise problem
        self._deadline.pause(problem)
        topic = self._client.retrying(lambda: self._client.topic(self._name, self._deadline), self._deadline)
        check_topic_id(topic, topic_id_of(self._topic), "it was read")
        self._topic = topic

    def _by_leader(self) -> dict[int, list[int]]:
        leaders = {partition.partition_index: partition.leader_id for partition in self._topic.partitions}
        found: dict[int, list[int]] = defaultdict(list)
        for partition in self._turn:
            found[leaders[partition]].append(partition)
        return found

    def _send(self, connection: Connection, partitions: list[int], max_wait_ms: int, deadline: Deadline) -> None:
        requested = [
            k01_fetch.Partition(partition=index, fetch_offset=self.positions[index], partition_max_bytes=PARTITION_MAX_BYTES)
            for index in partitions
        ]
        request = k01_fetch.Request(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=MAX_BYTES,
            isolation_level=self._isolation,
            topics=[k01_fetch.Topic(topic=self._name, topic_id=self._topic.topic_id, partitions=requested)],
        )
        most = LAST_VERSION_WITH_NAMES if self._topic.topic_id == NIL_UUID else None
        connection.send(k01_fetch, request, deadline, most=most)


class AbortedInFetch:
    """Finds the aborted batches of one partition in a Fetch response (KIP-98).

    Brokers send all batches, and a list of aborted transactions. An aborted transaction starts at its first_offset and ends at its
    producer's next ABORT marker. Call the instance with the batches in order. Batches that are not transactional may be left out.
    """

    def __init__(self, transactions: Iterable[k01_fetch.AbortedTransaction]) -> None:
        self._later = deque(sorted(transactions, key=lambda transaction: transaction.first_offset))
        self._producer_ids: set[int] = set()  #: producers whose open transaction is an aborted one

    @property
    def is_over(self) -> bool:
        """Whether no later batch belongs to an aborted transaction."""
        return not self._later and not self._producer_ids

    def __call__(self, batch: RecordBatch) -> bool:
        """Return whether the records of a batch were aborted; False for a marker."""
        while self._later and self._later[0].first_offset <= batch.last_offset:
            self._producer_ids.add(self._later.popleft().producer_id)
        if batch.is_control:
            if batch.producer_id in self._producer_ids and _is_abort(batch):
                self._producer_ids.discard(batch.producer_id)
            return False
        return batch.is_transactional and batch.producer_id in self._producer_ids


def _is_abort(batch: RecordBatch) -> bool:
    return any(parse_control_key(record.key) is ControlType.ABORT for record in decode_records(batch))
