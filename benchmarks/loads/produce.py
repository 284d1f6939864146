"""Produce: how many bytes, and how many requests, a broker takes."""

from __future__ import annotations

import frames
from peers import Peer

from loads.common import LINKS, check_produced, new_topic, pumping, warming
from loads.declaration import Figures, Load


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
        pump.run(warming(warm, scale), lambda link, _: requests[link.number], check_produced(topic))
        cpu = peer.cpu_seconds()
        seconds = pump.run(total, lambda link, _: requests[link.number], check_produced(topic))
        cpu = peer.cpu_seconds() - cpu
    return {
        "requests/s": total / seconds,
        "MB/s": total * len(batch) / seconds / 1e6,
        "CPU us/request": cpu / total * 1e6,
        "CPU s/GB": cpu / (total * len(batch) / 1e9),
    }


LOADS = (
    Load("produce 64 x 1 kB", produce, "Produce", quick=0.2),
    Load("produce 1 x 100 B", small, "Produce", quick=0.2),
)
