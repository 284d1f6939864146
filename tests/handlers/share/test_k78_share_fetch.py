"""ShareFetch: golden frames, waiting, syncing, what ends with a connection; tests/golden/share_scenes.py has the acquired records."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from minibroker.client.configs import TYPES
from minibroker.coordinator.share_partition import share_partitions
from minibroker.coordinator.share_state.records import InitialState
from minibroker.errors import ShareSessionNotFound
from minibroker.records.any_format import split_batches
from minibroker.records.builder import build_batch
from minibroker.records.record import Record
from minibroker.schemas import k44_incremental_alter_configs as k44
from minibroker.schemas import k78_share_fetch as k78
from minibroker.wire.codec import encode
from tests.golden import Golden, all_golden
from tests.support.broker_in_memory import BrokerInMemory
from tests.support.golden_exchange import kafka_like, topic_ids
from tests.support.share_members import GROUP, Member, acquired

SHARE_SESSION_NOT_FOUND, SHARE_SESSION_LIMIT_REACHED = 122, 133


def with_records() -> list[Any]:
    """Kafka's answers that give records of partition 0 of one topic."""
    found = []
    for name, each in sorted(all_golden().items()):
        if each.stem == "k78_share_fetch" and each.direction == "response":
            topics = each.decode().responses
            if topics and topics[0].partitions[0].records and topics[0].partitions[0].partition_index == 0:
                found.append(pytest.param(each, id=name))
    assert found
    return found


@pytest.mark.parametrize("golden", with_records())
def test_answers_match_kafka_for_the_same_records(golden: Golden, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a log that has what Kafka's had, the same bytes are given, and the answer is Kafka's to the byte."""
    expected = golden.decode()
    theirs = expected.responses[0].partitions[0]
    topic_ids(monkeypatch, [expected.responses[0].topic_id, UUID(int=1)])
    lock_ms = str(expected.acquisition_lock_timeout_ms)
    broker = kafka_like({"golden": 2}, {"group.share.min.record.lock.duration.ms": "1000", "group.share.record.lock.duration.ms": lock_ms})
    first = theirs.acquired_records[0].first_offset
    if first:
        broker.append("golden", 0, bytes(build_batch([Record(index, 0, None, b"") for index in range(first)])))
    for batch in split_batches(theirs.records):
        broker.cluster.partition("golden", 0).append_own(bytearray(batch.data))
    member = Member(broker, "golden", start_offset=first)
    batch_size = 1 if len(theirs.acquired_records) > 1 else 500
    answer = member.begin_fetch(batch_size=batch_size, version=golden.version).answer()
    assert encode(answer, golden.version, flexible=True) == golden.body


def test_append_completes_the_wait() -> None:
    broker = BrokerInMemory(topics={"orders": 1})
    member = Member(broker, "orders")
    pending = member.begin_fetch(max_wait_ms=500)
    assert not pending.is_done
    member.produce(2)
    broker.clock.advance(0)
    assert acquired(pending.answer().responses[0].partitions[0]) == [(0, 1, 1)]


def test_released_records_complete_the_wait() -> None:
    broker = BrokerInMemory(topics={"orders": 1})
    one, two, three = (Member(broker, "orders", name) for name in "abc")
    one.produce(2)
    assert one.take() == [(0, 1, 1)]
    pending = two.begin_fetch(max_wait_ms=60_000)
    assert one.acknowledge((0, 0, [2])) == 0
    broker.clock.advance(0)
    assert acquired(pending.answer().responses[0].partitions[0]) == [(0, 0, 2)]
    pending = three.begin_fetch(max_wait_ms=60_000)
    broker.clock.advance(30_000)
    assert acquired(pending.answer().responses[0].partitions[0]) == [(0, 0, 3), (1, 1, 2)]


def test_max_wait_completes_the_wait() -> None:
    broker = BrokerInMemory(topics={"orders": 1})
    member = Member(broker, "orders")
    member.take()
    pending = member.begin_fetch(max_wait_ms=500)
    broker.clock.advance(499)
    assert not pending.is_done
    broker.clock.advance(1)
    assert pending.answer().responses == []


def test_fetch_waits_for_min_bytes_or_max_records() -> None:
    broker = BrokerInMemory(topics={"orders": 1})
    member = Member(broker, "orders")
    pending = member.begin_fetch(max_wait_ms=500, min_bytes=10_000, max_records=3)
    member.produce(1, 1)
    broker.clock.advance(0)
    assert not pending.is_done
    member.produce(1)
    broker.clock.advance(0)
    assert acquired(pending.answer().responses[0].partitions[0]) == [(0, 2, 1)]


def test_returned_bytes_end_with_the_acquired_records() -> None:
    """The bytes that are allowed are many more."""
    broker = BrokerInMemory(topics={"orders": 1})
    member = Member(broker, "orders")
    member.produce(*[5] * 20)
    result = member.fetch(max_records=7)
    assert acquired(result) == [(0, 9, 1)]
    assert result is not None
    assert len(result.records) == 2 * broker.cluster.partition("orders", 0).log.segments.size // 20


def test_closed_connection_releases_acquired_records() -> None:
    broker = BrokerInMemory(topics={"orders": 1})
    one, two = Member(broker, "orders", "a"), Member(broker, "orders", "b")
    one.produce(2)
    assert one.take() == [(0, 1, 1)]
    broker.connection.closed()
    assert broker.ask(one.request()).error_code == ShareSessionNotFound.code
    assert two.take() == [(0, 1, 2)]


def test_closed_sessions_leave_no_connection_callbacks() -> None:
    broker = BrokerInMemory(topics={"orders": 1})
    for number in range(50):
        member = Member(broker, "orders", f"m{number}")
        member.take()
        member.epoch = -1
        member.fetch()
    assert not broker.connection.endings


def test_member_that_left_has_no_session() -> None:
    broker = BrokerInMemory(topics={"orders": 1})
    member = Member(broker, "orders")
    member.produce(1)
    assert member.take() == [(0, 0, 1)]
    for hear in broker.services.coordinators.groups.on_share_member_gone:
        hear(GROUP, "a")
    assert broker.ask(member.request()).error_code == ShareSessionNotFound.code
    assert Member(broker, "orders", "b").take() == [(0, 0, 2)]


def test_waiting_fetch_of_a_removed_member_gets_no_records() -> None:
    broker = BrokerInMemory(topics={"orders": 1})
    one, two = Member(broker, "orders", "a"), Member(broker, "orders", "b")
    one.produce(2)
    assert one.take() == [(0, 1, 1)]
    waiting = one.begin_fetch(max_wait_ms=60_000)
    broker.services.coordinators.share_partitions.end_sessions(GROUP, "a")
    broker.clock.advance(0)
    assert waiting.answer().error_code == ShareSessionNotFound.code
    assert two.take() == [(0, 1, 2)]


def test_piggybacked_acknowledgements_are_synced_first() -> None:
    broker = BrokerInMemory(topics={"orders": 1}, config={"log.flush.interval.messages": "1"})
    member = Member(broker, "orders")
    member.produce(2, 1)
    broker.clock.advance(0)
    assert member.take(max_records=1) == [(0, 1, 1)]
    pending = member.begin_fetch((0, 1, [1]), max_wait_ms=60_000)
    assert not pending.is_done
    broker.clock.advance(0)
    assert acquired(pending.answer().responses[0].partitions[0]) == [(2, 2, 1)]


def test_session_limit() -> None:
    broker = BrokerInMemory(topics={"orders": 1}, config={"group.share.max.share.sessions": "1", "group.share.max.size": "1"})
    Member(broker, "orders", "a").take()
    pending = Member(broker, "orders", "b").begin_fetch(max_wait_ms=300)
    assert not pending.is_done
    broker.clock.advance(300)
    assert pending.answer().error_code == 133


def test_partition_limit_of_all_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share_partitions, "PARTITIONS_MAX", 3)
    broker = BrokerInMemory(topics={"orders": 4})
    first, second = Member(broker, "orders", "a"), Member(broker, "orders", "b")

    def fetch(member: Member, epoch: int, partitions: list[int]) -> int:
        topic = k78.Topic(
            topic_id=broker.cluster.topic("orders").topic_id,
            partitions=[k78.Partition(partition_index=each, acknowledgement_batches=[]) for each in partitions],
        )
        request = k78.Request(
            group_id=GROUP, member_id=member.name, share_session_epoch=epoch, max_wait_ms=0, min_bytes=0, max_bytes=1000,
            max_records=10, batch_size=10, topics=[topic] if partitions else [], forgotten_topics_data=[],
        )  # fmt: skip
        pending = broker.begin(request, 1)
        broker.clock.advance(0)
        return int(pending.answer().error_code)

    assert fetch(first, 0, [0, 1]) == 0
    assert fetch(second, 0, [2, 3]) == SHARE_SESSION_LIMIT_REACHED
    assert fetch(second, 0, [2]) == 0
    assert fetch(second, 1, [2]) == 0
    assert fetch(second, 2, [3]) == SHARE_SESSION_LIMIT_REACHED
    assert fetch(second, 3, []) == SHARE_SESSION_NOT_FOUND
    assert fetch(first, 1, [2]) == 0


def test_recreated_topic_starts_from_scratch() -> None:
    broker = BrokerInMemory(topics={"orders": 1})
    member = Member(broker, "orders")
    member.produce(3)
    member.take()
    pending = member.begin_fetch(max_wait_ms=60_000)
    broker.cluster.delete_topic("orders")
    broker.clock.advance(0)
    assert pending.answer().responses[0].partitions[0].error_code == 100
    broker.cluster.create_topic("orders", partition_count=1)
    again = Member(broker, "orders", "b")
    again.produce(1)
    assert again.take() == [(0, 0, 1)]


def test_reinitialized_state_is_read_again() -> None:
    broker = BrokerInMemory(topics={"orders": 1})
    member = Member(broker, "orders")
    member.produce(3)
    member.take()
    broker.services.coordinators.share_persister.initialize(GROUP, [InitialState(member.topic_id, 0, 2, 1)])
    assert member.acknowledge((0, 2, [1])) == 3
    assert member.take() == [(1, 2, 1)]


@pytest.mark.parametrize(("where", "first"), [("earliest", 0), ("latest", None), ("by_duration:PT1H", 3), ("by_duration:PT0S", None)])
def test_auto_offset_reset_of_a_group(where: str, first: int | None) -> None:
    broker = BrokerInMemory(topics={"orders": 1})
    config = k44.Config(name="share.auto.offset.reset", config_operation=0, value=where)
    broker.ask(
        k44.Request(resources=[k44.Resource(resource_type=TYPES["groups"], resource_name=GROUP, configs=[config])], validate_only=False)
    )
    producer = Member(broker, "orders", group="producer")
    producer.produce(3)
    broker.clock.advance(2 * 60 * 60 * 1_000)
    producer.produce(2)
    broker.clock.advance(10)
    member = Member(broker, "orders", start_offset=-1)
    taken = member.take()
    assert (taken[0][0] if taken else None) == first


def test_renewal_must_not_fetch() -> None:
    broker = BrokerInMemory(topics={"orders": 1})
    member = Member(broker, "orders")
    request = member.request(is_renew_ack=True, max_wait_ms=5)
    assert broker.ask(request).error_code == 42


def test_closed_session_acquires_no_records() -> None:
    broker = BrokerInMemory(topics={"orders": 1})
    one, two = Member(broker, "orders", "a"), Member(broker, "orders", "b")
    one.take()
    two.take()
    pending = one.begin_fetch(max_wait_ms=60_000)
    broker.services.coordinators.share_partitions.end_sessions(GROUP, "a")
    broker.clock.advance(0)
    assert pending.answer().responses == []
    two.produce(1)
    assert two.take() == [(0, 0, 1)]
