"""TxnOffsetCommit: golden frames of real clients; codes as Apache Kafka 4.3.1 gave them to the same requests (raw frames, one KRaft node,
2026-11-21). What counts when: tests/coordinator/group/test_transactions.py."""

from __future__ import annotations

import errno

import pytest

from minibroker.coordinator.transaction.records import ProducerIdAndEpoch
from minibroker.errors import KafkaStorageError
from minibroker.schemas import k26_end_txn as k26
from minibroker.schemas import k28_txn_offset_commit as schema
from tests.golden import Golden, all_golden, golden
from tests.support.broker_in_memory import BrokerInMemory
from tests.support.committed_offsets import GROUP, broker_with_groups, commit, commit_in_transaction, fetch, groups_of
from tests.support.faulty_files import FaultyFiles
from tests.support.golden_exchange import answer_of, kafka_answer, kafka_like, serve
from tests.support.transactional_ids import broker_that_knows, init_producer, state_that_answers

VERSIONS = range(schema.VERSIONS[0], schema.VERSIONS[1] + 1)


def is_answered(request: Golden) -> bool:
    """Of frames that are alike in name and size the answers of two conversations may have been kept; members come with groups."""
    requested, answer = request.decode(), answer_of(request)
    count = sum(len(topic.partitions) for topic in answer.topics)
    return requested.generation_id < 0 and count == sum(len(topic.partitions) for topic in requested.topics)


REQUESTS = sorted(
    name
    for name, frame in all_golden().items()
    if frame.stem == "k28_txn_offset_commit" and frame.direction == "request" and is_answered(frame)
)


@pytest.mark.parametrize("name", REQUESTS)
def test_golden_requests_get_kafka_bytes(name: str) -> None:
    request = golden(name)
    requested = request.decode()
    codes = {topic.name: topic.partitions[0].error_code for topic in answer_of(request).topics}
    broker = kafka_like(config={"offsets.topic.num.partitions": "1"})
    partition = groups_of(broker).topic_partition(requested.group_id)
    for topic, code in codes.items():
        if code != 3:
            broker.cluster.create_topic(topic, partition_count=2)
            ids = (requested.producer_id, requested.producer_epoch)
            broker = broker_that_knows(broker, state_that_answers(code, requested.transactional_id, ids, [partition]))

    assert serve(broker, request) == kafka_answer(request)


def announce(broker: BrokerInMemory, ids: ProducerIdAndEpoch) -> None:
    """What AddOffsetsToTxn does."""
    partition = broker.services.coordinators.groups.topic_partition(GROUP)
    broker.services.coordinators.transactions.add_partitions("payments", ids, frozenset({partition}), lambda _: None)


def end(broker: BrokerInMemory, ids: ProducerIdAndEpoch, *, commit: bool = True) -> int:
    request = k26.Request(transactional_id="payments", producer_id=ids.producer_id, producer_epoch=ids.producer_epoch, committed=commit)
    return int(broker.ask(request, 5).error_code)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("is_commit", [True, False])
def test_offset_is_committed_or_aborted_with_its_transaction(version: int, is_commit: bool) -> None:
    broker = broker_with_groups({"a": 1})
    ids = init_producer(broker)
    if version < 5:
        announce(broker, ids)
    assert commit_in_transaction(broker, ids, {("a", 0): 5}, version=version) == [("a", [(0, 0)])]
    assert fetch(broker, [("a", 0)]) == {("a", 0): -1}
    assert fetch(broker, [("a", 0)], require_stable=True) == {("a", 0): "error 88"}

    assert end(broker, ids, commit=is_commit) == 0
    assert fetch(broker, [("a", 0)], require_stable=True) == {("a", 0): 5 if is_commit else -1}


@pytest.mark.parametrize(("version", "code"), [(0, 48), (1, 48), (2, 48), (3, 48), (4, 120)])
def test_group_not_added_to_the_transaction(version: int, code: int) -> None:
    broker = broker_with_groups({"a": 1})
    ids = init_producer(broker)
    assert commit_in_transaction(broker, ids, {("a", 0): 5}, version=version) == [("a", [(0, code)])]


@pytest.mark.parametrize("version", VERSIONS)
def test_other_producers(version: int) -> None:
    broker = broker_with_groups({"a": 1})
    zombie = init_producer(broker)
    ids = init_producer(broker)
    announce(broker, ids)

    def refusal(ids: ProducerIdAndEpoch, **options: str) -> object:
        return commit_in_transaction(broker, ids, {("a", 0): 5, ("a", 9): 1}, version=version, **options)  # type: ignore[arg-type]

    assert refusal(zombie) == [("a", [(9, 3), (0, 47)])]
    assert refusal(ids._replace(producer_epoch=7)) == [("a", [(9, 3), (0, 47)])]
    assert refusal(ids._replace(producer_id=99)) == [("a", [(9, 3), (0, 49)])]
    assert refusal(ids, transactional_id="another") == [("a", [(9, 3), (0, 49)])]
    assert refusal(ids, transactional_id="") == [("a", [(9, 3), (0, 42)])]
    assert refusal(ids, group="") == [("a", [(9, 3), (0, 24)])]
    assert end(broker, ids) == 0
    assert fetch(broker) == {}


@pytest.mark.parametrize("version", [3, 4, 5])
def test_generations(version: int) -> None:
    broker = broker_with_groups({"a": 1})
    ids = init_producer(broker)
    announce(broker, ids)

    def code(generation_id: int, member_id: str) -> object:
        return commit_in_transaction(broker, ids, {("a", 0): 5}, generation_id=generation_id, member_id=member_id, version=version)

    assert code(5, "m") == [("a", [(0, 22)])]
    assert code(-1, "m") == [("a", [(0, 0)])]
    assert code(5, "m") == [("a", [(0, 25)])]


def test_refused_v5_request_starts_a_transaction() -> None:
    broker = broker_with_groups({"a": 1})
    ids = init_producer(broker)
    assert commit_in_transaction(broker, ids, {("a", 0): 5}, generation_id=5) == [("a", [(0, 22)])]
    assert end(broker, ids) == 0


@pytest.mark.parametrize("offsets", [{}, {("absent", 0): 1}, {("a", 9): 1}])
def test_only_unknown_partitions_start_no_transaction(offsets: dict[tuple[str, int], int]) -> None:
    broker = broker_with_groups({"a": 1})
    ids = init_producer(broker)
    answer = commit_in_transaction(broker, ids, offsets)
    assert [code for _, partitions in answer for _, code in partitions] == [3] * len(offsets)
    assert end(broker, ids) == 48


def test_metadata_too_long() -> None:
    broker = broker_with_groups({"a": 1})
    ids = init_producer(broker)
    assert commit_in_transaction(broker, ids, {("a", 0): 5}, metadata="x" * 4097) == [("a", [(0, 12)])]
    assert end(broker, ids) == 0
    assert fetch(broker) == {}


@pytest.mark.parametrize("version", VERSIONS)
def test_without_a_coordinator(version: int) -> None:
    broker = BrokerInMemory({"a": 1})
    assert commit_in_transaction(broker, ProducerIdAndEpoch(0, 0), {("a", 0): 5}, version=version) == [("a", [(0, 15)])]
    groups_of(broker)
    assert commit_in_transaction(broker, ProducerIdAndEpoch(0, 0), {("a", 0): 5}, version=version) == [("a", [(0, 15)])]


def durable(files: FaultyFiles | None = None) -> tuple[BrokerInMemory, ProducerIdAndEpoch]:
    """A broker that syncs before it answers, and a producer of it."""
    broker = broker_with_groups({"a": 1}, {"log.flush.interval.messages": "1"}, files=files)
    broker.services.coordinators.transactions.ensure_topic()
    outcomes: list[object] = []
    broker.services.coordinators.transactions.init_producer_id("payments", 60_000, None, outcomes.append)
    broker.clock.advance(0)
    (ids,) = outcomes
    assert isinstance(ids, ProducerIdAndEpoch)
    return broker, ids


def request_of(ids: ProducerIdAndEpoch) -> schema.Request:
    partition = schema.Partition(partition_index=0, committed_offset=5, committed_metadata="")
    return schema.Request(
        transactional_id="payments",
        group_id=GROUP,
        producer_id=ids.producer_id,
        producer_epoch=ids.producer_epoch,
        topics=[schema.Topic(name="a", partitions=[partition])],
    )


def test_commit_is_answered_after_both_syncs() -> None:
    broker, ids = durable()
    pending = broker.begin(request_of(ids), 5)
    assert not pending.is_done
    broker.clock.advance(0)
    assert pending.answer().topics[0].partitions[0].error_code == 0
    logs = [broker.cluster.partition(*broker.services.coordinators.groups.topic_partition(GROUP)).log]
    assert [log.flusher.unflushed_messages for log in logs] == [0]


def test_failed_sync_fails_the_commit() -> None:
    files = FaultyFiles()
    broker, ids = durable(files)
    pending = broker.begin(request_of(ids), 5)
    files.fail("sync", errno.EIO)
    broker.clock.advance(0)
    assert pending.answer().topics[0].partitions[0].error_code == 16


def test_later_commit_wins() -> None:
    broker = broker_with_groups({"a": 2})
    ids = init_producer(broker)
    commit_in_transaction(broker, ids, {("a", 0): 50, ("a", 1): 1})
    commit(broker, {("a", 0): 7})
    assert fetch(broker) == {("a", 0): 7}
    assert end(broker, ids) == 0
    assert fetch(broker, require_stable=True) == {("a", 0): 7, ("a", 1): 1}


@pytest.mark.parametrize("version", VERSIONS)
def test_group_with_an_offline_log(version: int) -> None:
    broker = broker_with_groups({"a": 1})
    ids = init_producer(broker)
    announce(broker, ids)
    place = groups_of(broker).topic_partition(GROUP)
    broker.cluster.partition(*place).take_offline(KafkaStorageError("the disk is gone"))
    assert commit_in_transaction(broker, ids, {("a", 0): 5}, version=version) == [("a", [(0, 16)])]
