"""flush.messages and flush.ms: when a producer waits for the disk, and where a recovery begins after that."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from minibroker.dispatch.flush import FlushTimer
from minibroker.errors import KafkaStorageError
from minibroker.log.partition_log import PartitionLog
from minibroker.records.control import ControlType, EndTransactionMarker
from minibroker.schemas import k00_produce as k00
from minibroker.schemas import k01_fetch as k01
from minibroker.schemas import k44_incremental_alter_configs as k44
from tests.support.broker_in_memory import BrokerInMemory, Pending, records
from tests.support.faulty_files import FaultyFiles
from tests.support.log_batches import idempotent_batch, read_values

TOPIC = 2


def alter(broker: BrokerInMemory, name: str, value: str) -> None:
    configs = [k44.Config(name=name, config_operation=0, value=value)]
    resource = k44.Resource(resource_type=TOPIC, resource_name="orders", configs=configs)
    assert broker.ask(k44.Request(resources=[resource], validate_only=False)).responses[0].error_code == 0


def produce(broker: BrokerInMemory, count: int = 1) -> Pending:
    partition = k00.Partition(index=0, records=memoryview(bytearray(records(count))))
    topics = [k00.Topic(name="orders", partition_data=[partition])]
    return broker.begin(k00.Request(transactional_id=None, acks=-1, timeout_ms=1000, topic_data=topics), 9)


def begin_fetch(broker: BrokerInMemory, *, offset: int = 0) -> Pending:
    partition = k01.Partition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    topics = [k01.Topic(topic="orders", partitions=[partition])]
    return broker.begin(k01.Request(max_wait_ms=500, min_bytes=1, session_epoch=-1, topics=topics), 12)


def waits(pending: Pending) -> bool:
    return not pending.is_done


def test_every_third_record_waits_for_the_disk() -> None:
    files = FaultyFiles()
    broker = BrokerInMemory(topics={"orders": 1}, files=files)
    alter(broker, "flush.messages", "3")
    log = broker.cluster.partition("orders", 0).log
    syncs = files.counts.get("sync", 0)
    assert [waits(produce(broker)), waits(produce(broker)), waits(produce(broker))] == [False, False, True]
    broker.clock.advance(0)
    assert (log.flusher.recovery_point, files.counts["sync"] - syncs) == (3, 1)
    assert [waits(produce(broker)), waits(produce(broker, 2))] == [False, True]
    broker.clock.advance(0)
    assert log.flusher.recovery_point == 6


def visible(log: PartitionLog) -> tuple[int, int]:
    return log.high_watermark, log.last_stable_offset


def test_unsynced_records_are_not_readable() -> None:
    """As with Apache Kafka, whose append returns behind its flush: a power loss takes back nothing that a consumer has seen."""
    broker = BrokerInMemory(topics={"orders": 1}, config={"log.flush.interval.messages": "3"})
    log = broker.cluster.partition("orders", 0).log
    assert not waits(produce(broker, 2))
    assert visible(log) == (2, 2)
    fetch = begin_fetch(broker, offset=2)
    assert waits(produce(broker, 2))
    assert (visible(log), log.log_end_offset, fetch.is_done) == ((2, 2), 4, False)
    broker.clock.advance(0)
    assert (visible(log), fetch.is_done) == ((4, 4), True)
    assert not waits(produce(broker))
    assert visible(log) == (5, 5)


def test_records_are_not_readable_after_a_failed_sync() -> None:
    files = FaultyFiles()
    broker = BrokerInMemory(topics={"orders": 1}, config={"log.flush.interval.messages": "1"}, files=files)
    log = broker.cluster.partition("orders", 0).log
    fetch = begin_fetch(broker)
    files.fail("sync", errno.EIO)
    pending = produce(broker)
    broker.clock.advance(1000)
    assert pending.answer().responses[0].partition_responses[0].error_code == KafkaStorageError.code
    assert visible(log) == (0, 0)
    assert not fetch.answer().responses[0].partitions[0].records


def test_transaction_ended_during_a_flush_is_not_yet_stable() -> None:
    """Records that came while a flush ran are not shown by it, nor that a transaction in front of them has ended."""
    broker = BrokerInMemory(topics={"orders": 1}, config={"log.flush.interval.messages": "1"})
    log = broker.cluster.partition("orders", 0).log
    log.append_own(idempotent_batch(7, 0, is_transactional=True))
    flush = log.flusher.begin_flush()
    log.end_transaction(EndTransactionMarker(ControlType.COMMIT, 0), producer_id=7, producer_epoch=0, transaction_version=1)
    flush.run()
    log.flusher.end_flush(flush, None)
    assert (visible(log), log.first_unstable_offset, log.log_end_offset) == ((1, 0), 0, 2)
    log.flusher.flush()
    assert (visible(log), log.first_unstable_offset) == ((2, 2), None)


@pytest.mark.parametrize(("flushed", "start", "expected"), [(2, 0, (2, 2)), (3, 0, (3, 2)), (4, 3, (4, 3))])
def test_flushed_offsets_are_ordered(flushed: int, start: int, expected: tuple[int, int]) -> None:
    """The order of the offsets holds wherever the oldest transaction begins, and when records are deleted meanwhile."""
    broker = BrokerInMemory(topics={"orders": 1}, config={"log.flush.interval.messages": "1"})
    log = broker.cluster.partition("orders", 0).log
    for data in (records(2), idempotent_batch(7, 0, is_transactional=True), records(1), records(1)):
        log.append_own(memoryview(bytearray(data)))
    flush = log.flusher.begin_flush(flushed)
    if start:
        log.high_watermark = start  # what an earlier flush has shown
        log.advance_log_start_offset(start)
    flush.run()
    log.flusher.end_flush(flush, None)
    assert visible(log) == expected
    assert log.log_start_offset == start


def test_the_rule_may_change_while_the_topic_is_written_to() -> None:
    broker = BrokerInMemory(topics={"orders": 1})
    assert not waits(produce(broker))
    alter(broker, "flush.messages", "1")
    assert waits(produce(broker))
    broker.clock.advance(0)
    assert broker.cluster.partition("orders", 0).log.flusher.recovery_point == 2
    alter(broker, "flush.messages", "1000")
    assert not waits(produce(broker))


@pytest.mark.parametrize("is_flushed", [True, False])
def test_recovery_starts_at_the_flushed_offset(is_flushed: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Damage below the recovery point is not looked at, and costs no record behind it."""
    broker = BrokerInMemory(folder=tmp_path, config={"log.segment.bytes": "200", "log.roll.jitter.ms": "0"})
    broker.cluster.create_topic("orders", partition_count=1, configs={"flush.ms": "1000"} if is_flushed else {})
    log = broker.cluster.partition("orders", 0).log
    log.flusher._background = None  # rolled segments are synced otherwise
    timer = FlushTimer(broker.cluster, broker.clock, broker.services.flush_queue, 1000)
    for _ in range(10):
        produce(broker)
    broker.clock.advance(61_000)  # flush.ms, then the checkpoint
    timer.stop()
    produce(broker)
    assert log.flusher.recovery_point == (10 if is_flushed else 0)
    path = tmp_path / "orders-0" / f"{0:020}.log"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    again = broker.restart(clean=False)
    log = again.cluster.partition("orders", 0).log
    assert log.log_end_offset == (11 if is_flushed else 1)
    assert (str(path) in caplog.text) == (not is_flushed)
    if is_flushed:
        assert list(read_values(log, 2)) == list(range(2, 11))
