"""What an application under read_committed is given of a topic, by librdkafka: what an archive must have, to the byte."""

from __future__ import annotations

import time
from typing import Any, NamedTuple


class Seen(NamedTuple):
    """A record."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def consumed(bootstrap: str, topic: str, *, timeout_s: float = 120.0) -> list[Seen]:
    """All committed records, up to the last stable offset of each partition as it is now."""
    from confluent_kafka import TopicPartition

    from tests.support.confluent import Consumer

    settings = {"isolation.level": "read_committed", "enable.partition.eof": True, "auto.offset.reset": "earliest"}
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "none", "enable.auto.commit": False, **settings})
    found = []
    try:
        partitions = consumer.list_topics(topic, timeout=60).topics[topic].partitions
        consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
        left = set(partitions)
        deadline = time.monotonic() + timeout_s
        while left:
            assert time.monotonic() < deadline, f"partitions {left} do not end"
            for message in consumer.consume(1000, timeout=0.5):
                if message.error():
                    assert message.error().name() == "_PARTITION_EOF", message.error()
                    left.discard(message.partition())
                else:
                    place = message.partition(), message.offset(), message.timestamp()[1]
                    found.append(Seen(*place, message.key(), message.value(), tuple(message.headers() or ())))
    finally:
        consumer.close()
    return sorted(found)


def archived(frame: Any) -> list[Seen]:
    """The rows of an archive, or of any table with these columns, likewise."""
    rows = frame.selectExpr("partition", "offset", "unix_millis(timestamp) ms", "key", "value", "headers").collect()
    return sorted(
        Seen(
            row.partition,
            row.offset,
            row.ms,
            bytes(row.key) if row.key is not None else None,
            bytes(row.value) if row.value is not None else None,
            tuple((each.key, None if each.value is None else bytes(each.value)) for each in row.headers or ()),
        )
        for row in rows
    )
