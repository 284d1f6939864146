"""Run with an old kafka-python on its path: pinned to each old broker version, it writes in each codec and reads all.

    python old_kafka_python.py HOST:PORT TOPIC        the topic is empty and has one partition

Prints a JSON object: "written" is [api_version, codec, offset, timestamp, key, value] of each record; "read" is what a consumer saw that
was pinned to each api_version: [offset, timestamp, key, value] of each record, and where it was told that the log begins and ends.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition

API_VERSIONS = [(0, 8, 2), (0, 9), (0, 10), (0, 11), (1, 0)]
CODECS = [None, "gzip", "snappy", "lz4"]
START_MS = 1_700_000_000_000


def main(bootstrap: str, topic: str) -> None:
    written: list[list[Any]] = []
    for api_version in API_VERSIONS:
        name = ".".join(map(str, api_version))
        for codec in CODECS:
            producer = KafkaProducer(bootstrap_servers=bootstrap, api_version=api_version, compression_type=codec, linger_ms=20)
            futures = []
            for i in range(3):
                key, value = (f"k{i}" if i else None), f"{name} {codec} {i} " * 20
                timestamp = START_MS + len(written)
                written.append([name, codec, -1, timestamp if api_version >= (0, 10) else None, key, value])
                timing = {"timestamp_ms": timestamp} if api_version >= (0, 10) else {}
                futures.append(producer.send(topic, key=key and key.encode(), value=value.encode(), partition=0, **timing))
            for i, future in enumerate(futures):
                written[i - 3][2] = future.get(timeout=60).offset
            producer.close()
    read = {".".join(map(str, version)): consume(bootstrap, topic, version, len(written)) for version in API_VERSIONS}
    print(json.dumps({"written": written, "read": read}))


def consume(bootstrap: str, topic: str, api_version: tuple[int, ...], count: int) -> dict[str, Any]:
    partition = TopicPartition(topic, 0)
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, api_version=api_version, group_id=None, consumer_timeout_ms=20_000)
    consumer.assign([partition])
    consumer.seek_to_beginning(partition)
    found = []
    for each in consumer:
        found.append([each.offset, each.timestamp, each.key and each.key.decode(), each.value.decode()])
        if len(found) == count:
            break
    begin, end = consumer.beginning_offsets([partition])[partition], consumer.end_offsets([partition])[partition]
    consumer.close()
    return {"records": found, "begin": begin, "end": end}


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
