"""OffsetCommit: golden frames of real clients; codes as Apache Kafka 4.3.1 gave them to the same requests (raw frames, one KRaft node,
2026-11-21). What is committed: tests/coordinator/group."""

from __future__ import annotations

import errno
from uuid import UUID, uuid4

import pytest

from minibroker.schemas import k08_offset_commit as schema
from minibroker.wire.schema import NIL_UUID
from tests.golden import all_golden, golden
from tests.support.broker_in_memory import BrokerInMemory
from tests.support.committed_offsets import GROUP, broker_with_groups, commit, commit_request, fetch, groups_of
from tests.support.faulty_files import FaultyFiles
from tests.support.golden_exchange import answer_of, kafka_answer, kafka_like, serve, topic_ids

VERSIONS = range(schema.VERSIONS[0], schema.VERSIONS[1] + 1)
NAMED = range(schema.VERSIONS[0], 10)

#: those of members wait for groups that have some
REQUESTS = sorted(
    name
    for name, frame in all_golden().items()
    if frame.stem == "k08_offset_commit" and frame.direction == "request" and frame.decode().generation_id_or_member_epoch < 0
)


@pytest.mark.parametrize("name", REQUESTS)
def test_golden_requests_get_kafka_bytes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    request = golden(name)
    topics = {topic.topic_id if request.version >= 10 else topic.name: topic for topic in answer_of(request).topics}
    known = [key for key, topic in topics.items() if any(each.error_code == 0 for each in topic.partitions)]
    broker = kafka_like()
    groups_of(broker)
    for key in known:
        if isinstance(key, UUID):
            topic_ids(monkeypatch, [key])
        broker.cluster.create_topic("named-by-id" if isinstance(key, UUID) else key, partition_count=2)

    assert serve(broker, request) == kafka_answer(request)


@pytest.mark.parametrize("version", NAMED)
def test_committed_and_found_again(version: int) -> None:
    broker = broker_with_groups(topics={"a": 2})
    assert commit(broker, {("a", 0): 5, ("a", 1): 6}, version=version) == [("a", [(0, 0), (1, 0)])]
    assert fetch(broker) == {("a", 0): 5, ("a", 1): 6}


def test_by_topic_id() -> None:
    broker = broker_with_groups(topics={"a": 2})
    topic_id = broker.cluster.topic("a").topic_id
    assert commit(broker, {(topic_id, 1): 7}, version=10) == [(topic_id, [(1, 0)])]
    assert fetch(broker, version=10) == {(topic_id, 1): 7}


def test_unknown_partitions_are_answered_first() -> None:
    broker = broker_with_groups(topics={"a": 2, "b": 1})
    offsets = {("a", 0): 1, ("a", 9): 1, ("a", 1): 2, ("absent", 0): 1, ("b", 0): 3, ("a", -1): 1}
    assert commit(broker, offsets) == [("a", [(9, 3), (-1, 3), (0, 0), (1, 0)]), ("absent", [(0, 3)]), ("b", [(0, 0)])]
    assert fetch(broker) == {("a", 0): 1, ("a", 1): 2, ("b", 0): 3}


def test_unknown_topic_ids() -> None:
    broker = broker_with_groups(topics={"a": 2})
    known, other = broker.cluster.topic("a").topic_id, uuid4()
    offsets = {(known, 0): 1, (known, 9): 1, (other, 0): 1, (NIL_UUID, 0): 1}
    assert commit(broker, offsets, version=10) == [(known, [(9, 3), (0, 0)]), (other, [(0, 100)]), (NIL_UUID, [(0, 100)])]


def test_partition_listed_twice() -> None:
    broker = broker_with_groups(topics={"a": 1})
    once = commit_request({("a", 0): 1}).topics
    request = schema.Request(group_id=GROUP, member_id="", topics=[*once, *commit_request({("a", 0): 2}).topics])
    answer = broker.ask(request, 9)
    assert [(topic.name, len(topic.partitions)) for topic in answer.topics] == [("a", 1), ("a", 1)]
    assert fetch(broker) == {("a", 0): 2}


@pytest.mark.parametrize("version", NAMED)
def test_generation_of_an_unknown_group(version: int) -> None:
    broker = broker_with_groups(topics={"a": 1})
    code = 69 if version >= 9 else 22
    assert commit(broker, {("a", 0): 1, ("a", 9): 1}, version=version, generation_id=5, member_id="m") == [("a", [(9, 3), (0, code)])]
    assert fetch(broker) == {}


@pytest.mark.parametrize(("generation_id", "member_id"), [(5, "m"), (0, "")])
def test_a_generation_of_a_group_without_members(generation_id: int, member_id: str) -> None:
    broker = broker_with_groups(topics={"a": 1})
    commit(broker, {("a", 0): 1})
    assert commit(broker, {("a", 0): 2}, generation_id=generation_id, member_id=member_id) == [("a", [(0, 25)])]
    assert fetch(broker) == {("a", 0): 1}


@pytest.mark.parametrize(("generation_id", "member_id"), [(-1, ""), (-1, "m"), (-5, "")])
def test_commit_without_generation(generation_id: int, member_id: str) -> None:
    broker = broker_with_groups(topics={"a": 1})
    assert commit(broker, {("a", 0): -7}, group="", generation_id=generation_id, member_id=member_id) == [("a", [(0, 0)])]
    assert fetch(broker, group="") == {("a", 0): -7}


@pytest.mark.parametrize(
    ("metadata", "code"),
    [("x" * 4096, 0), ("x" * 4097, 12), ("é" * 4096, 0), ("\U0001f600" * 2048, 0), ("\U0001f600" * 2049, 12), (None, 0)],
)
def test_metadata_length_is_counted_like_java(metadata: str | None, code: int) -> None:
    broker = broker_with_groups(topics={"a": 1})
    assert commit(broker, {("a", 0): 1}, metadata=metadata) == [("a", [(0, code)])]
    assert fetch(broker) == ({} if code else {("a", 0): 1})


def test_commit_larger_than_a_batch_is_refused() -> None:
    broker = broker_with_groups(topics={"a": 300})
    answer = commit(broker, {("a", index): 1 for index in range(300)}, metadata="x" * 4000)
    assert {code for _, code in answer[0][1]} == {-1}
    assert fetch(broker) == {}


@pytest.mark.parametrize("version", VERSIONS)
def test_without_a_coordinator(version: int) -> None:
    broker = BrokerInMemory(topics={"a": 1})
    topic = broker.cluster.topic("a").topic_id if version >= 10 else "a"
    assert commit(broker, {(topic, 0): 1}, version=version) == [(topic, [(0, 16)])]


def test_empty_request() -> None:
    broker = BrokerInMemory(topics={"a": 1})
    assert commit(broker, {}) == []


def test_commit_is_answered_after_the_sync() -> None:
    broker = broker_with_groups(topics={"a": 1}, config={"log.flush.interval.messages": "1"})
    pending = broker.begin(commit_request({("a", 0): 1, ("a", 9): 1}), 9)
    assert not pending.is_done
    broker.clock.advance(0)
    assert [(each.partition_index, each.error_code) for each in pending.answer().topics[0].partitions] == [(9, 3), (0, 0)]


def test_failed_sync_fails_the_commit() -> None:
    files = FaultyFiles()
    broker = broker_with_groups(topics={"a": 1}, config={"log.flush.interval.messages": "1"}, files=files)
    pending = broker.begin(commit_request({("a", 0): 1}), 9)
    files.fail("sync", errno.EIO)
    broker.clock.advance(0)
    assert [each.error_code for each in pending.answer().topics[0].partitions] == [16]
    assert commit(broker, {("a", 0): 1}) == [("a", [(0, 16)])]
