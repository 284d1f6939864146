"""Fetch: how many bytes a broker gives, from the page cache and from the disk, to a few and to many."""

from __future__ import annotations

import os
from pathlib import Path

import frames
from peers import Need, Peer
from pump import Link, LoadError

from loads.common import FETCH_BYTES, LINKS, fill, measured, new_topic, pumping, warming
from loads.declaration import Figures, Load

CONSUMERS = 50
RECORDS = 64  #: a batch
FIRST_OFFSET = 1  #: after the first record of each new partition; from here on all batches have one size
#: Size of a log that is read only once, as a second pass would find it in the cache.
READ_ONCE = 0.8


def hot(peer: Peer, scale: float) -> Figures:
    """Four consumers, each reading its own partition from the start in answers of at most 1 MiB, again and again."""
    reading = _Reading(peer, _filled_topic(peer, scale), LINKS)
    reading.run(warming(2000, scale))
    return reading.figures(max(100, int(1e9 * scale / FETCH_BYTES)))


def one_consumer(peer: Peer, scale: float) -> Figures:
    """One consumer that reads a partition from the start in answers of at most 1 MiB, again and again."""
    reading = _Reading(peer, _filled_topic(peer, scale), 1)
    reading.run(warming(1000, scale))
    return reading.figures(max(100, int(1e9 * scale / FETCH_BYTES)))


def cold(peer: Peer, scale: float) -> Figures:
    """The same from the disk: everything is synced and dropped from the page cache first, and read once."""
    warm = _Reading(peer, _filled_topic(peer, scale / 4), LINKS)
    warm.run(warming(2000, scale))
    size = 512e6 * min(scale, 1.0)
    reading = _Reading(peer, _filled_topic(peer, scale), LINKS)
    drop_from_page_cache(peer.data_dir)
    return reading.figures(max(20, int(READ_ONCE * size / FETCH_BYTES)))


def many_consumers(peer: Peer, scale: float) -> Figures:
    """Fifty consumers that read all of one topic, in answers of at most 1 MiB."""
    reading = _Reading(peer, _filled_topic(peer, scale), CONSUMERS)
    reading.run(warming(2000, scale))
    return reading.figures(max(200, int(2e9 * scale / FETCH_BYTES)))


def drop_from_page_cache(folder: Path) -> None:
    """Sync all files, and drop them from the page cache."""
    for path in folder.rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(descriptor)


def _filled_topic(peer: Peer, scale: float) -> bytes:
    """Write 512 MB in batches of 64 x 1 kB."""
    topic = new_topic(peer, LINKS)
    batch = frames.record_batch(RECORDS, 1000)
    requests = [frames.produce(topic, partition, batch) for partition in range(LINKS)]
    fill(peer, topic, requests, max(100, int(512e6 * min(scale, 1.0) / len(batch))))
    return topic


class _Reading:
    """Consumers of one topic, each with one request at a time on one partition; nobody waits at the end of the log.

    Only heads of answers are read, and the kernel drops the rest: to copy it takes more CPU than the fastest broker needs.
    """

    def __init__(self, peer: Peer, topic: bytes, consumers: int) -> None:
        self._peer, self._topic, self._consumers = peer, topic, consumers
        self._batch_size = len(frames.record_batch(RECORDS, 1000))
        self._read_bytes = 0

    def figures(self, total: int) -> Figures:
        found = measured(self._peer, total, lambda: self.run(total))
        return found.by_size(self._read_bytes) | {"client CPU s/GB": found.client_cpu_s / (self._read_bytes / 1e9)}

    def run(self, total: int) -> float:
        """Begin at the start of the log."""
        self._read_bytes = 0
        with pumping(self._peer, depth=1, links=self._consumers, heads_only=True) as pump:
            return pump.run(total, self._following, self._check)

    def _following(self, link: Link, _: int) -> bytes:
        return frames.fetch(self._topic, link.number % LINKS, FIRST_OFFSET + link.offset, FETCH_BYTES, max_wait_ms=0)

    def _check(self, link: Link, answer: bytearray, start: int, _: int) -> None:
        error, position, end = frames.fetched(answer, start, self._topic)
        if error:
            raise LoadError(f"Fetch error {error}")
        batches = (end - position) // self._batch_size  # an incomplete last batch is requested again
        link.offset = link.offset + batches * RECORDS if batches else 0
        self._read_bytes += end - position


_NEEDS = frozenset({Need.KEEPS})
LOADS = (
    Load("fetch 1 MiB", hot, "Fetch", quick=0.2, needs=_NEEDS),
    Load("fetch by 1 consumer", one_consumer, "Fetch", needs=_NEEDS),
    Load("fetch 1 MiB, cold", cold, "Fetch", needs=_NEEDS),
    Load("fetch by 50 consumers", many_consumers, "Fetch", quick=0.1, needs=_NEEDS),
)
