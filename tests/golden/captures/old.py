"""Capture the golden frames of the oldest versions: old Java clients, through a proxy that keeps every frame, with Kafka 3.9.1.

Kafka 3.9.1 is the last that serves Produce 0 to 2, Fetch 0 to 3, ListOffsets 0, DescribeConfigs 0 and DescribeLogDirs 0. The broker must be
new (no topic `old`), advertise the proxy's port and have log.retention.ms=-1. Frames are named by their place in the conversation, so that
it can be played again: `..._java_0.8.2.2_007` is the seventh exchange of all. Kept are those of versions that Kafka 4 no longer knows, with
their answers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from minibroker.schemas import k01_fetch
from minibroker.wire.codec import decode
from tests.golden import FRAMES, stem_of
from tests.schemas.declared import messages
from tests.support.capture_proxy import REQUEST, Captured, CaptureProxy
from tests.support.old_java import OldJavaClient, OldRecord, run_admin

BROKER = "Apache Kafka 3.9.1"
CLIENTS = ("0.8.2.2", "0.9.0.1", "0.10.0.1", "0.10.2.2")
ADMINS = ("0.11.0.3", "1.1.1")
CODECS = ("none", "gzip", "snappy", "lz4")
TOPIC = "old"
DROPPED = {0: "Produce", 1: "Fetch", 2: "ListOffsets", 32: "DescribeConfigs", 35: "DescribeLogDirs"}


def converse(proxy: CaptureProxy, bootstrap: str) -> None:
    """Each client writes two records in each codec; then each reads everything and asks where the log begins and ends. Then the admins."""
    count = 0
    for version in CLIENTS:
        proxy.label = version
        with OldJavaClient(version, bootstrap) as client:
            for codec in CODECS:
                records = [
                    OldRecord(1_700_000_000_000 + count, "k", f"{codec} of {version}"),
                    OldRecord(1_700_000_000_001 + count, None, ""),
                ]
                count += len(client.produce(TOPIC, 0, codec, records))
    for version in CLIENTS:
        proxy.label = version
        with OldJavaClient(version, bootstrap) as client:
            for offset in (0, count // 2 + 1):
                assert len(client.consume(TOPIC, 0, offset, count - offset)) == count - offset
            assert client.offsets(TOPIC, 0, -2) == [0]
            assert client.offsets(TOPIC, 0, -1)[0] == count
    for version in ADMINS:
        proxy.label = version
        run_admin(version, bootstrap, f"admin-{version}")


def is_dropped(frame: Captured) -> bool:
    """Whether the frame is of a version that Kafka 4 no longer knows."""
    name = DROPPED.get(frame.api_key)
    return name is not None and frame.version in messages()[f"{name}Request"].old_versions


def exchanges(frames: list[Captured]) -> Iterator[tuple[Captured, Captured]]:
    """Requests of dropped versions with their answers, in the order of the requests; of Fetches only those that were given records."""
    unanswered: dict[tuple[str, int, bytes], int] = {}
    answers: dict[int, Captured] = {}
    for place, frame in enumerate(frames):
        if frame.direction == REQUEST:
            unanswered[frame.label, frame.api_key, frame.data[8:12]] = place  # correlation ids begin anew with each connection
        else:
            answers[unanswered.pop((frame.label, frame.api_key, frame.data[4:8]))] = frame
    for place, answer in sorted(answers.items()):
        if is_dropped(answer) and (answer.api_key != k01_fetch.API_KEY or _has_records(answer)):
            yield frames[place], answer


def _has_records(answer: Captured) -> bool:
    response = decode(k01_fetch.Response, answer.data[8:], answer.version, flexible=False)
    return any(partition.records for topic in response.responses for partition in topic.partitions)


def keep(frames: list[Captured]) -> dict[str, list[dict[str, str]]]:
    """All exchanges, numbered in their order, by the stem of their API."""
    kept: dict[str, list[dict[str, str]]] = {}
    for place, exchange in enumerate(exchanges(frames), 1):
        for frame in exchange:
            stem = stem_of(frame.api_key)
            entry = {"name": f"{stem}_v{frame.version}_{frame.direction}_java_{frame.label}_{place:03}", "client": f"Java {frame.label}"}
            kept.setdefault(stem, []).append({**entry, "command": "captures.old.converse", "broker": BROKER, "frame": frame.data.hex()})
    return kept


def capture(broker_port: int, proxy_port: int) -> None:
    proxy = CaptureProxy(proxy_port, ("127.0.0.1", broker_port))
    converse(proxy, f"127.0.0.1:{proxy_port}")
    for stem, entries in keep(proxy.frames).items():
        (FRAMES / f"{stem}.kafka_3.9.1.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in entries))
        print(f"{stem}: {len(entries)} frames")
    proxy.close()
