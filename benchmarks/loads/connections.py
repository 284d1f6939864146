"""Connections: what they cost while nobody speaks, and when all do."""

from __future__ import annotations

import contextlib
import resource
import time
from collections.abc import Callable
from functools import partial

import frames
from peers import Need, Peer
from pump import Link

from loads.common import LINKS, check_produced, measured, new_topic, pumping, warming
from loads.declaration import Figures, Load

SPARE_DESCRIPTORS = 200
API_VERSIONS = frames.frame(18, 0, b"")


def idle(peer: Peer, scale: float) -> Figures:
    """Memory that 1,000 connections add, each of which has asked for ApiVersions and then is silent."""
    count = _allowed(max(50, int(1000 * min(scale, 1.0))))
    before = peer.memory_mb()
    with pumping(peer, depth=1, links=count) as pump:
        pump.run(count, lambda _link, _number: API_VERSIONS, _anything)
        added = peer.memory_mb() - before
    return {"kB/connection": added * 1024 / count}


def connections(peer: Peer, scale: float, *, count: int) -> Figures:
    """So many connections: memory and time of each, the rate of four others beside them, and of all with one record at a time each."""
    topic = new_topic(peer, LINKS)
    batch = frames.record_batch(1, 100)
    requests = [frames.produce(topic, partition, batch) for partition in range(LINKS)]
    count = _allowed(max(50, int(count * min(scale, 1.0))))

    def following(link: Link, _: int) -> bytes:
        return requests[link.number % LINKS]

    def produce(total: int, pump_run: Callable[..., float]) -> float:
        return pump_run(total, following, check_produced(topic))

    with pumping(peer) as pump:
        produce(warming(80_000, scale), pump.run)
    before = peer.memory_mb()
    started = time.perf_counter()
    with contextlib.ExitStack() as held:
        crowd = held.enter_context(pumping(peer, depth=1, links=count))
        crowd.run(count, lambda _link, _number: API_VERSIONS, _anything)
        opened = time.perf_counter() - started
        added = peer.memory_mb() - before
        few = held.enter_context(pumping(peer))
        total = max(2000, int(40_000 * scale))
        beside = measured(peer, total, partial(produce, total, few.run))
        total = max(count, int(40_000 * scale))
        produce(total, crowd.run)
        crowded = measured(peer, total, partial(produce, total, crowd.run))
    return {
        "kB/connection": added * 1024 / count,
        "opened connections/s": count / opened,
        "requests/s beside them": beside.by_request()["requests/s"],
        "CPU us/request beside them": beside.by_request()["CPU us/request"],
        "requests/s of all": crowded.by_request()["requests/s"],
        "CPU us/request of all": crowded.by_request()["CPU us/request"],
    }


def _allowed(count: int) -> int:
    """As many as this process may hold; brokers raise their own limit themselves."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return min(count, hard - SPARE_DESCRIPTORS)


def _anything(_link: Link, _answer: bytearray, _start: int, _size: int) -> None:
    """Any answer will do."""


_NEEDS = frozenset({Need.KEEPS})
LOADS = (
    Load("idle connections", idle, "Connections", seconds=6, quick=1.0),
    Load("connections, 1,000", partial(connections, count=1000), "Connections", needs=_NEEDS),
    Load("connections, 10,000", partial(connections, count=10_000), "Connections", seconds=20, needs=_NEEDS),
)
