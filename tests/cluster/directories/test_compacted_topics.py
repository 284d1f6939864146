"""Compacted topics of a whole broker in memory: when the cleaner comes, what it remembers, what it forgets."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from minibroker.cluster.metadata.frame import run
from minibroker.cluster.topic import Topic
from minibroker.errors import KafkaStorageError
from minibroker.log.compaction import LogCompaction
from minibroker.log.compaction_round import Compacted, CompactionPlan
from minibroker.records.any_format import decode_records, split_batches
from minibroker.schemas import k44_incremental_alter_configs as k44
from tests.cluster.directories.test_storage_checking import check
from tests.support.broker_in_memory import BrokerInMemory, records

COMPACT = {"cleanup.policy": "compact", "segment.bytes": "120", "min.cleanable.dirty.ratio": "0.01"}
BACKOFF_MS = 15_000
TOPIC_RESOURCE = 2


def broker_with(configs: dict[str, str], **properties: Any) -> BrokerInMemory:
    broker = BrokerInMemory(config={name.replace("_", "."): value for name, value in properties.items()})
    broker.cluster.create_topic("orders", partition_count=1, configs=configs)
    return broker


def fill(broker: BrokerInMemory, rounds: int, topic: str = "orders") -> None:
    """Each round writes the keys k0, k1, k2 with a batch of their own, which is a segment of its own."""
    for number in range(rounds):
        broker.append(topic, 0, records(3, timestamp=broker.clock.now_ms() + number))


def offsets(broker: BrokerInMemory, topic: str = "orders") -> list[int]:
    log = broker.cluster.partition(topic, 0).log
    found: list[int] = []
    offset = log.log_start_offset
    while data := log.read(offset, 1 << 20, isolation=None):
        for batch in split_batches(data):
            found += [record.offset for record in decode_records(batch)]
            offset = batch.next_offset
    return found


def checkpoint(broker: BrokerInMemory) -> str:
    path = broker.folder / "cleaner-offset-checkpoint"
    return path.read_text() if path.exists() else ""


def test_compaction_resumes_from_its_checkpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = broker_with(COMPACT)
    fill(broker, 4)
    assert offsets(broker) == [*range(12)]
    broker.clock.advance(BACKOFF_MS)
    assert offsets(broker) == [6, 7, 8, 9, 10, 11], "the segment that grows is left alone"
    assert checkpoint(broker) == "0\n1\norders 0 9\n"
    again = broker.restart()
    assert offsets(again) == [6, 7, 8, 9, 10, 11]
    fill(again, 1)
    plans: list[int] = []
    plan = LogCompaction.plan

    def noted(compaction: LogCompaction, first_dirty_offset: int, now_ms: int, *, offset_map_bytes: int) -> CompactionPlan | None:
        plans.append(first_dirty_offset)
        return plan(compaction, first_dirty_offset, now_ms, offset_map_bytes=offset_map_bytes)

    monkeypatch.setattr(LogCompaction, "plan", noted)
    again.clock.advance(BACKOFF_MS)
    assert plans == [9]
    assert offsets(again) == [9, 10, 11, 12, 13, 14]


def test_topic_without_compact_policy_is_not_compacted() -> None:
    broker = broker_with(COMPACT | {"cleanup.policy": "delete"})
    fill(broker, 4)
    broker.clock.advance(10 * BACKOFF_MS)
    assert offsets(broker) == [*range(12)]
    broker.cluster.logs.cleaner.compact([broker.cluster.partition("orders", 0).log])
    assert offsets(broker) == [*range(12)]


def test_on_demand() -> None:
    broker = broker_with(COMPACT | {"min.cleanable.dirty.ratio": "1.0"})
    fill(broker, 4)
    broker.clock.advance(10 * BACKOFF_MS)
    assert len(offsets(broker)) == 12
    broker.cluster.logs.cleaner.compact([broker.cluster.partition("orders", 0).log])
    assert offsets(broker) == [6, 7, 8, 9, 10, 11]


def test_topic_is_compacted_when_its_policy_changes() -> None:
    broker = broker_with(COMPACT | {"cleanup.policy": "delete"})
    fill(broker, 4)
    setting = k44.Config(name="cleanup.policy", config_operation=0, value="compact")
    resource = k44.Resource(resource_type=TOPIC_RESOURCE, resource_name="orders", configs=[setting])
    assert broker.ask(k44.Request(resources=[resource], validate_only=False)).responses[0].error_code == 0
    broker.clock.advance(0)
    assert offsets(broker) == [6, 7, 8, 9, 10, 11]


def test_recreated_topic_does_not_inherit_a_cleaner_offset() -> None:
    broker = broker_with(COMPACT)
    fill(broker, 10)
    broker.clock.advance(BACKOFF_MS)
    assert "orders 0 27" in checkpoint(broker)
    broker.cluster.delete_topic("orders")
    broker.cluster.create_topic("orders", partition_count=1, configs=COMPACT)
    assert "orders" not in checkpoint(broker)
    fill(broker, 12)
    broker.clock.advance(BACKOFF_MS)
    assert offsets(broker) == [*range(30, 36)]


def test_deleting_the_topic_or_stopping_cancels_compaction(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = broker_with(COMPACT)
    broker.cluster.create_topic("other", partition_count=1, configs=COMPACT)
    given_up: list[Any] = []
    monkeypatch.setattr(broker.background, "submit_process", lambda work, done: lambda: given_up.append(work))
    broker.config.set_dynamic({"log.cleaner.threads": "2"}, {})
    fill(broker, 4)
    fill(broker, 4, "other")
    broker.clock.advance(BACKOFF_MS)
    assert [log.topic for log in broker.cluster.logs.cleaner.running] == ["orders", "other"]
    broker.cluster.delete_topic("orders")
    assert [log.topic for log in broker.cluster.logs.cleaner.running] == ["other"]
    broker.cluster.close()
    assert len(given_up) == 2


def test_disk_failure_during_compaction_takes_the_directory_offline(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = broker_with(COMPACT)
    fill(broker, 4)

    def fail(plan: CompactionPlan, files: object) -> None:
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(CompactionPlan, "run", fail)
    broker.clock.advance(BACKOFF_MS)
    with pytest.raises(KafkaStorageError):
        _ = broker.cluster.partition("orders", 0).log
    assert broker.cluster.logs.cleaner.running == []
    broker.clock.advance(BACKOFF_MS)


def test_unreadable_batch_disables_compaction_of_its_log(caplog: pytest.LogCaptureFixture) -> None:
    broker = broker_with(COMPACT)
    fill(broker, 4)
    broker.cluster.create_topic("other", partition_count=1, configs=COMPACT)
    fill(broker, 4, "other")
    path = broker.folder / "orders-0" / f"{3:020}.log"
    damaged = bytearray(path.read_bytes())
    damaged[-1] ^= 1
    path.write_bytes(damaged)
    broker.clock.advance(4 * BACKOFF_MS)
    assert [log.topic for log in broker.cluster.logs.cleaner.set_aside] == ["orders"]
    assert offsets(broker, "other") == [6, 7, 8, 9, 10, 11]
    assert caplog.text.count("orders-0 is no longer compacted until the next start") == 1
    assert not list((broker.folder / "orders-0").glob("*.cleaned"))
    fill(broker, 1)  # it is written and read as ever
    assert len(broker.cluster.partition("orders", 0).log.read(12, 1 << 20, isolation=None)) > 0


def test_leftovers_of_a_killed_compaction_are_removed_at_start() -> None:
    broker = broker_with(COMPACT)
    fill(broker, 4)
    folder: Path = broker.folder / "orders-0"
    (folder / f"{0:020}.log.cleaned").write_bytes(b"half")
    again = broker.restart()
    assert not list(folder.glob("*.cleaned"))
    again.clock.advance(BACKOFF_MS)
    assert offsets(again) == [6, 7, 8, 9, 10, 11]


def test_corrupt_checkpoint_restarts_compaction(caplog: pytest.LogCaptureFixture) -> None:
    broker = broker_with(COMPACT)
    fill(broker, 4)
    broker.clock.advance(BACKOFF_MS)
    broker.cluster.close()
    (broker.folder / "cleaner-offset-checkpoint").write_text("0\n7\nnonsense")
    again = BrokerInMemory(folder=broker.folder, clock=broker.clock)
    again.clock.advance(BACKOFF_MS)
    assert "every log is compacted from its start" in caplog.text
    assert offsets(again) == [6, 7, 8, 9, 10, 11]
    assert checkpoint(again) == "0\n1\norders 0 9\n"


@pytest.mark.parametrize("has_checkpoint", [True, False])
def test_formerly_compacted_log_recovers_without_loss(has_checkpoint: bool, caplog: pytest.LogCaptureFixture) -> None:
    broker = broker_with(COMPACT)
    fill(broker, 6)
    broker.clock.advance(BACKOFF_MS)
    sizes = [path.stat().st_size for path in sorted((broker.folder / "orders-0").glob("*.log"))]
    assert sizes[:4] == [0, 0, 0, 0], "segments without a record: no end was lost there"
    broker.cluster.configs.alter_topic("orders", COMPACT | {"cleanup.policy": "delete"})
    broker.cluster.close(clean=False)
    (broker.folder / "recovery-point-offset-checkpoint").unlink(missing_ok=True)
    if not has_checkpoint:
        (broker.folder / "cleaner-offset-checkpoint").write_text("garbage")
    again = BrokerInMemory(folder=broker.folder, clock=broker.clock)
    assert offsets(again) == [*range(12, 18)]
    assert "lost" not in caplog.text
    assert not has_checkpoint or check(broker.folder) == []


def test_checkpoint_is_written_before_records_are_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = broker_with(COMPACT)
    fill(broker, 6)
    swap_in, seen = LogCompaction.swap_in, []

    def noted(compaction: LogCompaction, compacted: Compacted) -> bool:
        seen.append(checkpoint(broker))
        return swap_in(compaction, compacted)

    monkeypatch.setattr(LogCompaction, "swap_in", noted)
    broker.clock.advance(BACKOFF_MS)
    assert seen == ["0\n1\norders 0 0\n"]
    assert checkpoint(broker) == "0\n1\norders 0 15\n"


def test_added_partitions_are_compacted() -> None:
    broker = broker_with(COMPACT)
    run(broker.cluster.create_partitions_in_steps("orders", 3))
    topic: Topic = broker.cluster.topic("orders")
    for number in range(4):
        broker.append("orders", 2, records(3, timestamp=broker.clock.now_ms() + number))
    broker.clock.advance(BACKOFF_MS)
    assert [len(partition.log.segments) for partition in topic.partitions][:2] == [1, 1]
    assert checkpoint(broker) == "0\n1\norders 2 9\n"
