"""Partitions: the cost to create, hold, write to and start with hundreds and thousands of them."""

from __future__ import annotations

import os
import time
from functools import partial

import frames
from peers import Need, Peer

from loads.common import check_produced, new_topic, pumping
from loads.declaration import Figures, Load
from loads.restart import end_offsets, restarted_s


def partitions(peer: Peer, scale: float, *, count: int) -> Figures:
    """One topic of many partitions: created until each has taken a record, one more to each, a start after a stop and after SIGKILL."""
    count = max(10, int(count * min(scale, 1.0)))
    before, cpu = peer.memory_mb(), peer.cpu_seconds()
    started = time.perf_counter()
    topic = new_topic(peer, count)
    created, cpu = time.perf_counter() - started, peer.cpu_seconds() - cpu
    batch = frames.record_batch(1, 100)
    requests = [frames.produce(topic, partition, batch) for partition in range(count)]
    with pumping(peer) as pump:
        seconds = pump.run(count, lambda _, number: requests[number], check_produced(topic))
    figures = {
        "create s": created,
        "create CPU s": cpu,
        "one record to each s": seconds,
        "kB/partition": (peer.memory_mb() - before) * 1024 / count,
    }
    return figures | _restarts(peer, topic, count) if Need.RESTART in peer.gives else figures


def _restarts(peer: Peer, topic: bytes, count: int) -> Figures:
    """Return the seconds until every partition has its former end; everything was synced and is in the page cache."""
    ends = end_offsets(peer, topic, count)
    peer.stop(keep=True)
    os.sync()
    figures = {"start after a stop s": restarted_s(peer, topic, ends), "start after a stop CPU s": peer.cpu_seconds()}
    peer.kill()
    os.sync()
    return figures | {"start after SIGKILL s": restarted_s(peer, topic, ends), "start after SIGKILL CPU s": peer.cpu_seconds()}


_NEEDS = frozenset({Need.TOPICS})
LOADS = (
    Load("100 partitions", partial(partitions, count=100), "Partitions", seconds=12, quick=1.0, needs=_NEEDS),
    Load("1,000 partitions", partial(partitions, count=1000), "Partitions", seconds=20, needs=_NEEDS),
    Load("5,000 partitions", partial(partitions, count=5000), "Partitions", seconds=90, needs=_NEEDS),
)
