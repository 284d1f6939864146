"""Transactional ids of a broker in memory: created as a client would, or put into the state that a test begins with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from minibroker.coordinator.stored_topic import partition_of
from minibroker.coordinator.transaction.coordinator import TransactionCoordinator
from minibroker.coordinator.transaction.records import ProducerIdAndEpoch, TransactionMetadata, TransactionState, decode, encode
from minibroker.records.any_format import decode_records, split_batches
from minibroker.records.batch import RecordBatch
from minibroker.records.builder import build_batch
from minibroker.records.control import ControlType, EndTransactionMarker
from minibroker.records.record import Record
from minibroker.schemas import k22_init_producer_id as k22
from tests.support.broker_in_memory import BrokerInMemory, records

TOPIC = "__transaction_state"
TIMEOUT_MS = 60_000


def coordinator_of(broker: BrokerInMemory) -> TransactionCoordinator:
    """The broker's coordinator, ready to be asked."""
    coordinator = broker.services.coordinators.transactions
    coordinator.ensure_topic()
    return coordinator


def broker_that_knows(broker: BrokerInMemory, states: Iterable[TransactionMetadata]) -> BrokerInMemory:
    """The broker, started again on a log that says so."""
    coordinator_of(broker)
    partitions = broker.cluster.topic(TOPIC).partitions
    for each in states:
        key, value = encode(each, transaction_version=2)
        log = partitions[partition_of(each.transactional_id, len(partitions))]
        log.append_own(build_batch([Record(0, broker.clock.now_ms(), key, value)]))
    return broker.restart()


def init_producer(broker: BrokerInMemory, transactional_id: str = "payments", *, timeout_ms: int = TIMEOUT_MS) -> ProducerIdAndEpoch:
    """What InitProducerId gives to a producer without a past."""
    coordinator_of(broker)
    answer = broker.ask(k22.Request(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms))
    assert answer.error_code == 0, answer
    return ProducerIdAndEpoch(answer.producer_id, answer.producer_epoch)


def state_that_answers(code: int, transactional_id: str, ids: tuple[int, int], partitions: Iterable[tuple[str, int]] = ()) -> list[Any]:
    """The states in which a golden request of the owner of `ids` is answered with `code`, as Apache Kafka answered it."""
    known = TransactionMetadata(transactional_id, *ids, TIMEOUT_MS, TransactionState.ONGOING, 0, 0, frozenset(partitions))
    return {0: [known], 49: [], 47: [fenced := known._replace(producer_epoch=ids[1] + 1)], 90: [fenced]}[code]


def begin(
    broker: BrokerInMemory,
    ids: ProducerIdAndEpoch,
    *partitions: tuple[str, int],
    name: str = "payments",
    first: int = 0,
    count: int = 3,
    bumps: bool = True,
) -> None:
    """Let the transaction reach `partitions`, and append a batch of `count` records from sequence number `first` on to each."""
    if bumps:
        broker.services.coordinators.transactions.add_now(name, ids, frozenset(partitions))
    else:
        broker.services.coordinators.transactions.add_partitions(name, ids, frozenset(partitions), lambda _: None)
    for topic, index in partitions:
        write(broker, ids, topic, index, first=first, count=count)


def write(broker: BrokerInMemory, ids: ProducerIdAndEpoch, topic: str, index: int, *, first: int = 0, count: int = 3) -> None:
    """Append a batch of the producer's transaction, whose first sequence number is `first`."""
    options = {"producer_id": ids.producer_id, "producer_epoch": ids.producer_epoch, "is_transactional": True}
    broker.append(topic, index, records(count, first=first, base_sequence=first, **options))


def is_stable(broker: BrokerInMemory, topic: str, index: int) -> bool:
    """Whether a partition has no open transaction."""
    log = broker.cluster.partition(topic, index).log
    return log.last_stable_offset == log.log_end_offset


def markers(broker: BrokerInMemory, topic: str, index: int) -> list[tuple[bool, int]]:
    """The markers of a partition: whether it was a commit, and the producer's epoch."""
    return [
        (EndTransactionMarker.from_record(record).control_type is ControlType.COMMIT, batch.producer_epoch)
        for batch, record in _records(broker, topic, index)
        if batch.is_control
    ]


def state_of(broker: BrokerInMemory, name: str = "payments") -> str | None:
    """The state of an id, in Kafka's word for it; None when it is not known."""
    metadata = broker.services.coordinators.transactions.get(name)
    return None if metadata is None else metadata.state.kafka_name


def steps_of(broker: BrokerInMemory, name: str = "payments") -> list[tuple[str, int, int]]:
    """What the log says of an id: state, producer epoch and number of partitions in each of its records; ("", -1, 0) for a tombstone."""
    count = len(broker.cluster.topic(TOPIC).partitions)
    decoded = [decode(record.key, record.value) for _, record in _records(broker, TOPIC, partition_of(name, count))]
    found = [each[1] for each in decoded if each is not None and each[0] == name]
    return [("", -1, 0) if each is None else (each.state.kafka_name, each.producer_epoch, len(each.partitions)) for each in found]


def _records(broker: BrokerInMemory, topic: str, index: int) -> Iterator[tuple[RecordBatch, Record]]:
    log = broker.cluster.partition(topic, index).log
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        for batch in split_batches(log.read(offset, 1 << 20, isolation=None)):
            offset = batch.next_offset
            for record in decode_records(batch):
                yield batch, record
