"""Send batches of a transaction to the leaders of their partitions, in order and with several in flight.

A failed batch is not sent again here; writer.py repeats the whole transaction. Only the first batch of a
partition in a transaction is retried, since it may have to wait for markers of the previous transaction.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import NamedTuple

from minibroker.client.client import Client
from minibroker.client.connection import Connection
from minibroker.client.errors import refusal
from minibroker.client.own_transaction import OwnTransaction
from minibroker.client.routing import TopicPartition
from minibroker.client.topics import check_topic_id
from minibroker.client.transport import Deadline
from minibroker.errors import UnknownTopicOrPartition
from minibroker.records.batch import increment_sequence
from minibroker.schemas import k00_produce, k03_metadata
from minibroker.spark.replay.encode import PackedBatch
from minibroker.wire.schema import NIL_UUID

ALL_REPLICAS = -1
LAST_VERSION_WITH_NAMES = 12
MAX_IN_FLIGHT = 4  #: brokers keep the last five batches of a producer

Acknowledged = Callable[[int], None]


class _InFlight(NamedTuple):
    key: TopicPartition
    connection: Connection
    deadline: Deadline
    acknowledged: Acknowledged


class BatchSender:
    """The produce requests of one transactional producer."""

    def __init__(self, client: Client, transaction: OwnTransaction, topic_ids: Mapping[str, str]) -> None:
        self._client = client
        self._topic_ids = topic_ids  #: as text, by name; batches never go to another topic of the same name
        self._transaction = transaction
        self._identity = (-1, -1)
        self._next_sequences: dict[TopicPartition, int] = {}
        self._begun: set[TopicPartition] = set()  #: partitions that are in the open transaction
        self._in_flight: deque[_InFlight] = deque()
        self._topics: dict[str, k03_metadata.TopicResult] = {}

    def send(self, key: TopicPartition, batch: PackedBatch, acknowledged: Acknowledged) -> None:
        """Send a batch after the earlier ones; call `acknowledged` with its first offset later. Raises for any failed batch."""
        sequence, data = self._framed(key, batch)
        if key not in self._begun:
            self.drain()
            deadline = self._client.deadline()
            acknowledged(self._client.retrying(lambda: self._attempt(key, data, deadline), deadline))
            self._begun.add(key)
        else:
            while len(self._in_flight) >= MAX_IN_FLIGHT:
                self._settle_oldest()
            deadline = self._client.deadline()
            connection = self._request(key, data, deadline)
            self._in_flight.append(_InFlight(key, connection, deadline, acknowledged))
        self._next_sequences[key] = increment_sequence(sequence, batch.record_count)

    def drain(self) -> None:
        """Wait until all batches are acknowledged."""
        while self._in_flight:
            self._settle_oldest()

    def next_transaction(self) -> None:
        """Start another transaction with the next batch."""
        self._begun.clear()

    def forget(self) -> None:
        """Forget batches in flight and leaders, after a failure."""
        for connection in {each.connection for each in self._in_flight}:
            connection.close()  # otherwise pending answers would be read as those of later requests
        self._in_flight.clear()
        self._topics.clear()
        self._begun.clear()

    def _framed(self, key: TopicPartition, batch: PackedBatch) -> tuple[int, bytearray]:
        identity = self._transaction.producer_id, self._transaction.producer_epoch
        if identity != self._identity:
            self._identity = identity
            self._next_sequences.clear()
        sequence = self._next_sequences.get(key, 0)
        return sequence, batch.framed(*identity, sequence)

    def _attempt(self, key: TopicPartition, data: bytearray, deadline: Deadline) -> int:
        try:
            connection = self._request(key, data, deadline)
            return _base_offset(connection.receive(deadline), key)
        except BaseException:
            self._topics.pop(key[0], None)  # the leader may have changed
            raise

    def _settle_oldest(self) -> None:
        sent = self._in_flight.popleft()
        sent.acknowledged(_base_offset(sent.connection.receive(sent.deadline), sent.key))

    def _request(self, key: TopicPartition, data: bytearray, deadline: Deadline) -> Connection:
        name, index = key
        topic = self._topics.get(name)
        if topic is None:
            topic = self._client.topic(name, deadline)
            check_topic_id(topic, self._topic_ids.get(name, ""), "records were replayed to it")
            self._topics[name] = topic
        leader = next((each.leader_id for each in topic.partitions if each.partition_index == index), None)
        if leader is None:
            raise UnknownTopicOrPartition(f"topic {name} has no partition {index} (it has {len(topic.partitions)})")
        self._transaction.add(name, index, deadline)
        limits = (self._transaction.last_produce_version, LAST_VERSION_WITH_NAMES if topic.topic_id == NIL_UUID else None)
        request = k00_produce.Request(
            transactional_id=self._transaction.transactional_id,
            acks=ALL_REPLICAS,
            timeout_ms=deadline.remaining_ms(30_000),
            topic_data=[
                k00_produce.Topic(
                    name=name, topic_id=topic.topic_id, partition_data=[k00_produce.Partition(index=index, records=memoryview(data))]
                )
            ],
        )
        connection = self._client.to_node(leader, deadline)
        connection.send(k00_produce, request, deadline, most=min((each for each in limits if each is not None), default=None))
        return connection


def _base_offset(response: k00_produce.Response, key: TopicPartition) -> int:
    (answer,) = (partition for topic in response.responses for partition in topic.partition_responses)
    words = answer.error_message
    for record_error in answer.record_errors:
        words = f"{words or 'rejected'} (record {record_error.batch_index} of the batch: {record_error.batch_index_error_message or ''})"
        break
    error = refusal(answer.error_code, f"{key[0]}-{key[1]}", words)
    if error is not None:
        raise error
    return answer.base_offset
