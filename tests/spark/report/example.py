"""A month of a shop: the topics of docs/report.md, and its picture.

python -m tests.spark.report.example        writes docs/pictures/report.svg anew, and the same to the files that it is given
"""

from __future__ import annotations

import math
import random
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.conftest import NO_RETENTION
from tests.spark.report.filling import consumer
from tests.support.becoming import wait_until
from tests.support.broker_process import BrokerProcess
from tests.support.transactional_writer import TransactionalWriter

DAY_MS = 86_400_000
LAST_DAY = 20_778  #: 2026-11-21
DAYS = 30
TOPIC, COMPACTED = "orders", "customers"
GROUPS = {"billing": 0.98, "fraud-checks": 0.71, "search-index": 0.9}
PICTURE = Path(__file__).parents[3] / "docs" / "pictures" / "report.svg"
COMPACTING = ("--set", "log.cleaner.backoff.ms=100", "--set", "log.segment.bytes=1048576")


def fill(bootstrap: str, scale: float) -> None:
    """Orders in six partitions, with a transaction that failed and one that is open; customers, of whom the latest is kept."""
    from confluent_kafka import Producer, TopicPartition
    from confluent_kafka.admin import AdminClient, NewTopic

    rng = random.Random(11)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    keep = {"retention.ms": "-1", "message.timestamp.after.max.ms": str(1 << 50)}
    compact = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.ms": "200", "max.compaction.lag.ms": "200"}
    topics = [NewTopic(TOPIC, 6, 1, config=keep), NewTopic(COMPACTED, 2, 1, config=keep | compact)]
    for created in admin.create_topics(topics).values():
        created.result(timeout=60)
    producer = Producer(
        {"bootstrap.servers": bootstrap, "compression.type": "lz4", "linger.ms": 50, "queue.buffering.max.messages": 2_000_000}
    )
    sold = [0.0] * 6
    for day in range(DAYS):
        busy = (0.6 if (LAST_DAY - DAYS + day) % 7 in {2, 3} else 1.0) * (1 + day / DAYS) * (1 + 0.25 * math.sin(day))
        for partition in range(6):
            count = int(90 * scale * busy * (0.7 + 0.1 * partition) * rng.uniform(0.9, 1.1))
            sold[partition] += count
            for number in range(count):
                when = (LAST_DAY - DAYS + day + 1) * DAY_MS + number * DAY_MS // count
                producer.produce(TOPIC, rng.randbytes(rng.randint(60, 140)).hex(), b"%d" % number, partition=partition, timestamp=when)
        for number in range(int(60 * scale)):
            customer = int(rng.triangular(0, 300 * scale, 300 * scale * day / DAYS))
            when = (LAST_DAY - DAYS + day + 1) * DAY_MS + number
            producer.produce(COMPACTED, rng.randbytes(80), b"customer-%d" % customer, partition=number % 2, timestamp=when)
        if day in {14, 17}:
            producer.flush(60)
            writer = TransactionalWriter(bootstrap, "importer")
            writer.begin()
            for partition in (1, 4):
                values = [rng.randbytes(100) for _ in range(int(400 * scale))]
                writer.send(TOPIC, values, partition=partition, timestamp=(LAST_DAY - DAYS + day + 1) * DAY_MS)
            writer.abort()
    producer.flush(60)
    opened = TransactionalWriter(bootstrap, "nightly-import")
    opened.begin()
    opened.send(TOPIC, [b"open"] * int(150 * scale), partition=2, timestamp=LAST_DAY * DAY_MS)
    OPEN.append(opened)
    for group, share in GROUPS.items():
        with consumer(bootstrap, group) as member:
            offsets = [TopicPartition(TOPIC, partition, int(sold[partition] * share * rng.uniform(0.96, 1))) for partition in range(6)]
            member.commit(offsets=offsets, asynchronous=False)


OPEN: list[Any] = []  #: the producer whose transaction stays open as long as this process


def wait_for_compaction(data_dir: Path) -> None:
    """Until the broker says that it compacted both partitions of customers."""
    checkpoint = data_dir / "cleaner-offset-checkpoint"
    wait_until(lambda: checkpoint.exists() and checkpoint.read_text().count(f"{COMPACTED} ") == 2, "compaction")


def main() -> None:
    """Draw the picture of the page."""
    from minibroker.spark.report import report
    from minibroker.spark.session import kafka_session

    with tempfile.TemporaryDirectory() as folder, BrokerProcess(Path(folder), *NO_RETENTION, *COMPACTING) as broker:
        fill(broker.bootstrap, 10)
        wait_for_compaction(broker.data_dir)
        found = report(
            kafka_session("report", master="local[2]"),
            bootstrap_servers=broker.bootstrap,
            times=[(LAST_DAY - 10) * DAY_MS],
            now_ms=lambda: (LAST_DAY + 1) * DAY_MS + 9 * 3_600_000,
        )
        PICTURE.parent.mkdir(exist_ok=True)
        for name in sys.argv[1:]:
            found.draw(name)
        replace(found, source="localhost:9092").draw(PICTURE)


if __name__ == "__main__":
    main()
