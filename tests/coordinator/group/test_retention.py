"""Offsets expire. Tombstones as Apache Kafka 4.3.1 wrote them with offsets.retention.minutes=1."""

from __future__ import annotations

from typing import Any

import pytest

from minibroker.coordinator.group import retention
from minibroker.coordinator.group.classic.members import group_tombstone
from minibroker.coordinator.group.consumer.members import ConsumerGroupImage
from minibroker.coordinator.group.kind import Membership
from minibroker.coordinator.group.offsets import CommittedOffset, NewOffset, offset_record, offset_tombstone
from minibroker.coordinator.group.retention import expired
from minibroker.coordinator.group.store import Shard
from minibroker.coordinator.stored_topic import batch_of
from minibroker.records.any_format import decode_records, split_batches
from minibroker.schemas import k26_end_txn as k26
from minibroker.schemas.internal.consumer_group_records import ConsumerGroupMetadataKey, ConsumerGroupMetadataValue
from minibroker.schemas.internal.offset_records import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from minibroker.storage.record_frame import CONSUMER_OFFSETS, CoordinatorRecord
from tests.support.broker_in_memory import BrokerInMemory
from tests.support.committed_offsets import TOPIC, broker_with_groups, commit, commit_in_transaction, fetch
from tests.support.group_members import begin_join, describe, heartbeat, join, leave, listed, stable
from tests.support.transactional_ids import init_producer

MINUTE_MS = 60_000
CONFIG = {"offsets.retention.minutes": "1", "offsets.retention.check.interval.ms": "1000"}


def last_batch(broker: BrokerInMemory) -> list[CoordinatorRecord | None]:
    log = broker.cluster.partition(TOPIC, 0).log
    (*_, last) = split_batches(memoryview(log.read(log.log_start_offset, 1_000_000, isolation=None)))
    return [CONSUMER_OFFSETS.decode(each.key, each.value) for each in decode_records(last)]


def test_simple_group_is_deleted_with_its_last_offset() -> None:
    broker = broker_with_groups({"a": 2}, CONFIG)
    commit(broker, {("a", 0): 1})
    broker.clock.advance(30_000)
    commit(broker, {("a", 1): 2})
    broker.clock.advance(29_999)
    assert fetch(broker) == {("a", 0): 1, ("a", 1): 2}
    broker.clock.advance(1)
    assert fetch(broker) == {("a", 1): 2}
    assert last_batch(broker) == [offset_tombstone("readers", ("a", 0))]

    broker.clock.advance(30_000)
    assert fetch(broker) == {}
    assert last_batch(broker) == [offset_tombstone("readers", ("a", 1)), group_tombstone("readers")]
    assert commit(broker, {("a", 0): 1}, generation_id=5) == [("a", [(0, 69)])]
    assert fetch(broker.restart(clean=False)) == {}


def test_new_commit_restarts_the_retention_time() -> None:
    broker = broker_with_groups({"a": 1}, CONFIG)
    commit(broker, {("a", 0): 1})
    broker.clock.advance(MINUTE_MS - 1_000)
    commit(broker, {("a", 0): 1})
    broker.clock.advance(MINUTE_MS - 1_000)
    assert fetch(broker) == {("a", 0): 1}


def test_offsets_expire_after_a_restart() -> None:
    broker = broker_with_groups({"a": 1}, CONFIG)
    commit(broker, {("a", 0): 1})
    broker.clock.advance(MINUTE_MS // 2)
    again = broker.restart()
    again.clock.advance(MINUTE_MS // 2)
    assert last_batch(again) == [offset_tombstone("readers", ("a", 0)), group_tombstone("readers")]


@pytest.mark.parametrize("version", [2, 3, 4])
@pytest.mark.parametrize(("retention_ms", "after_ms"), [(5_000, 5_000), (0, 1_000), (-2, 1_000), (10 * MINUTE_MS, 10 * MINUTE_MS)])
def test_retention_time_of_a_commit(version: int, retention_ms: int, after_ms: int) -> None:
    broker = broker_with_groups({"a": 1}, CONFIG)
    commit(broker, {("a", 0): 1}, version=version, retention_ms=retention_ms)
    broker.clock.advance(after_ms - 1)
    assert fetch(broker) == {("a", 0): 1}
    again = broker.restart()
    assert fetch(again) == {("a", 0): 1}
    again.clock.advance(1_001)
    assert fetch(again) == {}


@pytest.mark.parametrize(
    ("retention_ms", "expires_after_ms"),
    [(2**63 - 1, 2**63 - 1 - 2**64), (2**62, 2**62), (-2, -2), (0, 0), (-(2**63), -(2**63)), (10**12, 10**12)],
)
def test_expire_timestamp_matches_kafka(retention_ms: int, expires_after_ms: int) -> None:
    """As Apache Kafka 4.3.1 wrote it for OffsetCommit v2 (DumpLogSegments): a sum above 2^63-1 wraps, and the offset expires at once."""
    broker = broker_with_groups({"a": 1}, CONFIG)
    assert commit(broker, {("a", 0): 1}, version=2, retention_ms=retention_ms) == [("a", [(0, 0)])]
    (record,) = last_batch(broker)
    assert record is not None
    assert record.value.expire_timestamp - record.value.commit_timestamp == expires_after_ms
    broker.clock.advance(1_000)
    assert fetch(broker) == ({} if expires_after_ms <= 0 else {("a", 0): 1})


def test_offsets_of_an_open_transaction_do_not_expire() -> None:
    broker = broker_with_groups({"a": 2}, CONFIG)
    commit(broker, {("a", 0): 1, ("a", 1): 1})
    ids = init_producer(broker, timeout_ms=10 * MINUTE_MS)
    commit_in_transaction(broker, ids, {("a", 0): 2})
    commit_in_transaction(broker, ids, {("a", 0): 2}, group="of the transaction alone")
    broker.clock.advance(2 * MINUTE_MS)
    assert fetch(broker) == {("a", 0): 1}

    broker.ask(k26.Request(transactional_id="payments", producer_id=ids.producer_id, producer_epoch=ids.producer_epoch, committed=False), 5)
    broker.clock.advance(1_000)
    assert fetch(broker) == {}
    assert last_batch(broker) == [
        offset_tombstone("readers", ("a", 0)),
        group_tombstone("readers"),
        group_tombstone("of the transaction alone"),
    ]


def shard_of(*records: CoordinatorRecord) -> Shard:
    shard = Shard(lambda _: ConsumerGroupImage())
    for record_offset, record in enumerate(records):
        shard.replay(record, record_offset)
    return shard


OFFSET = offset_record("g", ("a", 0), CommittedOffset(1, -1, "", 1_000))
MEMBER = MemberMetadata(member_id="m", client_id="c", client_host="/h", session_timeout=1, subscription=b"", assignment=b"")


def classic(*, timestamp_ms: int, members: list[MemberMetadata], protocol_type: str = "consumer") -> CoordinatorRecord:
    value = GroupMetadataValue(
        protocol_type=protocol_type, generation=3, protocol=None, leader=None, current_state_timestamp=timestamp_ms, members=members
    )
    return CoordinatorRecord(GroupMetadataKey(group="g"), value, 3)


GONE = [offset_tombstone("g", ("a", 0)), group_tombstone("g")]


@pytest.mark.parametrize(
    ("group", "last_ms"),
    [
        (classic(timestamp_ms=5_000, members=[]), 5_000),
        (classic(timestamp_ms=-1, members=[]), 1_000),
        (classic(timestamp_ms=5_000, members=[], protocol_type=""), 1_000),
    ],
)
def test_offsets_of_an_empty_classic_group_expire(group: CoordinatorRecord, last_ms: int) -> None:
    shard = shard_of(group, OFFSET)
    assert expired(shard, "g", None, now_ms=last_ms + MINUTE_MS - 1, retention_ms=MINUTE_MS) == []
    assert expired(shard, "g", None, now_ms=last_ms + MINUTE_MS, retention_ms=MINUTE_MS) == GONE


@pytest.mark.parametrize(
    "group",
    [
        classic(timestamp_ms=1_000, members=[MEMBER]),
        CoordinatorRecord(ConsumerGroupMetadataKey(group_id="g"), ConsumerGroupMetadataValue(epoch=3), 0),
    ],
)
def test_group_with_members_keeps_its_offsets(group: CoordinatorRecord) -> None:
    assert expired(shard_of(group, OFFSET), "g", None, now_ms=10**12, retention_ms=MINUTE_MS) == []
    assert expired(shard_of(group), "g", None, now_ms=10**12, retention_ms=MINUTE_MS) == []


def test_empty_group_without_offsets_is_deleted() -> None:
    shard = shard_of(classic(timestamp_ms=1_000, members=[]))
    assert shard.groups["g"].stored is not None
    assert expired(shard, "g", None, now_ms=1_000, retention_ms=MINUTE_MS) == [group_tombstone("g")]


def test_tombstones_delete_groups() -> None:
    upgraded = CoordinatorRecord(ConsumerGroupMetadataKey(group_id="g"), ConsumerGroupMetadataValue(epoch=3), 0)
    for group in (classic(timestamp_ms=1, members=[]), upgraded):
        assert shard_of(group, group._replace(value=None, version=-1)).groups == {}


def test_batch_of_tombstones_is_small() -> None:
    assert len(batch_of(CONSUMER_OFFSETS, GONE, 0)) < 150


def test_stable_group_keeps_offsets_of_subscribed_topics() -> None:
    broker = broker_with_groups({"a": 1, "b": 1}, CONFIG)
    joined = stable(broker, session_ms=30 * MINUTE_MS)
    groups = broker.services.coordinators.groups
    groups.commit("readers", [NewOffset(("a", 0), 1), NewOffset(("b", 0), 2)], Membership(1, joined.member_id))
    broker.clock.advance(MINUTE_MS)
    assert fetch(broker) == {("a", 0): 1}
    assert describe(broker).group_state == "Stable"

    leave(broker, (joined.member_id, None))
    broker.clock.advance(MINUTE_MS - 1_000)
    assert fetch(broker) == {("a", 0): 1}
    broker.clock.advance(1_000)
    assert fetch(broker) == {}
    assert describe(broker).group_state == "Dead"
    assert heartbeat(broker, joined) == 25


def test_rebalancing_or_other_groups_keep_all_offsets() -> None:
    broker = broker_with_groups({"b": 1}, CONFIG)
    options: dict[str, Any] = {"session_ms": 30 * MINUTE_MS, "group": "workers", "protocol_type": "connect"}
    commit(broker, {("b", 0): 1}, group="workers")
    stable(broker, **options)
    broker.clock.advance(2 * MINUTE_MS)
    assert fetch(broker, group="workers") == {("b", 0): 1}
    begin_join(broker, join(broker, **options).member_id, **options)
    broker.clock.advance(2 * MINUTE_MS)
    assert (fetch(broker, group="workers"), describe(broker, "workers").group_state) == ({("b", 0): 1}, "PreparingRebalance")


def test_large_expirations_are_split_into_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """No turn of the loop deletes more than its share, whether of one group or of many."""
    monkeypatch.setattr(retention, "OFFSETS_A_TURN", 10)
    broker = broker_with_groups({"a": 25}, CONFIG)
    for group in ("large", *(f"small {number}" for number in range(8))):
        commit(broker, {("a", index): 1 for index in range(25 if group == "large" else 3)}, group=group)
    before = broker.cluster.partition(TOPIC, 0).log.log_end_offset
    broker.clock.advance(MINUTE_MS)
    log = broker.cluster.partition(TOPIC, 0).log
    batches = [batch for batch in split_batches(memoryview(log.read(before, 1_000_000, isolation=None))) if batch.base_offset >= before]
    assert sum(batch.record_count for batch in batches) == 25 + 8 * 3 + 9
    assert max(batch.record_count for batch in batches) <= 16
    assert listed(broker) == {}
