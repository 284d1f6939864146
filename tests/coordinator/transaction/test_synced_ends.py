"""Ends of transactions where fsync comes before the answer (flush.messages=1): what is on the disk when the next thing is written."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from pathlib import Path

import pytest

from minibroker.coordinator.transaction.records import ProducerIdAndEpoch
from minibroker.dispatch.flush import FlushTimer
from minibroker.errors import NotCoordinator
from minibroker.schemas import k22_init_producer_id as k22
from minibroker.schemas import k24_add_partitions_to_txn as k24
from minibroker.schemas import k26_end_txn as k26
from tests.support.broker_in_memory import BrokerInMemory, Pending
from tests.support.faulty_files import FaultyFiles
from tests.support.transactional_ids import begin, coordinator_of, is_stable, markers, state_of, steps_of

SYNCED = {"log.flush.interval.messages": "1", "transaction.state.log.num.partitions": "1"}
IDS = ProducerIdAndEpoch(0, 0)


def init(broker: BrokerInMemory) -> Pending:
    return broker.begin(k22.Request(transactional_id="payments", transaction_timeout_ms=60_000))


def end(broker: BrokerInMemory, *, commit: bool = True) -> Pending:
    return broker.begin(k26.Request(transactional_id="payments", producer_id=0, producer_epoch=0, committed=commit))


def begun(files: FaultyFiles | None = None, *, partitions: int = 2, config: Mapping[str, str] | None = None) -> BrokerInMemory:
    """Producer 0, epoch 0, wrote to each partition of topic a; all of that is on the disk."""
    broker = BrokerInMemory(topics={"a": partitions}, config=SYNCED | dict(config or {}), files=files)
    coordinator_of(broker)
    pending = init(broker)
    broker.clock.advance(0)
    assert pending.answer().error_code == 0
    begin(broker, IDS, *[("a", index) for index in range(partitions)])
    for topic in broker.cluster.topics.values():
        for partition in topic.partitions:
            partition.log.flusher.flush()
    return broker


def unsynced(broker: BrokerInMemory, topic: str, index: int) -> int:
    return broker.cluster.partition(topic, index).log.flusher.unflushed_messages


def test_init_producer_id_is_answered_after_the_sync() -> None:
    broker = BrokerInMemory(config=SYNCED)
    coordinator_of(broker)
    pending = init(broker)
    assert (pending.is_done, state_of(broker), unsynced(broker, "__transaction_state", 0)) == (False, None, 1)
    assert init(broker).answer().error_code == 51  # a step is under way
    broker.clock.advance(0)
    answer = pending.answer()
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (0, 0, 0)
    assert unsynced(broker, "__transaction_state", 0) == 0


def test_decision_is_synced_before_markers_and_markers_before_the_answer() -> None:
    broker = begun()

    pending = end(broker)

    assert steps_of(broker)[-1][0] == "PrepareCommit"
    assert unsynced(broker, "__transaction_state", 0) == 1
    assert markers(broker, "a", 0) == markers(broker, "a", 1) == []
    assert state_of(broker) == "Ongoing"  # as far as anybody is told

    broker.clock.advance(0)

    assert pending.answer().error_code == 0
    assert unsynced(broker, "a", 0) == unsynced(broker, "a", 1) == 0
    assert markers(broker, "a", 0) == markers(broker, "a", 1) == [(True, 1)]
    assert state_of(broker) == "CompleteCommit"
    assert unsynced(broker, "__transaction_state", 0) == 1  # of what can be found out again nothing waits


def test_completed_state_is_synced_within_a_second() -> None:
    broker = begun()
    timer = FlushTimer(broker.cluster, broker.clock, broker.services.flush_queue, broker.config.log_flush_scheduler_interval_ms)
    pending = end(broker)
    broker.clock.advance(0)
    assert pending.answer().error_code == 0
    log = broker.cluster.partition("__transaction_state", 0).log
    assert (log.log_end_offset - log.high_watermark, steps_of(broker)[-1][0]) == (1, "CompleteCommit")
    broker.clock.advance(1000)
    assert log.high_watermark == log.flusher.recovery_point == log.log_end_offset
    timer.stop()


def test_added_partitions_are_answered_after_the_sync() -> None:
    broker = begun()
    topics = [k24.Topic(name="a", partitions=[0])]
    answer = broker.ask(
        k24.Request(
            v3_and_below_transactional_id="payments", v3_and_below_producer_id=0, v3_and_below_producer_epoch=0, v3_and_below_topics=topics
        ),
        3,
    )
    assert answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code == 0  # nothing new to write

    broker.cluster.create_topic("b", partition_count=1)
    topics[0] = k24.Topic(name="b", partitions=[0])
    pending = broker.begin(
        k24.Request(
            v3_and_below_transactional_id="payments", v3_and_below_producer_id=0, v3_and_below_producer_epoch=0, v3_and_below_topics=topics
        ),
        3,
    )
    assert not pending.is_done
    broker.clock.advance(0)
    assert pending.answer().results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code == 0


def test_produce_adding_a_partition_waits_for_the_sync() -> None:
    broker = begun()
    broker.cluster.create_topic("b", partition_count=2)
    coordinator = broker.services.coordinators.transactions
    log = broker.cluster.partition("__transaction_state", 0).log
    assert coordinator.admit("payments", IDS, ("b", 0), may_add=True) is log
    assert coordinator.admit("payments", IDS, ("b", 0), may_add=True) is None
    assert coordinator.admit("payments", IDS, ("b", 0), may_add=False) is None
    broker.cluster.configs.alter_topic("__transaction_state", {"cleanup.policy": "compact", "flush.messages": "1000"})
    assert coordinator.admit("payments", IDS, ("b", 1), may_add=True) is None


def test_failed_sync_of_the_decision() -> None:
    files = FaultyFiles()
    broker = begun(files)
    files.fail("sync", errno.EIO, path_part="__transaction_state")
    pending = end(broker)
    broker.clock.advance(0)
    assert pending.answer().error_code == 16
    files.heal()
    broker = broker.restart(clean=False)  # whether it was on the disk nobody knew: it was in the page cache
    broker.clock.advance(0)
    assert (state_of(broker), markers(broker, "a", 0)) == ("CompleteCommit", [(True, 1)])


def test_failed_write_of_the_decision_leaves_no_trace() -> None:
    files = FaultyFiles()
    broker = begun(files)
    files.fail("write", errno.EINVAL, path_part="__transaction_state")  # an error that is no disk's
    assert end(broker).answer().error_code == 16
    assert (state_of(broker), steps_of(broker)[-1][0]) == ("Ongoing", "Ongoing")
    assert markers(broker, "a", 0) == []

    pending = end(broker)
    broker.clock.advance(0)
    assert pending.answer().error_code == 0
    assert state_of(broker) == "CompleteCommit"


def test_failed_marker_write_is_retried() -> None:
    files = FaultyFiles()
    broker = begun(files)
    files.fail("write", errno.EINVAL, path_part="a-1/", times=3)
    pending = end(broker)
    broker.clock.advance(0)
    assert pending.answer().error_code == 0
    assert (state_of(broker), is_stable(broker, "a", 0), is_stable(broker, "a", 1)) == ("PrepareCommit", True, False)
    broker.clock.advance(2_000)
    assert state_of(broker) == "PrepareCommit"
    broker.clock.advance(1_000)
    assert (state_of(broker), markers(broker, "a", 0), markers(broker, "a", 1)) == ("CompleteCommit", [(True, 1)], [(True, 1)])


def test_failed_marker_sync_delays_completion(tmp_path: Path) -> None:
    files = FaultyFiles()
    broker = begun(files, config={"log.dirs": f"{tmp_path}/one,{tmp_path}/two"})
    home = Path(broker.cluster.partition("__transaction_state", 0).log.directory).parent
    here, there = sorted((0, 1), key=lambda index: Path(broker.cluster.partition("a", index).log.directory).parent != home)
    files.fail("sync", errno.EIO, path_part=f"a-{there}/")

    pending = end(broker)
    broker.clock.advance(0)

    assert pending.answer().error_code == 0  # the outcome is safe
    assert (state_of(broker), markers(broker, "a", here)) == ("PrepareCommit", [(True, 1)])
    broker.clock.advance(60_000)
    assert state_of(broker) == "PrepareCommit"
    broker = broker.restart(clean=False)
    broker.clock.advance(0)
    assert (state_of(broker), markers(broker, "a", there), is_stable(broker, "a", there)) == ("CompleteCommit", [(True, 1)], True)


def test_last_directory_fails_after_a_marker() -> None:
    files = FaultyFiles()
    broker = begun(files)
    files.fail("sync", errno.EIO, path_part="a-1/")
    pending = end(broker)
    broker.clock.advance(60_000)
    assert pending.answer().error_code == 0
    broker = broker.restart(clean=False)
    broker.clock.advance(0)
    assert (state_of(broker), markers(broker, "a", 0), markers(broker, "a", 1)) == ("CompleteCommit", [(True, 1)], [(True, 1)])


def test_failed_completion_is_retried() -> None:
    files = FaultyFiles()
    broker = begun(files)
    files.fail("write", errno.EINVAL, path_part="__transaction_state", after=1, times=2)
    pending = end(broker)
    broker.clock.advance(0)
    assert pending.answer().error_code == 0
    assert (state_of(broker), is_stable(broker, "a", 0)) == ("PrepareCommit", True)
    broker.clock.advance(1_000)
    assert state_of(broker) == "PrepareCommit"
    broker.clock.advance(1_000)
    assert state_of(broker) == "CompleteCommit"
    assert markers(broker, "a", 0) == [(True, 1)]


def test_state_partition_goes_offline_after_the_markers_of_a_takeover() -> None:
    files = FaultyFiles()
    broker = begun(files)
    files.fail("write", errno.EIO, path_part="__transaction_state", after=1)
    pending = init(broker)  # it aborts what is open first: Prepare* is written, Complete* is not
    others: list[object] = []
    log = broker.cluster.partition("a", 0).log
    broker.clock.call_later_ms(0, lambda: broker.services.flush_queue.flush([log], others.append))
    broker.clock.advance(0)
    assert pending.answer().error_code == 51  # and 16 when it asks again
    assert len(others) == 1
    assert init(broker).answer().error_code == 16


@pytest.mark.parametrize("clean", [True, False])
def test_stop_during_a_slow_sync(clean: bool) -> None:
    broker = begun()
    pending = end(broker)
    broker.services.coordinators.stop()
    broker.clock.advance(0)
    assert pending.answer().error_code == 16
    assert markers(broker, "a", 0) == []
    broker = broker.restart(clean=clean)
    broker.clock.advance(0)
    assert (state_of(broker), markers(broker, "a", 0)) == ("CompleteCommit", [(True, 1)])


def test_offline_coordinator_ends_no_transaction() -> None:
    broker = begun()
    partition = broker.cluster.partition("__transaction_state", 0)
    pending = end(broker)
    partition.take_offline(NotCoordinator())
    broker.clock.advance(0)
    assert pending.answer().error_code in {0, 16}
    assert init(broker).answer().error_code == 16
