"""The schema registry: what it adds to a start, how many requests it serves, and what they cost other clients. A command of its own.

    .venv/bin/python benchmarks/registry.py --rounds 3

Requests are written by hand and sent over several connections, each of which waits for its response, by a process beside the broker.
CPU is that of the broker's process. Rounds alternate where two things are compared, so that a busy machine disturbs both alike.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Producer
from console import latencies_ms

ROUND_S = 4.0
CONNECTIONS = 8
_PAUSE_S = 0.002  #: between two records of the producer
_TICKS = 100  # per second, of /proc/PID/stat on Linux


class Broker:
    """A broker in a child process."""

    def __init__(self, folder: str, *options: str) -> None:
        began_s = time.perf_counter()
        command = [sys.executable, "-m", "minibroker", "serve", "--port", "0", "--data-dir", folder, *options]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        ready = self._process.stdout.readline() if self._process.stdout else ""
        self.start_ms = (time.perf_counter() - began_s) * 1000
        self.start_cpu_ms = self.cpu_s * 1000
        self.bootstrap = re.findall(r"PLAINTEXT://(\S+?),", ready)[0]
        self.registry_port = int((re.findall(r"registry http://\S+?:(\d+)", ready) or ["0"])[0])

    @property
    def cpu_s(self) -> float:
        """The CPU time that the process has used."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    @property
    def memory_mb(self) -> float:
        """The memory that the process uses alone (PSS of what is shared counts in part)."""
        text = Path(f"/proc/{self._process.pid}/smaps_rollup").read_text(encoding="ascii")
        return int(re.findall(r"Pss:\s+(\d+)", text)[0]) / 1024

    def stop(self) -> None:
        """Stop it."""
        self._process.terminate()
        self._process.wait()


Requests = Iterator[bytes]


class Load(NamedTuple):
    """What a round of requests came to."""

    requests: int
    seconds: float
    failures: int

    @property
    def per_second(self) -> float:
        """Requests per second."""
        return self.requests / self.seconds


async def _response(reader: asyncio.StreamReader) -> bytes:
    """Read a response. Returns its head."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = re.search(rb"Content-Length: (\d+)", head)
    await reader.readexactly(int(length[1]) if length else 0)
    return head


async def _connection(port: int, requests: Requests, end_s: float) -> tuple[int, int]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    count = failures = 0
    while time.monotonic() < end_s:
        writer.write(next(requests))
        head = await _response(reader)
        count += 1
        failures += not head.startswith(b"HTTP/1.1 200")
    writer.close()
    return count, failures


async def _load(port: int, requests: Requests, seconds: float, connections: int) -> Load:
    began_s = time.monotonic()
    done = await asyncio.gather(*(_connection(port, requests, began_s + seconds) for _ in range(connections)))
    return Load(sum(each[0] for each in done), time.monotonic() - began_s, sum(each[1] for each in done))


def load(port: int, requests: Requests, seconds: float = ROUND_S, connections: int = CONNECTIONS) -> Load:
    """Send requests for a while."""
    return asyncio.run(_load(port, requests, seconds, connections))


def _request(method: str, path: str, body: object = None) -> bytes:
    data = b"" if body is None else json.dumps(body).encode()
    head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
    return head.encode() + data


def _order(number: int) -> str:
    fields = [{"name": name, "type": "string"} for name in ("item", "customer", "street", f"field_{number}")]
    return json.dumps({"type": "record", "name": "Order", "namespace": "shop", "fields": fields})


def registrations(prefix: str) -> Requests:
    """New schemas of a record with four fields, each in a subject of its own."""
    number = 0
    while True:
        number += 1
        yield _request("POST", f"/subjects/{prefix}-{number}/versions", {"schema": _order(number)})


def evolutions(prefix: str) -> Requests:
    """New versions of 100 subjects, which are compared with the last one."""
    number = 0
    while True:
        number += 1
        fields = [{"name": f"f{each}", "type": "int", "default": 0} for each in range(1 + number // 100 % 20)] + [
            {"name": f"g{number}", "type": "int", "default": 0}
        ]
        schema = json.dumps({"type": "record", "name": "Order", "fields": fields})
        yield _request("POST", f"/subjects/{prefix}-{number % 100}/versions", {"schema": schema})


def repeated(*requests: bytes) -> Requests:
    """The same requests again and again."""
    while True:
        yield from requests


def _known(method: str, path: str, *, with_schema: bool) -> Requests:
    """Requests about 100 subjects that exist. `{}` in the path is their number."""
    return repeated(*(_request(method, path.format(each), {"schema": _order(each)} if with_schema else None) for each in range(1, 101)))


KINDS: dict[str, Callable[[str], Requests]] = {
    "new schema in a new subject": registrations,
    "new version, compared with the last one": evolutions,
    "registered schema again": lambda _: _known("POST", "/subjects/known-{}/versions", with_schema=True),
    "schema of an id": lambda _: _known("GET", "/schemas/ids/{}", with_schema=False),
    "latest version": lambda _: _known("GET", "/subjects/known-{}/versions/latest", with_schema=False),
    "look-up of a schema": lambda _: _known("POST", "/subjects/known-{}", with_schema=True),
}


def throughput(rounds: int) -> None:
    """Print requests per second and CPU per request of each kind."""
    with tempfile.TemporaryDirectory() as folder:
        broker = Broker(folder, "--registry-port", "0")
        load(broker.registry_port, KINDS["registered schema again"](""), 1.0)
        for name, kind in KINDS.items():
            found: list[tuple[float, float]] = []
            for number in range(rounds):
                before_s = broker.cpu_s
                done = load(broker.registry_port, kind(f"r{number}-{name.replace(' ', '-')}"))
                if done.failures:
                    raise SystemExit(f"{done.failures} of {done.requests} requests failed: {name}")
                found.append((done.per_second, (broker.cpu_s - before_s) / done.requests * 1e6))
            print(f"{name:40} {max(each[0] for each in found):8,.0f}/s {min(each[1] for each in found):6.0f} us of CPU each", flush=True)
        broker.stop()


def starts(rounds: int) -> None:
    """Print what the registry adds to a start, and to the memory after it and after the first schema."""
    found: dict[bool, list[tuple[float, float, float, float]]] = {False: [], True: []}
    for number in range(2 * rounds):
        has_registry = bool(number % 2)
        with tempfile.TemporaryDirectory() as folder:
            broker = Broker(folder, *(("--registry-port", "0") if has_registry else ()))
            time.sleep(0.5)
            memory_mb, used_mb = broker.memory_mb, 0.0
            if has_registry:
                load(broker.registry_port, registrations("a"), 0.2, 1)
                used_mb = broker.memory_mb
            found[has_registry].append((broker.start_ms, broker.start_cpu_ms, memory_mb, used_mb))
            broker.stop()
    names = ("ready after ms", "CPU ms until then", "MB", "MB with schemas")
    for has_registry, rows in found.items():
        columns = zip(names, zip(*rows, strict=True), strict=True)
        shown = [f"{name} {statistics.median(values):.0f}" for name, values in columns]
        print("with the registry:   " if has_registry else "without the registry:", ", ".join(shown), flush=True)


_LOADER = "import sys; sys.path.insert(0, {folder!r}); import registry; registry.paced(int(sys.argv[1]), float(sys.argv[2]), *sys.argv[3:])"
_METADATA = struct.pack(">ihhih", 14, 3, 1, 7, -1) + struct.pack(">i", 0)  # Metadata v1 for no topics, without a client id


def _mixed(prefix: str) -> Requests:
    """One registration, then nine look-ups by id."""
    new = registrations(prefix)
    while True:
        yield next(new)
        for each in range(1, 10):
            yield _request("GET", f"/schemas/ids/{each}")


PACED: dict[str, Callable[[str], Requests]] = {
    "50 registrations and 450 look-ups": _mixed,
    "500 look-ups by id": lambda _: repeated(*(_request("GET", f"/schemas/ids/{each}") for each in range(1, 10))),
    "500 GET /schemas/types": lambda _: repeated(_request("GET", "/schemas/types")),
    "500 Metadata requests": lambda _: repeated(_METADATA),
    "the first load, on another broker": _mixed,
}  #: what is sent in a second beside a producer


def paced(port: int, seconds: float, kind: str, prefix: str) -> None:
    """Send 500 requests a second in bursts of ten, as a fleet of clients would at most.

    This process gives way to the producer: on two processors its own work would be most of what delays it.
    """
    os.nice(19)
    requests = PACED[kind](prefix)

    async def run() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        end_s = time.monotonic() + seconds
        while time.monotonic() < end_s:
            for _ in range(10):
                request = next(requests)
                writer.write(request)
                if request is _METADATA:
                    await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
                else:
                    await _response(reader)
            await asyncio.sleep(0.02)

    asyncio.run(run())


def _beside(port: int, kind: str, prefix: str) -> subprocess.Popen[bytes]:
    """Start a process that sends `paced` requests."""
    program = _LOADER.format(folder=str(Path(__file__).parent))
    return subprocess.Popen([sys.executable, "-c", program, str(port), str(ROUND_S), kind, prefix])


def neighbours(rounds: int) -> None:
    """Print the latency of a producer alone, and beside clients of the registry and others: what is the floor?"""
    alone = "nothing"
    p50: dict[str, list[float]] = {each: [] for each in (alone, *PACED)}
    p99: dict[str, list[float]] = {each: [] for each in (alone, *PACED)}
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as other_folder:
        broker, other = Broker(folder, "--registry-port", "0"), Broker(other_folder, "--registry-port", "0")
        for each in (broker, other):
            load(each.registry_port, registrations("first"), 0.5)
        ports = dict.fromkeys(PACED, broker.registry_port)
        ports["500 Metadata requests"] = int(broker.bootstrap.rpartition(":")[2])
        ports["the first load, on another broker"] = other.registry_port
        producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": "all", "linger.ms": 0})
        latencies_ms(producer, 0.5, _PAUSE_S)
        for number in range(2 * rounds):
            for kind in (alone, *PACED):
                loader = None if kind == alone else _beside(ports[kind], kind, f"n{number}")
                time.sleep(0.5)
                latencies = sorted(latencies_ms(producer, ROUND_S - 1, _PAUSE_S))
                p50[kind].append(latencies[len(latencies) // 2])
                p99[kind].append(latencies[len(latencies) * 99 // 100])
                if loader is not None:
                    loader.wait()
        broker.stop()
        other.stop()
    for kind, values in p99.items():
        median_ms, ratio = statistics.median(values), statistics.median(values) / statistics.median(p99[alone])
        print(f"producer beside {kind:35} p50 {statistics.median(p50[kind]):.2f} ms, p99 {median_ms:.2f} ms, ratio {ratio:.2f}")


def _bad_schemas() -> dict[str, bytes]:
    fields = [{"name": f"f{each}", "type": {"type": "enum", "name": f"E{each}", "symbols": [f"S{each}"]}} for each in range(8_000)]
    wide = json.dumps({"type": "record", "name": "R", "fields": fields})
    union = json.dumps([{"type": "record", "name": f"R{each}", "fields": [{"name": "x", "type": "int"}]} for each in range(10_000)])
    deep: object = {"type": "string"}
    for _ in range(45):
        deep = {"type": "object", "properties": {"a": deep}}
    properties = {f"p{each}": {"type": "string", "pattern": "(a|b)*c" * 5} for each in range(9_000)}
    message = "".join(f"string f{each} = {each};" for each in range(1, 15_000))
    return {
        "Avro with 8,000 enums": _request("POST", "/subjects/b1/versions", {"schema": wide}),
        "Avro union of 10,000 records": _request("POST", "/subjects/b2/versions", {"schema": union}),
        "Avro, 899 kB of brackets": _request("POST", "/subjects/b3/versions", {"schema": "[" * 899_000}),
        "Avro, 900 kB that are not JSON": _request("POST", "/subjects/b4/versions", {"schema": '{"a":"' + "x" * 899_000}),
        "JSON Schema of 9,000 patterns": _request(
            "POST", "/subjects/b5/versions", {"schemaType": "JSON", "schema": json.dumps({"properties": properties})}
        ),
        "JSON Schema, 45 levels": _request("POST", "/subjects/b6/versions", {"schemaType": "JSON", "schema": json.dumps(deep)}),
        "Protobuf of 15,000 fields": _request(
            "POST", "/subjects/b7/versions", {"schemaType": "PROTOBUF", "schema": f'syntax = "proto3"; message M {{{message}}}'}
        ),
        "Protobuf that is none": _request("POST", "/subjects/b8/versions", {"schemaType": "PROTOBUF", "schema": "message " * 100_000}),
        "body of 1.8 MB that is not JSON": _request("POST", "/subjects/b9/versions", "x" * 1_800_000)[:-1] + b" ",
    }


def _longest_gap_ms(port: int, request: bytes) -> tuple[float, float, bytes]:
    """How long other requests to the loop had to wait at most while one was served; how long it took; its status."""
    gaps: list[float] = []
    is_done = threading.Event()

    async def watch() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while not is_done.is_set():
            began_s = time.perf_counter()
            writer.write(_request("GET", "/schemas/types"))
            await _response(reader)
            gaps.append((time.perf_counter() - began_s) * 1000)
            await asyncio.sleep(0.002)

    async def ask() -> tuple[float, bytes]:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        began_s = time.perf_counter()
        writer.write(request)
        status = (await reader.readline()).split()[1]
        return (time.perf_counter() - began_s) * 1000, status

    watcher = threading.Thread(target=lambda: asyncio.run(watch()))
    watcher.start()
    time.sleep(0.3)
    gaps.clear()
    took_ms, status = asyncio.run(ask())
    is_done.set()
    watcher.join()
    return max(gaps, default=0.0), took_ms, status


def bad_schemas(rounds: int) -> None:
    """Print how long bad and huge schemas hold up other requests."""
    with tempfile.TemporaryDirectory() as folder:
        broker = Broker(folder, "--registry-port", "0")
        load(broker.registry_port, registrations("first"), 0.5)
        for name, request in _bad_schemas().items():
            tries = [_longest_gap_ms(broker.registry_port, request) for _ in range(rounds)]
            gap_ms, took_ms, status = min(tries)
            print(
                f"{name:35} {status.decode()} after {took_ms:6.0f} ms, others waited at most {gap_ms:5.0f} ms (first: {tries[0][0]:.0f})",
                flush=True,
            )
        broker.stop()


PARTS: dict[str, Callable[[int], None]] = {"starts": starts, "throughput": throughput, "neighbours": neighbours, "bad_schemas": bad_schemas}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], default=[*PARTS], help="all by default")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args(arguments)
    for part in given.parts:
        PARTS[part](given.rounds)


if __name__ == "__main__":
    main()
