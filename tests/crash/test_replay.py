"""SIGKILL at random moments of a replay: of Python workers, of the broker, of the driver with its JVM; then it goes on to its end.

What is there then is what the table has, each record once, in order; and the mapping says where each is. The seed is printed; set
CRASH_SEED to repeat the moments (not the interleaving) of a run; MINIBROKER_CRASH_ROUNDS for more drivers.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")

import pyarrow as pa
import pyarrow.parquet as pq

from minibroker.client.client import Client
from minibroker.client.consumer import Consumer
from minibroker.client.offsets import LATEST, READ_COMMITTED, READ_UNCOMMITTED, FoundOffset, list_offsets
from minibroker.errors import UnknownTopicOrPartition
from minibroker.spark import session as spark_session
from minibroker.spark.replay.ledger import ledger_of, parse_ranges
from tests.support.broker_process import BrokerProcess
from tests.support.child_process import ChildProcess
from tests.support.soak import seed, times

COUNT = 60_000
PARTITIONS = 3
TOPIC = "under-fire"
RATE = 6_000  #: so that a run takes about ten seconds, where nothing is killed
ROUNDS = int(os.environ.get("MINIBROKER_CRASH_ROUNDS", "0")) or times(1, soak=2)
WAIT_S = 400.0  #: where many tests share a machine

#: four attempts of a task; transactions of about a tenth of a second
DRIVER = """
import sys
from minibroker.spark.replay import Tuning, replay
from minibroker.spark.session import kafka_session

table, bootstrap, rate = sys.argv[1:]
conf = {"spark.driver.memory": "1g", "spark.sql.execution.arrow.maxRecordsPerBatch": "500"}
spark = kafka_session("crash", master="local[3,8]", conf=conf)
result = replay(spark, source=table, bootstrap_servers=bootstrap, name="crash", topic="under-fire", rate=float(rate) or None,
                tuning=Tuning(batch_bytes=10_000, transaction_bytes=20_000))
print("replayed", result.run, result.records)
"""


def make_table(folder: Path) -> dict[int, list[tuple[int, bytes]]]:
    """A table with gaps in its offsets, each partition spread over several files; old offsets and values by partition."""
    folder.mkdir()
    rows: dict[int, list[tuple[int, bytes]]] = {partition: [] for partition in range(PARTITIONS)}
    for number in range(COUNT):
        partition, place = number % PARTITIONS, number // PARTITIONS
        rows[partition].append((place + place // 100, b"value %d" % number))
    for index in range(4):
        part = [(p, offset, value) for p, own in rows.items() for offset, value in own[index::4]]
        columns = {
            "topic": pa.array(["flights"] * len(part)),
            "partition": pa.array([p for p, _, _ in part], pa.int32()),
            "offset": pa.array([offset for _, offset, _ in part], pa.int64()),
            "key": pa.nulls(len(part), pa.binary()),
            "value": pa.array([value for _, _, value in part], pa.binary()),
        }
        pq.write_table(pa.table(columns), folder / f"part-{index}.parquet")
    return rows


class Driver(ChildProcess):
    """A driver in a process group of its own, with its JVM and its workers."""

    def __init__(self, folder: Path, table: Path, bootstrap: str, rate: int) -> None:
        super().__init__([sys.executable, "-c", DRIVER, str(table), bootstrap, str(rate)], folder / "driver.log", has_group=True)

    def workers(self) -> list[int]:
        """Python processes that run tasks: children of the daemon, which is a child of the JVM."""
        return [worker for jvm in _children(self.pid) for daemon in _children(jvm) for worker in _children(daemon)]


def _children(pid: int) -> Iterator[int]:
    for tasks in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            yield from map(int, tasks.read_text().split())


def written(bootstrap: str) -> int:
    """Offsets of the topic that are taken, by whatever; 0 while it is not there."""
    try:
        with Client(bootstrap, timeout_ms=60_000) as client:
            found = list_offsets(client, {(TOPIC, index): LATEST for index in range(PARTITIONS)}, isolation=READ_UNCOMMITTED)
    except UnknownTopicOrPartition:
        return 0
    return sum(each.offset for each in found.values() if isinstance(each, FoundOffset))


def wait_until_written(driver: Driver, bootstrap: str, count: int) -> None:
    deadline = time.monotonic() + WAIT_S
    while driver.is_alive and written(bootstrap) < count:
        assert time.monotonic() < deadline, f"nothing is written any more:\n{driver.output}"
        time.sleep(0.2)


def kill_on_the_way(driver: Driver, broker: BrokerProcess, moments: random.Random) -> None:
    """A worker, the broker, and at last the driver; each some thousand records later, if there are so many left."""
    for victim in ("worker", "broker", "driver"):
        wait_until_written(driver, broker.bootstrap, written(broker.bootstrap) + moments.randrange(500, 4_000))
        time.sleep(moments.uniform(0.0, 0.2))  # the random moment itself, not a wait for something
        if not driver.is_alive:
            return
        if victim == "worker":
            for pid in moments.sample(workers := driver.workers(), min(1, len(workers))):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        elif victim == "broker":
            broker.kill()
            broker.restart()
        else:
            driver.kill()


@pytest.mark.timeout(1500)
def test_each_record_arrives_once_despite_crashes(tmp_path: Path) -> None:
    problem = spark_session.missing()
    if problem:
        pytest.skip(problem)
    moments = random.Random(seed())
    table = tmp_path / "table"
    rows = make_table(table)
    with BrokerProcess(tmp_path) as broker:
        for _ in range(ROUNDS):
            driver = Driver(tmp_path, table, broker.bootstrap, RATE)
            try:
                kill_on_the_way(driver, broker, moments)
            finally:
                driver.kill()
        print("before the last run:", written(broker.bootstrap))
        driver = Driver(tmp_path, table, broker.bootstrap, 0)
        try:
            assert driver.wait(WAIT_S) == 0, driver.output
        finally:
            driver.kill()
        print(driver.output.splitlines()[-1])
        check(broker.bootstrap, rows)
        assert broker.stop() == 0, broker.output


def check(bootstrap: str, rows: dict[int, list[tuple[int, bytes]]]) -> None:
    """Each record once, in order, and where the mapping says."""
    with Client(bootstrap) as client:
        found = {index: read(client, TOPIC, index) for index in range(PARTITIONS)}
        for partition, own in rows.items():
            assert [value for _, value in found[partition]] == [value for _, value in own]
        moved: dict[tuple[int, int], int] = {}
        for _, value in read(client, ledger_of("crash"), 0):
            if b'"ranges"' in value:
                ranges = parse_ranges(value)
                for old_first, new_first, count in ranges.runs:
                    for index in range(count):
                        assert moved.setdefault((ranges.key[1], old_first + index), new_first + index) == new_first + index
        expected = {
            (partition, old): new for partition, own in rows.items() for (old, _), (new, _) in zip(own, found[partition], strict=True)
        }
        assert moved == expected


def read(client: Client, topic: str, partition: int) -> list[tuple[int, bytes]]:
    """Offsets and values under read_committed, up to the end; nothing may be open there any more."""
    key = topic, partition
    (stable,) = list_offsets(client, {key: LATEST}, isolation=READ_COMMITTED).values()
    (end,) = list_offsets(client, {key: LATEST}, isolation=READ_UNCOMMITTED).values()
    assert isinstance(stable, FoundOffset)
    assert isinstance(end, FoundOffset)
    assert stable.offset == end.offset
    consumer = Consumer(client, topic, {partition: 0}, isolation=READ_COMMITTED)
    found = []
    while consumer.positions[partition] < end.offset:
        found += [(record.offset, record.value or b"") for _, _, _, record in consumer.poll(500)]
    return found
