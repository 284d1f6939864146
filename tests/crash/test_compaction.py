"""SIGKILL while a topic is compacted: no key loses its newest acknowledged value, and the log stays one that Apache Kafka reads.

The seed is printed; set CRASH_SEED to repeat the moments (not the interleaving) of a run.
"""

from __future__ import annotations

import os
import random
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.cluster.directories.test_storage_checking import check
from tests.support.broker_process import BrokerProcess
from tests.support.dump_log import dump
from tests.support.java import require_java
from tests.support.keyed_records import Kept, KeyedWriter, check_kept, read_all
from tests.support.soak import seed, times

KILLS = times(4, soak=8)
TOPIC = "under-fire"
KEYS = [b"key %d" % number for number in range(30)]


def children(pid: int) -> list[int]:
    """Processes that the broker has started."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # a thread that ended
            found += [int(child) for child in (task / "children").read_text().split()]
    return found


def wait_until_compacting(broker: BrokerProcess) -> int:
    """Return when there is a worker process, which is when something is compacted; its process id."""
    deadline = time.monotonic() + 60
    while not (found := children(broker.pid)):
        assert time.monotonic() < deadline, f"nothing is compacted:\n{broker.output}"
        time.sleep(0.002)
    return found[0]


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def serve(folder: Path, **settings: str) -> BrokerProcess:
    """A broker that compacts as often as it can."""
    given = {
        "log.cleanup.policy": "compact",
        "log.segment.bytes": "100000",
        "log.cleaner.backoff.ms": "20",
        "log.cleaner.min.cleanable.ratio": "0.01",
        "log.cleaner.delete.retention.ms": "100",
        "log.segment.delete.delay.ms": "50",
        "log.retention.ms": "-1",
    } | {name.replace("_", "."): value for name, value in settings.items()}
    return BrokerProcess(folder, *(part for name, value in given.items() for part in ("--set", f"{name}={value}")))


def wait_until_compacted(broker: BrokerProcess) -> list[Kept]:
    """Everything that is left, once that is little: 30 keys, and 100 kB that are not compacted yet."""
    deadline = time.monotonic() + 60
    while len(found := read_all(broker.bootstrap, TOPIC)) > 500:
        assert time.monotonic() < deadline, f"it is not compacted:\n{broker.output}"
    return found


def wait_until_gone(pid: int) -> None:
    deadline = time.monotonic() + 60
    while is_running(pid):
        assert time.monotonic() < deadline, "the worker outlives its broker"
        time.sleep(0.002)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("policy", ["compact", "compact,delete"])
def test_no_key_loses_its_newest_value(tmp_path: Path, policy: str) -> None:
    moments = random.Random(seed())
    throttled = serve(tmp_path, log_cleanup_policy=policy, log_cleaner_io_max_bytes_per_second="40000000")
    with throttled as broker, KeyedWriter(broker.bootstrap, TOPIC, KEYS, with_tombstones=True) as writer:
        for _ in range(KILLS):
            writer.wait_for(300)
            worker = wait_until_compacting(broker)
            time.sleep(moments.uniform(0.0, 0.4))  # the random moment itself, not a wait for something
            broker.kill()
            wait_until_gone(worker)
            broker.restart()
        writer.wait_for(300)
        writer.finish()
        check_kept(wait_until_compacted(broker), writer, tombstones_may_be_gone=True)
        assert broker.stop() == 0, broker.output
    folder = broker.data_dir / f"{TOPIC}-0"
    leftovers = [path.name for path in folder.iterdir() if path.suffix == ".swap"]
    assert leftovers == []
    assert check(broker.data_dir) == []
    require_java()  # the rest asks Kafka's own tool
    dump(sorted(folder.glob("*.log")))
    dump(sorted(folder.glob("*.*index")))


def test_a_broker_stops_in_the_middle_of_a_compaction(tmp_path: Path) -> None:
    with serve(tmp_path, log_cleaner_io_max_bytes_per_second="20000") as broker, KeyedWriter(broker.bootstrap, TOPIC, KEYS) as writer:
        writer.wait_for(1000)
        writer.finish()
        worker = wait_until_compacting(broker)
        assert broker.stop() == 0, broker.output
        wait_until_gone(worker)
        broker.restart()
        check_kept(read_all(broker.bootstrap, TOPIC), writer)


def test_a_worker_that_is_killed_is_followed_by_another(tmp_path: Path) -> None:
    with serve(tmp_path, log_cleaner_io_max_bytes_per_second="2000000") as broker:
        with KeyedWriter(broker.bootstrap, TOPIC, KEYS) as writer:
            writer.wait_for(2000)
            writer.finish()
        deadline = time.monotonic() + 60
        while "could not finish the compaction" not in broker.output:  # the first that is met may have done its work already
            assert time.monotonic() < deadline
            worker = wait_until_compacting(broker)
            with suppress(ProcessLookupError):
                os.kill(worker, signal.SIGKILL)
            wait_until_gone(worker)
        check_kept(wait_until_compacted(broker), writer)
