"""A Fetch of many partitions is answered in slices as one of few is at once: here, many are more than three, with a pause after two."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from minibroker.dispatch.delayed import Delayed
from minibroker.errors import InvalidFetchSessionEpoch, UnknownTopicOrPartition
from minibroker.handlers.fetch import reading, reading_in_slices, session
from minibroker.schemas import k01_fetch as schema
from tests.support.broker_in_memory import BrokerInMemory, Pending, records
from tests.support.client_quotas import alter, entry
from tests.support.compiled import skip_if_compiled
from tests.support.turns import shortest_slices, turn, turns

PARTITIONS = 12
OPENED_BEFORE = 6
SIZE = len(records(2))
STEP = 2


def broker_of(*, in_slices: bool) -> BrokerInMemory:
    broker = BrokerInMemory(topics={"orders": PARTITIONS, "clicks": 3})
    for index in range(0, OPENED_BEFORE, 2):
        broker.append("orders", index, records(2))
    if in_slices:
        shortest_slices(broker)
    return broker


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    skip_if_compiled()
    monkeypatch.setattr(session, "AT_ONCE_MAX", 3)
    monkeypatch.setattr(session, "STEP", STEP)
    monkeypatch.setattr(reading_in_slices, "STEP", STEP)


@pytest.fixture
def broker(few: None) -> Iterator[BrokerInMemory]:
    broker = broker_of(in_slices=True)
    yield broker
    broker.cluster.close(clean=False)


def request(*, offset: int = 0, wait_ms: int = 0, count: int = PARTITIONS, **fields: Any) -> schema.Request:
    """All partitions of orders, those of clicks, and two that are not there."""
    partitions = [schema.Partition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 20) for index in range(count)]
    topics = [schema.Topic(topic="orders", partitions=partitions), schema.Topic(topic="clicks", partitions=partitions[:3])]
    values: dict[str, Any] = {
        "min_bytes": 1,
        "topics": [*topics, schema.Topic(topic="lost", partitions=partitions[:2])],
        "session_epoch": -1,
    } | fields
    return schema.Request(max_wait_ms=wait_ms, **values)


def served(broker: BrokerInMemory, asked: schema.Request) -> Any:
    """The response; fails if there was only one turn."""
    pending = broker.begin(asked, 12)
    assert not pending.is_done
    assert len(list(turns(broker, pending))) > PARTITIONS // STEP
    return pending.answer()


def one_turn(broker: BrokerInMemory) -> None:
    """Let the loop run once, without what is due later."""
    timers = broker.clock._timers
    now_ms = broker.clock._elapsed_ms
    later = [each for each in timers if each[0] > now_ms]
    timers[:] = [each for each in timers if each[0] <= now_ms]
    turn(broker)
    timers += later


def keys(response: Any) -> list[tuple[str, int, int, int]]:
    return [
        (topic.topic, each.partition_index, each.error_code, len(each.records or b""))
        for topic in response.responses
        for each in topic.partitions
    ]


def conversation(broker: BrokerInMemory, ask: Any) -> list[Any]:
    """What a client is answered that opens a session, changes and polls it, forgets most of it, and ends it."""
    answers = [ask(request(max_bytes=SIZE + 1)), ask(request(max_bytes=2 * SIZE, isolation_level=1))]
    opened = ask(request(session_epoch=0, max_bytes=SIZE))
    answers.append(opened)

    def go_on(epoch: int, **fields: Any) -> None:
        answers.append(ask(request(session_id=opened.session_id, session_epoch=epoch, **fields)))

    assert opened.session_id
    go_on(1, topics=[], max_bytes=SIZE)
    go_on(2, topics=[], max_bytes=SIZE)
    broker.append("orders", 1, records(2))
    go_on(3, offset=2, topics=request(offset=2, count=5).topics)
    broker.append("clicks", 1, records(1))
    go_on(4, topics=[])
    go_on(5, topics=[], isolation_level=1)
    go_on(6, topics=[], forgotten_topics_data=[schema.ForgottenTopic(topic="orders", partitions=[*range(2, 9)])])
    go_on(6, topics=[])
    go_on(-1)
    go_on(7, topics=[])
    for answer in answers:
        answer.session_id = answer.session_id == opened.session_id
    return answers


def test_sliced_fetch_equals_a_small_fetch(monkeypatch: pytest.MonkeyPatch, few: None) -> None:
    sliced = broker_of(in_slices=True)

    def ask_in_slices(asked: schema.Request) -> Any:
        pending = sliced.begin(asked, 12)
        for _ in turns(sliced, pending):
            pass
        return pending.answer()

    found = conversation(sliced, ask_in_slices)
    monkeypatch.undo()
    whole = broker_of(in_slices=False)
    assert found == conversation(whole, lambda asked: whole.ask(asked, 12))
    for each in (sliced, whole):
        each.cluster.close(clean=False)


def test_each_slice_reads_a_step_and_opens_one_log(broker: BrokerInMemory) -> None:
    broker.clock.advance(0)
    partitions = broker.cluster.topic("orders").partitions

    def unopened() -> int:
        return sum(partition.is_unopened for partition in partitions)

    for partition in partitions[OPENED_BEFORE:]:
        partition.online_log = None
        partition.open_later(lambda each: setattr(each, "online_log", partitions[0].log))
    pending = broker.begin(request(), 12)
    before = unopened()
    for _ in turns(broker, pending):
        assert before - unopened() <= 1
        before = unopened()
    assert not before


def test_waits_until_a_partition_moves(broker: BrokerInMemory) -> None:
    pending = broker.begin(request(offset=2, wait_ms=500, topics=request(offset=0).topics, min_bytes=4 * SIZE), 12)
    broker.clock.advance(0)
    assert not pending.is_done
    broker.append("orders", 7, records(2))
    broker.clock.advance(0)
    assert sum(1 for *_, size in keys(pending.answer()) if size) == OPENED_BEFORE // 2 + 1


def test_append_between_two_slices_is_not_missed(broker: BrokerInMemory) -> None:
    """At each turn of a Fetch that waits, something is appended to what was read already, or will be."""
    for turn_number in range(0, 40, 3):
        for index in (0, 11):
            session_id = served(broker, request(offset=2 if index == 0 else 0, session_epoch=0)).session_id
            end = broker.cluster.partition("clicks", 2).log.log_end_offset
            changed = [
                schema.Topic(topic="clicks", partitions=[schema.Partition(partition=2, fetch_offset=end, partition_max_bytes=1 << 20)])
            ]
            first = served(broker, request(session_id=session_id, session_epoch=1, topics=changed))
            assert first.error_code == 0
            waiting = broker.begin(request(session_id=session_id, session_epoch=2, topics=[], wait_ms=500, min_bytes=1 << 20), 12)
            for _ in range(turn_number):
                if not waiting.is_done:
                    one_turn(broker)
            broker.append("clicks", 2, records(1))
            broker.clock.advance(500)
            seen = keys(waiting.answer()) if waiting.is_done else []
            after = broker.begin(request(session_id=session_id, session_epoch=3, topics=[]), 12)
            for _ in turns(broker, after):
                pass
            assert any(topic == "clicks" and partition == 2 and size for topic, partition, _, size in seen + keys(after.answer()))


def test_max_wait_completes_the_fetch(broker: BrokerInMemory) -> None:
    pending = broker.begin(request(wait_ms=500, min_bytes=1 << 20), 12)
    broker.clock.advance(0)
    assert not pending.is_done
    broker.clock.advance(500)
    assert len(keys(pending.answer())) == PARTITIONS + 3 + 2


def test_another_request_of_the_connection_completes_the_fetch(broker: BrokerInMemory) -> None:
    pending = broker.begin(request(wait_ms=500, min_bytes=1 << 20), 12)
    assert isinstance(pending.in_flight, Delayed)
    assert not pending.in_flight.keeps_frame
    pending.in_flight.step_aside()
    broker.clock.advance(0)
    assert broker.clock.now_ms() == BrokerInMemory().clock.now_ms()


def test_deleted_topic_completes_the_fetch(broker: BrokerInMemory) -> None:
    pending = broker.begin(request(wait_ms=500, min_bytes=1 << 20), 12)
    broker.clock.advance(0)
    broker.cluster.delete_topic("clicks")
    broker.clock.advance(0)
    assert ("clicks", 0, UnknownTopicOrPartition.code, 0) in keys(pending.answer())


def test_closed_connection_removes_all_subscriptions(broker: BrokerInMemory) -> None:
    pending = broker.begin(request(wait_ms=500, min_bytes=1 << 20), 12)
    broker.clock.advance(0)
    partitions = broker.cluster.topic("orders").partitions
    assert all(partition._subscribers for partition in partitions)
    pending.in_flight.cancel()
    assert not any(partition._subscribers for partition in partitions)
    assert not broker.services.purgatory.count


def test_overtaken_request_fails_with_invalid_session_epoch(broker: BrokerInMemory) -> None:
    session_id = served(broker, request(session_epoch=0)).session_id
    first = broker.begin(request(session_id=session_id, session_epoch=1), 12)
    for _ in range(15):
        one_turn(broker)
    second: Pending = broker.begin(request(session_id=session_id, session_epoch=2), 12)
    broker.clock.advance(0)
    assert [first.answer().error_code, second.answer().error_code] == [InvalidFetchSessionEpoch.code, 0]


@pytest.mark.parametrize("quota", [1e9, 20.0])
def test_quota_size_is_computed_in_slices(monkeypatch: pytest.MonkeyPatch, few: None, quota: float) -> None:
    """The larger quota is never exceeded, the smaller one by the first answer."""
    received: list[int] = []

    def by_topic(results: list[Any]) -> Any:
        received.append(len(results))
        return by_topic_at_once(results)

    by_topic_at_once = reading.by_topic

    def answers(broker: BrokerInMemory) -> list[Any]:
        alter(broker, entry((("client-id", "test"),), ("consumer_byte_rate", quota)))
        found = []
        for _ in range(3):
            pending = broker.begin(request(), 12)
            for _ in turns(broker, pending):
                pass
            found.append(pending.answer())
        broker.cluster.close(clean=False)
        return found

    monkeypatch.setattr(reading, "by_topic", by_topic)
    in_slices = answers(broker_of(in_slices=True))
    assert max(received) == STEP
    monkeypatch.undo()
    assert in_slices == answers(broker_of(in_slices=False))
    assert [bool(each.throttle_time_ms) for each in in_slices] == [quota < 1e9] * 3
    assert [bool(each.responses) for each in in_slices] == [quota == 1e9] * 3
