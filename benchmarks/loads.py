"""The loads: what each does to a broker, and the figures that it gives.

Every load makes a topic of its own, warms the broker up, and measures wall time at the client and CPU time at the server.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import count

import frames
from peers import Peer
from pump import Link, LoadError, Pump, call, connect, read_answer

#: Figure name to value; units are in the names.
Figures = dict[str, float]

LINKS = 4
DEPTH = 5
FETCH_BYTES = 1 << 20
READY_TIMEOUT_S = 60.0
_numbers = count(time.time_ns() // 1_000_000)


def produce(peer: Peer, scale: float) -> Figures:
    """Batches of 64 records of 1 kB from four connections into four partitions, five requests in flight on each."""
    batch = frames.record_batch(64, 1000)
    return _produce(peer, batch, scale, warm=12_000, total=max(200, int(512e6 * scale / len(batch))))


def small(peer: Peer, scale: float) -> Figures:
    """One record of 100 bytes a request."""
    return _produce(peer, frames.record_batch(1, 100), scale, warm=80_000, total=max(2000, int(60_000 * scale)))


def _produce(peer: Peer, batch: bytes, scale: float, *, warm: int, total: int) -> Figures:
    topic = new_topic(peer, LINKS)
    requests = [frames.produce(topic, partition, batch) for partition in range(LINKS)]
    with pumping(peer) as pump:
        pump.run(_warm(warm, scale), lambda link, _: requests[link.number], check_produced(topic))
        cpu = peer.cpu_seconds()
        seconds = pump.run(total, lambda link, _: requests[link.number], check_produced(topic))
        cpu = peer.cpu_seconds() - cpu
    return {
        "requests/s": total / seconds,
        "MB/s": total * len(batch) / seconds / 1e6,
        "CPU us/request": cpu / total * 1e6,
        "CPU s/GB": cpu / (total * len(batch) / 1e9),
    }


def fetch(peer: Peer, scale: float) -> Figures:
    """Four consumers, each reading its own partition from the start in answers of at most 1 MiB, again and again."""
    topic = new_topic(peer, LINKS)
    fill = max(100, int(512e6 * min(scale, 1.0) / 64_000))
    batch = frames.record_batch(64, 1000)
    requests = [frames.produce(topic, partition, batch) for partition in range(LINKS)]
    read_bytes = 0

    def following(link: Link, _: int) -> bytes:
        return frames.fetch(topic, link.number, link.offset, FETCH_BYTES)

    def check(link: Link, answer: bytearray, start: int, _: int) -> None:
        nonlocal read_bytes
        error, position, end = frames.fetched(answer, start, topic)
        if error:
            raise LoadError(f"Fetch error {error}")
        after = frames.offset_after(answer, position, end, link.offset)
        link.offset = 0 if after == link.offset else after
        read_bytes += end - position

    with pumping(peer) as pump:
        pump.run(fill, lambda _, number: requests[number % LINKS], check_produced(topic))
    with pumping(peer, depth=1) as pump:
        pump.run(_warm(2000, scale), following, check)
        read_bytes = 0
        cpu = peer.cpu_seconds()
        seconds = pump.run(max(100, int(1e9 * scale / FETCH_BYTES)), following, check)
        cpu = peer.cpu_seconds() - cpu
    return {"MB/s": read_bytes / seconds / 1e6, "CPU s/GB": cpu / (read_bytes / 1e9)}


def offsets(peer: Peer, scale: float) -> Figures:
    """ListOffsets for earliest, latest and a timestamp in turn, over partitions of 5 MB."""
    topic = new_topic(peer, LINKS)
    batch = frames.record_batch(64, 1000)
    fills = [frames.produce(topic, partition, batch) for partition in range(LINKS)]
    now_ms = time.time_ns() // 1_000_000
    selectors = [-2, -1, now_ms - 100]
    requests = [frames.list_offsets(topic, number % LINKS, selectors[number % 3]) for number in range(12)]

    def check(_: Link, answer: bytearray, start: int, __: int) -> None:
        error = frames.list_offsets_error(answer, start, topic)
        if error:
            raise LoadError(f"ListOffsets error {error}")

    total = max(2000, int(50_000 * scale))
    with pumping(peer) as pump:
        pump.run(320, lambda _, number: fills[number % LINKS], check_produced(topic))
        pump.run(_warm(80_000, scale), lambda _, number: requests[number % 12], check)
        cpu = peer.cpu_seconds()
        seconds = pump.run(total, lambda _, number: requests[number % 12], check)
        cpu = peer.cpu_seconds() - cpu
    return {"requests/s": total / seconds, "CPU us/request": cpu / total * 1e6}


def latency(peer: Peer, scale: float) -> Figures:
    """One client that waits for each acknowledgement; then from a produce to the answer of a Fetch that was waiting for it."""
    topic = new_topic(peer, 1)
    request = frames.produce(topic, 0, frames.record_batch(1, 100))
    with contextlib.closing(connect(peer.address)) as producer, contextlib.closing(connect(peer.address)) as consumer:
        for _ in range(_warm(20_000, scale)):
            call(producer, request)
        acknowledged = sorted(_seconds(lambda: call(producer, request)) for _ in range(max(500, int(5000 * scale))))
        offset = _end_offset(producer, topic)
        delivered = []
        for _ in range(max(200, int(1000 * scale))):
            consumer.sendall(frames.fetch(topic, 0, offset, FETCH_BYTES))
            time.sleep(0.0005)  # the Fetch must be parked before the record comes
            started = time.perf_counter()
            producer.sendall(request)
            read_answer(consumer)
            delivered.append(time.perf_counter() - started)
            read_answer(producer)
            offset += 1
        delivered.sort()
    return {
        "acknowledged p50 us": percentile_us(acknowledged, 0.50),
        "acknowledged p99 us": percentile_us(acknowledged, 0.99),
        "delivered p50 us": percentile_us(delivered, 0.50),
        "delivered p99 us": percentile_us(delivered, 0.99),
    }


def idle_connections(peer: Peer, _: float) -> Figures:
    """Memory that 1,000 connections add, each of which has asked for ApiVersions and then is silent."""
    before = peer.memory_mb()
    with contextlib.ExitStack() as held:
        for _number in range(1000):
            connection = held.enter_context(contextlib.closing(connect(peer.address)))
            call(connection, frames.frame(18, 0, b""))
        return {"MB for 1,000 connections": peer.memory_mb() - before}


LOADS: dict[str, Callable[[Peer, float], Figures]] = {
    "idle connections": idle_connections,
    "produce 64 x 1 kB": produce,
    "produce 1 x 100 B": small,
    "fetch 1 MiB": fetch,
    "ListOffsets": offsets,
    "latency": latency,
}


def _warm(requests: int, scale: float) -> int:
    """Requests before the clock starts: the same number for every broker, enough that a JVM has compiled what is hot."""
    return max(20, int(requests * min(scale, 1.0)))


@contextlib.contextmanager
def pumping(peer: Peer, depth: int = DEPTH, links: int = LINKS) -> Iterator[Pump]:
    """Connections to a broker, closed in the end."""
    pump = Pump(peer.address, links=links, depth=depth)
    try:
        yield pump
    finally:
        pump.close()


def new_topic(peer: Peer, partitions: int, configs: Mapping[bytes, bytes] | None = None) -> bytes:
    """Make a topic and wait until each partition takes a write: a leader is not there at once everywhere."""
    topic = f"bench-{next(_numbers)}".encode()
    with contextlib.closing(connect(peer.address)) as connection:
        if peer.has_create_topics:
            error = frames.create_topic_error(call(connection, frames.create_topic(topic, partitions, configs)), topic)
            if error:
                raise LoadError(f"CreateTopics error {error}")
        else:
            call(connection, frames.metadata(topic))
        deadline = time.monotonic() + READY_TIMEOUT_S
        for partition in range(partitions):
            request = frames.produce(topic, partition, frames.record_batch(1, 10))
            while frames.produce_error(call(connection, request), 0, topic):
                if time.monotonic() > deadline:
                    raise LoadError(f"partition {partition} takes no writes")
                time.sleep(0.02)
    return topic


def check_produced(topic: bytes) -> Callable[[Link, bytearray, int, int], None]:
    """What a pump does with the answers to Produce."""

    def check(_: Link, answer: bytearray, start: int, __: int) -> None:
        error = frames.produce_error(answer, start, topic)
        if error:
            raise LoadError(f"Produce error {error}")

    return check


def _end_offset(connection: socket.socket, topic: bytes) -> int:
    answer = call(connection, frames.list_offsets(topic, 0, -1))
    return int(struct.unpack_from(">q", answer, frames.BODY + 4 + 4 + 2 + len(topic) + 4 + 4 + 2 + 8)[0])


def _seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def percentile_us(ordered: list[float], part: float) -> float:
    """Of seconds."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))] * 1e6
