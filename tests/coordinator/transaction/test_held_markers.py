"""The end of a transaction where a test holds a high watermark back: decided, but not complete before readers may see it."""

from __future__ import annotations

import pytest

from minibroker.errors import ConcurrentTransactions, KafkaStorageError
from minibroker.schemas import k22_init_producer_id as k22
from minibroker.schemas import k24_add_partitions_to_txn as k24
from minibroker.schemas import k26_end_txn as k26
from minibroker.testing.simulation.held_watermarks import release_high_watermark
from tests.support.broker_in_memory import BrokerInMemory, Pending
from tests.support.transactional_ids import begin, init_producer, is_stable, steps_of


def held_broker(*, is_synced: bool = False) -> tuple[BrokerInMemory, Pending]:
    """One whose transaction over a-0 and a-1 is committed, while a-0 is held; and the answer to EndTxn."""
    broker = BrokerInMemory(topics={"a": 2})
    ids = init_producer(broker)
    begin(broker, ids, ("a", 0), ("a", 1), bumps=False)
    if is_synced:
        broker.cluster.configs.alter_topic("a", {"flush.messages": "1"})
    broker.hold_high_watermark("a", 0)
    request = k26.Request(transactional_id="payments", producer_id=ids.producer_id, producer_epoch=ids.producer_epoch, committed=True)
    pending = broker.begin(request, 4)
    broker.clock.advance(0)
    return broker, pending


def last_step(broker: BrokerInMemory) -> str:
    return steps_of(broker)[-1][0]


def next_transaction(broker: BrokerInMemory) -> int:
    topic = k24.Topic(name="a", partitions=[0])
    answer = broker.ask(
        k24.Request(
            v3_and_below_transactional_id="payments", v3_and_below_producer_id=0, v3_and_below_producer_epoch=0, v3_and_below_topics=[topic]
        ),
        3,
    )
    code: int = answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
    return code


def test_producer_is_answered_but_its_next_transaction_waits() -> None:
    broker, pending = held_broker()
    assert pending.answer().error_code == 0
    assert last_step(broker) == "PrepareCommit"
    assert not is_stable(broker, "a", 0)
    assert is_stable(broker, "a", 1)
    assert next_transaction(broker) == ConcurrentTransactions.code
    init = broker.ask(k22.Request(transactional_id="payments", transaction_timeout_ms=60_000))
    assert init.error_code == ConcurrentTransactions.code
    release_high_watermark(broker.cluster.partition("a", 0))
    broker.clock.advance(0)
    assert last_step(broker) == "CompleteCommit"
    assert is_stable(broker, "a", 0)
    assert next_transaction(broker) == 0
    assert not broker.cluster.partition("a", 0)._subscribers


@pytest.mark.parametrize("is_deleted", [True, False])
def test_lost_partition_is_no_longer_waited_for(is_deleted: bool) -> None:
    broker, _ = held_broker()
    if is_deleted:
        broker.cluster.delete_topic("a")
    else:
        broker.cluster.partition("a", 0).take_offline(KafkaStorageError("the disk is gone"))
    broker.clock.advance(0)
    assert last_step(broker) == "CompleteCommit"


def test_markers_are_also_synced() -> None:
    broker, pending = held_broker(is_synced=True)
    broker.clock.advance(0)
    assert pending.answer().error_code == 0
    assert last_step(broker) == "PrepareCommit"
    release_high_watermark(broker.cluster.partition("a", 0))
    broker.clock.advance(0)
    assert last_step(broker) == "CompleteCommit"


def test_stopped_broker_completes_at_the_next_start() -> None:
    broker, _ = held_broker()
    partition = broker.cluster.partition("a", 0)
    broker.services.coordinators.stop()
    assert not partition._subscribers
    release_high_watermark(partition)
    broker.clock.advance(0)
    assert last_step(broker) == "PrepareCommit"
    broker.cluster.close()
    again = BrokerInMemory(folder=broker.folder)
    again.clock.advance(1000)
    assert last_step(again) == "CompleteCommit"
    assert is_stable(again, "a", 0)
    again.cluster.close()
