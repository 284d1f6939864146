"""What the broker does by itself: when retention looks, that it keeps no request waiting, which checkpoints it writes when."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from minibroker.background import InlineBackground
from minibroker.clock import ManualClock
from minibroker.cluster.cluster import Cluster
from minibroker.cluster.directories import maintenance
from minibroker.config.broker_config import BrokerConfig
from minibroker.log.results import IsolationLevel
from minibroker.records.builder import build_batch
from minibroker.records.record import Record
from minibroker.schemas import k01_fetch as k01
from minibroker.schemas import k02_list_offsets as k02
from minibroker.schemas import k44_incremental_alter_configs as k44
from tests.support.broker_in_memory import BrokerInMemory, records
from tests.support.faulty_files import FaultyFiles
from tests.support.log_batches import NOW_MS, batch_of, idempotent_batch

TOPIC, BROKER = 2, 4
SET = 0
HOUR = 3_600_000


def broker_with(folder: Path | None = None, files: Any = None, **config: str) -> BrokerInMemory:
    settings = {"log.segment.bytes": "100"} | {key.replace("_", "."): value for key, value in config.items()}
    return BrokerInMemory(topics={"orders": 1}, config=settings, folder=folder, files=files)


def fill(broker: BrokerInMemory, count: int, topic: str = "orders", index: int = 0) -> None:
    for _ in range(count):
        broker.cluster.partition(topic, index).append(batch_of(b"x" * 20, timestamp=broker.clock.now_ms()))


def start_of(broker: BrokerInMemory, topic: str = "orders", index: int = 0) -> int:
    """As a client learns it."""
    asked = [k02.Topic(name=topic, partitions=[k02.Partition(partition_index=index, timestamp=-2)])]
    answer = broker.ask(k02.Request(replica_id=-1, topics=asked))
    return int(answer.topics[0].partitions[0].offset)


def alter(broker: BrokerInMemory, name: str, value: str, resource: str = "orders", kind: int = TOPIC) -> None:
    config = k44.Config(name=name, config_operation=SET, value=value)
    answer = broker.ask(
        k44.Request(resources=[k44.Resource(resource_type=kind, resource_name=resource, configs=[config])], validate_only=False)
    )
    assert answer.responses[0].error_code == 0


def test_retention_runs_after_start_and_at_every_interval() -> None:
    broker = broker_with(log_retention_ms="1", log_retention_check_interval_ms="60000")
    fill(broker, 2)
    broker.clock.advance(29_999)
    assert start_of(broker) == 0
    broker.clock.advance(1)
    assert start_of(broker) == 2
    fill(broker, 2)
    broker.clock.advance(59_999)
    assert start_of(broker) == 2
    broker.clock.advance(1)
    assert start_of(broker) == 4


@pytest.mark.parametrize(("delay", "interval"), [("100", "300000"), ("30000", "100")])
def test_initial_delay_of_retention_is_configurable(delay: str, interval: str) -> None:
    broker = broker_with(log_retention_ms="1", log_initial_task_delay_ms=delay, log_retention_check_interval_ms=interval)
    fill(broker, 1)
    broker.clock.advance(99)
    assert start_of(broker) == 0
    broker.clock.advance(1)
    assert start_of(broker) == 1


def test_settings_of_the_spark_suite() -> None:
    broker = broker_with(log_segment_bytes="70", log_retention_bytes="40", log_retention_check_interval_ms="100")
    for number in range(30):
        broker.append("orders", 0, bytes(build_batch([Record(0, NOW_MS, None, b"v")])))
        broker.clock.advance(100)
        assert broker.cluster.partition("orders", 0).log.log_end_offset == number + 1
        assert start_of(broker) == number


@pytest.mark.parametrize(
    ("name", "value", "left"),
    [("retention.ms", "1", 5), ("retention.bytes", "0", 5), ("cleanup.policy", "compact", 0), ("segment.ms", "1", 0)],
)
def test_alter_configs_purges_the_topic(name: str, value: str, left: int) -> None:
    broker = broker_with()
    fill(broker, 5)
    broker.clock.advance(10)
    alter(broker, name, value)
    assert start_of(broker) == left


def test_repeated_purge_deletes_new_records() -> None:
    broker = broker_with()
    for end_offset in (5, 10):
        fill(broker, 5)
        broker.clock.advance(10)
        alter(broker, "retention.ms", "1")
        assert start_of(broker) == end_offset


def test_purge_by_a_broker_default() -> None:
    broker = broker_with()
    fill(broker, 5)
    broker.clock.advance(10)
    alter(broker, "log.retention.ms", "1", resource="", kind=BROKER)
    assert start_of(broker) == 5


def test_only_changed_topics_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = broker_with()
    broker.cluster.create_topic("other", partition_count=1, configs={"retention.ms": "1"})
    fill(broker, 1, "other")
    broker.clock.advance(10)
    alter(broker, "retention.ms", "5")
    assert (start_of(broker), start_of(broker, "other")) == (0, 0)


def test_each_step_is_bounded() -> None:
    broker = broker_with(log_retention_ms="-1")
    fill(broker, 250)
    many = maintenance.LOGS_A_TURN * 2
    broker.cluster.create_topic("many", partition_count=many)
    for index in range(many):
        fill(broker, 1, "many", index)
    broker.clock.jump(10)
    alter(broker, "retention.ms", "1")
    assert start_of(broker) == maintenance.SEGMENTS_A_TURN
    alter(broker, "retention.ms", "1", "many")
    assert start_of(broker, "many", many - 1) == 0
    broker.clock.advance(0)
    assert start_of(broker) == 250
    assert [start_of(broker, "many", index) for index in range(many)] == [1] * many


def test_waiting_fetch_gets_offset_out_of_range_after_deletion() -> None:
    broker = broker_with(log_segment_bytes="10000")
    fill(broker, 3)
    topic_id = broker.cluster.topic("orders").topic_id
    wanted = k01.Partition(partition=0, fetch_offset=1, partition_max_bytes=1 << 20)
    topics = [k01.Topic(topic_id=topic_id, partitions=[wanted])]
    pending = broker.begin(k01.Request(max_wait_ms=HOUR, min_bytes=1 << 20, topics=topics))
    waited = not pending.is_done
    broker.clock.advance(10)
    alter(broker, "retention.ms", "1")
    broker.clock.advance(0)
    assert waited
    assert pending.is_done
    assert pending.answer().responses[0].partitions[0].error_code == 1  # OFFSET_OUT_OF_RANGE


def test_failing_log_does_not_stop_retention_of_others(caplog: pytest.LogCaptureFixture) -> None:
    files = FaultyFiles()
    broker = broker_with(files=files, log_retention_ms="1", log_index_interval_bytes="0")
    broker.cluster.create_topic("other", partition_count=1)
    fill(broker, 2)
    fill(broker, 2, "other")
    files.fail("rename", errno.EACCES, path_part="orders-0/", times=100)
    broker.clock.advance(30_000)
    assert start_of(broker, "other") == 2
    assert "orders-0" in caplog.text
    files.heal()
    broker.clock.advance(HOUR)
    assert start_of(broker) == 2


def test_log_under_compaction_is_checked_later() -> None:
    broker = broker_with()
    fill(broker, 3)
    log = broker.cluster.partition("orders", 0).log
    busy = {log}
    broker.cluster.logs.maintenance._is_busy = busy.__contains__
    broker.clock.advance(10)
    alter(broker, "retention.ms", "1")
    broker.clock.advance(5000)
    assert start_of(broker) == 0
    busy.clear()
    broker.clock.advance(1000)
    assert start_of(broker) == 3


def test_no_maintenance_after_close(tmp_path: Path) -> None:
    broker = broker_with(tmp_path, log_retention_ms="1")
    fill(broker, 3)
    broker.cluster.close()
    names = {path.name for path in tmp_path.rglob("*")}
    broker.clock.advance(24 * HOUR)
    assert {path.name for path in tmp_path.rglob("*")} == names


def test_segments_roll_by_time() -> None:
    broker = broker_with(log_roll_ms=str(HOUR), log_retention_check_interval_ms="60000", log_segment_bytes="1000")
    fill(broker, 1)
    log = broker.cluster.partition("orders", 0).log
    broker.clock.advance(HOUR)
    assert len(log.segments) == 1
    broker.clock.advance(120_000)
    assert len(log.segments) == 2


# Producers


def test_idle_producers_expire() -> None:
    broker = broker_with(producer_id_expiration_ms="60000", producer_id_expiration_check_interval_ms="10000")
    producer_id = broker.cluster.metadata.allocate_producer_id()
    log = broker.cluster.partition("orders", 0).log
    log.append(idempotent_batch(producer_id, 0))
    broker.clock.advance(50_000)
    assert producer_id in log.producers.producers
    alter(broker, "producer.id.expiration.ms", "30000", resource="1", kind=BROKER)
    broker.clock.advance(30_000)
    assert producer_id not in log.producers.producers


# Checkpoints


def test_each_checkpoint_has_its_own_interval(tmp_path: Path) -> None:
    broker = broker_with(
        tmp_path,
        log_flush_offset_checkpoint_interval_ms="30000",
        log_flush_start_offset_checkpoint_interval_ms="20000",
        replica_high_watermark_checkpoint_interval_ms="10000",
        log_segment_bytes="1000",
    )

    def held(name: str) -> str:
        path = tmp_path / name
        return path.read_text().splitlines()[-1] if path.exists() else ""

    fill(broker, 3)
    partition = broker.cluster.partition("orders", 0)
    partition.advance_log_start_offset(2)
    partition.log.flusher.flush()
    names = ["replication-offset-checkpoint", "log-start-offset-checkpoint", "recovery-point-offset-checkpoint"]
    values = ["orders 0 3", "orders 0 2", "orders 0 3"]
    for step in range(3):
        broker.clock.advance(10_000)
        assert [held(name) == value for name, value in zip(names, values, strict=True)] == [True, step > 0, step > 1]


def test_unchanged_checkpoints_are_not_rewritten(tmp_path: Path) -> None:
    files = FaultyFiles()
    broker = broker_with(tmp_path, files=files)
    fill(broker, 1)
    broker.clock.advance(120_000)
    before = dict(files.counts)
    broker.clock.advance(240_000)
    assert files.counts == before
    fill(broker, 1)
    broker.clock.advance(120_000)
    assert files.counts["rename"] > before["rename"]


def test_failed_checkpoint_is_retried(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    files = FaultyFiles()
    broker = broker_with(tmp_path, files=files)
    fill(broker, 1)
    files.fail("rename", errno.EACCES, path_part="replication-offset")
    broker.clock.advance(5000)
    assert "could not write checkpoints" in caplog.text
    broker.clock.advance(5000)
    assert "orders 0 1" in (tmp_path / "replication-offset-checkpoint").read_text()


# Restart


@pytest.mark.parametrize("is_clean", [True, False])
def test_deleted_records_stay_deleted_and_offsets_continue(is_clean: bool, tmp_path: Path) -> None:
    broker = broker_with(tmp_path, log_retention_ms="1000", log_segment_delete_delay_ms="60000")
    fill(broker, 3)
    broker.clock.advance(2000)
    broker.cluster.logs.maintenance.check(broker.cluster.topic("orders").partitions)
    fill(broker, 1)
    again = broker.restart(clean=is_clean)
    assert start_of(again) == 3
    assert not list(tmp_path.rglob("*.deleted"))
    fill(again, 1)
    log = again.cluster.partition("orders", 0).log
    assert (log.log_start_offset, log.log_end_offset) == (3, 5)
    assert log.read(3, 1 << 20, isolation=IsolationLevel.READ_UNCOMMITTED)


def test_checking_many_idle_logs_touches_no_file(tmp_path: Path) -> None:
    """A round over logs with nothing to do touches no file but for the time of one."""
    files = FaultyFiles()
    config = BrokerConfig({"log.dirs": str(tmp_path), "listeners": "PLAINTEXT://localhost:9092"})
    clock = ManualClock()
    cluster = Cluster.open(config, files, clock, InlineBackground())
    cluster.create_topic("many", partition_count=50)
    for partition in cluster.topic("many").partitions:
        partition.append(memoryview(bytearray(records(1))))
    before = dict(files.counts)
    cluster.logs.maintenance.check(cluster.topic("many").partitions)
    clock.advance(1)
    assert files.counts == before
    cluster.close()


# FAULTS 20: the clock


def test_clock_jump_does_not_delete_records_early() -> None:
    day = 24 * HOUR
    broker = broker_with(log_retention_ms=str(7 * day), log_retention_check_interval_ms="60000")
    fill(broker, 5)
    for jump_ms in (day, -2 * day, 5 * day, -4 * day):
        broker.clock.jump(jump_ms)
        broker.clock.advance(60_000)
        assert start_of(broker) == 0
        fill(broker, 1)
    broker.clock.jump(7 * day)
    broker.clock.advance(60_000)
    assert start_of(broker) == 5  # the next was written when the clock was a day ahead, and keeps what lies behind it
    broker.clock.jump(30 * day)
    broker.clock.advance(60_000)
    assert start_of(broker) == 9
