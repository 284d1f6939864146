"""flush.messages and flush.ms: when a producer waits for the disk, and where a recovery begins after that."""

from __future__ import annotations

from pathlib import Path

import pytest

from minibroker.dispatch.flush_timer import FlushTimer
from minibroker.schemas import k00_produce as k00
from minibroker.schemas import k44_incremental_alter_configs as k44
from tests.support.broker_in_memory import BrokerInMemory, Pending, records
from tests.support.faulty_files import FaultyFiles
from tests.support.log_batches import read_values

TOPIC = 2


def alter(broker: BrokerInMemory, name: str, value: str) -> None:
    configs = [k44.Config(name=name, config_operation=0, value=value)]
    resource = k44.Resource(resource_type=TOPIC, resource_name="orders", configs=configs)
    assert broker.ask(k44.Request(resources=[resource], validate_only=False)).responses[0].error_code == 0


def produce(broker: BrokerInMemory, count: int = 1) -> Pending:
    partition = k00.Partition(index=0, records=memoryview(bytearray(records(count))))
    topics = [k00.Topic(name="orders", partition_data=[partition])]
    return broker.begin(k00.Request(transactional_id=None, acks=-1, timeout_ms=1000, topic_data=topics), 9)


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
    assert (log.recovery_point, files.counts["sync"] - syncs) == (3, 1)
    assert [waits(produce(broker)), waits(produce(broker, 2))] == [False, True]
    broker.clock.advance(0)
    assert log.recovery_point == 6


def test_the_rule_may_change_while_the_topic_is_written_to() -> None:
    broker = BrokerInMemory(topics={"orders": 1})
    assert not waits(produce(broker))
    alter(broker, "flush.messages", "1")
    assert waits(produce(broker))
    broker.clock.advance(0)
    assert broker.cluster.partition("orders", 0).log.recovery_point == 2
    alter(broker, "flush.messages", "1000")
    assert not waits(produce(broker))


@pytest.mark.parametrize("is_flushed", [True, False])
def test_a_recovery_begins_at_what_was_flushed(is_flushed: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Damage below the recovery point is not looked at, and costs no record behind it."""
    broker = BrokerInMemory(folder=tmp_path, config={"log.segment.bytes": "200", "log.roll.jitter.ms": "0"})
    broker.cluster.create_topic("orders", partition_count=1, configs={"flush.ms": "1000"} if is_flushed else {})
    log = broker.cluster.partition("orders", 0).log
    log._background = None  # rolled segments are synced otherwise
    timer = FlushTimer(broker.cluster, broker.clock, broker.services.flush_queue, 1000)
    for _ in range(10):
        produce(broker)
    broker.clock.advance(61_000)  # flush.ms, then the checkpoint
    timer.stop()
    produce(broker)
    assert log.recovery_point == (10 if is_flushed else 0)
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
