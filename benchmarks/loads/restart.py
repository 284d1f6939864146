"""Starts on what was there before: recovery after SIGKILL, and the check of a log directory.

A broker is filled by its own protocol, killed or stopped, and everything is synced, so that no broker waits for the other's leavings. The
clock runs from exec until the last partition answers ListOffsets with the offset that it had: what was acknowledged is there.
"""

from __future__ import annotations

import contextlib
import os
import struct
import subprocess
import sys
import time

import frames
from peers import ApacheKafka, Need, Peer, java_tool
from pump import LoadError, call, connect

from loads.common import check_produced, new_topic, pumping
from loads.declaration import Figures, Load

READY_TIMEOUT_S = 120.0


def recovery(peer: Peer, scale: float) -> Figures:
    """One partition of 1 GB in batches of 64 kB, in one segment that was never flushed: all of it is read again."""
    return _recovery(peer, frames.record_batch(64, 1000), 1e9 * scale)


def recovery_small(peer: Peer, scale: float) -> Figures:
    """The same in batches of one record of 1 kB, 200 MB of them."""
    return _recovery(peer, frames.record_batch(1, 1000), 2e8 * scale)


def check(peer: Peer, scale: float) -> Figures:
    """`storage check` of a directory with 1 GB; beside Apache Kafka its DumpLogSegments on the same bytes, which looks at each CRC too."""
    topic = _filled(peer, frames.record_batch(64, 1000), 1e9 * scale)
    peer.stop(keep=True)
    size = sum(path.stat().st_size for path in peer.data_dir.rglob("*.log"))
    started = time.perf_counter()
    if isinstance(peer, ApacheKafka):
        files = sorted((peer.data_dir / f"{topic.decode()}-0").glob("*.log"))
        _run(java_tool("org.apache.kafka.tools.DumpLogSegments", "--files", ",".join(map(str, files))))
    else:
        _run([sys.executable, "-m", "minibroker", "storage", "check", str(peer.data_dir)])
    seconds = time.perf_counter() - started
    return {"check MB/s": size / 1e6 / seconds, "check s": seconds}


def _recovery(peer: Peer, batch: bytes, size: float) -> Figures:
    topic = _filled(peer, batch, size)
    ends = end_offsets(peer, topic, 1)
    peer.kill()
    os.sync()
    seconds = restarted_s(peer, topic, ends)
    return {"recovered after s": seconds, "recovery MB/s": size / 1e6 / seconds, "recovery CPU s": peer.cpu_seconds()}


def _filled(peer: Peer, batch: bytes, size: float) -> bytes:
    topic = new_topic(peer, 1)
    request = frames.produce(topic, 0, batch)
    with pumping(peer) as pump:
        pump.run(max(20, int(size / len(batch))), lambda _, __: request, check_produced(topic))
    return topic


def restarted_s(peer: Peer, topic: bytes, ends: list[int]) -> float:
    """Return the seconds from exec until every partition has its former end."""
    started = time.perf_counter()
    peer.start()
    while True:
        found = end_offsets(peer, topic, len(ends))
        if found == ends:
            return time.perf_counter() - started
        if time.perf_counter() - started > READY_TIMEOUT_S:
            raise LoadError("acknowledged records are not there after the restart")
        time.sleep(0.005)


def end_offsets(peer: Peer, topic: bytes, partitions: int) -> list[int]:
    """Return log end offsets; -1 for a partition without one yet."""
    found = []
    with contextlib.closing(connect(peer.address)) as connection:
        for partition in range(partitions):
            answer = call(connection, frames.list_offsets(topic, partition, -1))
            position = frames.BODY + 4 + 4 + 2 + len(topic) + 4 + 4
            error, _, offset = struct.unpack_from(">hqq", answer, position)
            found.append(-1 if error else offset)
            if error:
                break
    return found


def _run(command: list[str]) -> None:
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
    if done.returncode:
        raise LoadError(f"{command[:5]} failed: {done.stderr.decode(errors='replace')[-500:]}")


_NEEDS = frozenset({Need.KEEPS, Need.RESTART})
LOADS = (
    Load("recovery 1 GB", recovery, "Restart", seconds=20, needs=_NEEDS),
    Load("recovery 200 MB in 1 kB", recovery_small, "Restart", seconds=25, needs=_NEEDS),
    Load("check 1 GB", check, "Restart", seconds=15, needs=frozenset({Need.LOG_FILES})),
)
