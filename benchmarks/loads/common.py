"""Shared by loads: topics that accept writes, connections, warming up, percentiles."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from typing import NamedTuple

import frames
from peers import Peer
from pump import Check, Link, LoadError, Pump, call, connect

from loads.declaration import Figures

LINKS = 4
DEPTH = 5
FETCH_BYTES = 1 << 20
READY_TIMEOUT_S = 60.0
_numbers = count(time.time_ns() // 1_000_000)


def warming(requests: int, scale: float) -> int:
    """Requests before the clock starts: the same number for every broker, enough that a JVM has compiled what is hot."""
    return max(20, int(requests * min(scale, 1.0)))


@contextlib.contextmanager
def pumping(peer: Peer, depth: int = DEPTH, links: int = LINKS, *, heads_only: bool = False) -> Iterator[Pump]:
    """Yield connections to a broker, and close them at the end."""
    pump = Pump((connect(peer.address) for _ in range(links)), depth=depth, heads_only=heads_only)
    try:
        yield pump
    finally:
        pump.close()


def new_topic(peer: Peer, partitions: int, configs: Mapping[bytes, bytes] | None = None) -> bytes:
    """Create a topic and wait until each partition accepts a write, as some brokers elect a leader later."""
    topic = f"bench-{next(_numbers)}".encode()
    with contextlib.closing(connect(peer.address)) as connection:
        if peer.has_create_topics:
            error = frames.create_topic_error(call(connection, frames.create_topic(topic, partitions, configs)), topic)
            if error:
                raise LoadError(f"CreateTopics error {error}")
        else:
            call(connection, frames.metadata(topic))
        deadline = time.monotonic() + READY_TIMEOUT_S
        batch = frames.record_batch(1, 10)
        for partition in range(partitions):
            request = frames.produce(topic, partition, batch)
            while frames.produce_error(call(connection, request), 0, topic):
                if time.monotonic() > deadline:
                    raise LoadError(f"partition {partition} takes no writes")
                time.sleep(0.02)
    return topic


def check_produced(topic: bytes) -> Check:
    """Return the check of answers to Produce for a pump."""

    def check(_: Link, answer: bytearray, start: int, __: int) -> None:
        error = frames.produce_error(answer, start, topic)
        if error:
            raise LoadError(f"Produce error {error}")

    return check


def percentile_us(ordered: list[float], part: float) -> float:
    """Percentiles of times in seconds."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))] * 1e6


class Measured(NamedTuple):
    """The cost of a number of requests."""

    total: int
    seconds: float
    cpu_s: float  #: the broker's
    client_cpu_s: float  #: ours

    def by_request(self) -> Figures:
        """Return rate and cost per request; the cost for the load itself must be well below."""
        return {
            "requests/s": self.total / self.seconds,
            "CPU us/request": self.cpu_s / self.total * 1e6,
            "client CPU us/request": self.client_cpu_s / self.total * 1e6,
        }

    def by_size(self, size: float) -> Figures:
        """Return rate and cost for the total number of bytes moved."""
        return {"MB/s": size / self.seconds / 1e6, "CPU s/GB": self.cpu_s / (size / 1e9)}


def measured(peer: Peer, total: int, work: Callable[[], float]) -> Measured:
    """Measure both processes while `work` does `total` requests and returns the seconds they took."""
    cpu, client_cpu = peer.cpu_seconds(), time.process_time()
    seconds = work()
    return Measured(total, seconds, peer.cpu_seconds() - cpu, time.process_time() - client_cpu)


def check_listed(topic: bytes) -> Check:
    """Return the check of answers to ListOffsets for a pump."""

    def check(_: Link, answer: bytearray, start: int, __: int) -> None:
        error = frames.list_offsets_error(answer, start, topic)
        if error:
            raise LoadError(f"ListOffsets error {error}")

    return check


def fill(peer: Peer, topic: bytes, requests: Sequence[bytes], count: int) -> None:
    """Send `total` Produce requests, taking `requests` in turn, without measuring."""
    with pumping(peer) as pump:
        pump.run(count, lambda _, number: requests[number % len(requests)], check_produced(topic))


def tail_latencies(name: str, seconds: list[float]) -> Figures:
    """Return p50, p99 and p99.9 in microseconds."""
    ordered = sorted(seconds)
    return {f"{name} {label} us": percentile_us(ordered, part) for label, part in (("p50", 0.50), ("p99", 0.99), ("p99.9", 0.999))}
