"""Consumers that assign their partitions themselves keep their offsets with the broker, and find each other's: real clients."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import pytest

from tests.clients.adapters import CLIENTS, Sent

Commit = Callable[[str, str, str, int], None]  #: bootstrap, group, topic, offset
Committed = Callable[[str, str, str], "int | None"]

NOTE = "with a note"


def confluent(bootstrap: str, group: str) -> Any:
    from tests.support.confluent import Consumer

    return contextlib.closing(Consumer({"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False}))


def commit_confluent(bootstrap: str, group: str, topic: str, offset: int) -> None:
    from confluent_kafka import TopicPartition

    with confluent(bootstrap, group) as consumer:
        (done,) = consumer.commit(offsets=[TopicPartition(topic, 0, offset, NOTE)], asynchronous=False)
        assert done.error is None


def committed_confluent(bootstrap: str, group: str, topic: str) -> int | None:
    from confluent_kafka import OFFSET_INVALID, TopicPartition

    with confluent(bootstrap, group) as consumer:
        (found,) = consumer.committed([TopicPartition(topic, 0)], 30)
        assert found.error is None
        return None if found.offset == OFFSET_INVALID else int(found.offset)


def kafka_python(bootstrap: str, group: str) -> Any:
    from kafka import KafkaConsumer

    return contextlib.closing(KafkaConsumer(bootstrap_servers=bootstrap, group_id=group, enable_auto_commit=False))


def commit_kafka_python(bootstrap: str, group: str, topic: str, offset: int) -> None:
    from kafka import TopicPartition
    from kafka.structs import OffsetAndMetadata

    with kafka_python(bootstrap, group) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        consumer.commit({TopicPartition(topic, 0): OffsetAndMetadata(offset, NOTE, -1)})


def committed_kafka_python(bootstrap: str, group: str, topic: str) -> int | None:
    from kafka import TopicPartition

    with kafka_python(bootstrap, group) as consumer:
        found = consumer.committed(TopicPartition(topic, 0), metadata=True)
        assert found is None or found.metadata.rstrip("\0") == NOTE  # confluent-kafka sends the end of its C string, too
        return None if found is None else int(found.offset)


def commit_aiokafka(bootstrap: str, group: str, topic: str, offset: int) -> None:
    from aiokafka import AIOKafkaConsumer, TopicPartition

    async def commit() -> None:
        async with AIOKafkaConsumer(bootstrap_servers=bootstrap, group_id=group, enable_auto_commit=False) as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            await consumer.commit({TopicPartition(topic, 0): (offset, NOTE)})

    asyncio.run(commit())


def committed_aiokafka(bootstrap: str, group: str, topic: str) -> int | None:
    from aiokafka import AIOKafkaConsumer, TopicPartition

    async def committed() -> int | None:
        async with AIOKafkaConsumer(bootstrap_servers=bootstrap, group_id=group, enable_auto_commit=False) as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            found = await consumer.committed(TopicPartition(topic, 0))
            return None if found is None else int(found)

    return asyncio.run(committed())


COMMITS: dict[str, Commit] = {"confluent": commit_confluent, "kafka-python": commit_kafka_python, "aiokafka": commit_aiokafka}
COMMITTED: dict[str, Committed] = {"confluent": committed_confluent, "kafka-python": committed_kafka_python, "aiokafka": committed_aiokafka}


@pytest.mark.parametrize("writer", COMMITS)
def test_every_client_reads_the_offset_committed_by_another(writer: str, bootstrap: str, topic: str) -> None:
    group = f"readers of {topic}"
    assert {name: find(bootstrap, group, topic) for name, find in COMMITTED.items()} == dict.fromkeys(COMMITTED)
    for offset in (7, 0, 2**40):
        COMMITS[writer](bootstrap, group, topic, offset)
        assert {name: find(bootstrap, group, topic) for name, find in COMMITTED.items()} == dict.fromkeys(COMMITTED, offset)


def test_consumer_resumes_at_the_committed_offset_of_another(bootstrap: str, topic: str) -> None:
    from confluent_kafka import TopicPartition

    from tests.support.confluent import Consumer

    CLIENTS["confluent-kafka"].write(bootstrap, topic, [Sent(None, b"%d" % number) for number in range(10)])
    read = []
    for _ in range(3):
        consumer = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": topic, "enable.auto.commit": False, "auto.offset.reset": "earliest"}
        )
        consumer.assign([TopicPartition(topic, 0)])
        for _ in range(3):
            message = consumer.poll(30)
            assert message is not None
            read.append(message.value())
        consumer.commit(message=message, asynchronous=False)
        consumer.close()
    assert read == [b"%d" % number for number in range(9)]
