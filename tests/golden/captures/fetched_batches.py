"""Capture which batches Apache Kafka returns to a Fetch, by version, compression and limits.

Starts an Apache Kafka and writes `fetched_batches_kafka_4.3.1.json` in tests/golden;
tests/handlers/fetch/test_k01_fetch_batches.py asks minibroker
the same. An answer is, of each partition, its error code, the high watermark, the bytes of its records, and how many of these are whole
batches.
"""

from __future__ import annotations

import json
import socket
import struct
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from minibroker.records.any_format import split_batches
from minibroker.records.batch import RecordBatch
from minibroker.records.builder import build_batch
from minibroker.records.compression import Compression
from minibroker.records.record import Record
from minibroker.schemas import k00_produce, k01_fetch, k19_create_topics
from minibroker.wire.api import api_of
from minibroker.wire.codec import decode
from minibroker.wire.header import decode_response_header, response_header_version
from tests.support.broker_in_memory import frame_of
from tests.support.java import KAFKA_VERSION

ANSWERS = Path(__file__).parents[1] / "fetched_batches_kafka_4.3.1.json"
NOW_MS = 1_700_000_000_000

Ask = Callable[[Any, int], Any]

LZ4, ZSTD, NONE = Compression.LZ4, Compression.ZSTD, Compression.NONE

#: topic -> its configuration, and the codec and the size of the value of each of its batches
TOPICS: Mapping[str, tuple[Mapping[str, str], list[tuple[Compression, int]]]] = {
    "zstd": ({}, [(ZSTD, 300)] * 2),
    "lz4-zstd": ({}, [(LZ4, 300), (ZSTD, 300), (LZ4, 300)]),
    "to-zstd": ({"compression.type": "zstd"}, [(LZ4, 300)] * 2),
    "from-zstd": ({"compression.type": "lz4"}, [(ZSTD, 300)] * 2),
    "plain": ({}, [(NONE, 1000)] * 4),
    "other": ({}, [(NONE, 1000)] * 4),
}

#: what is asked -> version, max_bytes, and topic -> (offset, partition_max_bytes)
FETCHES: dict[str, tuple[int, int, dict[str, tuple[int, int]]]] = {
    f"{topic}, version {version}, from {offset}": (version, 1 << 20, {topic: (offset, 1 << 20)})
    for topic in ("zstd", "lz4-zstd", "to-zstd", "from-zstd")
    for version in (4, 5, 9, 10, 12)
    for offset in (0, 1)
} | {
    f"{limit} of {'all' if is_all else 'the partition'}, version {version}": (
        version,
        limit if is_all else 1 << 20,
        {"plain": (0, 1 << 20 if is_all else limit)},
    )
    for version in (4, 12)
    for is_all in (True, False)
    for limit in (1, 1000, 1100, 2000, 2500, 4000, 5000)
} | {
    f"two partitions, {limit} of all, {each} of each": (12, limit, {"plain": (0, each), "other": (0, each)})
    for limit in (500, 1500, 2500, 6000)
    for each in (500, 1500, 1 << 20)
}  # fmt: skip


def batch(codec: Compression, size: int) -> bytes:
    """One record."""
    return bytes(build_batch([Record(0, NOW_MS, None, bytes(size))], compression=codec))


def fill(ask: Ask) -> None:
    """Create the topics and write to them."""
    for name, (config, batches) in TOPICS.items():
        configs = [k19_create_topics.Config(name=key, value=value) for key, value in config.items()]
        topic = k19_create_topics.Topic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=configs)
        ask(k19_create_topics.Request(topics=[topic], timeout_ms=10_000), 5)
        for codec, size in batches:
            data = k00_produce.Partition(index=0, records=batch(codec, size))
            request = k00_produce.Request(acks=-1, timeout_ms=10_000, topic_data=[k00_produce.Topic(name=name, partition_data=[data])])
            answer = ask(request, 9)
            assert not answer.responses[0].partition_responses[0].error_code, (name, answer)


def fetch(ask: Ask, version: int, max_bytes: int, asked: Mapping[str, tuple[int, int]]) -> dict[str, Any]:
    """One Fetch, and what its answer tells."""
    topics = [
        k01_fetch.Topic(topic=name, partitions=[k01_fetch.Partition(partition=0, fetch_offset=offset, partition_max_bytes=limit)])
        for name, (offset, limit) in asked.items()
    ]
    answer = ask(k01_fetch.Request(max_wait_ms=0, min_bytes=1, max_bytes=max_bytes, topics=topics), version)
    return {topic.topic: told(topic.partitions[0]) for topic in answer.responses}


def told(result: k01_fetch.PartitionResult) -> dict[str, Any]:
    """What is compared."""
    records = bytes(result.records or b"")
    whole: list[RecordBatch] = list(split_batches(records, allow_partial=True))
    return {
        "error_code": result.error_code,
        "high_watermark": result.high_watermark,
        "size": len(records),
        "codecs": [each.compression.name.lower() for each in whole],
    }


def converse(ask: Ask) -> dict[str, Any]:
    """Everything."""
    fill(ask)
    return {what: fetch(ask, *requested) for what, requested in FETCHES.items()}


def asking(host: str, port: int) -> Ask:
    """Ask a broker on one connection."""
    connection = socket.create_connection((host, port), 60)
    answers = connection.makefile("rb")

    def ask(request: Any, version: int) -> Any:
        api = api_of(sys.modules[type(request).__module__])
        frame = bytes(frame_of(request, version))
        connection.sendall(struct.pack(">i", len(frame)) + frame)
        body = answers.read(struct.unpack(">i", answers.read(4))[0])
        _, position = decode_response_header(body, response_header_version(api, version))
        return decode(api.Response, body[position:], version, flexible=api.flexible(version))

    return ask


def write(said: Mapping[str, Any]) -> None:
    """Keep the answers."""
    lines = ",\n".join(f"  {json.dumps(what)}: {json.dumps(found)}" for what, found in said.items())
    provenance = f"Apache Kafka {KAFKA_VERSION}, one broker, tests/golden/captures/fetched_batches.py"
    ANSWERS.write_text(f'{{\n "provenance": {json.dumps(provenance)},\n "answers": {{\n{lines}\n }}\n}}\n')


def capture() -> None:
    """Ask an Apache Kafka, and write down what it says."""
    from tests.support.kafka_process import KafkaProcess

    with tempfile.TemporaryDirectory() as folder, KafkaProcess(Path(folder)) as kafka:
        write(converse(asking("127.0.0.1", kafka.port)))
