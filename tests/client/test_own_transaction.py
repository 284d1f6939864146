"""OwnTransaction: the requests to old and new brokers, and retries while a broker is not ready."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from minibroker.client.client import Client
from minibroker.client.own_transaction import OwnTransaction
from minibroker.client.producer import Producer
from minibroker.errors import InvalidTxnState, ProducerFenced
from minibroker.records.batch import RecordBatch
from minibroker.records.record import Record
from minibroker.schemas import (
    k00_produce,
    k10_find_coordinator,
    k18_api_versions,
    k22_init_producer_id,
    k24_add_partitions_to_txn,
    k25_add_offsets_to_txn,
    k26_end_txn,
    k28_txn_offset_commit,
)
from tests.client.fake_broker import FakeBroker

CONCURRENT, FENCED, INVALID_STATE = 51, 90, 48


class Writing:
    """A fake broker at a transaction.version. `steps` are its requests after the start: API key and version."""

    def __init__(self, transaction_version: int | None) -> None:
        self.broker = FakeBroker(topics={"orders": 2})
        self.transaction_version = transaction_version
        self.batches: list[RecordBatch] = []
        for schema, script in (
            (k18_api_versions, self._api_versions),
            (k10_find_coordinator, self._find_coordinator),
            (k22_init_producer_id, lambda request, version: k22_init_producer_id.Response(error_code=0, producer_id=7, producer_epoch=3)),
            (k24_add_partitions_to_txn, added(0)),
            (k25_add_offsets_to_txn, lambda request, version: k25_add_offsets_to_txn.Response(error_code=0)),
            (k26_end_txn, ended(0)),
            (k28_txn_offset_commit, offsets_committed(0)),
            (k00_produce, self._produce),
        ):
            self.broker.on(schema, script)
        self.client = Client("fake:1", timeout_ms=60_000, connect=self.broker.connect)

    def begin(self) -> tuple[OwnTransaction, Producer]:
        transaction = OwnTransaction(self.client, "writer", timeout_ms=5000)
        return transaction, Producer(self.client, "orders", transaction=transaction)

    @property
    def steps(self) -> list[tuple[int, int]]:
        return [(key, version) for key, version, _ in self.broker.requests if key not in (3, 10, 18)]

    def _api_versions(self, request: Any, version: int) -> k18_api_versions.Response:
        finalized = []
        if self.transaction_version is not None:
            level = self.transaction_version
            finalized = [k18_api_versions.FinalizedFeature(name="transaction.version", max_version_level=level, min_version_level=0)]
        keys = [
            k18_api_versions.ApiVersion(api_key=key, min_version=low, max_version=high) for key, (low, high) in self.broker.versions.items()
        ]
        return k18_api_versions.Response(error_code=0, api_keys=keys, finalized_features_epoch=1, finalized_features=finalized)

    @staticmethod
    def _find_coordinator(request: k10_find_coordinator.Request, version: int) -> k10_find_coordinator.Response:
        found = [
            k10_find_coordinator.Coordinator(key=key, node_id=1, host="fake", port=1, error_code=0, error_message="")
            for key in request.coordinator_keys
        ]
        return k10_find_coordinator.Response(coordinators=found)

    def _produce(self, request: k00_produce.Request, version: int) -> k00_produce.Response:
        assert request.transactional_id == "writer"
        (topic,) = request.topic_data
        self.batches += [RecordBatch(bytes(partition.records or b"")) for partition in topic.partition_data]
        results = [k00_produce.PartitionResult(index=each.index, error_code=0, base_offset=0) for each in topic.partition_data]
        return k00_produce.Response(
            responses=[k00_produce.TopicResult(name=topic.name, topic_id=topic.topic_id, partition_responses=results)]
        )


def added(error_code: int) -> Callable[[k24_add_partitions_to_txn.Request, int], k24_add_partitions_to_txn.Response]:
    def answer(request: k24_add_partitions_to_txn.Request, version: int) -> k24_add_partitions_to_txn.Response:
        assert (request.v3_and_below_producer_id, request.v3_and_below_producer_epoch) == (7, 3)
        topics = [
            k24_add_partitions_to_txn.TopicResult(
                name=topic.name,
                results_by_partition=[
                    k24_add_partitions_to_txn.PartitionResult(partition_index=index, partition_error_code=error_code)
                    for index in topic.partitions
                ],
            )
            for topic in request.v3_and_below_topics
        ]
        return k24_add_partitions_to_txn.Response(results_by_topic_v3_and_below=topics)

    return answer


def offsets_committed(error_code: int) -> Callable[[k28_txn_offset_commit.Request, int], k28_txn_offset_commit.Response]:
    def answer(request: k28_txn_offset_commit.Request, version: int) -> k28_txn_offset_commit.Response:
        topics = [
            k28_txn_offset_commit.TopicResult(
                name=topic.name,
                partitions=[
                    k28_txn_offset_commit.PartitionResult(partition_index=each.partition_index, error_code=error_code)
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
        return k28_txn_offset_commit.Response(topics=topics)

    return answer


def ended(error_code: int) -> Callable[[k26_end_txn.Request, int], k26_end_txn.Response]:
    return lambda request, version: k26_end_txn.Response(error_code=error_code)


@pytest.mark.parametrize(
    ("transaction_version", "steps"),
    [
        (2, [(22, 5), (0, 13), (0, 13), (26, 5)]),
        (1, [(22, 5), (24, 3), (0, 11), (0, 11), (24, 3), (0, 11), (26, 4)]),
        (0, [(22, 5), (24, 3), (0, 11), (0, 11), (24, 3), (0, 11), (26, 4)]),
        (None, [(22, 5), (24, 3), (0, 11), (0, 11), (24, 3), (0, 11), (26, 4)]),
    ],
)
def test_the_steps_of_a_transaction(transaction_version: int | None, steps: list[tuple[int, int]]) -> None:
    writing = Writing(transaction_version)
    transaction, producer = writing.begin()
    partitions = (0, 1) if transaction_version == 2 else (0, 0, 1)
    for partition in partitions:
        producer.add(Record(0, 1, None, b"value"), partition)
        producer.flush()
    transaction.end(committed=True)
    assert writing.steps == steps
    assert {(batch.producer_id, batch.producer_epoch, batch.is_transactional) for batch in writing.batches} == {(7, 3, True)}
    (end,) = writing.broker.requests_for(k26_end_txn)
    assert (end.transactional_id, end.producer_id, end.producer_epoch, end.committed) == ("writer", 7, 3, True)
    (init,) = writing.broker.requests_for(k22_init_producer_id)
    assert (init.transactional_id, init.transaction_timeout_ms) == ("writer", 5000)


@pytest.mark.parametrize("transaction_version", [1, 2])
def test_a_transaction_without_records_is_not_ended(transaction_version: int) -> None:
    writing = Writing(transaction_version)
    transaction, producer = writing.begin()
    producer.flush()
    transaction.end(committed=True)
    assert writing.steps == [(22, 5)]


def test_client_waits_for_an_ending_transaction() -> None:
    writing = Writing(1)
    writing.broker.in_turn(k24_add_partitions_to_txn, added(CONCURRENT), added(CONCURRENT), added(0))
    writing.broker.in_turn(k26_end_txn, ended(CONCURRENT), ended(0))
    transaction, producer = writing.begin()
    producer.add(Record(0, 1, None, b"value"), 0)
    producer.flush()
    transaction.end(committed=False)
    assert [key for key, _ in writing.steps] == [22, 24, 24, 24, 0, 26, 26]


def test_end_does_not_wait_for_batches_in_flight() -> None:
    writing = Writing(2)
    transaction, _ = writing.begin()
    producer = Producer(writing.client, "orders", transaction=transaction, batch_bytes=1)
    for number in range(3):
        producer.add(Record(number, 1, None, b"value"), 0)  # sends the previous record, and does not wait for the answer
    transaction.end(committed=False)
    assert writing.steps == [(22, 5), (0, 13), (0, 13), (26, 5)]


def test_fencing_is_reported() -> None:
    writing = Writing(1)
    writing.broker.on(k24_add_partitions_to_txn, added(FENCED))
    _, producer = writing.begin()
    producer.add(Record(0, 1, None, b"value"), 0)
    with pytest.raises(ProducerFenced, match="transactional id writer: "):
        producer.flush()
    assert writing.batches == []
    writing = Writing(2)
    writing.broker.on(k26_end_txn, ended(INVALID_STATE))
    transaction, producer = writing.begin()
    producer.add(Record(0, 1, None, b"value"), 0)
    producer.flush()
    with pytest.raises(InvalidTxnState):
        transaction.end(committed=True)


@pytest.mark.parametrize(
    ("transaction_version", "steps"),
    [(2, [(22, 5), (0, 13), (28, 5), (26, 5)]), (1, [(22, 5), (24, 3), (0, 11), (25, 3), (28, 4), (26, 4)])],
)
def test_offsets_of_a_group_are_part_of_it(transaction_version: int, steps: list[tuple[int, int]]) -> None:
    writing = Writing(transaction_version)
    transaction, producer = writing.begin()
    producer.add(Record(0, 1, None, b"value"), 0)
    producer.flush()
    transaction.commit_offsets("readers", {("orders", 1): (17, "so far")})
    transaction.end(committed=True)
    assert writing.steps == steps
    (request,) = writing.broker.requests_for(k28_txn_offset_commit)
    (topic,) = request.topics
    (partition,) = topic.partitions
    assert (request.group_id, request.transactional_id, request.producer_id, request.producer_epoch) == ("readers", "writer", 7, 3)
    assert (topic.name, partition.partition_index, partition.committed_offset, partition.committed_metadata) == ("orders", 1, 17, "so far")


def test_transaction_with_only_offsets_waits_for_the_group_coordinator() -> None:
    writing = Writing(2)
    writing.broker.in_turn(k28_txn_offset_commit, offsets_committed(14), offsets_committed(0))
    transaction, _ = writing.begin()
    transaction.commit_offsets("readers", {("orders", 1): (17, "")})
    transaction.end(committed=True)
    assert [key for key, _ in writing.steps] == [22, 28, 28, 26]
    writing.broker.on(k28_txn_offset_commit, offsets_committed(FENCED))
    with pytest.raises(ProducerFenced, match="group readers: orders-1"):
        transaction.commit_offsets("readers", {("orders", 1): (18, "")})


def test_next_transaction_uses_the_returned_epoch() -> None:
    writing = Writing(2)
    writing.broker.on(k26_end_txn, lambda request, version: k26_end_txn.Response(error_code=0, producer_id=7, producer_epoch=4))
    transaction, producer = writing.begin()
    producer.add(Record(0, 1, None, b"value"), 0)
    producer.flush()
    transaction.end(committed=True)
    assert (transaction.producer_id, transaction.producer_epoch) == (7, 4)
    transaction.end(committed=True)  # nothing is open
    transaction.commit_offsets("readers", {("orders", 1): (18, "")})
    transaction.take_over()
    transaction.end(committed=True)  # nothing is open after take_over
    assert [key for key, _ in writing.steps] == [22, 0, 26, 28, 22]
    assert writing.broker.requests_for(k28_txn_offset_commit)[-1].producer_epoch == 4
