"""ListOffsets: the cost of small lookups, over small logs and large ones."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping

import frames
from peers import Need, Peer

from loads.common import LINKS, check_listed, check_produced, fill, measured, new_topic, pumping, warming
from loads.declaration import Figures, Load

EARLIEST, LATEST = -2, -1
SEGMENTS = 100
SEGMENT_BYTES = 1 << 20  #: the least that Kafka accepts
TARGETS = 1000  #: number of different timestamps in requests


def offsets(peer: Peer, scale: float) -> Figures:
    """ListOffsets for earliest, latest and a timestamp in turn, over partitions of 5 MB."""
    topic = new_topic(peer, LINKS)
    batch = frames.record_batch(64, 1000)
    fill(peer, topic, [frames.produce(topic, partition, batch) for partition in range(LINKS)], 320)
    selectors = [EARLIEST, LATEST, time.time_ns() // 1_000_000 - 100]
    requests = [frames.list_offsets(topic, number % LINKS, selectors[number % 3]) for number in range(12)]
    total = max(2000, int(200_000 * scale))
    with pumping(peer) as pump:
        pump.run(warming(80_000, scale), lambda _, number: requests[number % 12], check_listed(topic))
        found = measured(peer, total, lambda: pump.run(total, lambda _, number: requests[number % 12], check_listed(topic)))
    return found.by_request()


def gigabyte(peer: Peer, scale: float) -> Figures:
    """ListOffsets of each kind over a log of 1 GB in one segment; times are anywhere in it."""
    return _by_kind(peer, scale, TimedLog(peer), max(1, int(1000 * min(scale, 1.0))))


def segments(peer: Peer, scale: float) -> Figures:
    """ListOffsets of each kind over a log of 100 segments of 1 MiB."""
    log = TimedLog(peer, {b"segment.bytes": b"%d" % SEGMENT_BYTES})
    return _by_kind(peer, scale, log, max(1, int(SEGMENTS * min(scale, 1.0) * SEGMENT_BYTES / 1e6)))


def _by_kind(peer: Peer, scale: float, log: TimedLog, size_mb: int) -> Figures:
    log.grow_to(size_mb)
    figures: Figures = {}
    total = max(1000, int(20_000 * scale))
    for kind, requests in log.requests().items():
        with pumping(peer) as pump:
            check = check_listed(log.topic)

            def following(_: object, number: int, requests: list[bytes] = requests) -> bytes:
                return requests[number % len(requests)]

            pump.run(warming(30_000, scale), following, check)
            found = measured(peer, total, lambda: pump.run(total, following, check)).by_request()  # noqa: B023  called at once
        figures |= {f"{kind} requests/s": found["requests/s"], f"{kind} CPU us/request": found["CPU us/request"]}
    return figures


class TimedLog:
    """A partition whose batches of 64 x 1 kB are a millisecond apart by their timestamps, from now on into the next seconds."""

    def __init__(self, peer: Peer, configs: Mapping[bytes, bytes] | None = None) -> None:
        self.topic = new_topic(peer, 1, configs)
        self._peer = peer
        self._body = frames.record_batch(64, 1000)[frames.BATCH_HEADER :]
        self._first_ms = time.time_ns() // 1_000_000
        self._batches = 0

    def grow_to(self, size_mb: float) -> None:
        """Append until the log has this size."""
        first, total = self._batches, int(size_mb * 1e6 / (len(self._body) + frames.BATCH_HEADER))

        def following(_: object, number: int) -> bytes:
            return frames.produce(self.topic, 0, frames.timed_batch(64, self._body, self._first_ms + first + number))

        if total > first:
            with pumping(self._peer, links=1) as pump:
                pump.run(total - first, following, check_produced(self.topic))
            self._batches = total

    def requests(self) -> dict[str, list[bytes]]:
        """Return requests of each kind."""
        dice = random.Random(1)  # noqa: S311  times, no secrets
        times = [self._first_ms + dice.randrange(max(1, self._batches)) for _ in range(TARGETS)]
        return {
            "earliest": [frames.list_offsets(self.topic, 0, EARLIEST)],
            "latest": [frames.list_offsets(self.topic, 0, LATEST)],
            "by timestamp": [frames.list_offsets(self.topic, 0, each) for each in times],
        }


_NEEDS = frozenset({Need.KEEPS, Need.TOPICS})
LOADS = (
    Load("ListOffsets", offsets, "ListOffsets", quick=0.2),
    Load("ListOffsets, 1 GB", gigabyte, "ListOffsets", seconds=20, needs=_NEEDS),
    Load("ListOffsets, 100 segments", segments, "ListOffsets", quick=0.1, needs=_NEEDS),
)
