"""Latency: how long one client waits, alone, beside another one that keeps the broker half busy, and with the disk."""

from __future__ import annotations

import contextlib
import select
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import frames
from peers import Need, Peer
from pump import LoadError, call, connect, read_answer

from loads.common import FETCH_BYTES, LINKS, check_produced, new_topic, percentile_us, pumping, tail_latencies, warming
from loads.declaration import SYNCED, SYNCED_PROPERTIES, Figures, Load
from loads.produce import UNSYNCED

BACKGROUND = Path(__file__).parents[1] / "background.py"
CONSUMERS = 50
PEAK_REQUESTS = 40_000
#: Time until a Fetch is parked, before its record is produced.
PARKED_S = 0.0005


def latency(peer: Peer, scale: float) -> Figures:
    """One client that waits for each acknowledgement; then from a produce to the answer of a Fetch that was waiting for it."""
    topic = new_topic(peer, 1)
    request = frames.produce(topic, 0, frames.record_batch(1, 100))
    with contextlib.closing(connect(peer.address)) as producer, contextlib.closing(connect(peer.address)) as consumer:
        _acknowledged(producer, request, warming(20_000, scale))
        acknowledged = _acknowledged(producer, request, max(500, int(20_000 * scale)))
        if Need.KEEPS not in peer.gives:  # librdkafka's mock cluster answers the Fetch without records
            return tail_latencies("acknowledged", acknowledged)
        _delivered(producer, [consumer], topic, request, warming(500, scale))
        delivered = _delivered(producer, [consumer], topic, request, max(200, int(4000 * scale)))
    return tail_latencies("acknowledged", acknowledged) | tail_latencies("delivered", delivered)


def under_load(peer: Peer, scale: float) -> Figures:
    """The same while another client sends records of 100 bytes at half of the rate that the broker takes at most."""
    topic, other = new_topic(peer, 1), new_topic(peer, LINKS)
    batch = frames.record_batch(1, 100)
    request = frames.produce(topic, 0, batch)
    with pumping(peer) as pump:
        requests = [frames.produce(other, partition, batch) for partition in range(LINKS)]
        check = check_produced(other)
        pump.run(warming(80_000, scale), lambda link, _: requests[link.number], check)
        peak = max(1000, int(PEAK_REQUESTS * scale))
        rate = peak / pump.run(peak, lambda link, _: requests[link.number], check) / 2
    with contextlib.closing(connect(peer.address)) as producer, contextlib.closing(connect(peer.address)) as consumer:
        _acknowledged(producer, request, warming(5000, scale))
        _delivered(producer, [consumer], topic, request, warming(500, scale))
        before = _end_offset(producer, other)
        with _background(peer, requests[0], rate):
            started = time.perf_counter()
            acknowledged = _acknowledged(producer, request, max(500, int(10_000 * scale)))
            delivered = _delivered(producer, [consumer], topic, request, max(200, int(3000 * scale)))
            seconds = time.perf_counter() - started
            sent = _end_offset(producer, other) - before
    return tail_latencies("acknowledged", acknowledged) | tail_latencies("delivered", delivered) | {"background requests/s": sent / seconds}


def many_consumers(peer: Peer, scale: float) -> Figures:
    """From a produce to the last answer of fifty Fetches that were waiting for the record."""
    topic = new_topic(peer, 1)
    request = frames.produce(topic, 0, frames.record_batch(1, 100))
    with contextlib.ExitStack() as held:
        producer, *consumers = (held.enter_context(contextlib.closing(connect(peer.address))) for _ in range(1 + CONSUMERS))
        _acknowledged(producer, request, warming(20_000, scale))
        _delivered(producer, consumers, topic, request, warming(300, scale))
        count = max(20, int(500 * scale))
        delivered = sorted(_delivered(producer, consumers, topic, request, count))
    return {"delivered to all p50 us": percentile_us(delivered, 0.50), "delivered to all p99 us": percentile_us(delivered, 0.99)}


def latency_synced(peer: Peer, scale: float) -> Figures:
    """One client that waits until each record is on the disk; then from a produce to the answer of a Fetch that was waiting for it."""
    warm, topic = new_topic(peer, 1, UNSYNCED), new_topic(peer, 1)
    batch = frames.record_batch(1, 100)
    request, warm_request = frames.produce(topic, 0, batch), frames.produce(warm, 0, batch)
    with contextlib.closing(connect(peer.address)) as producer, contextlib.closing(connect(peer.address)) as consumer:
        _acknowledged(producer, warm_request, warming(3000, scale))
        _delivered(producer, [consumer], warm, warm_request, warming(500, scale))
        acknowledged = _acknowledged(producer, request, max(100, int(3000 * scale)))
        delivered = _delivered(producer, [consumer], topic, request, max(100, int(1000 * scale)))
    return tail_latencies("acknowledged", acknowledged) | tail_latencies("delivered", delivered)


def _acknowledged(producer: socket.socket, request: bytes, count: int) -> list[float]:
    """Return the seconds of each request."""
    found = []
    for _ in range(count):
        started = time.perf_counter()
        call(producer, request)
        found.append(time.perf_counter() - started)
    return found


def _delivered(producer: socket.socket, consumers: list[socket.socket], topic: bytes, request: bytes, count: int) -> list[float]:
    """Return the seconds until the last consumer has the record, `count` times."""
    offset = _end_offset(producer, topic)
    found = []
    for _ in range(count):
        fetch = frames.fetch(topic, 0, offset, FETCH_BYTES, max_wait_ms=10_000)
        for consumer in consumers:
            consumer.sendall(fetch)
        time.sleep(PARKED_S)
        started = time.perf_counter()
        producer.sendall(request)
        answers = [read_answer(consumer) for consumer in consumers]
        found.append(time.perf_counter() - started)
        read_answer(producer)
        offset += 1
        error, position, end = frames.fetched(answers[-1], 0, topic)
        if error or position == end:
            raise LoadError(f"Fetch error {error}, {end - position} bytes for one that waited")
    return found


@contextlib.contextmanager
def _background(peer: Peer, request: bytes, rate: float) -> Iterator[None]:
    """Run another client in its own process."""
    host, port = peer.address
    command = [sys.executable, str(BACKGROUND), host, str(port), str(rate)]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        if child.stdin is None or child.stdout is None:
            raise LoadError("no pipes")
        child.stdin.write(request)
        child.stdin.close()
        if not select.select([child.stdout], [], [], 30)[0] or child.stdout.readline() != b"ready\n":
            raise LoadError("the other client does not begin")
        yield
        if child.poll() is not None:
            raise LoadError("the other client has ended")
    finally:
        child.kill()
        child.wait()
        if child.stdout is not None:
            child.stdout.close()


def _end_offset(connection: socket.socket, topic: bytes) -> int:
    return frames.listed_offset(call(connection, frames.list_offsets(topic, 0, -1)), topic)


LOADS = (
    Load("latency", latency, "Latency", quick=0.2),
    Load("latency under load", under_load, "Latency", seconds=20, quick=0.2, needs=frozenset({Need.KEEPS})),
    Load("latency to 50 consumers", many_consumers, "Latency", needs=frozenset({Need.KEEPS})),
    Load("latency" + SYNCED, latency_synced, "Latency", quick=0.2, properties=SYNCED_PROPERTIES, needs=frozenset({Need.SYNC})),
)
