"""Write records to one topic in batches, and report the acknowledged batches.

Invariants:
- Each broker has at most one request in flight, so that the batches of a partition arrive in order, also after a retry. The next
  batch is built meanwhile.
- With idempotence a batch keeps its sequence numbers when it is sent again, so that the broker stores it once (KIP-98).
- A batch that is too large for the broker is halved until it fits or has one record.
- In a transaction, a partition is added before its first batch is sent. The caller ends the transaction.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import NamedTuple

from minibroker.client.client import Client
from minibroker.client.connection import Connection
from minibroker.client.errors import BrokerUnreachable, check, refusal
from minibroker.client.own_transaction import OwnTransaction
from minibroker.client.topics import check_topic_id, topic_id_of
from minibroker.client.transport import Deadline
from minibroker.errors import DuplicateSequenceNumber, KafkaError, MessageTooLarge, RecordListTooLarge, UnknownTopicOrPartition
from minibroker.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, increment_sequence
from minibroker.records.builder import build_batch
from minibroker.records.compression import Compression
from minibroker.records.record import Record
from minibroker.schemas import k00_produce, k03_metadata, k22_init_producer_id
from minibroker.wire.schema import NIL_UUID

RECORD_OVERHEAD_BYTES = 12  #: about the size of lengths, deltas and attributes of a small record
LAST_VERSION_WITH_NAMES = 12
NO_TIMEOUT_MS = 2**31 - 1


class Batch(NamedTuple):
    """Records of one partition that are sent together."""

    partition: int
    records: Sequence[Record]
    base_sequence: int
    data: bytearray


class BatchAcknowledgement(NamedTuple):
    """The answer to a batch. `base_offset` is -1 with acks=0, and for a batch that the broker had already stored."""

    partition: int
    base_offset: int
    record_count: int


class Producer:
    """Collects records for a topic, and calls `on_acknowledged` for each batch that is done."""

    def __init__(
        self,
        client: Client,
        topic: str,
        *,
        acks: int = -1,
        idempotent: bool = True,
        transaction: OwnTransaction | None = None,
        compression: Compression = Compression.NONE,
        batch_bytes: int = 256 * 1024,
        on_acknowledged: Callable[[BatchAcknowledgement], None] = lambda _: None,
    ) -> None:
        """Find the topic, or let the broker create it, if its configuration allows it.

        Args:
            client: a client of the cluster.
            topic: the name of the topic.
            acks: -1: all replicas in sync, 1: the leader, 0: no acknowledgement.
            idempotent: store each record once, even if a batch is sent again.
            transaction: the transaction to which the records belong.
            compression: the codec of batches.
            batch_bytes: the size at which a batch is sent.
            on_acknowledged: called for each batch that is acknowledged.
        """
        self._client = client
        self._name = topic
        self._acks = acks
        self._compression = compression
        self._batch_bytes = batch_bytes
        self._on_acknowledged = on_acknowledged
        self._topic: k03_metadata.TopicResult = client.topic(topic, create=True)
        self._partitioner = Partitioner(len(self._topic.partitions), batch_bytes)
        self._transaction = transaction
        if transaction is not None:
            self._producer_id, self._producer_epoch = transaction.producer_id, transaction.producer_epoch
        else:
            self._producer_id, self._producer_epoch = self._init_producer_id() if idempotent else (NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
        self._next_sequence: dict[int, int] = defaultdict(int)
        self._open: dict[int, list[Record]] = defaultdict(list)
        self._open_bytes: dict[int, int] = defaultdict(int)
        self._in_flight: dict[int, tuple[Connection, list[Batch], Deadline]] = {}  # by leader

    @property
    def partition_count(self) -> int:
        """The number of partitions of the topic at the start."""
        return len(self._topic.partitions)

    def add(self, record: Record, partition: int | None = None) -> None:
        """Add a record, and send the partition's batch if it is full.

        Args:
            record: the record; its offset is ignored.
            partition: the partition. Default: chosen by the key, as the Java client does.

        Raises:
            UnknownTopicOrPartition: the topic has no such partition.
        """
        size = RECORD_OVERHEAD_BYTES + len(record.key or b"") + len(record.value or b"")
        size += sum(len(name) + len(value or b"") for name, value in record.headers)
        if partition is None:
            partition = self._partitioner.partition_of(record.key, size)
        elif not 0 <= partition < self.partition_count:
            raise UnknownTopicOrPartition(f"topic {self._name} has no partition {partition} (it has {self.partition_count})")
        if self._open[partition] and self._open_bytes[partition] + size > self._batch_bytes:
            self._send(self._leader_of(partition), [self._close(partition)])
        self._open[partition].append(record)
        self._open_bytes[partition] += size

    def flush(self) -> None:
        """Send the collected records, and wait until all are acknowledged."""
        by_leader: dict[int, list[Batch]] = defaultdict(list)
        for partition in [partition for partition, records in self._open.items() if records]:
            by_leader[self._leader_of(partition)].append(self._close(partition))
        for leader, batches in by_leader.items():
            self._send(leader, batches)
        for leader in list(self._in_flight):
            self._collect(leader)

    def _close(self, partition: int) -> Batch:
        records = self._open.pop(partition)
        self._open_bytes[partition] = 0
        sequence = NO_SEQUENCE
        if self._producer_id != NO_PRODUCER_ID:
            sequence = self._next_sequence[partition]
            self._next_sequence[partition] = increment_sequence(sequence, len(records))
        return self._build(partition, records, sequence)

    def _build(self, partition: int, records: Sequence[Record], base_sequence: int) -> Batch:
        data = build_batch(
            records,
            compression=self._compression,
            producer_id=self._producer_id,
            producer_epoch=self._producer_epoch,
            base_sequence=base_sequence,
            is_transactional=self._transaction is not None,
        )
        return Batch(partition, records, base_sequence, data)

    def _send(self, leader: int, batches: list[Batch]) -> None:
        """Send batches after the leader has answered the request in flight. Does not wait for their answer."""
        self._collect(leader)
        deadline = self._client.deadline()
        try:
            connection = self._client.to_node(leader, deadline)
            self._request(connection, batches, deadline)
        except (BrokerUnreachable, KafkaError) as error:
            self._again(batches, error, deadline)
            return
        if self._acks == 0:
            self._acknowledge([BatchAcknowledgement(batch.partition, -1, len(batch.records)) for batch in batches])
        else:
            self._in_flight[leader] = (connection, batches, deadline)

    def _collect(self, leader: int) -> None:
        """Wait for the answer to a leader's request in flight; send batches with retriable errors again."""
        if leader not in self._in_flight:
            return
        connection, batches, deadline = self._in_flight.pop(leader)
        try:
            response: k00_produce.Response = connection.receive(deadline)
        except BrokerUnreachable as error:
            self._again(batches, error, deadline)
            return
        self._settle(response, batches, deadline)

    def _settle(self, response: k00_produce.Response, batches: list[Batch], deadline: Deadline) -> None:
        """Process the answer of each batch."""
        answers = {partition.index: partition for topic in response.responses for partition in topic.partition_responses}
        for batch in batches:
            answer = answers[batch.partition]
            error = refusal(answer.error_code, f"{self._name}-{batch.partition}", _message_of(answer))
            if error is None or isinstance(error, DuplicateSequenceNumber):
                self._acknowledge([BatchAcknowledgement(batch.partition, answer.base_offset, len(batch.records))])
            elif isinstance(error, (MessageTooLarge, RecordListTooLarge)) and len(batch.records) > 1:
                for half in self._halves(batch):
                    self._again([half], None, deadline)
            else:
                self._again([batch], error, deadline)

    def _again(self, batches: list[Batch], reason: Exception | None, deadline: Deadline) -> None:
        """Send batches again until each is done: one at a time, to the partition's current leader."""
        for batch in batches:
            if isinstance(reason, KafkaError) and not reason.retriable:
                raise reason
            if reason is not None:
                deadline.pause(reason)
            response = self._client.retrying(lambda batch=batch: self._attempt(batch, deadline), deadline)  # type: ignore[misc]  # mypy does not infer a lambda with a default
            if response is None:
                self._acknowledge([BatchAcknowledgement(batch.partition, -1, len(batch.records))])
            else:
                self._settle(response, [batch], deadline)

    def _attempt(self, batch: Batch, deadline: Deadline) -> k00_produce.Response | None:
        topic = self._client.topic(self._name, deadline)
        check_topic_id(topic, topic_id_of(self._topic), "records were written to it")
        self._topic = topic
        connection = self._client.to_node(self._leader_of(batch.partition), deadline)
        self._request(connection, [batch], deadline)
        if self._acks == 0:
            return None
        response: k00_produce.Response = connection.receive(deadline)
        return response

    def _request(self, connection: Connection, batches: Sequence[Batch], deadline: Deadline) -> None:
        most = LAST_VERSION_WITH_NAMES if self._topic.topic_id == NIL_UUID else None
        if self._transaction is not None:
            for batch in batches:
                self._transaction.add(self._name, batch.partition, deadline)
            limits = [each for each in (most, self._transaction.last_produce_version) if each is not None]
            most = min(limits, default=None)
        partitions = [k00_produce.Partition(index=batch.partition, records=batch.data) for batch in batches]
        request = k00_produce.Request(
            transactional_id=None if self._transaction is None else self._transaction.transactional_id,
            acks=self._acks,
            timeout_ms=deadline.remaining_ms(30_000),
            topic_data=[k00_produce.Topic(name=self._name, topic_id=self._topic.topic_id, partition_data=partitions)],
        )
        connection.send(k00_produce, request, deadline, most=most, answered=self._acks != 0)

    def _halves(self, batch: Batch) -> list[Batch]:
        middle = len(batch.records) // 2
        second = NO_SEQUENCE if batch.base_sequence == NO_SEQUENCE else increment_sequence(batch.base_sequence, middle)
        return [
            self._build(batch.partition, batch.records[:middle], batch.base_sequence),
            self._build(batch.partition, batch.records[middle:], second),
        ]

    def _acknowledge(self, done: Sequence[BatchAcknowledgement]) -> None:
        for acknowledged in done:
            self._on_acknowledged(acknowledged)

    def _leader_of(self, partition: int) -> int:
        return next(p.leader_id for p in self._topic.partitions if p.partition_index == partition)

    def _init_producer_id(self) -> tuple[int, int]:
        request = k22_init_producer_id.Request(transactional_id=None, transaction_timeout_ms=NO_TIMEOUT_MS)
        deadline = self._client.deadline()

        def attempt() -> k22_init_producer_id.Response:
            response: k22_init_producer_id.Response = self._client.ask(k22_init_producer_id, request, deadline)
            check(response.error_code, "no producer id for an idempotent producer")
            return response

        response = self._client.retrying(attempt, deadline)
        return response.producer_id, response.producer_epoch


def _message_of(answer: k00_produce.PartitionResult) -> str | None:
    """Return the broker's message, with the message about the first record that it rejects."""
    for record_error in answer.record_errors:
        message = record_error.batch_index_error_message or ""
        return f"{answer.error_message or 'rejected'} (record {record_error.batch_index} of the batch: {message})"
    return answer.error_message


SEED = 0x9747B28C
MULTIPLIER = 0x5BD1E995
MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """Return Kafka's 32-bit murmur2 (org.apache.kafka.common.utils.Utils), unsigned. Java reads the same bits as a signed number."""
    length = len(data)
    hashed = SEED ^ length
    whole = length & ~3
    for position in range(0, whole, 4):
        word = int.from_bytes(data[position : position + 4], "little") * MULTIPLIER & MASK
        word ^= word >> 24
        hashed = (hashed * MULTIPLIER & MASK) ^ (word * MULTIPLIER & MASK)
    if length != whole:
        hashed ^= int.from_bytes(data[whole:], "little")
        hashed = hashed * MULTIPLIER & MASK
    hashed ^= hashed >> 13
    hashed = hashed * MULTIPLIER & MASK
    return hashed ^ (hashed >> 15)


class Partitioner:
    """Chooses among `partition_count` partitions as the Java client does, so that equal keys of all producers share a partition.

    A key: murmur2(key) with the sign bit cleared, modulo the number of partitions (BuiltInPartitioner.partitionForKey). No key: one
    partition for about `batch_bytes`, then another, at random.

    Args:
        partition_count: partitions of the topic.
        batch_bytes: bytes of records without keys that go to one partition.
    """

    __slots__ = ("_batch_bytes", "_partition_count", "_sticky", "_sticky_bytes")

    def __init__(self, partition_count: int, batch_bytes: int) -> None:
        self._partition_count = partition_count
        self._batch_bytes = batch_bytes
        self._sticky = random.randrange(partition_count)
        self._sticky_bytes = 0

    def partition_of(self, key: bytes | None, size: int) -> int:
        """Choose the partition of a record.

        Args:
            key: the key of the record, or None.
            size: its size in bytes, which counts towards the current partition of records without keys.

        Returns:
            The number of the partition.
        """
        if key is not None:
            return (murmur2(key) & 0x7FFFFFFF) % self._partition_count
        if self._sticky_bytes >= self._batch_bytes:
            self._sticky = random.randrange(self._partition_count)
            self._sticky_bytes = 0
        self._sticky_bytes += size
        return self._sticky
