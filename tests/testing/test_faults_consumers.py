"""Consumers of three makes meet faults: they ask again, join again, or tell their application; and everything is read in the end."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import confluent_kafka
import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.errors import KafkaError as AIOKafkaError
from kafka import KafkaConsumer
from kafka.errors import KafkaError as KafkaPythonError

from minibroker.testing import Broker, BrokerThread
from minibroker.testing.lab.handles import Fault

TIMEOUT_S: Final = 30
POLL_S: Final = 0.05
LONG_POLL_MS: Final = 300  #: kafka-python 3.0.12 loses its way in a rebalance that outlasts a poll
SESSION_MS: Final = 1000  #: for so long a member that believes in none stays one, besides what it comes back as

#: of kafka-python and aiokafka, which name them alike
SETTINGS: Final[dict[str, Any]] = {
    "auto_offset_reset": "earliest",
    "enable_auto_commit": False,
    "heartbeat_interval_ms": 50,
    "session_timeout_ms": SESSION_MS,
    "fetch_max_wait_ms": 50,
    "retry_backoff_ms": 10,
}

#: name -> (kind, API, arguments), each of which hits once
LOST_OR_LATE: Final[dict[str, tuple[str, str, dict[str, Any]]]] = {
    "not the leader": ("inject", "Fetch", {"error": "NOT_LEADER_OR_FOLLOWER", "topic": "orders"}),
    "fenced epoch": ("inject", "Fetch", {"error": "FENCED_LEADER_EPOCH", "topic": "orders", "partition": 0}),
    "offline": ("inject", "Fetch", {"error": "KAFKA_STORAGE_ERROR", "topic": "orders", "partition": 0}),
    "no session": ("inject", "Fetch", {"error": "FETCH_SESSION_ID_NOT_FOUND"}),
    "session epoch": ("inject", "Fetch", {"error": "INVALID_FETCH_SESSION_EPOCH"}),
    "cut before": ("disconnect", "Fetch", {"when": "before"}),
    "cut behind": ("disconnect", "Fetch", {"when": "after"}),
    "torn": ("tear", "Fetch", {"size": 40}),
    "late": ("delay", "Fetch", {"ms": 30}),
    "throttled": ("throttle", "Fetch", {"ms": 30}),
    "not answered": ("silence", "Fetch", {"when": "after"}),
}


class Consumer:
    """A client of some make, a member of a group."""

    error: type[Exception]

    def poll(self) -> list[str]:
        """What came meanwhile."""
        return []

    def commit(self) -> None:
        """Commit what was read."""

    def close(self) -> None:
        """Leave."""


class KafkaPython(Consumer):
    error = KafkaPythonError

    def __init__(self, bootstrap_servers: str, group: str) -> None:
        self.client = KafkaConsumer(
            "orders",
            bootstrap_servers=bootstrap_servers,
            group_id=group,
            **SETTINGS,
            reconnect_backoff_ms=10,
        )

    def poll(self) -> list[str]:
        return [record.value.decode() for each in self.client.poll(LONG_POLL_MS).values() for record in each]

    def commit(self) -> None:
        self.client.commit()

    def close(self) -> None:
        self.client.close()


class AIOKafka(Consumer):
    error = AIOKafkaError

    def __init__(self, bootstrap_servers: str, group: str) -> None:
        self.runner = asyncio.Runner()

        async def start() -> AIOKafkaConsumer:
            client = AIOKafkaConsumer(
                "orders",
                bootstrap_servers=bootstrap_servers,
                group_id=group,
                **SETTINGS,
            )
            await client.start()
            return client

        self.client = self.runner.run(start())

    def poll(self) -> list[str]:
        found = self.runner.run(self.client.getmany(timeout_ms=int(POLL_S * 1000)))
        return [record.value.decode() for each in found.values() for record in each]

    def commit(self) -> None:
        self.runner.run(self.client.commit())

    def close(self) -> None:
        try:
            self.runner.run(self.client.stop())
        finally:
            self.runner.close()


class Confluent(Consumer):
    error = confluent_kafka.KafkaException

    def __init__(self, bootstrap_servers: str, group: str) -> None:
        config = {
            "bootstrap.servers": bootstrap_servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "heartbeat.interval.ms": 50,
            "session.timeout.ms": SESSION_MS,
            "fetch.wait.max.ms": 50,
            "fetch.error.backoff.ms": 10,
            "retry.backoff.ms": 10,
            "reconnect.backoff.ms": 10,
            "topic.metadata.refresh.fast.interval.ms": 10,
            "log_level": 0,
        }
        self.client = confluent_kafka.Consumer(config)
        self.client.subscribe(["orders"])

    def poll(self) -> list[str]:
        message = self.client.poll(POLL_S)
        if message is None:
            return []
        error = message.error()
        if error is not None:
            raise confluent_kafka.KafkaException(error)
        return [message.value().decode()]

    def commit(self) -> None:
        self.client.commit(asynchronous=False)

    def close(self) -> None:
        self.client.close()


Start = Callable[[], Consumer]
MAKES: Final = [KafkaPython, AIOKafka, Confluent]


def read(consumer: Consumer, count: int, is_enough: Callable[[], bool] = lambda: True) -> list[str]:
    """Poll until `count` values are there and it `is_enough`; fails after half a minute."""
    found: list[str] = []
    end_s = time.monotonic() + TIMEOUT_S
    while len(found) < count or not is_enough():
        found += consumer.poll()
        assert time.monotonic() < end_s, f"only {found}"
    return found


def was_hit(fault: Fault) -> bool:
    """Whether it has happened."""
    return fault.hits > 0


@pytest.fixture(scope="module")
def shared() -> Iterator[BrokerThread]:
    with BrokerThread(topics={"orders": 2}, config={"group.min.session.timeout.ms": SESSION_MS}) as broker:
        yield broker
    gc.collect()  # aiokafka's tasks that failed say so when they are collected: not in the middle of another test


@pytest.fixture
def broker(shared: BrokerThread) -> BrokerThread:
    shared.reset()
    return shared


@pytest.fixture
def group(request: pytest.FixtureRequest) -> str:
    """One of this test's own: a member of another test is none of its members."""
    return str(request.node.name)


@pytest.fixture(params=MAKES)
def start(request: pytest.FixtureRequest, broker: BrokerThread, group: str) -> Iterator[Callable[[], Consumer]]:
    """Starts a consumer, which is closed in the end, whatever becomes of the test."""
    started: list[Consumer] = []

    def start() -> Consumer:
        started.append(request.param(broker.bootstrap_servers, group))
        return started[-1]

    yield start
    broker.faults.clear()
    for consumer in started:
        consumer.close()


def test_lost_or_late_answers_are_retried(broker: BrokerThread, group: str, start: Start) -> None:
    consumer = start()
    broker.produce("orders", "first", partition=0)
    assert read(consumer, 1) == ["first"]
    for name, (kind, api, more) in LOST_OR_LATE.items():
        with getattr(broker.faults, kind)(api, **more).once() as fault:
            read(consumer, 0, partial(was_hit, fault))
        broker.produce("orders", name, partition=0)
        assert read(consumer, 1) == [name]
    assert len(broker.request_log.of("Fetch", injected=True)) == len(LOST_OR_LATE)


def test_a_partition_that_fails_holds_up_no_other(broker: BrokerThread, group: str, start: Start) -> None:
    consumer = start()
    broker.produce("orders", "a0", partition=0)
    broker.produce("orders", "a1", partition=1)
    assert sorted(read(consumer, 2)) == ["a0", "a1"]
    with broker.faults.inject("Fetch", "NOT_LEADER_OR_FOLLOWER", topic="orders", partition=0).always() as fault:
        assert read(consumer, 0, lambda: fault.hits >= 1) == []  # those that were under way before are answered
        broker.produce("orders", "b0", partition=0)
        broker.produce("orders", "b1", partition=1)
        assert read(consumer, 1, lambda: fault.hits >= 3) == ["b1"]
    assert read(consumer, 1) == ["b0"]


@pytest.mark.parametrize("error", ["REBALANCE_IN_PROGRESS", "UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION"])
def test_a_heartbeat_that_is_refused_makes_the_member_join_again(broker: BrokerThread, group: str, start: Start, error: str) -> None:
    consumer = start()
    broker.produce("orders", "a", partition=0)
    read(consumer, 1)
    joined = len(broker.request_log.of("JoinGroup", group=group))
    fault = broker.faults.inject("Heartbeat", error, group=group).once()
    read(consumer, 0, lambda: fault.hits == 1 and len(broker.request_log.of("JoinGroup", group=group)) > joined)
    broker.produce("orders", "b", partition=1)
    found: list[str] = []
    while "b" not in found:
        found += read(consumer, 1)
    assert len(broker.wait_assigned(group)) == 1


def test_commits_are_retried_or_raise(broker: BrokerThread, group: str, start: Start) -> None:
    consumer = start()
    for error in ("COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR"):
        broker.produce("orders", error, partition=0)
        assert read(consumer, 1) == [error]
        fault = broker.faults.inject("OffsetCommit", error, group=group).once()
        consumer.commit()
        assert fault.calls == 2, error
        fault.remove()
    broker.produce("orders", "last", partition=0)
    assert read(consumer, 1) == ["last"]
    with broker.faults.inject("OffsetCommit", "GROUP_AUTHORIZATION_FAILED", group=group).once() as fault:
        with pytest.raises(consumer.error):
            consumer.commit()
        assert fault.hits == 1
    consumer.commit()


def test_authorization_errors_are_raised(broker: BrokerThread, group: str, start: Start) -> None:
    consumer = start()
    broker.produce("orders", "a", partition=0)
    read(consumer, 1)
    with (
        broker.faults.inject("Fetch", "TOPIC_AUTHORIZATION_FAILED", topic="orders", partition=0).always(),
        pytest.raises(consumer.error),
    ):
        read(consumer, 1)
    broker.produce("orders", "b", partition=0)

    def poll_on() -> list[str]:
        try:
            return consumer.poll()
        except consumer.error:  # the last refusal, which was under way
            return []

    found: list[str] = []
    end_s = time.monotonic() + TIMEOUT_S
    while "b" not in found and time.monotonic() < end_s:
        found += poll_on()
    assert "b" in found


def test_a_group_forms_while_its_coordinator_is_not_ready(broker: BrokerThread, group: str, start: Start) -> None:
    faults = [
        broker.faults.throttle("Metadata", ms=10).once(),
        broker.faults.inject("FindCoordinator", "COORDINATOR_NOT_AVAILABLE", group=group).once(),
        broker.faults.inject("JoinGroup", "COORDINATOR_LOAD_IN_PROGRESS", group=group).once(),
        broker.faults.inject("SyncGroup", "REBALANCE_IN_PROGRESS", group=group).once(),
        broker.faults.disconnect("OffsetFetch", group=group).once(),
    ]
    broker.produce("orders", "a", partition=0)
    consumer = start()
    assert read(consumer, 1) == ["a"]
    assert [fault.hits for fault in faults] == [1] * len(faults)


def test_in_the_tests_own_loop() -> None:
    async def main() -> None:
        async with Broker(topics=["orders"]) as broker:
            await broker.produce("orders", "a")
            async with broker.faults.inject("Fetch", "NOT_LEADER_OR_FOLLOWER", topic="orders").times(2) as fault:
                consumer = AIOKafkaConsumer(
                    "orders", bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest", retry_backoff_ms=10
                )
                async with consumer:
                    record = await asyncio.wait_for(consumer.getone(), TIMEOUT_S)
                assert record.value == b"a"
                assert await fault.hits == 2

    asyncio.run(main())
