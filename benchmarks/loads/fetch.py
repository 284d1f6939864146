"""Fetch: how many bytes a broker gives."""

from __future__ import annotations

import frames
from peers import Need, Peer
from pump import Link, LoadError

from loads.common import FETCH_BYTES, LINKS, check_produced, new_topic, pumping, warming
from loads.declaration import Figures, Load


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
        pump.run(warming(2000, scale), following, check)
        read_bytes = 0
        cpu = peer.cpu_seconds()
        seconds = pump.run(max(100, int(1e9 * scale / FETCH_BYTES)), following, check)
        cpu = peer.cpu_seconds() - cpu
    return {"MB/s": read_bytes / seconds / 1e6, "CPU s/GB": cpu / (read_bytes / 1e9)}


LOADS = (Load("fetch 1 MiB", fetch, "Fetch", quick=0.2, needs=frozenset({Need.KEEPS})),)
