"""Capture what Apache Kafka 4.3.1 answers in the scenes of online migration."""

from __future__ import annotations

import json
import socket
import struct
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import UUID

from minibroker.schemas import k03_metadata as k03
from minibroker.schemas import k10_find_coordinator as k10
from minibroker.schemas import k19_create_topics as k19
from minibroker.wire import codec, header
from minibroker.wire.api import api_of
from tests.golden.group_records import batches_of
from tests.golden.migration_members import Scene, names_of
from tests.golden.migration_scenes import PARTITION_COUNTS, POLICIES, RECORDED, SCENES, SETTINGS, policy
from tests.support.kafka_process import KafkaProcess

GOLDEN = Path(__file__).parents[1] / "migrations_kafka_4.3.1.json"
TIMEOUT_S = 30


class Socket:
    """One connection; requests are answered in their order."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S)
        self._stream = self._socket.makefile("rb")
        self._api: Any = None
        self._version = 0

    def ask(self, schema: Any, request: Any, version: int) -> None:
        self._api, self._version = api_of(schema), version
        head = header.RequestHeader(api_key=self._api.key, api_version=version, correlation_id=1, client_id="scene")
        data = bytes(header.encode_request_header(head, header.request_header_version(self._api, version)))
        data += bytes(codec.encode(request, version, flexible=self._api.flexible(version)))
        self._socket.sendall(struct.pack(">i", len(data)) + data)

    def answer(self) -> Any:
        data = self._stream.read(struct.unpack(">i", self._stream.read(4))[0])
        _, position = header.decode_response_header(data, header.response_header_version(self._api, self._version))
        return codec.decode(self._api.Response, data[position:], self._version, flexible=self._api.flexible(self._version))


class Sockets:
    """A broker by its port."""

    def __init__(self, port: int) -> None:
        self.topic_ids: Mapping[str, UUID] = {}
        self._port = port
        self._of_senders: dict[str, Socket] = {}

    def send(self, sender: str, schema: Any, request: Any, version: int) -> Socket:
        known = self._of_senders.setdefault(sender, Socket(self._port)) if sender not in self._of_senders else self._of_senders[sender]
        known.ask(schema, request, version)
        return known

    def let_pass(self, milliseconds: int) -> None:
        time.sleep(milliseconds / 1000)

    def prepare(self, partition_counts: Mapping[str, int] = PARTITION_COUNTS) -> None:
        topics = [
            k19.Topic(name=name, num_partitions=count, replication_factor=1, assignments=[], configs=[])
            for name, count in partition_counts.items()
        ]
        self.send("admin", k19, k19.Request(topics=topics, timeout_ms=30_000, validate_only=False), 7).answer()
        metadata = self.send("admin", k03, k03.Request(topics=[k03.Topic(name=name) for name in partition_counts]), 12).answer()
        self.topic_ids = {topic.name: topic.topic_id for topic in metadata.topics}
        while self.send("admin", k10, k10.Request(coordinator_keys=["g"], key_type=0), 6).answer().coordinators[0].error_code:
            time.sleep(0.1)
        time.sleep(1)


def capture() -> None:
    """Broker by broker: the one of all scenes, and one of each policy."""
    answers: dict[str, list[str]] = {}
    written: dict[str, list[list[str]]] = {}
    for setting in ("bidirectional", *POLICIES):
        settings = SETTINGS | {"group.consumer.migration.policy": setting}
        with tempfile.TemporaryDirectory() as folder, KafkaProcess(Path(folder), settings=settings) as kafka:
            sockets = Sockets(kafka.port)
            sockets.prepare()
            scenes = [Scene(each.__name__, sockets) for each in (SCENES if setting == "bidirectional" else [policy])]
            for scene, each in zip(scenes, SCENES if setting == "bidirectional" else [policy], strict=True):
                print(scene.group_id, file=sys.stderr, flush=True)
                each(scene)
                answers[each.__name__ if setting == "bidirectional" else f"policy {setting}"] = scene.told
            kafka.stop()
            if setting == "bidirectional":
                (log,) = (kafka.data_dir / "__consumer_offsets-0").glob("*.log")
                written = {each.__name__: batches_of(log.read_bytes(), each.__name__, names_of(scenes)) for each in RECORDED}
    provenance = {"broker": "Apache Kafka 4.3.1", "command": "python -m tests.golden capture migrations"}
    GOLDEN.write_text(json.dumps(provenance | {"scenes": answers, "records": written}, indent=1) + "\n")
