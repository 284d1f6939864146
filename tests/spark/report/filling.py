"""Topics full of everything, on whatever broker, and the model of what was written to them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.spark.report.models import DAY_MS, HOUR_MS, Kept, Model
from tests.support.becoming import wait_until
from tests.support.transactional_writer import TransactionalWriter

ORDERS, CHANGES, NOTHING = "orders", "changes", "nothing"
GROUP = "billing"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

#: 20 days ago at 23:59:59.990 UTC, so that the records of a batch lie on two days
START = (int(time.time() * 1000) // DAY_MS - 20) * DAY_MS - 10
DELETED = 7  #: records of orders-0 that DeleteRecords takes


@dataclass
class Filled:
    """What was written: by topic and partition, as an uncommitted and as a committed reader has it."""

    uncommitted: dict[tuple[str, int], Model] = field(default_factory=dict)
    committed: dict[tuple[str, int], Model] = field(default_factory=dict)
    open_from: int = 0  #: where in orders-1 the open transaction begins
    open_writer: Any = None


def record(number: int) -> Kept:
    headers: list[tuple[str, bytes | None]] = [("h", b"%d" % number), ("h", None), ("\u00fc", b"")]
    key = None if number % 7 == 0 else b"k%d" % number
    value = None if number % 5 == 0 else b"%d," % number * (number % 50)
    timestamp = START + (number // 40) * DAY_MS + number % 40 - (HOUR_MS if number % 11 == 0 else 0)
    return Kept(timestamp, key, value, tuple(headers[: number % 4]))


def fill(bootstrap: str) -> Filled:
    """Orders: plain batches in 0, transactions in 1, nothing in 2. Changes: compacted. Nothing: no record."""
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import NewTopic

    from tests.support.confluent import AdminClient

    keep = {"retention.ms": "-1", "message.timestamp.after.max.ms": str(1 << 50)}
    compact = {"cleanup.policy": "compact", "segment.ms": "50", "min.cleanable.dirty.ratio": "0.01", "max.compaction.lag.ms": "100"}
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topics = [NewTopic(ORDERS, 3, 1, config=keep), NewTopic(CHANGES, 1, 1, config=compact), NewTopic(NOTHING, 1, 1)]
    for created in admin.create_topics(topics).values():
        created.result(timeout=60)
    filled = Filled()
    both = [filled.uncommitted, filled.committed]
    for models in both:
        models[ORDERS, 0], models[ORDERS, 1], models[ORDERS, 2], models[NOTHING, 0] = Model(), Model(), Model(), Model()
    for batch, codec in enumerate(CODECS):
        numbers = range(batch * 100, batch * 100 + 60)
        for number, offset in zip(numbers, write(bootstrap, ORDERS, 0, [record(each) for each in numbers], codec), strict=True):
            for models in both:
                models[ORDERS, 0].records[offset] = record(number)
    for models in both:
        models[ORDERS, 0].end = 60 * len(CODECS)
    _transactions(bootstrap, filled)
    deleted = admin.delete_records([TopicPartition(ORDERS, 0, DELETED)])
    next(iter(deleted.values())).result(timeout=60)
    for models in both:
        models[ORDERS, 0] = models[ORDERS, 0].within(DELETED, 60 * len(CODECS))
    compacted = _compact(bootstrap)
    for models in both:
        models[CHANGES, 0] = compacted
    _commit(bootstrap)
    return filled


def write(bootstrap: str, topic: str, partition: int, records: list[Kept], codec: str = "none") -> list[int]:
    """In one batch; the offsets."""
    from tests.support.confluent import Producer

    producer = Producer({"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 50})
    offsets: list[int] = []
    for each in records:
        producer.produce(
            topic,
            each.value,
            each.key,
            partition=partition,
            timestamp=each.timestamp,
            headers=list(each.headers),
            on_delivery=lambda error, message: offsets.append(message.offset()) if error is None else None,
        )
    assert producer.flush(60) == 0
    assert len(offsets) == len(records)
    return offsets


def _transactions(bootstrap: str, filled: Filled) -> None:
    """Two producers in each other's way; one leaves a transaction open, with plain records behind its beginning."""
    one, other = (TransactionalWriter(bootstrap, f"{ORDERS}-{name}") for name in ("one", "other"))
    uncommitted, committed = filled.uncommitted[ORDERS, 1], filled.committed[ORDERS, 1]

    def send(writer: TransactionalWriter, values: list[bytes], when: int, *, counts: bool) -> None:
        for number, offset in enumerate(writer.send(ORDERS, values, partition=1, timestamp=when)):
            uncommitted.records[offset] = Kept(when + number, None, values[number])
            if counts:
                committed.records[offset] = Kept(when + number, None, values[number])
            else:
                committed.hidden[offset] = "aborted"

    for step in range(4):
        one.begin()
        other.begin()
        for number in range(5):
            send(one, [b"%d" % number * 3000, b"1"], START + step * DAY_MS, counts=step != 1)
            send(other, [b"%d" % number * 100] * 3, START + step * HOUR_MS, counts=False)
        one.commit() if step != 1 else one.abort()
        other.abort()
    other.begin()
    filled.open_from = other.send(ORDERS, [b"open"], partition=1, timestamp=START)[0]
    filled.open_writer = other
    uncommitted.records[filled.open_from] = Kept(START, None, b"open")
    (behind,) = write(bootstrap, ORDERS, 1, [record(3000)])
    uncommitted.records[behind] = record(3000)
    uncommitted.end, committed.end = behind + 1, filled.open_from
    for model in (uncommitted, committed):  # no other offset was taken but by markers
        for offset in set(range(model.end)) - set(model.records) - set(model.hidden):
            model.hidden[offset] = "control"


def _compact(bootstrap: str) -> Model:
    """Keys again and again until a broker has compacted them; then what a consumer finds."""
    for turn in range(3):
        write(
            bootstrap, CHANGES, 0, [Kept(START + turn * DAY_MS + number, b"key-%d" % number, b"%d" % turn) for number in range(40)], "lz4"
        )
    fillers = 0

    def is_compacted() -> bool:
        nonlocal fillers
        write(bootstrap, CHANGES, 0, [Kept(START + 5 * DAY_MS, b"filler-%d" % fillers, b"")])  # rolls a segment, for only closed ones count
        fillers += 1
        return min(read(bootstrap, CHANGES, 0)) == 80  # of each key the last record alone: nothing is left to be compacted

    wait_until(is_compacted, "compaction")
    return Model(0, 120 + fillers, read(bootstrap, CHANGES, 0))


@contextmanager
def consumer(bootstrap: str, group: str, **config: Any) -> Iterator[Any]:
    from tests.support.confluent import Consumer

    made = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False, "enable.partition.eof": True, **config}
    )
    try:
        yield made
    finally:
        made.close()


def read(bootstrap: str, topic: str, partition: int, isolation_level: str = "read_committed") -> dict[int, Kept]:
    """What confluent-kafka reads to the end, by offset."""
    from confluent_kafka import TopicPartition

    found: dict[int, Kept] = {}
    with consumer(bootstrap, "reader", **{"isolation.level": isolation_level}) as reader:
        reader.assign([TopicPartition(topic, partition, 0)])
        while (message := reader.poll(30)) is not None:
            if message.error():
                break  # the end of the partition
            found[message.offset()] = Kept(
                message.timestamp()[1], message.key(), message.value(), tuple((name, value) for name, value in message.headers() or [])
            )
    return found


def _commit(bootstrap: str) -> None:
    from confluent_kafka import TopicPartition

    with consumer(bootstrap, GROUP) as member:
        member.commit(offsets=[TopicPartition(ORDERS, 0, 100), TopicPartition(ORDERS, 1, 3)], asynchronous=False)
