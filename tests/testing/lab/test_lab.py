"""What a test does to a broker, in each of its forms, as real clients see it: held high watermarks and a disk that fails."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from minibroker.client.client import Client
from minibroker.client.errors import TimedOut
from minibroker.client.producer import Producer
from minibroker.records.record import Record
from minibroker.testing import (
    MEMORY,
    TEMPORARY,
    AsyncSurface,
    Broker,
    BrokerError,
    BrokerProcess,
    BrokerThread,
    GivenCluster,
    Surface,
    Unsupported,
)
from tests.support.becoming import becomes


@pytest.fixture(scope="module", params=[(BrokerThread, MEMORY), (BrokerThread, TEMPORARY), (BrokerProcess, MEMORY)], ids=str)
def shared(request: pytest.FixtureRequest) -> Iterator[Surface]:
    form, data_dir = request.param
    with form(topics={"orders": 2}, data_dir=data_dir, config={"log.flush.interval.messages": 1}) as broker:
        yield broker


@pytest.fixture
def broker(shared: Surface) -> Surface:
    shared.reset()
    return shared


def texts(broker: Surface, **options: Any) -> list[str]:
    return [record.text for record in broker.records("orders", **options)]


def test_records_above_a_held_high_watermark_are_hidden_and_acks_all_waits(broker: Surface) -> None:
    from kafka import KafkaProducer

    broker.produce("orders", "seen", partition=0)
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers, client_id="orders-service", acks="all")
    with broker.hold_high_watermark("orders", 0):
        sent = producer.send("orders", b"hidden", partition=0)
        assert becomes(lambda: bool(broker.request_log.of("Produce", client_id="orders-service")))
        assert texts(broker, partition=0) == ["seen"]
        assert texts(broker, partition=0, isolation="read_uncommitted") == ["seen"]
        assert not sent.is_done
    assert sent.get(30).offset == 1
    assert texts(broker, partition=0) == ["seen", "hidden"]
    producer.close()


def test_acks_all_times_out_but_the_record_is_stored(broker: Surface) -> None:
    from confluent_kafka import KafkaError

    from tests.support.confluent import Producer

    results: list[Any] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "acks": "all", "request.timeout.ms": 300, "retries": 0})
    with broker.hold_high_watermark("orders", 1) as hold:
        producer.produce("orders", b"late", partition=1, on_delivery=lambda error, _: results.append(error))
        producer.flush(30)
        assert [error.code() for error in results] == [KafkaError.REQUEST_TIMED_OUT]
        hold.release()
        hold.release()  # harmless
    assert texts(broker, partition=1) == ["late"]


def test_a_transaction_is_seen_when_its_records_are(broker: Surface) -> None:
    from tests.support.confluent import Producer

    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "till", "acks": "all"})
    producer.init_transactions()
    hold = broker.hold_high_watermark("orders", 0)
    again = broker.hold_high_watermark("orders", 0)
    broker.produce("orders", "first", partition=1)
    producer.begin_transaction()
    producer.produce("orders", b"bought", partition=0)
    producer.poll(0)
    assert becomes(lambda: bool(broker.request_log.of("Produce", transactional_id="till")))
    hold.release()
    assert texts(broker, partition=0, isolation="read_uncommitted") == []  # held twice
    again.release()
    producer.commit_transaction()
    assert texts(broker, partition=0) == ["bought"]


def test_the_next_transaction_waits_for_the_markers_of_the_last_one(broker: Surface) -> None:
    from tests.support.confluent import Producer

    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "till", "acks": "all"})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce("orders", b"first", partition=0)
    assert producer.flush(30) == 0
    with broker.hold_high_watermark("orders", 0):
        producer.commit_transaction()
        producer.begin_transaction()
        producer.produce("orders", b"second", partition=1)
        assert becomes(lambda: bool(producer.poll(0) or broker.request_log.of(error="CONCURRENT_TRANSACTIONS")))
        assert texts(broker) == []
    producer.commit_transaction()
    assert texts(broker) == ["first", "second"]


def test_storage_fault_on_an_unused_topic(broker: Surface) -> None:
    broker.faults.storage("orders", on="write", error="EIO").once()
    with Client(broker.bootstrap_servers, timeout_ms=300) as client:
        producer = Producer(client, "orders", idempotent=False)
        producer.add(Record(0, 0, None, b"lost"), 0)
        with pytest.raises(TimedOut, match=r"KAFKA_STORAGE_ERROR|LEADER_NOT_AVAILABLE"):
            producer.flush()
    assert not any(broker._execute("info", {})["log_dirs"].values())  # the directory, not one partition that has no folder yet


@pytest.mark.parametrize("on", ["write", "sync"])
def test_full_disk_takes_the_directory_offline_until_healed(broker: Surface, on: str) -> None:
    from tests.support.confluent import Producer

    broker.produce("orders", "before", partition=0)
    results: list[Any] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "acks": "all", "enable.idempotence": True, "retry.backoff.ms": 20})
    fault = broker.faults.storage("orders", 0, on=on, error="ENOSPC").once()
    producer.produce("orders", b"after", partition=0, on_delivery=lambda error, message: results.append((error, message.offset())))
    assert becomes(lambda: bool(producer.poll(0.01) or broker.request_log.of("Produce", error="KAFKA_STORAGE_ERROR")))
    assert (fault.hits, results) == (1, [])  # it asks again: the error may pass
    assert not any(broker._execute("info", {})["log_dirs"].values())
    broker.faults.heal()
    producer.flush(60)
    ((error, offset),) = results
    assert (error, offset) == (None, 1)
    assert texts(broker, partition=0) == ["before", "after"]  # once, though the failed sync had left it in the file


def test_a_disk_that_cannot_be_read(broker: Surface) -> None:
    from confluent_kafka import TopicPartition

    from tests.support.confluent import Consumer

    broker.produce("orders", "one", partition=0)
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "readers", "topic.metadata.refresh.interval.ms": 200})
    with broker.faults.storage("orders", on="read", error="EIO").always() as fault:
        consumer.assign([TopicPartition("orders", 0, 0)])  # only now: it fetches in the background at once
        assert becomes(lambda: bool(consumer.poll(0.01) is None and broker.request_log.of("Fetch", error="KAFKA_STORAGE_ERROR")))
        assert fault.hits >= 1
        assert [each["on"] for each in broker.faults.list()] == ["read"]
    assert broker.faults.list() == []
    broker.faults.heal()
    found: list[bytes] = []

    def has_read() -> bool:
        found.extend(each.value() for each in consumer.consume(1, 0.1) if not each.error())
        return bool(found)

    assert becomes(has_read)
    assert found == [b"one"]
    consumer.close()


def test_reset_and_restore_take_everything_back(broker: Surface) -> None:
    broker.produce("orders", "one", partition=0)
    kept = broker.snapshot()
    for begin_anew in (broker.reset, lambda: broker.restore(kept)):
        broker.hold_high_watermark("orders", 0)
        fault = broker.faults.storage("orders", 0, on="write", error="EIO").always()
        begin_anew()
        broker.produce("orders", "two", partition=0)
        assert texts(broker, partition=0)[-1] == "two"
        assert broker.faults.list() == broker._execute("high_watermark.list", {}) == []
        fault.remove()  # harmless
        with pytest.raises(BrokerError, match=r"^faults: there is no fault storage-\d+: it was removed, or ended with a reset$"):
            _ = fault.hits


def test_healing_the_disk_does_not_release_held_watermarks(broker: Surface) -> None:
    hold = broker.hold_high_watermark("orders", 0)
    broker.faults.heal()
    (found,) = broker._execute("high_watermark.list", {})
    assert (found["topic"], found["partition"], found["log_end_offset"]) == ("orders", 0, 0)
    hold.release()
    assert broker._execute("high_watermark.list", {}) == []


def test_recreated_topic_is_not_held(broker: Surface) -> None:
    broker.create_topic("prices")
    before = broker.hold_high_watermark("prices", 0)
    broker.delete_topic("prices")
    broker.create_topic("prices")
    assert broker._execute("high_watermark.list", {}) == []
    broker.produce("prices", "1.20")
    assert len(broker.records("prices")) == 1
    with broker.hold_high_watermark("prices", 0):
        before.release()  # of another topic of that name
        (held,) = broker._execute("high_watermark.list", {})
        assert (held["topic"], held["high_watermark"]) == ("prices", 1)


def test_unused_fault_warns(broker: Surface) -> None:
    with pytest.warns(UserWarning, match=r"^this fault never happens: it needs \.once\(\)"):
        broker.faults.inject("Produce", "NOT_LEADER_OR_FOLLOWER")
    assert broker.faults.list() == []

    async def forget() -> None:
        aside = AsyncSurface(broker)
        with pytest.warns(UserWarning, match=r"^faults.inject was never awaited: nothing was done$"):
            aside.faults.inject("Produce", "NOT_LEADER_OR_FOLLOWER").once()
        with pytest.warns(UserWarning, match=r"^hold_high_watermark was never awaited: nothing was done$"):
            aside.hold_high_watermark("orders", 0)

    asyncio.run(forget())


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda broker: broker.hold_high_watermark("nowhere", 0), r"^high_watermark\.hold: UNKNOWN_TOPIC_OR_PARTITION"),
        (
            lambda broker: broker.hold_high_watermark("orders", 9),
            r"^high_watermark\.hold: UNKNOWN_TOPIC_OR_PARTITION: topic orders .* partition 9",
        ),
        (
            lambda broker: broker.hold_high_watermark("__consumer_offsets", 0),
            r"^high_watermark\.hold: __consumer_offsets is an internal topic",
        ),
        (lambda broker: broker.faults.storage("orders", on="erase", error="EIO").once(), r"^storage: on must be one of .*, got 'erase'$"),
        (lambda broker: broker.faults.storage(on="read", error="EIO").times(0), r"^times must be at least 1, got 0$"),
    ],
)
def test_refusals_are_one_line(broker: Surface, ask: Callable[[Surface], Any], message: str) -> None:
    with pytest.raises(BrokerError, match=message):
        ask(broker)


def test_failed_snapshot_is_reported(tmp_path: Path) -> None:
    for number, form in enumerate((BrokerThread, BrokerProcess)):
        with form(data_dir=tmp_path / str(number)) as broker:
            shutil.rmtree(tmp_path / str(number))
            with pytest.raises(BrokerError, match=r"^snapshot: .*No such file or directory"):
                broker.snapshot()


def test_tests_that_await() -> None:
    async def check(broker: Broker | AsyncSurface) -> None:
        async with broker.hold_high_watermark("orders", 0):
            waiting = asyncio.create_task(broker.produce("orders", "hidden", partition=0))
            held = await broker._execute("high_watermark.list", {})
            assert [each["topic"] for each in held] == ["orders"]
            assert await broker.records("orders") == []
        await waiting
        assert [record.text for record in await broker.records("orders")] == ["hidden"]
        hold = await broker.hold_high_watermark("orders", 0)
        await hold.release()
        async with broker.faults.storage("orders", on="sync", error="EIO").always() as fault:
            assert (await fault.calls, await fault.hits) == (0, 0)
            assert [each["id"] for each in await broker.faults.list()] == [fault.id]
        assert await broker.faults.list() == []
        fault = await broker.faults.storage("orders", on="sync", error="EIO").once()
        await broker.faults.clear()
        await fault.remove()
        await broker.faults.heal()

    async def both() -> None:
        async with Broker(topics=["orders"]) as broker:
            await check(broker)
        with BrokerThread(topics=["orders"]) as elsewhere:
            await check(AsyncSurface(elsewhere))

    asyncio.run(both())


def test_a_given_kafka_cannot_do_it() -> None:
    given = GivenCluster("127.0.0.1:1")
    for ask in (
        lambda: given.hold_high_watermark("orders", 0),
        lambda: given.faults.storage("orders", on="write", error="EIO").once(),
        lambda: given.faults.inject("Produce", "NOT_LEADER_OR_FOLLOWER").once(),
        lambda: given.leaders.take_away("orders", 0),
        lambda: given.nodes.stop(2),
    ):
        with pytest.raises(Unsupported, match="needs a minibroker"):
            ask()
