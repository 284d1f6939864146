"""Produce in transactions: what the coordinator must know of, version by version, as Apache Kafka 4.3.1 answered the same requests
(raw frames, one KRaft node, transaction.version 2, 2026-11-21)."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from minibroker.coordinator.transaction.records import TransactionState
from minibroker.errors import (
    ConcurrentTransactions,
    CoordinatorLoadInProgress,
    CorruptMessage,
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    InvalidRecord,
    InvalidRequest,
    InvalidTopicException,
    InvalidTxnState,
    KafkaError,
    KafkaStorageError,
    NotCoordinator,
    NotEnoughReplicas,
    OutOfOrderSequenceNumber,
    TransactionAbortable,
    UnknownTopicOrPartition,
)
from minibroker.schemas import k00_produce as schema
from minibroker.schemas import k22_init_producer_id as k22
from minibroker.schemas import k24_add_partitions_to_txn as k24
from minibroker.schemas import k26_end_txn as k26
from tests.support.broker_in_memory import BrokerInMemory, Pending, records
from tests.support.faulty_files import FaultyFiles

TOPIC = "orders"
ADDED_SINCE = 12
VERSIONS = range(3, schema.VERSIONS[1] + 1)
ONE_PARTITION = {"transaction.state.log.num.partitions": "1"}  #: fifty take their time
NOT_ADDED = "Partition was not added to the transaction"
REFUSALS: dict[int, tuple[type[KafkaError], str | None]] = {
    **dict.fromkeys(range(3, 8), (InvalidTxnState, None)),  # the message came with version 8
    **dict.fromkeys(range(8, 11), (InvalidTxnState, NOT_ADDED)),
    11: (TransactionAbortable, None),
}


class Batch(NamedTuple):
    """For one partition."""

    partition: int
    data: bytes


class Producer:
    """One transactional id and what it was given."""

    def __init__(self, broker: BrokerInMemory, transactional_id: str = "shop") -> None:
        self.broker = broker
        self.transactional_id = transactional_id
        broker.services.coordinators.transactions.ensure_topic()
        pending = broker.begin(k22.Request(transactional_id=transactional_id, transaction_timeout_ms=60_000), 5)
        broker.clock.advance(0)  # for syncs
        given = pending.answer()
        assert given.error_code == 0
        self.ids = given.producer_id, given.producer_epoch

    def batch(self, index: int = 0, sequence: int = 0, *, epoch: int | None = None, producer_id: int | None = None) -> Batch:
        ids: dict[str, Any] = {"producer_id": self.ids[0] if producer_id is None else producer_id}
        ids["producer_epoch"] = self.ids[1] if epoch is None else epoch
        return Batch(index, records(1, base_sequence=sequence, is_transactional=True, **ids))

    def begin(self, version: int, *batches: Batch, topic: str = TOPIC, client_id: str = "test", acks: int = -1) -> Pending:
        partitions = [schema.Partition(index=each.partition, records=each.data) for each in batches]
        named: dict[str, Any] = {"topic_id": self.broker.cluster.topic(topic).topic_id} if version >= 13 else {"name": topic}
        topics = [schema.Topic(partition_data=partitions, **named)]
        request = schema.Request(transactional_id=self.transactional_id, acks=acks, timeout_ms=1000, topic_data=topics)
        return self.broker.begin(request, version, client_id=client_id)

    def produce(self, version: int, *batches: Batch, **options: Any) -> list[schema.PartitionResult]:
        return results_of(self.begin(version, *batches, **options))

    def refusal(self, version: int, batch: Batch, **options: Any) -> int:
        (result,) = self.produce(version, batch, **options)
        assert (result.base_offset, result.log_start_offset) == (-1, -1)
        return result.error_code

    def add(self, *indexes: int) -> None:
        topics = [k24.Topic(name=TOPIC, partitions=list(indexes))]
        fields = {"v3_and_below_producer_id": self.ids[0], "v3_and_below_producer_epoch": self.ids[1], "v3_and_below_topics": topics}
        answer = self.broker.ask(k24.Request(v3_and_below_transactional_id=self.transactional_id, **fields), 3)
        assert {each.partition_error_code for topic in answer.results_by_topic_v3_and_below for each in topic.results_by_partition} == {0}

    def end(self, version: int, *, commit: bool = True) -> int:
        ids = {"producer_id": self.ids[0], "producer_epoch": self.ids[1]}
        answer = self.broker.ask(k26.Request(transactional_id=self.transactional_id, committed=commit, **ids), version)
        if version >= 5 and not answer.error_code:
            self.ids = answer.producer_id, answer.producer_epoch
        return int(answer.error_code)

    @property
    def reached(self) -> tuple[TransactionState, set[int]]:
        """The transaction's state and partitions, as the coordinator knows them."""
        state = self.broker.services.coordinators.transactions.get(self.transactional_id)
        assert state is not None
        return state.state, {index for _, index in state.partitions}


def results_of(pending: Pending) -> list[schema.PartitionResult]:
    return [result for topic in pending.answer().responses for result in topic.partition_responses]


def codes(results: list[schema.PartitionResult]) -> list[int]:
    return [result.error_code for result in results]


@pytest.fixture
def broker() -> Iterator[BrokerInMemory]:
    broker = BrokerInMemory(topics={TOPIC: 4}, config=ONE_PARTITION)
    yield broker
    broker.cluster.close()


@pytest.fixture
def producer(broker: BrokerInMemory) -> Producer:
    return Producer(broker)


@pytest.mark.parametrize("version", VERSIONS)
def test_partition_not_added_to_the_transaction(producer: Producer, version: int) -> None:
    (result,) = producer.produce(version, producer.batch())
    if version >= ADDED_SINCE:
        assert (result.error_code, result.base_offset) == (0, 0)
        assert producer.reached == (TransactionState.ONGOING, {0})
    else:
        error, message = REFUSALS[version]
        assert (result.error_code, result.base_offset, result.error_message) == (error.code, -1, message)
        assert producer.reached == (TransactionState.EMPTY, set())
        assert producer.broker.cluster.partition(TOPIC, 0).log.log_end_offset == 0


@pytest.mark.parametrize("version", VERSIONS)
def test_disabled_verification_does_not_ask_the_coordinator(version: int) -> None:
    broker = BrokerInMemory(topics={TOPIC: 1}, config=ONE_PARTITION | {"transaction.partition.verification.enable": "false"})
    producer = Producer(broker)
    assert codes(producer.produce(version, producer.batch())) == [0]
    is_added = version >= ADDED_SINCE
    assert producer.reached == ((TransactionState.ONGOING, {0}) if is_added else (TransactionState.EMPTY, set()))


@pytest.mark.parametrize("version", VERSIONS)
def test_added_and_missing_partitions_in_one_request(producer: Producer, version: int) -> None:
    producer.add(0, 2)
    results = producer.produce(version, producer.batch(0), producer.batch(1), producer.batch(2))
    refused = 0 if version >= ADDED_SINCE else REFUSALS[version][0].code
    assert codes(results) == [0, refused, 0]
    assert producer.end(5 if version >= ADDED_SINCE else 4) == 0
    ends = [producer.broker.cluster.partition(TOPIC, index).log.last_stable_offset for index in range(4)]
    assert ends == [2, 0 if refused else 2, 2, 0]


@pytest.mark.parametrize("version", VERSIONS)
def test_wrong_producer_id_is_refused(producer: Producer, version: int) -> None:
    producer.produce(12, producer.batch())
    stranger = producer.batch(1, producer_id=producer.ids[0] + 5)
    assert producer.refusal(version, stranger) == InvalidProducerIdMapping.code
    for epoch in (producer.ids[1] + 1, producer.ids[1] + 5):
        assert producer.refusal(version, producer.batch(1, epoch=epoch)) == InvalidProducerEpoch.code
    producer.transactional_id = "nobody"
    assert producer.refusal(version, producer.batch(1)) == InvalidProducerIdMapping.code
    producer.transactional_id = ""
    assert producer.refusal(version, producer.batch(1)) == InvalidRequest.code


@pytest.mark.parametrize("version", VERSIONS)
def test_a_zombie(producer: Producer, version: int) -> None:
    zombie = Producer(producer.broker)
    producer.ids = Producer(producer.broker).ids
    zombie_again = zombie.produce(version, zombie.batch(1))
    assert codes(zombie_again) == [InvalidProducerEpoch.code]
    assert codes(producer.produce(12, producer.batch(1))) == [0]
    assert codes(zombie.produce(version, zombie.batch(1, 1))) == [InvalidProducerEpoch.code]


@pytest.mark.parametrize("version", [11, 12])
def test_two_producer_ids_fail_the_whole_request(producer: Producer, version: int) -> None:
    plain = Batch(2, records(1))
    results = producer.produce(version, producer.batch(0), producer.batch(1, producer_id=77, epoch=0), plain)
    received = {(result.error_code, result.error_message) for result in results}
    assert received == {(InvalidProducerIdMapping.code, "Transactional records contained more than one producer ID")}
    assert producer.reached == (TransactionState.EMPTY, set())
    assert [producer.broker.cluster.partition(TOPIC, index).log.log_end_offset for index in range(3)] == [0, 0, 0]


def test_non_transactional_records_are_accepted_alongside(producer: Producer) -> None:
    idempotent = Batch(2, records(1, producer_id=producer.ids[0], producer_epoch=producer.ids[1], base_sequence=0))
    assert codes(producer.produce(11, producer.batch(0), Batch(1, records(1)), idempotent)) == [TransactionAbortable.code, 0, 0]
    assert codes(producer.produce(12, producer.batch(0), Batch(1, records(1)))) == [0, 0]
    assert producer.reached == (TransactionState.ONGOING, {0})
    within = Batch(0, records(1, producer_id=producer.ids[0], producer_epoch=producer.ids[1], base_sequence=1))
    assert codes(producer.produce(12, within)) == [InvalidTxnState.code]


def test_unwritable_partition_is_not_added(producer: Producer) -> None:
    results = producer.produce(12, producer.batch(0), producer.batch(77))
    assert codes(results) == [0, UnknownTopicOrPartition.code]
    assert codes(producer.produce(12, producer.batch(0, 1), topic="nope")) == [UnknownTopicOrPartition.code]
    assert producer.reached == (TransactionState.ONGOING, {0})


def test_refused_batch_leaves_its_partition_added(producer: Producer) -> None:
    """The marker goes there, too, and does no harm; as in Apache Kafka."""
    torn = bytearray(producer.batch(1).data)
    torn[-1] ^= 1
    assert codes(producer.produce(12, Batch(1, bytes(torn)))) == [CorruptMessage.code]
    assert codes(producer.produce(12, producer.batch(2, 5))) == [OutOfOrderSequenceNumber.code]
    assert producer.reached == (TransactionState.ONGOING, {1, 2})
    assert producer.end(5) == 0
    assert [producer.broker.cluster.partition(TOPIC, index).log.last_stable_offset for index in range(4)] == [0, 1, 1, 0]


def test_invalid_batch_adds_no_partition(producer: Producer) -> None:
    for data in (b"", producer.batch().data[:40]):
        assert codes(producer.produce(12, Batch(0, data))) == [InvalidRecord.code]
    assert producer.reached == (TransactionState.EMPTY, set())


def test_open_transaction_in_the_partition_is_not_verified_again(producer: Producer) -> None:
    producer.produce(12, producer.batch())
    for version in VERSIONS:
        assert codes(producer.produce(version, producer.batch(0, version - 2))) == [0]
    assert codes(producer.produce(8, producer.batch(0, VERSIONS[-1] - 2))) == [0]  # a duplicate


def test_duplicate_after_the_end_of_the_transaction(producer: Producer) -> None:
    producer.add(0)
    (first,) = producer.produce(11, producer.batch())
    assert producer.end(4) == 0
    assert codes(producer.produce(8, producer.batch())) == [InvalidTxnState.code]
    assert codes(producer.produce(11, producer.batch())) == [TransactionAbortable.code]
    (again,) = producer.produce(12, producer.batch())
    assert (again.error_code, again.base_offset) == (0, first.base_offset)
    assert producer.reached == (TransactionState.ONGOING, {0})


def test_late_produce_never_joins_the_next_transaction(producer: Producer) -> None:
    """FAULTS 14, KIP-890: the epoch of what was on its way when its transaction ended is over."""
    producer.produce(12, producer.batch(0))
    late = producer.batch(0, 1), producer.batch(1)
    assert producer.end(5, commit=False) == 0
    assert codes(producer.produce(12, *late)) == [InvalidProducerEpoch.code] * 2
    assert codes(producer.produce(12, producer.batch(0))) == [0]
    assert codes(producer.produce(12, *late)) == [InvalidProducerEpoch.code] * 2
    assert producer.reached == (TransactionState.ONGOING, {0})


@pytest.mark.parametrize("version", [11, 12])
@pytest.mark.parametrize("topic", ["__transaction_state", "__consumer_offsets"])
def test_internal_topics_are_refused(broker: BrokerInMemory, topic: str, version: int) -> None:
    producer = Producer(broker)
    if topic not in broker.cluster.topics:
        broker.cluster.create_topic(topic, partition_count=1)
    for batch in (producer.batch(), Batch(0, records(1))):
        (result,) = producer.produce(version, batch, topic=topic)
        assert (result.error_code, result.base_offset, result.error_message) == (InvalidTopicException.code, -1, None)
    assert producer.reached == (TransactionState.EMPTY, set())
    assert codes(producer.produce(version, Batch(0, records(1)), topic=topic, client_id="__admin_client")) == [0]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("error", [NotCoordinator, CoordinatorLoadInProgress, ConcurrentTransactions])
def test_coordinator_error(producer: Producer, version: int, error: type[KafkaError], monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(type(producer.broker.services.coordinators.transactions), "add_now", fail)
    monkeypatch.setattr(type(producer.broker.services.coordinators.transactions), "verify_partitions", fail)
    (result,) = producer.produce(version, producer.batch())
    if error is ConcurrentTransactions and version >= ADDED_SINCE:
        assert (result.error_code, result.error_message) == (ConcurrentTransactions.code, None)
    else:
        response = f"Unable to verify the partition has been added to the transaction. Underlying error: {error.name}"
        assert (result.error_code, result.error_message) == (NotEnoughReplicas.code, response if version >= 8 else None)


class TestSyncs:
    """With log.flush.interval.messages=1 both the batch and what says that it is in a transaction are synced before the answer."""

    @pytest.fixture
    def files(self) -> FaultyFiles:
        return FaultyFiles()

    @pytest.fixture
    def broker(self, files: FaultyFiles) -> Iterator[BrokerInMemory]:
        broker = BrokerInMemory(topics={TOPIC: 4}, config={"log.flush.interval.messages": "1", **ONE_PARTITION}, files=files)
        yield broker
        broker.cluster.close()

    def unsynced(self, broker: BrokerInMemory) -> list[int]:
        return [broker.cluster.partition(topic, 0).log.flusher.unflushed_messages for topic in (TOPIC, "__transaction_state")]

    def test_both_logs_are_synced_before_the_answer(self, producer: Producer) -> None:
        pending = producer.begin(12, producer.batch())
        assert (pending.is_done, self.unsynced(producer.broker)) == (False, [1, 1])
        producer.broker.clock.advance(0)
        assert (codes(results_of(pending)), self.unsynced(producer.broker)) == ([0], [0, 0])

    def test_unchanged_coordinator_log_is_not_synced(self, producer: Producer, files: FaultyFiles) -> None:
        for sequence in range(2):
            pending = producer.begin(12, producer.batch(0, sequence))
            producer.broker.clock.advance(0)
            assert codes(results_of(pending)) == [0]
        files.counts.clear()
        pending = producer.begin(12, producer.batch(0, 2))
        producer.broker.clock.advance(0)
        assert (codes(results_of(pending)), files.counts["sync"]) == ([0], 1)

    @pytest.mark.parametrize("path", [f"{TOPIC}-0", "__transaction_state-0"])
    def test_either_failed_sync_fails_the_produce(self, producer: Producer, files: FaultyFiles, path: str) -> None:
        files.fail("sync", errno.EIO, path_part=path)
        pending = producer.begin(12, producer.batch())
        producer.broker.clock.advance(0)
        (result,) = results_of(pending)
        assert (result.error_code, result.base_offset) == (KafkaStorageError.code, -1)
