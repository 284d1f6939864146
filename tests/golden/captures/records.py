"""Capture record batches of real clients as golden bytes.

Each client produces with each codec into a topic of its own of a running Apache Kafka whose data folder is DATA_DIR. A line of
`records/batches.jsonl` is one topic: provenance, the bytes of its .log files in hexadecimal, and the records that kafka-python's
consumer read from it. Where a client writes transactions, the file holds their markers.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support import java

TARGET = Path(__file__).parents[1] / "records" / "batches.jsonl"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
START_MS = 1_700_000_000_000
KEYS = (b"key", None, b"", "schlüssel".encode())
VALUES = (b"value " * 20, b"", None, b"v")
HEADERS: tuple[list[tuple[str, bytes]], ...] = ([], [("trace", b"1"), ("trace", b"")], [("ü", b"\0\xff")], [])
TIMES_MS = (START_MS, START_MS + 70, START_MS - 5_000, START_MS + 9_000)
SENT = tuple(zip(KEYS, VALUES, HEADERS, TIMES_MS, strict=True))


def kafka_python(bootstrap: str, topic: str, codec: str) -> None:
    from kafka import KafkaProducer

    producer = KafkaProducer(
        bootstrap_servers=bootstrap, compression_type=None if codec == "none" else codec, linger_ms=300, enable_idempotence=False
    )
    for key, value, headers, timestamp in SENT:
        producer.send(topic, value, key, headers, partition=0, timestamp_ms=timestamp)
    producer.flush()
    producer.close()


def aiokafka(bootstrap: str, topic: str, codec: str) -> None:
    async def produce() -> None:
        from aiokafka import AIOKafkaProducer

        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, compression_type=None if codec == "none" else codec, linger_ms=300)
        await producer.start()
        sent = [
            await producer.send(topic, value, key, partition=0, timestamp_ms=timestamp, headers=headers)
            for key, value, headers, timestamp in SENT
        ]
        await asyncio.gather(*sent)
        await producer.stop()

    asyncio.run(produce())


def librdkafka(bootstrap: str, topic: str, codec: str) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 300, "enable.idempotence": True})
    for key, value, headers, timestamp in SENT:
        producer.produce(topic, value, key, partition=0, timestamp=timestamp, headers=[*headers, ("null", None)])
    producer.flush()


def librdkafka_transactions(bootstrap: str, topic: str, codec: str) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 300, "transactional.id": topic})
    producer.init_transactions()
    for end in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        for key, value, headers, timestamp in SENT[:2]:
            producer.produce(topic, value, key, partition=0, timestamp=timestamp, headers=headers)
        producer.flush()
        end()
        time.sleep(1)  # the coordinator writes markers after it has answered


def java_console(bootstrap: str, topic: str, codec: str) -> None:
    lines = "trace:1,trace:\tkey\t" + "value " * 20 + "\nNULL\tNULL\tNULL\nNULL\tNULL\tü\nNULL\t\tv\n"
    properties = ("parse.key=true", "parse.headers=true", "null.marker=NULL")
    options = [argument for name in properties for argument in ("--reader-property", name)]
    arguments = ["--bootstrap-server", bootstrap, "--topic", topic, "--compression-codec", codec, *options]
    java.run_tool(java.CONSOLE_PRODUCER, *arguments, stdin=lines)


def java_performance(bootstrap: str, topic: str, codec: str) -> None:
    counts = ("--num-records", "70", "--record-size", "10", "--throughput", "-1")
    options = ("--bootstrap-server", bootstrap, "--command-property", f"compression.type={codec}", "linger.ms=500")
    java.run_tool(java.PRODUCER_PERFORMANCE, "--topic", topic, *counts, *options)


def versions() -> dict[str, tuple[Callable[[str, str, str], None], str]]:
    import aiokafka as aiokafka_package
    import confluent_kafka
    import kafka

    rdkafka = f"librdkafka {confluent_kafka.libversion()[0]} (confluent-kafka {confluent_kafka.version()})"
    return {
        "kafka_python": (kafka_python, f"kafka-python {kafka.__version__}"),
        "aiokafka": (aiokafka, f"aiokafka {aiokafka_package.__version__}"),
        "librdkafka": (librdkafka, f"{rdkafka}, idempotent"),
        "librdkafka_transactions": (librdkafka_transactions, f"{rdkafka}, one transaction committed and one aborted"),
        "java_console": (java_console, f"kafka-console-producer of Apache Kafka {java.KAFKA_VERSION}"),
        "java_performance": (java_performance, f"kafka-producer-perf-test of Apache Kafka {java.KAFKA_VERSION}"),
    }


def read_back(bootstrap: str, topic: str) -> list[dict[str, Any]]:
    """The records of a topic, aborted ones too, as kafka-python reads them."""
    from kafka import KafkaConsumer, TopicPartition

    partition = TopicPartition(topic, 0)
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, isolation_level="read_uncommitted")
    consumer.assign([partition])
    consumer.seek_to_beginning(partition)
    end = consumer.end_offsets([partition])[partition]
    read: list[dict[str, Any]] = []
    while consumer.position(partition) < end:
        read += [
            {
                "offset": record.offset,
                "timestamp": record.timestamp,
                "key": hexadecimal(record.key),
                "value": hexadecimal(record.value),
                "headers": [[name, hexadecimal(value)] for name, value in record.headers],
            }
            for records in consumer.poll(timeout_ms=500).values()
            for record in records
        ]
    consumer.close()
    return read


def hexadecimal(data: bytes | None) -> str | None:
    return None if data is None else data.hex()


def capture(bootstrap: str, data_dir: str) -> None:
    from kafka.admin import KafkaAdminClient

    run = int(time.time())
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    lines = []
    for client, (produce, version) in versions().items():
        for codec in CODECS:
            topic = f"golden-{client}-{codec}-{run}"
            admin.create_topics({topic: {"num_partitions": 1, "replication_factor": 1}})
            produce(bootstrap, topic, codec)
            log = b"".join(file.read_bytes() for file in sorted(Path(data_dir, f"{topic}-0").glob("*.log")))
            golden = {
                "name": f"{client}_{codec}",
                "client": version,
                "command": f"tests.golden.captures.records.{produce.__name__}",
                "broker": "Apache Kafka 4.3.1",
                "records_by": "kafka-python's consumer",
                "records": read_back(bootstrap, topic),
                "log": log.hex(),
            }
            lines.append(json.dumps(golden))
            print(golden["name"], len(log), len(golden["records"]))
    TARGET.write_text("\n".join(lines) + "\n")
