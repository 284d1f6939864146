"""Consumers that share a topic as a group: real clients join, read, commit, leave, and take over from each other."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

import pytest

from tests.clients.adapters import CLIENTS, Sent

PARTITIONS = 4
TIMEOUT_S = 60.0


def fill(bootstrap: str, topic: str, first: int, count: int) -> None:
    for partition in range(PARTITIONS):
        values = [Sent(None, b"%d-%d" % (partition, number)) for number in range(first, first + count)]
        CLIENTS["confluent-kafka"].write(bootstrap, topic, values, partition=partition)


def read_by_confluent(bootstrap: str, topic: str, group: str, count: int) -> list[bytes]:
    found: list[bytes] = []
    with confluent(bootstrap, topic, group) as consumer:
        deadline = time.monotonic() + TIMEOUT_S
        while len(found) < count and time.monotonic() < deadline:
            for message in consumer.consume(count - len(found), 1.0):
                assert message.error() is None, message.error()
                found.append(message.value())
        consumer.commit(asynchronous=False)
    return found


@contextmanager
def confluent(bootstrap: str, topic: str, group: str, **settings: Any) -> Iterator[Any]:
    from tests.support.confluent import Consumer

    common = {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = Consumer(common | settings)
    consumer.subscribe([topic])
    yield consumer
    consumer.close()


def read_by_kafka_python(bootstrap: str, topic: str, group: str, count: int) -> list[bytes]:
    from kafka import KafkaConsumer

    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        consumer_timeout_ms=int(TIMEOUT_S * 1000),
    )
    found = [message.value for message in islice(consumer, count)]
    consumer.commit()
    consumer.close()
    return found


def read_by_aiokafka(bootstrap: str, topic: str, group: str, count: int) -> list[bytes]:
    from aiokafka import AIOKafkaConsumer

    async def read() -> list[bytes]:
        consumer = AIOKafkaConsumer(
            topic, bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest", enable_auto_commit=False
        )
        await consumer.start()
        try:
            found = [(await asyncio.wait_for(consumer.getone(), TIMEOUT_S)).value for _ in range(count)]
            await consumer.commit()
            return found
        finally:
            await consumer.stop()

    return asyncio.run(read())


READERS: dict[str, Callable[[str, str, str, int], list[bytes]]] = {
    "confluent-kafka": read_by_confluent,
    "kafka-python": read_by_kafka_python,
    "aiokafka": read_by_aiokafka,
}


def test_each_client_resumes_after_the_previous_one(bootstrap: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic(PARTITIONS)
    read: list[bytes] = []
    for turn, reader in enumerate([*READERS.values(), read_by_confluent]):
        fill(bootstrap, topic, 3 * turn, 3)
        read += reader(bootstrap, topic, topic, 3 * PARTITIONS)
    assert sorted(read) == sorted(b"%d-%d" % (partition, number) for partition in range(PARTITIONS) for number in range(12))


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_members_share_and_inherit(bootstrap: str, new_topic: Callable[..., str], strategy: str) -> None:
    topic = new_topic(PARTITIONS)
    settings = {"partition.assignment.strategy": strategy}
    with confluent(bootstrap, topic, topic, **settings) as one:
        assert owned(one, until=PARTITIONS) == [PARTITIONS]
        with confluent(bootstrap, topic, topic, **settings) as two:
            assert owned(one, two, until=PARTITIONS // 2) == [PARTITIONS // 2] * 2
            partitions = {each.partition for consumer in (one, two) for each in consumer.assignment()}
            assert partitions == set(range(PARTITIONS))
        assert owned(one, until=PARTITIONS) == [PARTITIONS]


def owned(*consumers: Any, until: int) -> list[int]:
    """How many partitions each one has, as soon as each has so many."""
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        counts = [len(consumer.assignment()) for consumer in consumers]
        if counts == [until] * len(consumers):
            break
        for consumer in consumers:
            consumer.poll(0.05)
    return counts


def test_static_member_rejoins_with_its_partitions(bootstrap: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic(PARTITIONS)
    with confluent(bootstrap, topic, topic, **{"group.instance.id": "one"}) as one:
        before = one
        with confluent(bootstrap, topic, topic, **{"group.instance.id": "two"}) as two:
            assert owned(one, two, until=PARTITIONS // 2) == [PARTITIONS // 2] * 2
            had = {each.partition for each in two.assignment()}
        # A static member does not say that it leaves: the other one keeps what it has.
        with confluent(bootstrap, topic, topic, **{"group.instance.id": "two"}) as two:
            assert owned(before, two, until=PARTITIONS // 2) == [PARTITIONS // 2] * 2
            assert {each.partition for each in two.assignment()} == had


def test_admin_client_describes_and_deletes_the_group(bootstrap: str, new_topic: Callable[..., str], admin: Any) -> None:
    topic = new_topic(PARTITIONS)
    fill(bootstrap, topic, 0, 1)
    with confluent(bootstrap, topic, topic, **{"client.id": "reader"}) as consumer:
        owned(consumer, until=PARTITIONS)
        group = admin.describe_consumer_groups([topic])[topic].result(60)
        assert (group.state.name, group.partition_assignor, len(group.members)) == ("STABLE", "range", 1)
        assert group.members[0].client_id == "reader"
        assert {each.partition for each in group.members[0].assignment.topic_partitions} == set(range(PARTITIONS))
        assert admin.delete_consumer_groups([topic])[topic].exception(30).args[0].name() == "NON_EMPTY_GROUP"
    states = {each.group_id: each.state.name for each in admin.list_consumer_groups().result(60).valid}
    assert states[topic] == "EMPTY"
    assert admin.delete_consumer_groups([topic])[topic].result(60) is None
    assert topic not in {each.group_id for each in admin.list_consumer_groups().result(60).valid}
