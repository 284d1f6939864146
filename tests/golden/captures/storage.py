"""Capture partition folders of a running Apache Kafka as golden bytes.

Produces into a running Apache Kafka whose data folder is DATA_DIR, stops it (SIGTERM, so that it closes its logs), and writes
`storage_kafka_4.3.1.json`: provenance, and the files of each folder in hexadecimal. Start the broker with log.index.interval.bytes=200.
"""

from __future__ import annotations

import json
import os
import random
import signal
import time
from pathlib import Path
from typing import Any

TARGET = Path(__file__).parents[1] / "storage_kafka_4.3.1.json"
START_MS = 1_700_000_000_000
SMALL_SEGMENTS = {"internal.segment.bytes": "3000"}


def create_topics(bootstrap: str) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    topics = {"rolled": SMALL_SEGMENTS, "idempotent": SMALL_SEGMENTS, "one-segment": {}, "empty": {}}
    requested_topics = [NewTopic(name, num_partitions=1, replication_factor=1, config=config) for name, config in topics.items()]
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics(requested_topics).values():
        future.result(30)


def produce_plain(bootstrap: str, topic: str, batch_count: int) -> None:
    """One flush a batch; sizes and timestamps go up and down."""
    from kafka import KafkaProducer

    random.seed(3)
    producer = KafkaProducer(bootstrap_servers=bootstrap, linger_ms=5, enable_idempotence=False)
    for batch in range(batch_count):
        for record in range(random.randint(1, 4)):
            timestamp_ms = START_MS + batch * 1000 + random.randint(-5000, 5000)
            producer.send(topic, key=b"k%d" % record, value=bytes(random.randint(1, 120)), timestamp_ms=timestamp_ms, partition=0)
        producer.flush()
    producer.close()


def produce_idempotent(bootstrap: str, topic: str, batch_count: int) -> None:
    """Two producers take turns."""
    from confluent_kafka import Producer

    config: dict[str, Any] = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5}
    producers = [Producer(config), Producer(config)]
    for batch in range(batch_count):
        producer = producers[batch % 2]
        for record in range(batch % 3 + 1):
            producer.produce(topic, key=b"k", value=b"v" * 60, timestamp=START_MS + batch * 1000 + record, partition=0)
        producer.flush()


def take(folder: Path) -> dict[str, str]:
    return {file.name: file.read_bytes().hex() for file in sorted(folder.iterdir())}


def capture(port: int, data_dir: str, pid: int) -> None:
    data = Path(data_dir)
    bootstrap = f"127.0.0.1:{port}"
    create_topics(bootstrap)
    produce_plain(bootstrap, "rolled", 60)
    produce_plain(bootstrap, "one-segment", 20)
    produce_idempotent(bootstrap, "idempotent", 40)
    os.kill(pid, signal.SIGTERM)
    marker = data / ".kafka_cleanshutdown"
    while not (marker.exists() and marker.stat().st_size):
        time.sleep(0.2)
    folders = {name: take(data / name) for name in ("rolled-0", "idempotent-0", "one-segment-0", "empty-0")}
    top = {file.name: file.read_bytes().hex() for file in sorted(data.iterdir()) if file.is_file()}
    provenance = "Apache Kafka 4.3.1, one KRaft node, log.index.interval.bytes=200; kafka-python 3.0.12 and confluent-kafka 2.16.1"
    TARGET.write_text(json.dumps({"provenance": provenance, "log_dir": top, "folders": folders}, indent=1) + "\n")
