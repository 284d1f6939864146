"""Connections: their cost while idle, and while all are in use."""

from __future__ import annotations

import contextlib
import resource
import socket
import time
from functools import partial

import frames
from peers import Need, Peer
from pump import Pump, call, connect

from loads.common import LINKS, check_produced, measured, new_topic, pumping, warming
from loads.declaration import Figures, Load

SPARE_DESCRIPTORS = 200
API_VERSIONS = frames.frame(18, 0, b"")


def idle(peer: Peer, scale: float) -> Figures:
    """Memory that 1,000 connections add, each of which sends ApiVersions and then is idle."""
    count = _allowed(max(50, int(1000 * min(scale, 1.0))))
    before = peer.memory_mb()
    with contextlib.ExitStack() as held:
        _open(peer, count, held)
        return {"kB/connection": (peer.memory_mb() - before) * 1024 / count}


def connections(peer: Peer, scale: float, *, count: int) -> Figures:
    """So many connections: memory and time of each, the rate of four others beside them, and of all with one record at a time each."""
    topic = new_topic(peer, LINKS)
    batch = frames.record_batch(1, 100)
    requests = [frames.produce(topic, partition, batch) for partition in range(LINKS)]
    count = _allowed(max(50, int(count * min(scale, 1.0))))

    def produce(pump: Pump, total: int) -> float:
        return pump.run(total, lambda link, _: requests[link.number % LINKS], check_produced(topic))

    with contextlib.ExitStack() as held:
        before = peer.memory_mb()
        started = time.perf_counter()
        crowd = Pump(_open(peer, count, held), depth=1)
        opened = time.perf_counter() - started
        held.callback(crowd.close)
        added = peer.memory_mb() - before
        few = held.enter_context(pumping(peer))
        produce(few, warming(80_000, scale))
        total = max(2000, int(40_000 * scale))
        beside = measured(peer, total, partial(produce, few, total)).by_request()
        total = max(count, int(40_000 * scale))
        produce(crowd, total)
        crowded = measured(peer, total, partial(produce, crowd, total)).by_request()
    return {
        "kB/connection": added * 1024 / count,
        "opened connections/s": count / opened,
        "requests/s beside them": beside["requests/s"],
        "CPU us/request beside them": beside["CPU us/request"],
        "requests/s of all": crowded["requests/s"],
        "CPU us/request of all": crowded["CPU us/request"],
    }


def _open(peer: Peer, count: int, held: contextlib.ExitStack) -> list[socket.socket]:
    """Open connections that sent ApiVersions, one after the other: Kafka queues only 50, others try again after a second."""
    opened = []
    for _ in range(count):
        opened.append(held.enter_context(contextlib.closing(connect(peer.address))))
        call(opened[-1], API_VERSIONS)
    return opened


def _allowed(count: int) -> int:
    """Return how many connections this process may hold; brokers raise their own limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return min(count, hard - SPARE_DESCRIPTORS)


_NEEDS = frozenset({Need.KEEPS})
LOADS = (
    Load("idle connections", idle, "Connections", seconds=6, quick=1.0),
    Load("connections, 1,000", partial(connections, count=1000), "Connections", needs=_NEEDS),
    Load("connections, 10,000", partial(connections, count=10_000), "Connections", seconds=20, needs=_NEEDS),
)
