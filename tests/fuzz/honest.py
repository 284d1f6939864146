"""The client that fuzzing and attacks must not disturb: it produces and fetches one record at a time and checks every byte.

    python -m tests.fuzz.honest PORT TOPIC

It prints "ready" when the first record came back, works until its standard input is closed, reads its topic once more
from the beginning, and prints one line of JSON: counts, latencies in ms, and what was wrong.
"""

from __future__ import annotations

import json
import random
import select
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple, Self

from minibroker.records.any_format import decode_records, split_batches
from minibroker.records.builder import build_batch
from minibroker.records.record import Record
from minibroker.schemas import k00_produce, k01_fetch
from minibroker.wire import compiled
from minibroker.wire.api import api_of
from minibroker.wire.header import RequestHeader, encode_request_header

CLIENT_ID = "honest"
_PAUSE_S = 0.004
_PRODUCE, _FETCH = api_of(k00_produce), api_of(k01_fetch)
_PRODUCE_VERSION, _FETCH_VERSION = 9, 12  #: flexible, topics by name
_TIMEOUT_S = 120


class Report(NamedTuple):
    """What the honest client saw."""

    records: int
    p50_ms: float
    p99_ms: float
    max_ms: float
    wrong: list[str]

    def line(self) -> str:
        """For a person."""
        wrong = f"WRONG: {'; '.join(self.wrong[:3])}" if self.wrong else "content exact"
        return f"{self.records} records, p50 {self.p50_ms:.1f} ms, p99 {self.p99_ms:.1f} ms, max {self.max_ms:.0f} ms, {wrong}"


class HonestClient:
    """The client as a process of its own; started by the constructor."""

    def __init__(self, port: int, topic: str) -> None:
        command = [sys.executable, "-m", "tests.fuzz.honest", str(port), topic]
        root = Path(__file__).parents[2]
        self._process = subprocess.Popen(command, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        if self._process.stdout.readline() != "ready\n":
            raise RuntimeError("the honest client did not get its first record back")

    def finish(self) -> Report:
        """End it; what it saw."""
        out, _ = self._process.communicate()
        lines = out.splitlines()
        if self._process.returncode or not lines:
            return Report(0, 0, 0, 0, [f"the client ended with {self._process.returncode}"])
        return Report(**json.loads(lines[-1]))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()


class _Client:
    def __init__(self, port: int, topic: str) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=_TIMEOUT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._topic = topic
        self._chance = random.Random(7)
        self._values: list[bytes] = []
        self.latencies: list[float] = []
        self.wrong: list[str] = []

    @property
    def records(self) -> int:
        return len(self._values)

    def exchange(self) -> None:
        """Produce one record and fetch it."""
        number = len(self._values)
        value = b"%d:" % number + self._chance.randbytes(self._chance.randrange(200))
        batch = build_batch([Record(0, int(time.time() * 1000), b"%d" % number, value)])
        partition = k00_produce.Partition(index=0, records=bytes(batch))
        topic = k00_produce.Topic(name=self._topic, partition_data=[partition])
        answer = self._ask(_PRODUCE, _PRODUCE_VERSION, k00_produce.Request(acks=-1, timeout_ms=10_000, topic_data=[topic]))
        (said,) = answer.responses[0].partition_responses
        self._values.append(value)
        if said.error_code or said.base_offset != number:
            self.wrong.append(f"record {number}: error {said.error_code}, offset {said.base_offset}")
            return
        found = self._fetch(number)
        if found != [(number, value)]:
            self.wrong.append(f"record {number} came back as {found!r}"[:300])

    def read_all(self) -> None:
        """Compare everything in the topic with what was produced."""
        offset = 0
        while offset < len(self._values):
            found = self._fetch(offset)
            if not found or found != [(number, self._values[number]) for number in range(offset, offset + len(found))]:
                self.wrong.append(f"read again from offset {offset}: other records")
                return
            offset += len(found)

    def _fetch(self, offset: int) -> list[tuple[int, bytes | None]]:
        partition = k01_fetch.Partition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
        topic = k01_fetch.Topic(topic=self._topic, partitions=[partition])
        answer = self._ask(_FETCH, _FETCH_VERSION, k01_fetch.Request(max_wait_ms=0, min_bytes=0, topics=[topic]))
        (result,) = answer.responses[0].partitions
        if result.error_code:
            self.wrong.append(f"fetch at {offset}: error {result.error_code}")
            return []
        records = [record for batch in split_batches(result.records or b"", allow_partial=True) for record in decode_records(batch)]
        return [(record.offset, record.value) for record in records if record.offset >= offset]

    def _ask(self, api: Any, version: int, request: Any) -> Any:
        header = RequestHeader(api_key=api.key, api_version=version, correlation_id=1, client_id=CLIENT_ID)
        frame = encode_request_header(header, 2) + b"".join(compiled.encoder(api.Request, version, True)(request))
        start = time.perf_counter()
        self._socket.sendall(struct.pack(">i", len(frame)) + frame)
        data = bytearray()
        while len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4]):
            more = self._socket.recv(1 << 20)
            if not more:
                raise ConnectionResetError("the broker closed the honest client's connection")
            data += more
        self.latencies.append((time.perf_counter() - start) * 1000)
        return compiled.decode_all(api.Response, memoryview(data)[9:], 0, version, True)


def main() -> None:
    """Run as the module's docstring says."""
    client = _Client(int(sys.argv[1]), sys.argv[2])
    client.exchange()
    client.latencies.clear()  # the first request compiles codecs
    print("ready", flush=True)
    try:
        while not select.select([sys.stdin], [], [], _PAUSE_S)[0]:
            client.exchange()
        latencies = sorted(client.latencies)
        client.read_all()
    except OSError as error:
        latencies = sorted(client.latencies)
        client.wrong.append(f"{type(error).__name__}: {error}")
    p50, p99, highest = (latencies[min(len(latencies) - 1, int(len(latencies) * part))] if latencies else 0 for part in (0.5, 0.99, 1))
    print(json.dumps(Report(client.records, p50, p99, highest, client.wrong)._asdict()))


if __name__ == "__main__":
    main()
