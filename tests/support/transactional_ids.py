"""Transactional ids of a broker in memory: created as a client would, or put into the state that a test begins with."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from minibroker.coordinator.transaction.coordinator import TransactionCoordinator
from minibroker.coordinator.transaction.metadata import ProducerIdAndEpoch, TransactionMetadata, TransactionState
from minibroker.coordinator.transaction.placement import partition_of
from minibroker.coordinator.transaction.records import encode
from minibroker.records.builder import build_batch
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
    count: int = 3,
    bumps: bool = True,
) -> None:
    """Let the transaction reach `partitions`, and append a batch of `count` records to each."""
    if bumps:
        broker.services.coordinators.transactions.add_now(name, ids, frozenset(partitions))
    else:
        broker.services.coordinators.transactions.add_partitions(name, ids, frozenset(partitions), lambda _: None)
    for topic, index in partitions:
        write(broker, ids, topic, index, count=count)


def write(broker: BrokerInMemory, ids: ProducerIdAndEpoch, topic: str, index: int, *, first: int = 0, count: int = 3) -> None:
    """Append a batch of the producer's transaction, whose first sequence number is `first`."""
    options = {"producer_id": ids.producer_id, "producer_epoch": ids.producer_epoch, "is_transactional": True}
    broker.append(topic, index, records(count, first=first, base_sequence=first, **options))
