"""A scripted broker without sockets. Requests and responses go through the real codec.

    broker = FakeBroker(versions={0: (3, 11)})
    broker.on(k03_metadata, lambda request, version: k03_metadata.Response(...))
    client = Client("fake:1", connect=broker.connect)

With `broker.nodes = 3`, fake:1 to fake:3 lead the partitions of a topic in turn.
A script may raise ConnectionLost (the client gets no response), or return bytes (an invalid response).
"""

from __future__ import annotations

import uuid
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import minibroker.schemas
from minibroker.client.connection import Connection
from minibroker.client.errors import BrokerUnreachable
from minibroker.client.transport import Address, Deadline
from minibroker.schemas import k03_metadata, k18_api_versions
from minibroker.wire.api import api_of
from minibroker.wire.codec import decode, encode
from minibroker.wire.header import decode_request_header, encode_response_header, response_header_version
from minibroker.wire.schema import Buffer

Script = Callable[[Any, int], Any]
SCHEMAS: dict[int, ModuleType] = {
    module.API_KEY: module
    for path in sorted(Path(minibroker.schemas.__path__[0]).glob("k[0-9]*.py"))
    for module in [import_module(f"minibroker.schemas.{path.stem}")]
}


class ConnectionLost(Exception):  # noqa: N818  named for what happened
    """Raised by a script: the connection ends before the answer."""


class FakeBroker:
    def __init__(self, *, topics: Mapping[str, int] | None = None, versions: Mapping[int, tuple[int, int]] | None = None) -> None:
        self.versions = {key: schema.VERSIONS for key, schema in SCHEMAS.items()} | dict(versions or {})
        self.topics = dict(topics or {})
        self.nodes = 1
        self.advertised: Address | None = None  #: of its only node, if it is not fake:1
        self.cluster_id: str | None = None
        self.requests: list[tuple[int, int, Any]] = []  #: api key, version, request
        self.addressees: list[tuple[int, Address]] = []  #: API key, and the address that got the request
        self.connection_count = 0
        self.reachable = True
        self._scripts: dict[int, Script] = {18: self._api_versions, 3: self._metadata}
        self.topic_ids: dict[str, uuid.UUID] = defaultdict(uuid.uuid4)

    def on(self, schema: ModuleType, script: Script) -> None:
        self._scripts[schema.API_KEY] = script

    def in_turn(self, schema: ModuleType, *scripts: Script) -> None:
        """Use one script for each request; the last script serves all later requests."""
        left = deque(scripts)

        def next_script(request: Any, version: int) -> Any:
            script = left.popleft() if len(left) > 1 else left[0]
            return script(request, version)

        self._scripts[schema.API_KEY] = next_script

    def requests_for(self, schema: ModuleType) -> list[Any]:
        return [request for key, _, request in self.requests if key == schema.API_KEY]

    def connect(self, address: Address, deadline: Deadline) -> Connection:
        if not self.reachable:
            raise BrokerUnreachable(f"no connection to {address}")
        self.connection_count += 1
        connection = Connection(FakeTransport(self, address), address)
        connection.negotiate(deadline)
        return connection

    def answer(self, frame: bytes, address: Address) -> bytes | None:
        header, position = decode_request_header(frame, lambda key, version: api_of(SCHEMAS[key]).flexible(version))
        schema, version = SCHEMAS[header.api_key], header.api_version
        api = api_of(schema)
        request = decode(schema.Request, frame[position:], version, flexible=api.flexible(version))
        self.requests.append((header.api_key, version, request))
        self.addressees.append((header.api_key, address))
        response = self._scripts[header.api_key](request, version)
        if response is None or isinstance(response, bytes):
            return response
        if header.api_key == 18 and response.error_code:
            version = 0
        head = encode_response_header(header.correlation_id, response_header_version(api, version))
        return head + encode(response, version, flexible=api.flexible(version))

    def _api_versions(self, request: Any, version: int) -> k18_api_versions.Response:
        keys = [k18_api_versions.ApiVersion(api_key=key, min_version=low, max_version=high) for key, (low, high) in self.versions.items()]
        known = self.versions[18][0] <= version <= self.versions[18][1]
        return k18_api_versions.Response(error_code=0 if known else 35, api_keys=keys)

    def _metadata(self, request: k03_metadata.Request, version: int) -> k03_metadata.Response:
        names = list(self.topics) if request.topics is None else [topic.name or "" for topic in request.topics]
        return k03_metadata.Response(
            brokers=[k03_metadata.Broker(node_id=node, host=host, port=port) for node, (host, port) in self._addresses().items()],
            cluster_id=self.cluster_id,
            controller_id=1,
            topics=[self._topic(name) for name in names],
        )

    def _addresses(self) -> dict[int, Address]:
        if self.advertised is not None:
            return {1: self.advertised}
        return {node: Address("fake", node) for node in range(1, self.nodes + 1)}

    def _topic(self, name: str) -> k03_metadata.TopicResult:
        if name not in self.topics:
            return k03_metadata.TopicResult(error_code=3, name=name, partitions=[])
        partitions = [
            k03_metadata.PartitionResult(
                error_code=0, partition_index=index, leader_id=1 + index % self.nodes, replica_nodes=[1], isr_nodes=[1]
            )
            for index in range(self.topics[name])
        ]
        return k03_metadata.TopicResult(error_code=0, name=name, topic_id=self.topic_ids[name], partitions=partitions)


class FakeTransport:
    def __init__(self, broker: FakeBroker, address: Address) -> None:
        self._broker = broker
        self._address = address
        self._answers: deque[bytes | None] = deque()
        self.closed = False

    def send(self, chunks: Sequence[Buffer], deadline: Deadline) -> None:
        frame = b"".join(bytes(chunk) for chunk in chunks)
        assert len(frame) == 4 + int.from_bytes(frame[:4], "big"), "the size before a frame is that of the frame"
        try:
            answer = self._broker.answer(frame[4:], self._address)
        except ConnectionLost:
            self._answers.append(None)
            return
        if answer is not None:
            self._answers.append(answer)

    def receive(self, deadline: Deadline) -> memoryview:
        answer = self._answers.popleft()
        if answer is None:
            raise BrokerUnreachable(f"{self._address} closed the connection")
        return memoryview(bytearray(answer))

    def close(self) -> None:
        self.closed = True
