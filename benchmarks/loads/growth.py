"""How cost grows: CPU of a request with more partitions, more segments, longer logs. A broker that scales is flat.

Each point is the best of several measurements, since what disturbs one on a busy machine makes it dearer only.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence

import frames
from peers import Need, Peer
from pump import Check, LoadError, call, connect

from loads.common import LINKS, check_listed, check_produced, measured, new_topic, pumping, warming
from loads.declaration import Figures, Load, curve
from loads.offsets import LATEST, SEGMENT_BYTES, TimedLog

MEASUREMENTS = 3
REQUESTS = 8000
WARM_REQUESTS = 30_000
PARTITIONS = (1, 10, 100, 1000)
SEGMENTS = (1, 10, 100)
SIZES_MB = (1, 10, 100, 1000)
CPU = "CPU us/request"


def by_partitions(peer: Peer, scale: float) -> Figures:
    """CPU of a produce, a small fetch and a ListOffsets that go round a topic of 1, 10, 100 and 1,000 partitions."""
    figures: Figures = {}
    batch = frames.record_batch(1, 100)
    for count in _points(PARTITIONS, scale):
        topic = new_topic(peer, count)
        every = range(count)
        kinds = {
            "produce": ([frames.produce(topic, each, batch) for each in every], check_produced(topic)),
            "fetch": ([frames.fetch(topic, each, 0, 1) for each in every], _check_fetched(topic)),
            "ListOffsets": ([frames.list_offsets(topic, each, LATEST) for each in every], check_listed(topic)),
        }
        for kind, (requests, check) in kinds.items():
            figures[curve(f"{kind} {CPU}", count, "partitions")] = _cost_us(peer, scale, requests, check)
    return figures


def by_partitions_of_a_session(peer: Peer, scale: float) -> Figures:
    """CPU of one record and of the poll that brings it, by a consumer of 1, 10, 100 and 1,000 partitions of which one has something new."""
    figures: Figures = {}
    batch = frames.record_batch(1, 100)
    with contextlib.closing(connect(peer.address)) as producer, contextlib.closing(connect(peer.address)) as consumer:
        for count in _points(PARTITIONS, scale):
            topic = new_topic(peer, count)
            error, session, _ = frames.session_of(call(consumer, frames.fetch_of_session(topic, (0, 0), dict.fromkeys(range(count), 1))))
            if error or not session:
                raise LoadError(f"no fetch session, error {error}")
            requests = [frames.produce(topic, each, batch) for each in range(count)]
            polls = _polls(topic, session, count)

            def round_trips(total: int, requests: list[bytes] = requests, polls: Iterator[bytes] = polls) -> float:
                for number in range(total):
                    call(producer, requests[number % len(requests)])
                    error, _, topics = frames.session_of(call(consumer, next(polls)))
                    if error or topics != 1:
                        raise LoadError(f"Fetch error {error}, {topics} topics with something new")
                return 1.0

            round_trips(warming(3000, scale))
            cost = _best_us(peer, max(200, int(3000 * scale)), round_trips)
            figures[curve("produce and poll CPU us/record", count, "partitions")] = cost
    return figures


def _polls(topic: bytes, session: int, count: int) -> Iterator[bytes]:
    """Each tells the session where the partition stands now that the poll before it brought; each partition begins at offset 1."""
    offsets = dict.fromkeys(range(count), 1)
    changed: dict[int, int] = {}
    epoch = 0
    while True:
        for partition in range(count):
            epoch += 1
            yield frames.fetch_of_session(topic, (session, epoch), changed)
            offsets[partition] += 1
            changed = {partition: offsets[partition]}


def by_segments(peer: Peer, scale: float) -> Figures:
    """CPU of a ListOffsets of each kind, and of a produce, with a log of 1, 10 and 100 segments of 1 MiB."""
    log = TimedLog(peer, {b"segment.bytes": b"%d" % SEGMENT_BYTES})
    return _by_size(peer, scale, log, {count: count * SEGMENT_BYTES / 1e6 - 0.5 for count in _points(SEGMENTS, scale)}, "segments")


def by_timestamps(peer: Peer, scale: float) -> Figures:
    """CPU of a ListOffsets of each kind, and of a produce, with a log of 1, 10, 100 and 1,000 MB in one segment."""
    return _by_size(peer, scale, TimedLog(peer), {size: size for size in _points(SIZES_MB, scale)}, "MB")


def _by_size(peer: Peer, scale: float, log: TimedLog, sizes_mb: dict[int, float], axis: str) -> Figures:
    figures: Figures = {}
    batch = frames.record_batch(1, 100)
    for count, size_mb in sizes_mb.items():
        log.grow_to(size_mb)
        for kind, requests in log.requests().items():
            figures[curve(f"{kind} {CPU}", count, axis)] = _cost_us(peer, scale, requests, check_listed(log.topic))
        produce = [frames.produce(log.topic, 0, batch)]
        figures[curve(f"produce {CPU}", count, axis)] = _cost_us(peer, scale / 4, produce, check_produced(log.topic))
    return figures


def _points(counts: Sequence[int], scale: float) -> list[int]:
    """Return all places at scale 1, fewer large ones at smaller scales, and always the first two."""
    return [each for number, each in enumerate(counts) if number < 2 or each <= counts[-1] * scale]


def _cost_us(peer: Peer, scale: float, requests: Sequence[bytes], check: Check) -> float:
    with pumping(peer, links=LINKS) as pump:

        def run(total: int) -> float:
            return pump.run(total, lambda _, number: requests[number % len(requests)], check)

        run(warming(WARM_REQUESTS, scale))
        return _best_us(peer, max(400, int(REQUESTS * scale)), run)


def _best_us(peer: Peer, total: int, run: Callable[[int], float]) -> float:
    return min(measured(peer, total, lambda: run(total)).cpu_s for _ in range(MEASUREMENTS)) / total * 1e6


def _check_fetched(topic: bytes) -> Check:
    def check(_link: object, answer: bytearray, start: int, _size: int) -> None:
        error, position, end = frames.fetched(answer, start, topic)
        if error or position == end:
            raise LoadError(f"Fetch error {error}, {end - position} bytes")

    return check


_KEEPS, _TOPICS = frozenset({Need.KEEPS}), frozenset({Need.KEEPS, Need.TOPICS})
LOADS = (
    Load("growth, partitions", by_partitions, "Growth", seconds=30, quick=0.1, needs=_TOPICS),
    Load("growth, partitions of a session", by_partitions_of_a_session, "Growth", seconds=15, needs=_TOPICS),
    Load("growth, segments", by_segments, "Growth", seconds=25, quick=0.1, needs=_TOPICS),
    Load("growth, timestamps", by_timestamps, "Growth", seconds=30, needs=_KEEPS),
)
