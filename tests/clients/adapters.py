"""Three Python clients behind one face, so that every writer meets every reader.

Groups are not asked for: readers assign partitions and seek.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple, Protocol

TIMEOUT_S = 60.0


class Sent(NamedTuple):
    """A record as a test means it. Timestamp in ms."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp: int = 1_700_000_000_000


class Read(NamedTuple):
    """A record as a client saw it."""

    offset: int
    record: Sent


class Client(Protocol):
    """What a test asks of a client; each call opens and closes a connection of its own."""

    def write(self, bootstrap: str, topic: str, records: Sequence[Sent], *, compression: str = "none", partition: int = 0) -> list[int]:
        """Produce with acks=all; the offsets that the broker gave."""

    def read(self, bootstrap: str, topic: str, *, start: int = 0, count: int, partition: int = 0) -> list[Read]:
        """Assign, seek, and read exactly `count` records."""


class KafkaPython:
    def write(self, bootstrap: str, topic: str, records: Sequence[Sent], *, compression: str = "none", partition: int = 0) -> list[int]:
        from kafka import KafkaProducer

        kind = None if compression == "none" else compression
        producer = KafkaProducer(bootstrap_servers=bootstrap, compression_type=kind, linger_ms=20, max_request_size=4_000_000)
        try:
            sent = [
                producer.send(topic, key=r.key, value=r.value, headers=list(r.headers), timestamp_ms=r.timestamp, partition=partition)
                for r in records
            ]
            return [future.get(timeout=TIMEOUT_S).offset for future in sent]
        finally:
            producer.close(timeout=5)

    def read(self, bootstrap: str, topic: str, *, start: int = 0, count: int, partition: int = 0) -> list[Read]:
        from kafka import KafkaConsumer, TopicPartition

        consumer = KafkaConsumer(bootstrap_servers=bootstrap, consumer_timeout_ms=int(TIMEOUT_S * 1000), check_crcs=True)
        try:
            consumer.assign([TopicPartition(topic, partition)])
            consumer.seek(TopicPartition(topic, partition), start)
            found = []
            for m in consumer:
                found.append(
                    Read(m.offset, Sent(m.key, m.value, tuple((k, None if v is None else bytes(v)) for k, v in m.headers), m.timestamp))
                )
                if len(found) == count:
                    break
            return found
        finally:
            consumer.close()


class AioKafka:
    def write(self, bootstrap: str, topic: str, records: Sequence[Sent], *, compression: str = "none", partition: int = 0) -> list[int]:
        return asyncio.run(self._write(bootstrap, topic, records, compression, partition))

    async def _write(self, bootstrap: str, topic: str, records: Sequence[Sent], compression: str, partition: int) -> list[int]:
        from aiokafka import AIOKafkaProducer

        kind = None if compression == "none" else compression
        async with AIOKafkaProducer(
            bootstrap_servers=bootstrap, compression_type=kind, acks="all", linger_ms=20, max_request_size=4_000_000
        ) as producer:
            waiting = [
                await producer.send(topic, r.value, key=r.key, partition=partition, timestamp_ms=r.timestamp, headers=list(r.headers))
                for r in records
            ]
            return [(await asyncio.wait_for(future, TIMEOUT_S)).offset for future in waiting]

    def read(self, bootstrap: str, topic: str, *, start: int = 0, count: int, partition: int = 0) -> list[Read]:
        return asyncio.run(self._read(bootstrap, topic, start, count, partition))

    async def _read(self, bootstrap: str, topic: str, start: int, count: int, partition: int) -> list[Read]:
        from aiokafka import AIOKafkaConsumer, TopicPartition

        consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, check_crcs=True)
        await consumer.start()
        try:
            consumer.assign([TopicPartition(topic, partition)])
            consumer.seek(TopicPartition(topic, partition), start)
            messages = [await asyncio.wait_for(consumer.getone(), TIMEOUT_S) for _ in range(count)]
            return [Read(m.offset, Sent(m.key, m.value, tuple(m.headers), m.timestamp)) for m in messages]
        finally:
            await consumer.stop()


class ConfluentKafka:
    def write(self, bootstrap: str, topic: str, records: Sequence[Sent], *, compression: str = "none", partition: int = 0) -> list[int]:
        from confluent_kafka import KafkaException, Message

        from tests.support.confluent import Producer

        producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "compression.type": compression,
                "linger.ms": 20,
                "enable.idempotence": True,
                "message.max.bytes": 4_000_000,
            }
        )
        offsets: list[int] = []
        errors: list[object] = []

        def delivered(error: object, message: Message) -> None:
            if error is not None:
                errors.append(error)
            else:
                offsets.append(message.offset())

        for r in records:
            producer.produce(
                topic, key=r.key, value=r.value, headers=list(r.headers), timestamp=r.timestamp, partition=partition, on_delivery=delivered
            )
        left = producer.flush(TIMEOUT_S)
        if errors:
            raise KafkaException(errors[0])
        assert left == 0, "records without an answer"
        return offsets

    def read(self, bootstrap: str, topic: str, *, start: int = 0, count: int, partition: int = 0) -> list[Read]:
        from confluent_kafka import KafkaException, TopicPartition

        from tests.support.confluent import Consumer

        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "not-used", "enable.auto.commit": False, "check.crcs": True})
        try:
            consumer.assign([TopicPartition(topic, partition, start)])
            found: list[Read] = []
            while len(found) < count:
                messages = consumer.consume(count - len(found), timeout=TIMEOUT_S)
                if not messages:
                    break
                for m in messages:
                    if m.error() is not None:
                        raise KafkaException(m.error())
                    found.append(Read(m.offset(), Sent(m.key(), m.value(), tuple(m.headers() or ()), m.timestamp()[1])))
            return found
        finally:
            consumer.close()


CLIENTS: dict[str, Client] = {"kafka-python": KafkaPython(), "aiokafka": AioKafka(), "confluent-kafka": ConfluentKafka()}
