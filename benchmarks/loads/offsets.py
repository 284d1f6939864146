"""ListOffsets: what small requests cost that only look something up."""

from __future__ import annotations

import time

import frames
from peers import Peer
from pump import Link, LoadError

from loads.common import LINKS, check_produced, new_topic, pumping, warming
from loads.declaration import Figures, Load


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
        pump.run(warming(80_000, scale), lambda _, number: requests[number % 12], check)
        cpu = peer.cpu_seconds()
        seconds = pump.run(total, lambda _, number: requests[number % 12], check)
        cpu = peer.cpu_seconds() - cpu
    return {"requests/s": total / seconds, "CPU us/request": cpu / total * 1e6}


LOADS = (Load("ListOffsets", offsets, "ListOffsets", quick=0.2),)
