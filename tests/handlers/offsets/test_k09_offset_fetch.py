"""OffsetFetch: golden frames of real clients; answers as Apache Kafka 4.3.1 gave them to the same requests (raw frames, one KRaft node,
2026-11-21)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import UUID, uuid4

import pytest

from minibroker.coordinator.group.kind import Membership
from minibroker.coordinator.group.offsets import CommittedOffset, NewOffset, offset_record
from minibroker.coordinator.stored_topic import batch_of
from minibroker.coordinator.transaction.records import NO_IDS, ProducerIdAndEpoch
from minibroker.schemas import k09_offset_fetch as schema
from minibroker.storage.record_frame import CONSUMER_OFFSETS
from minibroker.wire.schema import NIL_UUID
from tests.golden import Golden, all_golden, golden
from tests.support.broker_in_memory import BrokerInMemory
from tests.support.committed_offsets import TOPIC, broker_with_groups, commit, fetch, groups_of
from tests.support.golden_exchange import answer_of, kafka_answer, kafka_like, serve, topic_ids

VERSIONS = range(schema.VERSIONS[0], schema.VERSIONS[1] + 1)
NAMED = range(schema.VERSIONS[0], 10)
UNSTABLE = 88


def answered_groups(request: Golden) -> list[tuple[str, Any]]:
    """Group ids with the topics of Kafka's answer."""
    requested, answer = request.decode(), answer_of(request)
    if request.version >= 8:
        return [(group.group_id, group.topics) for group in answer.groups]
    return [(requested.group_id, answer.topics)]


def is_answered(request: Golden) -> bool:
    """Of frames that are alike in name and size the answers of two conversations may have been kept."""
    if request.version < 8:
        return True
    requested, answer = request.decode(), answer_of(request)
    if [group.group_id for group in requested.groups] != [group.group_id for group in answer.groups]:
        return False
    return all(
        group.topics is None
        or [topic.partition_indexes for topic in group.topics]
        == [[each.partition_index for each in topic.partitions] for topic in found.topics]
        for group, found in zip(requested.groups, answer.groups, strict=True)
    )


REQUESTS = sorted(
    name for name, frame in all_golden().items() if frame.stem == "k09_offset_fetch" and frame.direction == "request" and is_answered(frame)
)


def know(broker: BrokerInMemory, group_id: str, topic: str, partitions: Iterable[Any]) -> None:
    """Let the log say what Kafka answered; what Kafka found unstable is in a transaction."""
    log = broker.cluster.partition(TOPIC, 0)
    for each in partitions:
        ids = ProducerIdAndEpoch(7, 0) if each.error_code == UNSTABLE else NO_IDS
        if each.committed_offset < 0 and ids is NO_IDS:
            continue
        committed = CommittedOffset(each.committed_offset, each.committed_leader_epoch, each.metadata, broker.clock.now_ms())
        log.append_own(batch_of(CONSUMER_OFFSETS, [offset_record(group_id, (topic, each.partition_index), committed)], 0, ids))


@pytest.mark.parametrize("name", REQUESTS)
def test_golden_requests_get_kafka_bytes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    request = golden(name)
    broker = kafka_like(config={"offsets.topic.num.partitions": "1"})
    groups_of(broker)
    topics: dict[str | UUID, str] = {}
    for group_id, found in answered_groups(request):
        for topic in found:
            key = topic.name or topic.topic_id
            if key not in topics:
                topics[key] = topic.name or "named-by-id"
                if isinstance(key, UUID):
                    topic_ids(monkeypatch, [key])
                broker.cluster.create_topic(topics[key], partition_count=2)
            know(broker, group_id, topics[key], topic.partitions)

    assert serve(broker, request) == kafka_answer(request)


@pytest.mark.parametrize("version", NAMED)
def test_uncommitted_offset_is_minus_one(version: int) -> None:
    broker = broker_with_groups({"a": 2})
    commit(broker, {("a", 0): 5}, leader_epoch=3)
    assert fetch(broker, [("a", 0), ("a", 1), ("a", 9), ("absent", 1)], version=version) == {
        ("a", 0): 5,
        ("a", 1): -1,
        ("a", 9): -1,
        ("absent", 1): -1,
    }


@pytest.mark.parametrize("version", NAMED)
def test_unknown_group(version: int) -> None:
    broker = broker_with_groups({"a": 1})
    assert fetch(broker, [("a", 0)], version=version) == {("a", 0): -1}
    if version >= 2:
        assert fetch(broker, version=version) == {}


@pytest.mark.parametrize("version", VERSIONS[1:])
def test_all_of_a_group(version: int) -> None:
    broker = broker_with_groups({"a": 2, "b": 1})
    commit(broker, {("a", 0): 1, ("b", 0): 2})
    commit(broker, {("a", 1): 3})
    commit(broker, {("a", 0): 9}, group="others")
    key: dict[str, Any] = {name: broker.cluster.topic(name).topic_id if version >= 10 else name for name in "ab"}
    assert fetch(broker, version=version) == {(key["a"], 0): 1, (key["b"], 0): 2, (key["a"], 1): 3}


def test_metadata_and_leader_epoch() -> None:
    broker = broker_with_groups({"a": 1})
    commit(broker, {("a", 0): 5}, metadata=None, leader_epoch=4)
    topic = schema.GroupTopic(name="a", partition_indexes=[0, 0])
    answer = broker.ask(schema.Request(groups=[schema.Group(group_id="readers", topics=[topic, topic])]), 9)
    expected = schema.GroupPartitionResult(partition_index=0, committed_offset=5, committed_leader_epoch=4, metadata="", error_code=0)
    assert [each.partitions for each in answer.groups[0].topics] == [[expected, expected], [expected, expected]]


def test_unknown_topic_ids_are_last() -> None:
    broker = broker_with_groups({"a": 1})
    known, other = broker.cluster.topic("a").topic_id, uuid4()
    commit(broker, {(known, 0): 5}, version=10)
    found = fetch(broker, [(other, 0), (NIL_UUID, 0), (known, 0), (known, 9)], version=10)
    assert list(found.items()) == [((known, 0), 5), ((known, 9), -1), ((other, 0), "error 100"), ((NIL_UUID, 0), "error 100")]


def test_several_or_no_groups() -> None:
    broker = broker_with_groups({"a": 1})
    commit(broker, {("a", 0): 5}, group="one")
    topic = schema.GroupTopic(name="a", partition_indexes=[0])
    groups = [schema.Group(group_id=name, member_id="m", member_epoch=3, topics=[topic]) for name in ("one", "two")]
    answer = broker.ask(schema.Request(groups=groups), 9)
    assert [(each.group_id, each.topics[0].partitions[0].committed_offset) for each in answer.groups] == [("one", 5), ("two", -1)]
    assert broker.ask(schema.Request(groups=[]), 9).groups == []


@pytest.mark.parametrize("version", [7, 8, 9])
def test_require_stable_hides_pending_offsets(version: int) -> None:
    broker = broker_with_groups({"a": 3})
    commit(broker, {("a", 0): 1, ("a", 1): 2})
    groups = broker.services.coordinators.groups
    groups.commit_in_transaction("readers", [NewOffset(("a", index), 7) for index in (0, 2)], Membership(), ProducerIdAndEpoch(7, 0))
    every = [("a", index) for index in range(3)]

    assert fetch(broker, every, version=version) == {("a", 0): 1, ("a", 1): 2, ("a", 2): -1}
    assert fetch(broker, every, version=version, require_stable=True) == {("a", 0): "error 88", ("a", 1): 2, ("a", 2): "error 88"}
    assert fetch(broker, version=version, require_stable=True) == {("a", 0): "error 88", ("a", 1): 2}


@pytest.mark.parametrize("version", VERSIONS)
def test_without_a_coordinator(version: int) -> None:
    broker = BrokerInMemory({"a": 1})
    topic = broker.cluster.topic("a").topic_id if version >= 10 else "a"
    assert fetch(broker, [(topic, 0)], version=version) == ({("a", 0): "error 16"} if version == 1 else {("error", 16): None})
