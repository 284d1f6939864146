"""ListOffsets as clients ask for it: earliest, latest, by timestamp, largest timestamp, tiers; both isolation levels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.clients.adapters import CLIENTS, Sent

T = 1_700_000_000_000
TIMESTAMPS = [T, T + 10, T + 5, T + 40, T + 30]  # the largest is not the last


@pytest.fixture
def filled(bootstrap: str, topic: str) -> str:
    for timestamp in TIMESTAMPS:  # one batch each
        CLIENTS["aiokafka"].write(bootstrap, topic, [Sent(b"k", b"v", (), timestamp)])
    return topic


@pytest.fixture
def python_admin(bootstrap: str) -> Iterator[object]:
    from kafka import KafkaAdminClient

    client = KafkaAdminClient(bootstrap_servers=bootstrap)
    yield client
    client.close()


@pytest.mark.parametrize("isolation", ["READ_UNCOMMITTED", "READ_COMMITTED"])
@pytest.mark.parametrize(
    ("selector", "offset", "timestamp"),
    [
        ("EARLIEST", 0, -1),
        ("LATEST", 5, -1),
        ("MAX_TIMESTAMP", 3, T + 40),
        ("EARLIEST_LOCAL", 0, -1),
        ("LATEST_TIERED", -1, -1),
        (T - 1, 0, T),
        (T, 0, T),
        (T + 1, 1, T + 10),
        (T + 10, 1, T + 10),
        (T + 11, 3, T + 40),
        (T + 41, -1, -1),
    ],
)
def test_kafka_python(filled: str, python_admin: object, isolation: str, selector: str | int, offset: int, timestamp: int) -> None:
    from kafka import IsolationLevel, KafkaAdminClient, OffsetSpec, TopicPartition

    assert isinstance(python_admin, KafkaAdminClient)
    partition = TopicPartition(filled, 0)
    spec = getattr(OffsetSpec, selector) if isinstance(selector, str) else selector
    found = python_admin.list_partition_offsets({partition: spec}, isolation_level=IsolationLevel[isolation])[partition]
    assert (found.offset, found.timestamp) == (offset, timestamp)


def test_confluent_kafka(bootstrap: str, admin: Any, filled: str) -> None:
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import OffsetSpec

    from tests.support.confluent import Consumer

    def listed(spec: object) -> tuple[int, int]:
        asked = TopicPartition(filled, 0)
        found = admin.list_offsets({asked: spec})[asked].result(timeout=60)
        return found.offset, found.timestamp

    assert listed(OffsetSpec.earliest()) == (0, -1)
    assert listed(OffsetSpec.latest()) == (5, -1)
    assert listed(OffsetSpec.max_timestamp()) == (3, T + 40)
    assert listed(OffsetSpec.for_timestamp(T + 6)) == (1, T + 10)

    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "not-used"})
    assert consumer.get_watermark_offsets(TopicPartition(filled, 0), timeout=60) == (0, 5)
    times = consumer.offsets_for_times([TopicPartition(filled, 0, T + 35)], timeout=60)
    assert [p.offset for p in times] == [3]
    consumer.close()


async def test_aiokafka(bootstrap: str, filled: str) -> None:
    from aiokafka import AIOKafkaConsumer, TopicPartition

    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap)
    await consumer.start()
    try:
        partition = TopicPartition(filled, 0)
        assert await consumer.beginning_offsets([partition]) == {partition: 0}
        assert await consumer.end_offsets([partition]) == {partition: 5}
        found = await consumer.offsets_for_times({partition: T + 11})
        assert (found[partition].offset, found[partition].timestamp) == (3, T + 40)
        assert await consumer.offsets_for_times({partition: T + 1000}) == {partition: None}
    finally:
        await consumer.stop()


def test_a_compressed_batch_is_looked_into(bootstrap: str, topic: str) -> None:
    from kafka import KafkaConsumer, TopicPartition

    records = [Sent(b"k", b"v", (), T + i) for i in range(100)]
    CLIENTS["confluent-kafka"].write(bootstrap, topic, records, compression="lz4")
    consumer = KafkaConsumer(bootstrap_servers=bootstrap)
    found = consumer.offsets_for_times({TopicPartition(topic, 0): T + 57})[TopicPartition(topic, 0)]
    consumer.close()
    assert (found.offset, found.timestamp) == (57, T + 57)
