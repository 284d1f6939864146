"""Offsets of consumer groups (KIP-848): who may commit, ask for and delete them, and when they expire.

Codes as Apache Kafka 4.3.1 gave them to the same requests (raw frames, one KRaft node, 2026-11-21).
"""

from __future__ import annotations

import pytest

from minibroker.coordinator.group.consumer.members import group_tombstones
from minibroker.coordinator.group.offsets import offset_tombstone
from minibroker.records.any_format import decode_records, split_batches
from minibroker.schemas import k09_offset_fetch as k09
from minibroker.schemas import k42_delete_groups as k42
from minibroker.schemas import k47_offset_delete as k47
from minibroker.storage.record_frame import CONSUMER_OFFSETS, CoordinatorRecord
from tests.support.broker_in_memory import BrokerInMemory
from tests.support.committed_offsets import TOPIC, commit, commit_in_transaction, fetch
from tests.support.consumer_members import beat, broker_with_consumers, join, leave, two_members
from tests.support.group_members import listed
from tests.support.transactional_ids import init_producer

MINUTE_MS = 60_000
ALL = range(4)


def last_batch(broker: BrokerInMemory) -> list[CoordinatorRecord | None]:
    log = broker.cluster.partition(TOPIC, 0).log
    (*_, last) = split_batches(memoryview(log.read(log.log_start_offset, 1_000_000, isolation=None)))
    return [CONSUMER_OFFSETS.decode(each.key, each.value) for each in decode_records(last)]


def codes(broker: BrokerInMemory, member_id: str, epoch: int, *partitions: int, version: int = 9) -> list[int]:
    """What OffsetCommit of these partitions of `t` is answered."""
    offsets = {("t", each): 1 for each in partitions or (0,)}
    ((_, answers),) = commit(broker, offsets, member_id=member_id, generation_id=epoch, version=version)
    return [code for _, code in answers]


def transactional_codes(broker: BrokerInMemory, member_id: str, epoch: int, *partitions: int) -> list[int]:
    ids = init_producer(broker)
    offsets = {("t", each): 1 for each in partitions}
    ((_, answers),) = commit_in_transaction(broker, ids, offsets, member_id=member_id, generation_id=epoch)
    return [code for _, code in answers]


def test_members_commit_with_their_epoch() -> None:
    broker = broker_with_consumers()
    two_members(broker)
    assert codes(broker, "a", 3, *ALL) == [0, 0, 0, 0]
    assert codes(broker, "a", 2, 0, 1) == [0, 0]  # its own since then (KIP-1251)
    assert codes(broker, "a", 2, 0, 2) == [113, 113]
    assert codes(broker, "a", 4) == codes(broker, "b", 2) == [113]
    assert codes(broker, "zz", 3) == codes(broker, "", -1) == [25]
    assert codes(broker, "a", 3, version=8) == [35]
    assert codes(broker, "a", -1) == [113]
    assert fetch(broker) == {("t", index): 1 for index in ALL}


def test_empty_group_accepts_commits_without_member() -> None:
    broker = broker_with_consumers()
    join(broker, "a")
    leave(broker, "a")
    assert codes(broker, "", -1) == codes(broker, "zz", -1, version=8) == [0]
    assert codes(broker, "a", 2) == [25]
    assert listed(broker) == {"readers": ("consumer", "Empty", "consumer")}


def test_transactional_commits_check_the_member_epoch() -> None:
    broker = broker_with_consumers()
    two_members(broker)
    assert transactional_codes(broker, "a", 3, 0, 2) == [0, 0]
    assert transactional_codes(broker, "", -1, 0) == [0]
    assert transactional_codes(broker, "a", 2, 0, 1) == [0, 0]
    assert transactional_codes(broker, "a", 2, 0, 2) == [22, 22]
    assert transactional_codes(broker, "a", 4, 0) == [22]
    assert transactional_codes(broker, "zz", 3, 0) == [25]


@pytest.mark.parametrize(("member_id", "epoch", "code"), [(None, -1, 0), ("a", 3, 0), ("a", 2, 113), ("a", 4, 113), ("zz", 3, 25)])
def test_offset_fetch_checks_the_member_epoch(member_id: str | None, epoch: int, code: int) -> None:
    broker = broker_with_consumers()
    two_members(broker)
    codes(broker, "a", 3)
    topic = k09.GroupTopic(name="t", partition_indexes=[0])
    group = k09.Group(group_id="readers", member_id=member_id, member_epoch=epoch, topics=[topic])
    (found,) = broker.ask(k09.Request(groups=[group]), 9).groups
    assert (found.error_code, len(found.topics)) == (code, 0 if code else 1)


def test_offsets_of_subscribed_topics_cannot_be_deleted() -> None:
    broker = broker_with_consumers({"t": 4, "u": 1})
    join(broker, "a", "t", subscribed_topic_regex="v.*")
    commit(broker, {("t", 0): 1, ("u", 0): 1}, member_id="a", generation_id=2)
    topics = [k47.Topic(name=name, partitions=[k47.Partition(partition_index=0)]) for name in ("t", "u")]
    answer = broker.ask(k47.Request(group_id="readers", topics=topics))
    assert [(each.name, each.partitions[0].error_code) for each in answer.topics] == [("t", 86), ("u", 0)]
    assert fetch(broker) == {("t", 0): 1}


def test_group_can_be_deleted_when_empty() -> None:
    broker = broker_with_consumers()
    join(broker, "a", subscribed_topic_regex="v.*")
    codes(broker, "a", 2)
    delete = k42.Request(groups_names=["readers"])
    assert broker.ask(delete).results[0].error_code == 68
    leave(broker, "a")
    assert broker.ask(delete).results[0].error_code == 0
    assert last_batch(broker) == [offset_tombstone("readers", ("t", 0)), *group_tombstones("readers")]
    assert broker.ask(delete).results[0].error_code == 69
    assert beat(broker, "a", 2).error_code == 69
    assert listed(broker.restart()) == {}


def test_offsets_of_unsubscribed_topics_expire() -> None:
    config = {"offsets.retention.minutes": "1", "offsets.retention.check.interval.ms": "1000"}
    broker = broker_with_consumers({"t": 4, "u": 1}, config | {"group.consumer.session.timeout.ms": "60000"})
    join(broker, "a")
    commit(broker, {("t", 0): 1, ("u", 0): 1}, member_id="a", generation_id=2)
    broker.clock.advance(MINUTE_MS - 1)
    assert beat(broker, "a", 2).error_code == 0
    broker.clock.advance(1)
    assert fetch(broker) == {("t", 0): 1}
    leave(broker, "a")
    broker.clock.advance(1_000)
    assert fetch(broker) == {}
    assert last_batch(broker) == [offset_tombstone("readers", ("t", 0)), *group_tombstones("readers")]
    assert listed(broker) == {}


def test_offsets_are_deleted_with_their_topic() -> None:
    broker = broker_with_consumers({"t": 4, "u": 1})
    join(broker, "a", "t", "u")
    commit(broker, {("t", 0): 1, ("u", 0): 1}, member_id="a", generation_id=2)
    broker.cluster.delete_topic("u")
    assert fetch(broker) == {("t", 0): 1}
