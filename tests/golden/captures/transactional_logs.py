"""Capture partition folders with transactions as golden bytes. Takes a minute and needs Java.

Starts an Apache Kafka, writes transactions of clients before and after KIP-890 into it, interleaved and across several small
segments, markers of an operator among them, some left open; stops it in order, and writes `transactional_logs_kafka_4.3.1.json`: the
files of each folder in hexadecimal.
"""

from __future__ import annotations

import json
import random
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any

from minibroker.client.client import Client
from minibroker.records.builder import build_batch
from minibroker.records.record import Record
from minibroker.schemas import k00_produce as k00
from minibroker.schemas import k10_find_coordinator as k10
from minibroker.schemas import k19_create_topics as k19
from minibroker.schemas import k22_init_producer_id as k22
from minibroker.schemas import k24_add_partitions_to_txn as k24
from minibroker.schemas import k26_end_txn as k26
from minibroker.schemas import k27_write_txn_markers as k27
from tests.golden.captures.storage import take
from tests.support.kafka_process import KafkaProcess

TARGET = Path(__file__).parents[1] / "transactional_logs_kafka_4.3.1.json"
SMALL = {"internal.segment.bytes": "3000"}
TOPICS = {"transactional": SMALL, "stamped": SMALL | {"message.timestamp.type": "LogAppendTime"}, "open": {}}
SETTINGS = {"log.index.interval.bytes": "200", "transaction.state.log.num.partitions": "1"}
AGAIN = {3, 14, 15, 16, 51}  #: codes of what is not there yet

Random = random.Random


class Producer:
    """A transactional producer with its sequences; from Produce 12 on (`is_new`) partitions are added by the way, and epochs rise."""

    def __init__(self, client: Client, name: str, *, is_new: bool) -> None:
        self._client = client
        self._connection = client.to_any(client.deadline())
        self._name = name
        self._is_new = is_new
        found = self.ask(k22, k22.Request(transactional_id=name, transaction_timeout_ms=600_000), 4)
        self.id, self.epoch = found.producer_id, found.producer_epoch
        self._sequences: dict[str, int] = {}
        self.open: set[str] = set()

    def ask(self, schema: ModuleType, request: Any, most: int) -> Any:
        """Until it is served: topics and coordinators come up in the background."""
        for _ in range(200):
            answer = self._connection.ask(schema, request, self._client.deadline(), most=most)
            if not AGAIN & set(codes_in(answer)):
                assert not any(codes_in(answer)), answer
                return answer
            time.sleep(0.05)
        raise AssertionError(answer)

    def write(self, topic: str, values: list[bytes]) -> None:
        if not self._is_new and topic not in self.open:
            added = k24.Request(
                v3_and_below_transactional_id=self._name,
                v3_and_below_producer_id=self.id,
                v3_and_below_producer_epoch=self.epoch,
                v3_and_below_topics=[k24.Topic(name=topic, partitions=[0])],
            )
            self.ask(k24, added, 3)
        self.open.add(topic)
        sequence = self._sequences.get(topic, 0)
        now_ms = time.time_ns() // 1_000_000
        records = [Record(index, now_ms - index, b"key", value) for index, value in enumerate(values)]
        ids = {"producer_id": self.id, "producer_epoch": self.epoch, "base_sequence": sequence}
        data = k00.Partition(index=0, records=bytes(build_batch(records, is_transactional=True, **ids)))
        request = k00.Request(
            transactional_id=self._name, acks=-1, timeout_ms=9000, topic_data=[k00.Topic(name=topic, partition_data=[data])]
        )
        self.ask(k00, request, 12 if self._is_new else 11)
        self._sequences[topic] = sequence + len(values)

    def end(self, *, commit: bool) -> None:
        request = k26.Request(transactional_id=self._name, producer_id=self.id, producer_epoch=self.epoch, committed=commit)
        answer = self.ask(k26, request, 5 if self._is_new else 4)
        self.open.clear()
        if self._is_new:
            self.id, self.epoch = answer.producer_id, answer.producer_epoch
            self._sequences.clear()

    def mark(self, topic: str, *, producer_id: int, epoch: int, commit: bool) -> None:
        """As an operator does, of whatever producer."""
        topics = [k27.Topic(name=topic, partition_indexes=[0])]
        marker = k27.Marker(
            producer_id=producer_id,
            producer_epoch=epoch,
            transaction_result=commit,
            coordinator_epoch=0,
            topics=topics,
            transaction_version=0,
        )
        self.ask(k27, k27.Request(markers=[marker]), 2)


def codes_in(answer: Any) -> Iterator[int]:
    """All error codes, wherever they are."""
    for name in dir(answer):
        if name.startswith("_"):
            continue
        value = getattr(answer, name)
        if name.endswith("error_code"):
            yield value
        elif isinstance(value, list):
            for each in value:
                yield from codes_in(each)


@contextmanager
def kafka_with_topics(folder: Path) -> Iterator[tuple[KafkaProcess, Client]]:
    with KafkaProcess(folder, settings=SETTINGS) as kafka:
        client = Client(kafka.bootstrap)
        connection = client.to_any(client.deadline())
        topics = [
            k19.Topic(
                name=name,
                num_partitions=1,
                replication_factor=1,
                assignments=[],
                configs=[k19.Config(name=key, value=value) for key, value in configs.items()],
            )
            for name, configs in TOPICS.items()
        ]
        connection.ask(k19, k19.Request(topics=topics, timeout_ms=9000), client.deadline())
        for _ in range(200):
            found = connection.ask(k10, k10.Request(coordinator_keys=["a"], key_type=1), client.deadline())
            if not any(codes_in(found)):
                break
            time.sleep(0.1)
        yield kafka, client


def write_all(client: Client) -> None:
    rng = Random(5)
    producers = [Producer(client, f"payments-{index}", is_new=index % 2 == 0) for index in range(5)]
    stranger = count(1000)
    for _ in range(150):
        producer = rng.choice(producers)
        if producer.open and rng.random() < 0.4:
            producer.end(commit=rng.random() < 0.5)
        elif rng.random() < 0.07:  # of a transaction that never was
            producer.mark("transactional", producer_id=next(stranger), epoch=rng.randrange(5), commit=rng.random() < 0.5)
        else:
            topic = rng.choice(["transactional", "transactional", "stamped"])
            producer.write(topic, [rng.randbytes(rng.randint(1, 90)) for _ in range(rng.randint(1, 3))])
    for producer in producers:
        producer.write("open", [b"left open"])
    producers[0].end(commit=False)
    producers[1].end(commit=True)
    producers[2].mark("open", producer_id=producers[2].id, epoch=producers[2].epoch, commit=False)


def capture() -> None:
    with tempfile.TemporaryDirectory() as folder, kafka_with_topics(Path(folder)) as (kafka, client):
        write_all(client)
        time.sleep(1)  # the last markers
        kafka.stop()
        folders = {f"{name}-0": take(kafka.data_dir / f"{name}-0") for name in TOPICS}
    provenance = "Apache Kafka 4.3.1, one KRaft node, log.index.interval.bytes=200, transaction.version 2; minibroker's client"
    TARGET.write_text(json.dumps({"provenance": provenance, "folders": folders}, indent=1) + "\n")
