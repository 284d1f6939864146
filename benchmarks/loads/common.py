"""What loads share: topics that take writes, connections, warming up, percentiles."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import count

import frames
from peers import Peer
from pump import Link, LoadError, Pump, call, connect

LINKS = 4
DEPTH = 5
FETCH_BYTES = 1 << 20
READY_TIMEOUT_S = 60.0
_numbers = count(time.time_ns() // 1_000_000)


def warming(requests: int, scale: float) -> int:
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
        batch = frames.record_batch(1, 10)
        for partition in range(partitions):
            request = frames.produce(topic, partition, batch)
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


def seconds_of(work: Callable[[], object]) -> float:
    """How long it takes."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def percentile_us(ordered: list[float], part: float) -> float:
    """Of seconds."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))] * 1e6
