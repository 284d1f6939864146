"""Keyed records written all the time, and all that is left of them read back: for tests of compacted topics with a real client."""

from __future__ import annotations

import threading
import time
from typing import Any, NamedTuple, Self


class Kept(NamedTuple):
    """A record that is still there."""

    offset: int
    key: bytes
    value: bytes | None


class KeyedWriter:
    """An idempotent librdkafka producer on a thread that writes `keys` in turn, each value once; knows what was acknowledged.

    Every tenth value of a key is a tombstone, when `with_tombstones`.
    """

    def __init__(self, bootstrap: str, topic: str, keys: list[bytes], *, value_size: int = 1000, with_tombstones: bool = False) -> None:
        from tests.support.confluent import Producer

        self.acknowledged: dict[int, Kept] = {}  #: by offset
        self.refused: list[str] = []
        self._topic, self._keys, self._value_size, self._with_tombstones = topic, keys, value_size, with_tombstones
        self._stopping = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 2,
                "batch.num.messages": 50,
                "reconnect.backoff.ms": 5,
                "reconnect.backoff.max.ms": 50,
                "message.timeout.ms": 120_000,
                "queue.buffering.max.messages": 2_000,
            }
        )
        self._thread = threading.Thread(target=self._write)
        self._thread.start()

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None:
            self.refused.append(str(error))
        else:
            self.acknowledged[message.offset()] = Kept(message.offset(), message.key(), message.value())

    def _write(self) -> None:
        number = 0
        while not self._stopping.is_set():
            turn, index = divmod(number, len(self._keys))
            value = None if self._with_tombstones and turn % 10 == 9 else b"%d " % number + b"x" * self._value_size
            try:
                self._producer.produce(self._topic, value, self._keys[index], partition=0, on_delivery=self._delivered)
                number += 1
            except BufferError:
                self._producer.poll(0.01)
            self._producer.poll(0)
            if number % 50 == 0:
                self._stopping.wait(0.01)  # some thousand records a second are load enough

    def wait_for(self, count: int, timeout_s: float = 60) -> None:
        """Return when `count` more records are acknowledged."""
        wanted = len(self.acknowledged) + count
        deadline = time.monotonic() + timeout_s
        while len(self.acknowledged) < wanted:
            assert not self.refused, self.refused[:3]
            assert time.monotonic() < deadline, "no answers"
            time.sleep(0.01)

    def finish(self) -> None:
        """Stop, with every record answered."""
        self._stopping.set()
        self._thread.join()
        assert self._producer.flush(60) == 0, "records without an answer"
        assert self.refused == []

    def last_values(self) -> dict[bytes, bytes | None]:
        """The newest acknowledged value of each key."""
        return {kept.key: kept.value for _, kept in sorted(self.acknowledged.items())}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()


def read_all(bootstrap: str, topic: str, timeout_s: float = 60) -> list[Kept]:
    """Everything that partition 0 holds now, in its order; what is written meanwhile may be among it."""
    from confluent_kafka import KafkaError, TopicPartition

    from tests.support.confluent import Consumer

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "not-used",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "check.crcs": True,
        }
    )
    found: list[Kept] = []
    try:
        _, end_offset = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=60)
        consumer.assign([TopicPartition(topic, 0, 0)])
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            for message in consumer.consume(1000, timeout=1):
                error = message.error()
                if error is None:
                    found.append(Kept(message.offset(), message.key(), message.value()))
                    if message.offset() >= end_offset - 1:
                        return found
                elif error.code() == KafkaError._PARTITION_EOF:
                    return found
        raise AssertionError("no end of the partition")
    finally:
        consumer.close()


def check_kept(found: list[Kept], writer: KeyedWriter, *, tombstones_may_be_gone: bool = False) -> None:
    """What is read is what was written at that offset, in order, and no key lacks its newest value."""
    offsets = [kept.offset for kept in found]
    assert offsets == sorted(set(offsets))
    acknowledged = writer.acknowledged
    assert [kept for kept in found if acknowledged.get(kept.offset, kept) != kept] == []
    newest = {kept.key: kept.value for kept in found}
    expected = writer.last_values()
    if tombstones_may_be_gone:
        newest = {key: value for key, value in newest.items() if value is not None}
        expected = {key: value for key, value in expected.items() if value is not None}
    assert newest == expected
