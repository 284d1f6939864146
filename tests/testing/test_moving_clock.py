"""Time goes by at once: alone, and for a broker whose clients see what follows from it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from minibroker.testing import BrokerError, BrokerProcess, BrokerThread, Surface
from minibroker.testing.moving_clock import MovingClock
from tests.support.becoming import becomes


def is_about(ms: float, expected: float) -> bool:
    return expected - 1 <= ms < expected + 60_000  # the test's own time goes by, too


async def test_timers_run_in_order_each_at_its_time() -> None:
    clock = MovingClock(asyncio.get_running_loop())
    start_ms = clock.now_ms()
    ran: list[tuple[str, int]] = []

    def note(name: str) -> Callable[[], None]:
        return lambda: ran.append((name, clock.now_ms() - start_ms))

    def again() -> None:
        note("again")()
        clock.call_later_ms(200_000, note("later"))

    clock.call_later_ms(300_000, note("second"))
    clock.call_later_ms(100_000, again)
    clock.call_later_ms(200_000, note("never")).cancel()
    clock.call_later_ms(900_000, note("not yet"))
    clock.advance(600_000)
    assert [name for name, _ in ran] == ["again", "second", "later"]
    for (_, at_ms), expected in zip(ran, (100_000, 300_000, 300_000), strict=True):
        assert is_about(at_ms, expected)
    assert is_about(clock.now_ms() - start_ms, 600_000)
    clock.advance(300_000)
    assert ran[-1][0] == "not yet"
    clock.return_to_present()
    assert clock.now_ms() - start_ms < 60_000


async def test_time_goes_by_itself_too() -> None:
    clock = MovingClock(asyncio.get_running_loop())
    done = asyncio.Event()
    clock.call_later_ms(3_600_000, done.set)
    clock.advance(3_600_000 - 20)
    await asyncio.wait_for(done.wait(), 30)
    clock.call_later_ms(0, done.clear)
    await asyncio.sleep(0)
    assert not done.is_set()


async def test_a_long_time_is_not_long() -> None:
    clock = MovingClock(asyncio.get_running_loop())
    ticks = 0

    def tick() -> None:
        nonlocal ticks
        ticks += 1
        clock.call_later_ms(10, tick)

    tick()
    clock.advance(365 * 86_400_000)
    assert 500 < ticks <= 1002


async def test_timers_that_are_done_are_forgotten() -> None:
    clock = MovingClock(asyncio.get_running_loop())
    for _ in range(5000):
        clock.call_later_ms(60_000, lambda: None).cancel()
    assert len(clock._timers) < 2048


@pytest.fixture(scope="module", params=[BrokerThread, BrokerProcess])
def shared(request: pytest.FixtureRequest) -> Iterator[Surface]:
    with request.param(topics={"orders": 1}) as broker:
        yield broker


@pytest.fixture
def broker(shared: Surface) -> Surface:
    shared.reset()
    return shared


def test_retention_follows(broker: Surface) -> None:
    broker.create_topic("stamped", message_timestamp_type="LogAppendTime")
    broker.produce("orders", "old")
    broker.advance(days=6)
    assert len(broker.records("orders")) == 1
    broker.produce("stamped", "one")
    assert is_about(broker.records("stamped")[0].timestamp_ms, (time.time() + 6 * 86_400) * 1000 - 30_000)
    broker.advance(days=1, hours=1)
    assert becomes(lambda: not broker.records("orders"))
    assert len(broker.records("stamped")) == 1
    broker.reset()
    broker.create_topic("stamped", message_timestamp_type="LogAppendTime")
    broker.produce("stamped", "two")
    assert broker.records("stamped")[0].timestamp_ms < (time.time() + 3600) * 1000
    with pytest.raises(BrokerError, match="time must not be negative"):
        broker.advance(seconds=-1)


def test_compaction_follows(broker: Surface) -> None:
    """In memory a thread does it, elsewhere a process."""
    broker.create_topic("prices", cleanup_policy="compact", segment_ms=60_000, min_cleanable_dirty_ratio=0.01)
    for _ in range(5):
        broker.produce("prices", *(str(number) for number in range(20)), key="apples")
    broker.produce("prices", "last", key="plums")

    def is_compacted() -> bool:
        broker.advance(minutes=2)  # the segment rolls when retention is looked at, every five minutes; then the cleaner has its turn
        return [record.text for record in broker.records("prices")] == ["19", "last"]

    assert becomes(is_compacted)


def test_a_transaction_times_out(broker: Surface) -> None:
    from confluent_kafka import KafkaException

    from tests.support.confluent import Producer

    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "till", "transaction.timeout.ms": 600_000})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce("orders", b"apples")
    producer.flush()
    broker.produce("orders", "pears")
    assert broker.records("orders") == []
    broker.advance(minutes=11)
    assert [record.text for record in broker.records("orders", count=1)] == ["pears"]
    with pytest.raises(KafkaException):
        producer.commit_transaction(30)


MEMBER = """
import sys
from confluent_kafka import Consumer

consumer = Consumer({"bootstrap.servers": sys.argv[1], "group.id": "readers", "session.timeout.ms": 300_000})
consumer.subscribe(["orders"])
while True:
    consumer.poll(1)
"""


def test_dead_member_times_out(broker: Surface) -> None:
    member = subprocess.Popen([sys.executable, "-c", MEMBER, broker.bootstrap_servers])
    try:
        (gone,) = broker.wait_assigned("readers", timeout_s=60)
    finally:
        member.kill()  # closed, it would leave its group
        member.wait()
    assert [*broker.wait_assigned("readers")] == [gone]
    broker.advance(minutes=6)
    with pytest.raises(BrokerError, match=r"it is Empty with 0 members|no such group"):
        broker.wait_assigned("readers", timeout_s=0.1)
