"""Compaction: its time, its memory, and its effect on the latency of other producers.

A topic of 1 GB in segments of 100 MB, one key in ten records still living, is filled under cleanup.policy=delete; the clock starts when
the policy becomes compact, and stops when `cleaner-offset-checkpoint`, the same file in both brokers, shows that the log was cleaned.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import frames
from peers import Need, Peer
from pump import Link, LoadError, call, connect

from loads.common import check_produced, new_topic, percentile_us, pumping
from loads.declaration import Figures, Load

#: Settings with which both brokers begin at once.
PROPERTIES = {"log.cleaner.backoff.ms": "100"}

RECORDS_A_BATCH = 64
VALUE = os.urandom(1000)
LIVE_PART = 0.1
SEGMENT_BYTES = 100 << 20
LEAST_SEGMENT_BYTES = 1 << 20  #: the least that Kafka accepts
CLEAN_TIMEOUT_S = 600.0
PACE_S = 0.001
WARM_REQUESTS = 5000


def compaction(peer: Peer, scale: float) -> Figures:
    """A broker that has nothing else to do."""
    topic = _filled_topic(peer, scale)
    before_mb = peer.tree_memory_mb()
    cpu = peer.tree_cpu_seconds()
    with _peak_memory(peer) as peak_mb:
        seconds = _compact(peer, topic, lambda: time.sleep(0.005))
        cpu = peer.tree_cpu_seconds() - cpu
    size = _log_bytes(peer, topic)
    return {
        "compaction s/GB": seconds / scale,
        "compaction CPU s/GB": cpu / scale,
        "compaction peak memory MB": max(peak_mb),
        "compaction memory added MB": max(peak_mb) - before_mb,
        "GB left of 1": size / 1e9 / scale,
    }


def produce_under_compaction(peer: Peer, scale: float) -> Figures:
    """One client that sends a record of 100 bytes each millisecond to another topic, and waits for each acknowledgement."""
    topic = _filled_topic(peer, scale)
    other = new_topic(peer, 1)
    request = frames.produce(other, 0, frames.record_batch(1, 100))
    with contextlib.closing(connect(peer.address)) as connection:
        for _ in range(int(WARM_REQUESTS * min(scale, 1.0))):
            call(connection, request)
        quiet: list[float] = []
        deadline = time.perf_counter() + 5 * min(scale, 1.0)
        while time.perf_counter() < deadline:
            quiet.append(_paced(lambda: call(connection, request)))
        busy: list[float] = []
        seconds = _compact(peer, topic, lambda: busy.append(_paced(lambda: call(connection, request))))
    quiet.sort()
    busy.sort()
    return {
        "acknowledged p50 us": percentile_us(quiet, 0.50),
        "acknowledged p99 us": percentile_us(quiet, 0.99),
        "acknowledged p50 us under compaction": percentile_us(busy, 0.50),
        "acknowledged p99 us under compaction": percentile_us(busy, 0.99),
        "acknowledged max us under compaction": busy[-1] * 1e6,
        "compaction s/GB under produce": seconds / scale,
    }


def _paced(work: Callable[[], object]) -> float:
    """Return the seconds of one request; wait until the next is due."""
    started = time.perf_counter()
    work()
    ended = time.perf_counter()
    time.sleep(max(0.0, started + PACE_S - ended))
    return ended - started


def _filled_topic(peer: Peer, scale: float) -> bytes:
    segment_bytes = max(LEAST_SEGMENT_BYTES, int(SEGMENT_BYTES * scale))
    configs = {b"segment.bytes": b"%d" % segment_bytes, b"min.cleanable.dirty.ratio": b"0.01", b"file.delete.delay.ms": b"1000"}
    topic = new_topic(peer, 1, configs)
    batches = max(100, int(1e9 * scale / (RECORDS_A_BATCH * 1020)))
    key_count = int(batches * RECORDS_A_BATCH * LIVE_PART)

    def following(_: Link, number: int) -> bytes:
        first = number * RECORDS_A_BATCH
        keys = (b"%010d" % ((first + index) * 7919 % key_count) for index in range(RECORDS_A_BATCH))
        return frames.produce(topic, 0, frames.keyed_batch(keys, VALUE))

    with pumping(peer, links=1) as pump:
        pump.run(batches, following, check_produced(topic))
    _sync(peer.data_dir / f"{topic.decode()}-0")
    return topic


def _sync(folder: Path) -> None:
    """Sync files now, as a later write-back would count as compaction."""
    for path in folder.glob("*.log"):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _compact(peer: Peer, topic: bytes, meanwhile: Callable[[], object]) -> float:
    """Return the seconds from the change of the policy until the log is clean."""
    with contextlib.closing(connect(peer.address)) as connection:
        started = time.perf_counter()
        error = frames.alter_config_error(call(connection, frames.alter_config(frames.TOPIC, topic, b"cleanup.policy", b"compact")))
        if error:
            raise LoadError(f"IncrementalAlterConfigs error {error}")
        while not _cleaned_offset(peer, topic):
            if time.perf_counter() - started > CLEAN_TIMEOUT_S:
                raise LoadError("the log is not compacted")
            meanwhile()
        return time.perf_counter() - started


def _cleaned_offset(peer: Peer, topic: bytes) -> int:
    with contextlib.suppress(FileNotFoundError):
        for line in (peer.data_dir / "cleaner-offset-checkpoint").read_text().splitlines():
            name, _, offset = line.partition(" 0 ")
            if name == topic.decode():
                return int(offset)
    return 0


def _log_bytes(peer: Peer, topic: bytes) -> int:
    folder = peer.data_dir / f"{topic.decode()}-0"
    return sum(path.stat().st_size for path in folder.glob("*.log"))


@contextlib.contextmanager
def _peak_memory(peer: Peer) -> Iterator[list[float]]:
    """Samples the memory of the broker and its children 50 times a second."""
    seen = [peer.tree_memory_mb()]
    done = threading.Event()

    def watch() -> None:
        while not done.wait(0.02):
            seen.append(peer.tree_memory_mb())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield seen
    finally:
        done.set()
        watcher.join()


_NEEDS = frozenset({Need.LOG_FILES, Need.COMPACTION})
LOADS = (
    Load("compaction", compaction, "Compaction", seconds=25, properties=PROPERTIES, needs=_NEEDS),
    Load("produce under compaction", produce_under_compaction, "Compaction", seconds=35, properties=PROPERTIES, needs=_NEEDS),
)
