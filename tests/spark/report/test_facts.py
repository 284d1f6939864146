"""What is told without a scan: by a broker in memory, and by its files, which know what it knows but for the states of groups."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("numpy")

from minibroker.client.client import Client
from minibroker.client.group_offsets import alter_share_offsets
from minibroker.coordinator.transaction.records import ProducerIdAndEpoch
from minibroker.errors import CorruptLogError
from minibroker.schemas import k21_delete_records, k22_init_producer_id, k25_add_offsets_to_txn
from minibroker.spark.report import OffsetReport, PartitionInfo, report
from tests.support import transactional_logs
from tests.support.broker_in_memory import BrokerInMemory, records
from tests.support.client_in_memory import connector
from tests.support.committed_offsets import broker_with_groups, commit, commit_in_transaction
from tests.support.log_batches import NOW_MS

TIMES = (NOW_MS - 1, NOW_MS + 1, NOW_MS + 10_000_000)


def both(broker: BrokerInMemory, isolation_level: str = "read_committed") -> tuple[OffsetReport, OffsetReport]:
    """From the broker and from its files; states and share groups, which only it knows, are taken out."""
    options = {"times": TIMES, "isolation_level": isolation_level, "scan": False}
    by_broker = report(bootstrap_servers="memory:1", connect=connector(broker), now_ms=lambda: NOW_MS, **options)  # type: ignore[arg-type]  # each fits its parameter
    by_files = report(data_dir=str(broker.folder), now_ms=lambda: NOW_MS, **options)  # type: ignore[arg-type]
    return without_nature(by_broker), without_nature(by_files)


def without_nature(found: OffsetReport) -> OffsetReport:
    topics = [replace(topic, partitions=tuple(replace(each, leader=None) for each in topic.partitions)) for topic in found.topics]
    groups = tuple(replace(each, state=None) for each in found.groups if each.type != "share")
    return replace(found, source="", topics=tuple(topics), groups=groups)


@pytest.mark.parametrize("isolation_level", ["read_committed", "read_uncommitted"])
@pytest.mark.parametrize("seed", range(6))
def test_transactions_at_random(seed: int, isolation_level: str, tmp_path: Path) -> None:
    """Segments roll, snapshots are taken, records are deleted, transactions are open at the end."""
    rng = random.Random(seed)
    broker = broker_with_groups({"orders": 2}, {"log.segment.bytes": str(rng.choice([300, 1500, 100_000]))}, folder=tmp_path)
    for _ in range(5):
        broker.cluster.metadata.allocate_producer_id()
    for partition in range(2):
        log = broker.cluster.partition("orders", partition).log
        transactional_logs.fill(log, seed + partition, rng.randint(0, 120))
        if rng.random() < 0.5 and log.last_stable_offset > 4:
            deleted = k21_delete_records.Partition(partition_index=partition, offset=rng.randrange(log.last_stable_offset))
            broker.ask(k21_delete_records.Request(topics=[k21_delete_records.Topic(name="orders", partitions=[deleted])], timeout_ms=1000))
    broker.clock.advance(60_000)  # the checkpoint of log start offsets is written
    by_broker, by_files = both(broker, isolation_level)
    assert by_files == by_broker
    for each in by_broker.topics[0].partitions:
        log = broker.cluster.partition("orders", each.partition).log
        assert (each.log_start_offset, each.last_stable_offset, each.high_watermark) == (
            log.log_start_offset,
            log.last_stable_offset,
            log.log_end_offset,
        )
        assert [one.producer_id for one in each.producers] == [one.producer_id for one in log.producers.active()]


def test_groups_and_transactions(tmp_path: Path) -> None:
    broker = broker_with_groups({"orders": 2, "others": 1}, folder=tmp_path)
    broker.append("orders", 0, records(10))
    commit(broker, {("orders", 0): 4, ("others", 0): 0, ("gone", 0): 7}, group="billing")
    commit(broker, {("orders", 0): 6}, group="billing")
    ids = broker.ask(k22_init_producer_id.Request(transactional_id="payments", transaction_timeout_ms=60_000))
    owner = ProducerIdAndEpoch(ids.producer_id, ids.producer_epoch)
    broker.ask(
        k25_add_offsets_to_txn.Request(
            transactional_id="payments", producer_id=ids.producer_id, producer_epoch=ids.producer_epoch, group_id="billing"
        )
    )
    commit_in_transaction(broker, owner, {("orders", 1): 3}, group="billing")
    with Client("memory:1", connect=connector(broker)) as client:
        assert set(alter_share_offsets(client, "workers", {("orders", 0): 7}).values()) == {None}
    by_broker, by_files = both(broker)
    assert by_files == by_broker
    offsets = [(each.group, each.topic, each.partition, each.committed_offset, each.lag) for each in by_broker.groups]
    assert offsets == [("billing", "orders", 0, 6, 4), ("billing", "others", 0, 0, 0)]  # what is in the transaction does not count yet
    whole = report(bootstrap_servers="memory:1", topics=["orders"], scan=False, connect=connector(broker))
    assert [(each.group, each.type, each.committed_offset) for each in whole.groups] == [("billing", "classic", 6), ("workers", "share", 7)]
    assert whole.notes == ()


def test_a_transaction_that_hangs_belongs_to_nobody(tmp_path: Path) -> None:
    broker = broker_with_groups({"orders": 1}, folder=tmp_path)
    producer_id = broker.cluster.metadata.allocate_producer_id()
    batch = records(3, producer_id=producer_id, producer_epoch=0, base_sequence=0, is_transactional=True)
    broker.append("orders", 0, batch)
    for found in both(broker):
        (producer,) = only(found).producers
        assert (producer.producer_id, producer.current_txn_start_offset, producer.transactional_id) == (producer_id, 0, None)


def only(found: OffsetReport) -> PartitionInfo:
    ((info,),) = [topic.partitions for topic in found.topics]
    return info


def test_damage_in_what_is_secondary_is_noted(tmp_path: Path) -> None:
    """And in the topic itself it is an error."""
    broker = broker_with_groups({"orders": 1}, folder=tmp_path)
    broker.append("orders", 0, records(3))
    commit(broker, {("orders", 0): 1}, group="billing")
    log = tmp_path / "__consumer_offsets-0" / "00000000000000000000.log"
    log.write_bytes(log.read_bytes()[:-9] + b"\xff" * 9 + log.read_bytes())
    found = report(data_dir=str(tmp_path), topics=["orders"], scan=False)
    assert only(found).high_watermark == 3
    assert [note.partition(" are unknown: ")[0] for note in found.notes] == ["groups"]
    log = tmp_path / "orders-0" / "00000000000000000000.log"
    log.write_bytes(log.read_bytes()[:8] + b"\x00\x00\x00\x01" + log.read_bytes()[12:] + log.read_bytes())
    with pytest.raises(CorruptLogError, match=r"orders-0/0{20}\.log"):
        report(data_dir=str(tmp_path), topics=["orders"], scan=False)
