"""A whole broker without sockets, threads or waiting: it takes and returns frames as bytes, and only the test advances its clock.

broker = BrokerInMemory(topics={"orders": 1})
broker.append("orders", 0, records(10))
answer = broker.ask(k21.Request(...))             # through the real codec, newest version by default
pending = broker.begin(k01.Request(...))          # a request that may wait
broker.clock.advance(500); pending.answer()
"""

from __future__ import annotations

import contextlib
import shutil
import sys
import tempfile
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from minibroker.background import InlineBackground
from minibroker.clock import ManualClock
from minibroker.cluster.cluster import Cluster
from minibroker.config.broker_config import BrokerConfig
from minibroker.dispatch import registry
from minibroker.dispatch.context import ConnectionInfo, Services
from minibroker.dispatch.delayed import Delayed
from minibroker.dispatch.dispatcher import Dispatcher
from minibroker.dispatch.like_kafka import like_kafka
from minibroker.log.results import Appended
from minibroker.records.builder import build_batch
from minibroker.records.record import Record
from minibroker.storage.files import Files, RealFiles
from minibroker.testing.simulation.held_watermarks import hold_high_watermark, with_held_watermarks
from minibroker.wire.api import Api, api_of
from minibroker.wire.codec import decode, encode
from minibroker.wire.header import (
    RequestHeader,
    decode_response_header,
    encode_request_header,
    request_header_version,
    response_header_version,
)

LISTENER = "PLAINTEXT"


def records(count: int, *, first: int = 0, timestamp: int | None = None, **options: Any) -> bytes:
    """Return one batch of `count` records with keys k0, k1, ... and values v0, v1, ...; options are those of `build_batch`."""
    base = ManualClock().now_ms() if timestamp is None else timestamp
    rows = [Record(index, base + index, b"k%d" % (first + index), b"v%d" % (first + index)) for index in range(count)]
    return bytes(build_batch(rows, **options))


def frame_of(request: Any, version: int | None = None, *, client_id: str | None = "test") -> memoryview:
    """Return a request as its client sends it, without the size, by default in the newest version."""
    api = api_of(sys.modules[type(request).__module__])
    number = api.max_version if version is None else version
    header = RequestHeader(api_key=api.key, api_version=number, correlation_id=7, client_id=client_id)
    return memoryview(
        encode_request_header(header, request_header_version(api, number)) + encode(request, number, flexible=api.flexible(number))
    )


class Pending:
    """A request in flight."""

    def __init__(self, api: Api, version: int, answer: list[Any] | Delayed) -> None:
        self._api, self._version, self._answer = api, version, answer

    @property
    def in_flight(self) -> Delayed:
        assert isinstance(self._answer, Delayed)
        return self._answer

    @property
    def is_done(self) -> bool:
        """Whether there is an answer, or the connection was closed instead. A cancelled request gets neither."""
        delayed = self._answer
        return not isinstance(delayed, Delayed) or delayed.answer is not None or hasattr(delayed, "error")

    def answer(self) -> Any:
        """Return the response, or None if the protocol has none (acks=0). Fail while the request still waits."""
        assert self.is_done, "the request still waits"
        chunks = self._answer.answer if isinstance(self._answer, Delayed) else self._answer
        assert chunks is not None, "the broker closed the connection"
        data = b"".join(map(bytes, chunks))
        if not data:
            return None
        assert int.from_bytes(data[:4], "big") == len(data) - 4
        frame = data[4:]
        _, position = decode_response_header(frame, response_header_version(self._api, self._version))
        return decode(self._api.Response, frame[position:], self._version, flexible=self._api.flexible(self._version))


def _end(cluster: Cluster, folder: Path | None) -> None:
    with contextlib.suppress(Exception):
        cluster.close(clean=False)
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)


class BrokerInMemory:
    """A broker in `folder`, or in a temporary folder that is removed with it."""

    def __init__(
        self,
        topics: Mapping[str, int] | None = None,
        config: Mapping[str, str] | None = None,
        *,
        folder: Path | None = None,
        files: Files | None = None,
        clock: ManualClock | None = None,
    ) -> None:
        self.folder = folder or Path(tempfile.mkdtemp(prefix="minibroker-test-"))
        self.clock = clock or ManualClock()
        self.background = InlineBackground()
        own = {
            "log.dirs": str(self.folder),
            "listeners": "PLAINTEXT://localhost:9092",
            "share.coordinator.state.topic.num.partitions": "5",
            "transaction.state.log.num.partitions": "5",
        }
        self.config = BrokerConfig(own | dict(config or {}))
        self.cluster = Cluster.open(self.config, files or RealFiles(), self.clock, self.background)
        # A test run creates thousands of brokers: each must close its files when it is collected.
        self._end = weakref.finalize(self, _end, self.cluster, self.folder if folder is None else None)
        self.services = Services(
            config=self.config, cluster=self.cluster, clock=self.clock, background=self.background, registry=registry.load()
        )
        if self.config.minibroker_like_kafka:
            self.services.registry = like_kafka(self.services.registry, self.services)
        self.services.coordinators.start()
        if self.services.tokens is not None:
            self.services.tokens.start()
        self.services.slices.now_s = lambda: 0.0  # no slice ends: a request is answered at once, unless a test sets another clock
        self.dispatcher = Dispatcher(self.services)
        self.connection = ConnectionInfo(LISTENER, "127.0.0.1")
        for name, partition_count in (topics or {}).items():
            if name not in self.cluster.topics:
                self.cluster.create_topic(name, partition_count=partition_count)

    def ask(self, request: Any, version: int | None = None, *, client_id: str | None = "test") -> Any:
        """Send a request and return its response. Fail if the request waits."""
        return self.begin(request, version, client_id=client_id).answer()

    def begin(self, request: Any, version: int | None = None, *, client_id: str | None = "test") -> Pending:
        """Send a request that may have to wait."""
        api = api_of(sys.modules[type(request).__module__])
        number = api.max_version if version is None else version
        return Pending(api, number, self.dispatcher.dispatch(self.connection, frame_of(request, version, client_id=client_id)))

    def append(self, topic: str, index: int, batch: bytes) -> Appended:
        """Append to a partition as a Produce does: wake waiting requests, and sync where a producer waits for that."""
        partition = self.cluster.partition(topic, index)
        appended = partition.append(memoryview(bytearray(batch)))
        if partition.log.wants_sync:
            partition.log.flusher.flush()
        return appended

    def hold_high_watermark(self, topic: str, index: int) -> None:
        """Hold the high watermark of a partition, as `minibroker.testing` does."""
        self.services.registry = with_held_watermarks(registry.load())
        self.dispatcher.serve_from(self.services)
        hold_high_watermark(self.cluster.partition(topic, index))

    def restart(self, *, clean: bool = True) -> BrokerInMemory:
        """Return another broker on the same folder. Do not use the old one afterwards."""
        self.services.coordinators.stop()
        if self.services.tokens is not None:
            self.services.tokens.stop()
        self.cluster.close(clean=clean)
        again = BrokerInMemory(folder=self.folder, clock=self.clock, config=self.config.static | self.config.unknown)
        weakref.finalize(again, lambda _kept: None, self)
        return again
