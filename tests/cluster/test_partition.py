"""Partition: who is woken when, and what a client's leader epoch means."""

from __future__ import annotations

from collections.abc import Callable
from uuid import uuid4

import pytest

from minibroker.cluster.partition import Partition
from minibroker.errors import FencedLeaderEpoch, KafkaStorageError, UnknownLeaderEpoch, UnknownTopicOrPartition
from minibroker.records.control import ControlType, EndTransactionMarker
from tests.support.broker_in_memory import BrokerInMemory, records
from tests.support.log_batches import idempotent_batch


def closed_partition(leader_epoch: int = 3) -> Partition:
    return Partition("orders", uuid4(), 0, leader_epoch=leader_epoch, partition_epoch=0, directory_id=uuid4())


def test_subscribers_are_woken_until_they_cancel() -> None:
    broker = BrokerInMemory(topics={"orders": 1})
    partition = broker.cluster.partition("orders", 0)
    woken: list[str] = []
    cancel = partition.subscribe(lambda: woken.append("first"))
    partition.subscribe(lambda: woken.append("second"))

    broker.append("orders", 0, records(1))
    cancel()
    cancel()
    broker.append("orders", 0, records(1))

    assert woken == ["first", "second", "second"]


def test_end_of_a_transaction_wakes_subscribers() -> None:
    broker = BrokerInMemory(topics={"orders": 1})
    partition = broker.cluster.partition("orders", 0)
    seen: list[tuple[object, ...]] = []
    partition.subscribe(lambda: seen.append(("woken", partition.log.last_stable_offset)))
    partition.on_transaction_end = lambda *told: seen.append(told)

    partition.append_own(idempotent_batch(7, 0, epoch=2, is_transactional=True))
    for ends in (ControlType.COMMIT, ControlType.ABORT):
        partition.end_transaction(EndTransactionMarker(ends, 0), producer_id=7, producer_epoch=2, transaction_version=0)

    assert seen == [("woken", 0), (7, 2, True), ("woken", 2), (7, 2, False), ("woken", 3)]


def test_callback_may_subscribe_twice_and_cancel_others_while_running() -> None:
    partition = closed_partition()
    woken: list[str] = []
    cancels: list[Callable[[], None]] = []

    def wake() -> None:
        woken.append("woken")
        for cancel in cancels:
            cancel()

    cancels += [partition.subscribe(wake), partition.subscribe(wake)]
    partition.wake()
    partition.wake()
    assert woken == ["woken", "woken"]


@pytest.mark.parametrize(("known", "error"), [(-1, None), (3, None), (2, FencedLeaderEpoch), (4, UnknownLeaderEpoch)])
def test_leader_epochs_are_compared(known: int, error: type[Exception] | None) -> None:
    if error is None:
        closed_partition().check_leader_epoch(known)
    else:
        with pytest.raises(error):
            closed_partition().check_leader_epoch(known)


def test_offline_partition_raises_its_cause() -> None:
    partition = closed_partition()
    with pytest.raises(KafkaStorageError, match="orders-0 is not open"):
        _ = partition.log
    woken: list[bool] = []
    partition.subscribe(lambda: woken.append(True))
    partition.take_offline(UnknownTopicOrPartition())
    with pytest.raises(UnknownTopicOrPartition):
        _ = partition.log
    assert woken == [True]
