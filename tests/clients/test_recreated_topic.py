"""A topic deleted and made again under a reader: it sees the new records and nothing of the old ones.

kafka-python is not here: its consumer falls silent when that happens, with Apache Kafka too (3.0.12).
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.clients.adapters import CLIENTS, TIMEOUT_S, Sent

OLD = [Sent(b"old", b"old %d" % i) for i in range(10)]
NEW = [Sent(b"new", b"new %d" % i) for i in range(3)]
EXPECTED = [(i, b"new %d" % i) for i in range(3)]


def make_again(admin: Any, bootstrap: str, topic: str) -> None:
    from confluent_kafka.admin import NewTopic

    admin.delete_topics([topic])[topic].result(timeout=60)
    admin.create_topics([NewTopic(topic, 1, 1, config={"retention.ms": "-1"})])[topic].result(timeout=60)
    CLIENTS["kafka-python"].write(bootstrap, topic, NEW)


@pytest.mark.timeout(600)
def test_confluent_kafka(admin: Any, bootstrap: str, topic: str) -> None:
    from confluent_kafka import TopicPartition

    from tests.support.confluent import Consumer

    CLIENTS["aiokafka"].write(bootstrap, topic, OLD)
    settings = {"auto.offset.reset": "earliest", "enable.auto.commit": False, "topic.metadata.refresh.interval.ms": 500}
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "not-used", **settings})
    consumer.assign([TopicPartition(topic, 0, 0)])

    def take(count: int) -> list[tuple[int, bytes]]:
        found: list[tuple[int, bytes]] = []
        for _ in range(int(TIMEOUT_S) * 2):
            message = consumer.poll(1.0)
            if message is not None and message.error() is None:
                found.append((message.offset(), message.value()))
                if len(found) == count:
                    break
        return found

    assert [value for _, value in take(10)] == [record.value for record in OLD]
    make_again(admin, bootstrap, topic)
    assert take(3) == EXPECTED
    consumer.close()


@pytest.mark.timeout(600)
async def test_aiokafka(admin: Any, bootstrap: str, topic: str) -> None:
    import asyncio

    from aiokafka import AIOKafkaConsumer, TopicPartition

    async def write(records: list[Sent]) -> None:
        await asyncio.to_thread(CLIENTS["confluent-kafka"].write, bootstrap, topic, records)

    await write(OLD)
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", metadata_max_age_ms=500)
    await consumer.start()
    consumer.assign([TopicPartition(topic, 0)])
    await consumer.seek_to_beginning()
    assert [(await consumer.getone()).value for _ in OLD] == [record.value for record in OLD]
    await asyncio.to_thread(make_again, admin, bootstrap, topic)
    found = [await asyncio.wait_for(consumer.getone(), TIMEOUT_S) for _ in NEW]
    assert [(message.offset, message.value) for message in found] == EXPECTED
    await consumer.stop()
