"""SIGKILL at random moments while a transactional topic is archived: of the driver with its JVM, of the driver alone, of the broker.

In the end, the archive is exactly what librdkafka's consumer under read_committed reads: read by Arrow, without Spark or our manifest.
Batches and streams take turns on one archive. The seed is printed; CRASH_SEED repeats the moments (not what they hit). ARCHIVE_KILLS: how
many.
"""

from __future__ import annotations

import os
import random
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from minibroker.spark import session as spark_session
from tests.spark.archive.reading import Seen, consumed
from tests.support.broker_process import BrokerProcess
from tests.support.child_process import ChildProcess
from tests.support.soak import seed, times
from tests.support.transactional_writer import TransactionalWriter

pytestmark = [pytest.mark.slow]

KILLS = int(os.environ.get("ARCHIVE_KILLS", "0")) or times(4, soak=10)
VICTIMS = ("driver and JVM", "broker", "driver", "driver and JVM", "broker")
TOPIC = "archived"
PARTITIONS = 3
RECORDS = 400 * KILLS  #: about as many runs as kills, and more
T = 1_700_000_000_000
HOUR_MS = 3_600_000
LIMIT_S = 240.0


class Driver(ChildProcess):
    """A process of tests.crash.archiving, in a group with its JVM."""

    def __init__(self, folder: Path, bootstrap: str, archive: Path, mode: str, number: int) -> None:
        command = [sys.executable, "-m", "tests.crash.archiving", bootstrap, str(archive), TOPIC, mode]
        super().__init__(command, folder / f"driver-{number}.txt", has_group=True)

    def has_printed(self, word: str) -> bool:
        return f"{word}\n" in self.output


def generate(bootstrap: str, rng: random.Random, count: int, *, last: bool) -> None:
    """Transactions of two producers that interleave, a third of them aborted; unless it is the `last`, one stays open."""
    writers = [TransactionalWriter(bootstrap, f"writer-{name}", linger_ms=0) for name in ("a", "b")]
    sent = 0
    while sent < count:
        for writer in writers:
            writer.begin()
        for writer in writers:
            for partition in range(PARTITIONS):
                size = rng.randrange(12)
                writer.send(
                    TOPIC, [rng.randbytes(rng.randrange(200)) for _ in range(size)], partition=partition, timestamp=T + sent * HOUR_MS // 50
                )
                sent += size
        for writer in writers:
            if rng.random() < 1 / 3:
                writer.abort()
            else:
                writer.commit()
    if not last:
        writers[0].begin()
        writers[0].send(TOPIC, [b"open"] * 5, partition=1)


def by_arrow(archive: Path) -> list[Seen]:
    """What any reader of Parquet makes of the folder: files and folders that begin with _ are left out."""
    import pyarrow.dataset as ds

    columns = ["partition", "offset", "timestamp", "key", "value", "headers"]
    rows = ds.dataset(archive, format="parquet", partitioning="hive", ignore_prefixes=["_", "."]).to_table(columns=columns).to_pylist()
    return sorted(
        Seen(row["partition"], row["offset"], round(row["timestamp"].timestamp() * 1000), row["key"], row["value"], ()) for row in rows
    )


def run_count(archive: Path) -> int:
    folder = archive / "_minibroker" / "runs"
    return len(list(folder.iterdir())) if folder.exists() else 0


def wait_for(driver: Driver, archive: Path, more_runs: int) -> None:
    """Until it is up and has committed so many runs, or has ended."""
    deadline = time.monotonic() + LIMIT_S
    while not (driver.has_printed("ready") and run_count(archive) >= more_runs) and driver.is_alive:
        assert time.monotonic() < deadline, driver.output
        time.sleep(0.01)


@pytest.mark.timeout(60 * KILLS + 300)
def test_killed_and_finished(tmp_path: Path) -> None:
    problem = spark_session.missing()
    if problem:
        pytest.skip(problem)
    rng = random.Random(seed())
    archive, drivers = tmp_path / "archive", []
    settings = ("--set", f"num.partitions={PARTITIONS}", "--set", "log.retention.ms=-1")
    with BrokerProcess(tmp_path, *settings) as broker:
        generate(broker.bootstrap, rng, RECORDS, last=False)
        driver = None
        told = []
        victims = [VICTIMS[number % len(VICTIMS)] for number in range(KILLS)]
        rng.shuffle(victims)
        for number, victim in enumerate(victims):
            if driver is None or not driver.is_alive:
                mode = rng.choice(["batch", "stream"])
                driver = Driver(tmp_path, broker.bootstrap, archive, mode, number)
                drivers.append(driver)
            wait_for(driver, archive, run_count(archive) + rng.randrange(2))
            time.sleep(rng.random() * rng.choice([0.05, 0.5, 1.5]))  # the random moment
            assert driver.has_printed("ready"), driver.output
            told.append((victim, run_count(archive), not driver.is_alive))
            if victim == "broker":
                broker.kill()
                broker.restart()
            else:
                driver.kill_alone() if victim == "driver" else driver.kill()
        print(told)
        generate(broker.bootstrap, rng, 200, last=True)  # and its producers abort what was open
        for number, mode in enumerate(["stream", "batch"]):
            last = Driver(tmp_path, broker.bootstrap, archive, mode, KILLS + number)
            drivers.append(last)
            wait_for(last, archive, 1 << 30)
            assert last.wait(LIMIT_S) == 0, last.output
        for each in drivers:
            each.kill()
        expected = consumed(broker.bootstrap, TOPIC)
    assert len(expected) > RECORDS // 3
    assert by_arrow(archive) == expected
    assert not list((archive / "_minibroker" / "staging").iterdir())
