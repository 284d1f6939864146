"""The transactions of a producer in this process.

The requests of a transaction:

    InitProducerId                           fences the producer that had the id before, and aborts its open transaction

Brokers on which transaction.version 2 is not finalized:

    AddPartitionsToTxn, Produce up to 11     for records
    AddOffsetsToTxn, TxnOffsetCommit up to 4 for offsets of a group
    EndTxn up to 4

Brokers on which it is finalized (KIP-890):

    Produce 12, TxnOffsetCommit 5            add the partition or the group themselves
    EndTxn 5                                 returns the producer's next epoch

A producer may run one transaction after another.

Source: TransactionManager of Kafka's Java client.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from minibroker.client.client import Client
from minibroker.client.connection import Connection
from minibroker.client.errors import refusal
from minibroker.client.group_offsets import by_topic
from minibroker.client.routing import TopicPartition, ask_coordinators
from minibroker.client.transport import Deadline
from minibroker.errors import KafkaError
from minibroker.schemas import (
    k22_init_producer_id,
    k24_add_partitions_to_txn,
    k25_add_offsets_to_txn,
    k26_end_txn,
    k28_txn_offset_commit,
)
from minibroker.schemas.k10_find_coordinator import GROUP, TRANSACTION

T = TypeVar("T")

FEATURE = "transaction.version"
LAST_VERSIONS_BEFORE_KIP_890 = {"produce": 11, "add": 3, "add_offsets": 3, "offsets": 4, "end": 4}


class OwnTransaction:
    """The open or next transaction of a transactional id, with its producer id and epoch.

    A transaction starts with its first partition or offsets. The broker aborts it after `timeout_ms` unless `end` is called. Sequence
    numbers start at 0 when the producer id or epoch changes.
    """

    def __init__(self, client: Client, transactional_id: str, *, timeout_ms: int) -> None:
        self.transactional_id = transactional_id
        self._client = client
        self._timeout_ms = timeout_ms
        self._partitions: set[TopicPartition] = set()
        self._groups: set[str] = set()
        deadline = client.deadline()
        connection = client.retrying(lambda: client.to_any(deadline), deadline)
        levels = {feature.name: feature.max_version_level for feature in connection.api_versions.finalized_features}
        self._adds_by_producing = levels.get(FEATURE, 0) >= 2
        self.take_over()

    def take_over(self) -> None:
        """Fence the producer that has the transactional id, and abort its open transaction, or wait for one that is already ending."""
        deadline = self._client.deadline()
        request = k22_init_producer_id.Request(transactional_id=self.transactional_id, transaction_timeout_ms=self._timeout_ms)

        def init(connection: Connection) -> tuple[int, int] | KafkaError:
            response: k22_init_producer_id.Response = connection.ask(k22_init_producer_id, request, deadline)
            return self._refusal(response.error_code) or (response.producer_id, response.producer_epoch)

        self.producer_id, self.producer_epoch = self._ask(init, deadline)
        self._partitions.clear()
        self._groups.clear()

    @property
    def last_produce_version(self) -> int | None:
        """The highest version of Produce that does not add partitions to the transaction; None for no limit."""
        return None if self._adds_by_producing else LAST_VERSIONS_BEFORE_KIP_890["produce"]

    def add(self, topic: str, partition: int, deadline: Deadline) -> None:
        """Add a partition. Call this before the partition's first batch is sent."""
        key = topic, partition
        if key in self._partitions:
            return
        if not self._adds_by_producing:
            request = k24_add_partitions_to_txn.Request(
                v3_and_below_transactional_id=self.transactional_id,
                v3_and_below_producer_id=self.producer_id,
                v3_and_below_producer_epoch=self.producer_epoch,
                v3_and_below_topics=[k24_add_partitions_to_txn.Topic(name=topic, partitions=[partition])],
            )

            def add(connection: Connection) -> bool | KafkaError:
                most = LAST_VERSIONS_BEFORE_KIP_890["add"]
                response: k24_add_partitions_to_txn.Response = connection.ask(k24_add_partitions_to_txn, request, deadline, most=most)
                (result,) = (each for topic in response.results_by_topic_v3_and_below for each in topic.results_by_partition)
                return self._refusal(result.partition_error_code) or True

            self._ask(add, deadline)
        self._partitions.add(key)

    def commit_offsets(self, group: str, offsets: Mapping[TopicPartition, tuple[int, str]]) -> None:
        """Commit offsets of a group with this transaction: the next offset and the client's own data, by partition."""
        deadline = self._client.deadline()
        self._groups.add(group)
        if not self._adds_by_producing:
            self._add_offsets(group, deadline)
        request = k28_txn_offset_commit.Request(
            transactional_id=self.transactional_id,
            group_id=group,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            topics=[
                k28_txn_offset_commit.Topic(
                    name=topic,
                    partitions=[
                        k28_txn_offset_commit.Partition(partition_index=index, committed_offset=offset, committed_metadata=metadata)
                        for index, (offset, metadata) in partitions.items()
                    ],
                )
                for topic, partitions in by_topic(offsets).items()
            ],
        )

        def commit(connection: Connection, _: list[str]) -> Mapping[str, bool | KafkaError]:
            most = None if self._adds_by_producing else LAST_VERSIONS_BEFORE_KIP_890["offsets"]
            response: k28_txn_offset_commit.Response = connection.ask(k28_txn_offset_commit, request, deadline, most=most)
            errors = [
                refusal(partition.error_code, f"group {group}: {topic.name}-{partition.partition_index}")
                for topic in response.topics
                for partition in topic.partitions
            ]
            return {group: next((error for error in errors if error is not None), True)}

        (answer,) = ask_coordinators(self._client, GROUP, [group], commit, deadline).values()
        if isinstance(answer, KafkaError):
            raise answer

    def _add_offsets(self, group: str, deadline: Deadline) -> None:
        request = k25_add_offsets_to_txn.Request(
            transactional_id=self.transactional_id, producer_id=self.producer_id, producer_epoch=self.producer_epoch, group_id=group
        )

        def add(connection: Connection) -> bool | KafkaError:
            most = LAST_VERSIONS_BEFORE_KIP_890["add_offsets"]
            response: k25_add_offsets_to_txn.Response = connection.ask(k25_add_offsets_to_txn, request, deadline, most=most)
            return self._refusal(response.error_code) or True

        self._ask(add, deadline)

    def end(self, *, committed: bool) -> None:
        """Commit or abort. Does nothing if nothing was written."""
        if not self._partitions and not self._groups:
            return
        deadline = self._client.deadline()
        request = k26_end_txn.Request(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            committed=committed,
        )

        def end(connection: Connection) -> tuple[int, int] | KafkaError:
            most = None if self._adds_by_producing else LAST_VERSIONS_BEFORE_KIP_890["end"]
            response: k26_end_txn.Response = connection.ask(k26_end_txn, request, deadline, most=most)
            return self._refusal(response.error_code) or (response.producer_id, response.producer_epoch)

        producer_id, producer_epoch = self._ask(end, deadline)
        if producer_id >= 0:  # EndTxn 5 returns those of the next transaction
            self.producer_id, self.producer_epoch = producer_id, producer_epoch
        self._partitions.clear()
        self._groups.clear()

    def _refusal(self, code: int) -> KafkaError | None:
        return refusal(code, f"transactional id {self.transactional_id}")

    def _ask(self, ask: Callable[[Connection], T | KafkaError], deadline: Deadline) -> T:
        def ask_each(connection: Connection, keys: list[str]) -> Mapping[str, T | KafkaError]:
            return {key: ask(connection) for key in keys}

        (answer,) = ask_coordinators(self._client, TRANSACTION, [self.transactional_id], ask_each, deadline).values()
        if isinstance(answer, KafkaError):
            raise answer
        return answer
