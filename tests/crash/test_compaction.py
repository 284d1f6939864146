"""SIGKILL while a topic is compacted: no key loses its newest acknowledged value, and the log stays one that Apache Kafka reads.

The seed is printed; set CRASH_SEED to repeat the moments (not the interleaving) of a run.
"""

from __future__ import annotations

import os
import random
import shutil
import time
from pathlib import Path

import pytest

from tests.support.broker_process import BrokerProcess
from tests.support.dump_log import dump
from tests.support.keyed_records import KeyedWriter, check_kept, read_all

pytestmark = [pytest.mark.crash]

KILLS = 8
TOPIC = "under-fire"
KEYS = [b"key %d" % number for number in range(30)]


def children(pid: int) -> list[int]:
    """Processes that the broker has started."""
    return [int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()]


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


@pytest.mark.timeout(280)
@pytest.mark.parametrize("policy", ["compact", "compact,delete"])
def test_no_key_loses_its_newest_value(tmp_path: Path, policy: str) -> None:
    seed = int(os.environ.get("CRASH_SEED", "0")) or random.SystemRandom().randrange(1, 1_000_000)
    print(f"CRASH_SEED={seed}")
    moments = random.Random(seed)
    settings = {
        "log.cleanup.policy": policy,
        "log.segment.bytes": "100000",
        "log.cleaner.backoff.ms": "20",
        "log.cleaner.min.cleanable.ratio": "0.01",
        "log.cleaner.delete.retention.ms": "100",
        "log.cleaner.io.max.bytes.per.second": "40000000",
        "log.segment.delete.delay.ms": "50",
        "log.retention.ms": "-1",
    }
    arguments = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
    with BrokerProcess(tmp_path, *arguments) as broker, KeyedWriter(broker.bootstrap, TOPIC, KEYS, with_tombstones=True) as writer:
        for _ in range(KILLS):
            writer.wait_for(300)
            worker = wait_until_compacting(broker)
            time.sleep(moments.uniform(0.0, 0.4))  # the random moment itself, not a wait for something
            broker.kill()
            deadline = time.monotonic() + 10
            while is_running(worker):
                assert time.monotonic() < deadline, "the worker outlives its broker"
                time.sleep(0.002)
            broker.restart()
        writer.wait_for(300)
        writer.finish()
        deadline = time.monotonic() + 60
        while len(found := read_all(broker.bootstrap, TOPIC)) > 500:  # 30 keys, and 100 kB that are not compacted yet
            assert time.monotonic() < deadline, f"it is not compacted:\n{broker.output}"
        check_kept(found, writer, tombstones_may_be_gone=True)
        workers = children(broker.pid)
        assert broker.stop() == 0, broker.output
        assert not any(is_running(worker) for worker in workers)
    folder = broker.data_dir / f"{TOPIC}-0"
    leftovers = [path.name for path in folder.iterdir() if path.suffix == ".swap"]
    assert leftovers == []
    if shutil.which("java") and shutil.which("mvn"):
        dump(sorted(folder.glob("*.log")))
        dump(sorted(folder.glob("*.*index")))
