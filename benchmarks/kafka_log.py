"""Spark's `kafka-log` beside Spark's Kafka connector: the same topic, read from the broker's files and from the broker.

    python benchmarks/kafka_log.py [--records 5000000] [--rounds 3] [--warm-up 2] [--broker minibroker|kafka]

Records of 200 bytes, lz4, two partitions, all columns, into Spark's `noop` sink; `local[2]`, one session, all warmed up first, rounds in
turn. It prints the medians of records a second, and of CPU microseconds a record of Spark with its Python processes and the broker, which
is what can be compared on a machine with other things to do. The third load is a source that only sends record batches which it has made
before: PySpark's transfer alone, which no source in Python can undercut.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

sys.path.insert(0, str(Path(__file__).parent.parent))

from minibroker.spark import session as spark_session
from minibroker.spark.kafka_log.options import ALWAYS, DDL
from minibroker.spark.kafka_log.source import register
from tests.support.broker_process import BrokerProcess
from tests.support.kafka_process import KafkaProcess

TOPIC = "bench"
VALUE_BYTES = 200
BATCH_RECORDS = 6000


def main() -> None:
    """Fill, warm up, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--records", type=int, default=5_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--warm-up", type=int, default=2)
    parser.add_argument("--broker", choices=["minibroker", "kafka"], default="minibroker")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kafka-log-") as folder:
        broker: Any
        with (BrokerProcess if arguments.broker == "minibroker" else KafkaProcess)(Path(folder)) as broker:
            fill(broker.bootstrap, arguments.records)
            spark = spark_session.kafka_session("kafka-log", master="local[2]", conf={"spark.driver.memory": "2g"})
            register(spark)
            spark.dataSource.register(Transfer)
            connector = spark.read.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap).option("subscribe", TOPIC)
            files = spark.read.format("kafka-log").option("subscribe", TOPIC)
            loads: dict[str, Callable[[], Any]] = {
                "connector": connector.load,
                "kafka-log": lambda: files.load(str(broker.data_dir)),
                "transfer": spark.read.format("transfer").option("records", arguments.records).load,
            }
            figures = measure(loads, arguments.records, arguments.rounds, arguments.warm_up)
            spark.stop()
    for name, (rate, cpu_us) in figures.items():
        print(f"{name:10} {rate:12,.0f} records/s {cpu_us:8.2f} us of CPU a record")
    print(f"kafka-log is {figures['kafka-log'][0] / figures['connector'][0]:.2f} times as fast")


class Transfer(DataSource):
    """Sends the same record batch again and again: what the columns of `kafka-log` cost without reading any file."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `format`."""
        return "transfer"

    def schema(self) -> str:
        """Return the columns of `kafka-log`."""
        return ", ".join(f"{name} {DDL[name]}" for name in ALWAYS)

    def reader(self, schema: Any) -> TransferReader:  # noqa: ARG002  PySpark's signature
        """Return the reader of a batch query."""
        return TransferReader(int(self.options["records"]))


class TransferReader(DataSourceReader):
    """Sends half of the records in each of two tasks."""

    def __init__(self, count: int) -> None:
        self._count = count

    def partitions(self) -> list[InputPartition]:
        """Return two numbered partitions."""
        return [InputPartition(number) for number in range(2)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield batches as large as those of `kafka-log`."""
        import numpy as np  # noqa: PLC0415  in the worker
        import pyarrow as pa  # noqa: PLC0415

        times = pa.array(np.arange(BATCH_RECORDS) + 1_700_000_000_000_000).view(pa.timestamp("us", tz="UTC"))
        columns = {
            "key": pa.nulls(BATCH_RECORDS, pa.binary()),
            "value": pa.array([b"%06x " % number * (VALUE_BYTES // 7) + b"1234" for number in range(BATCH_RECORDS)], pa.binary()),
            "topic": pa.repeat(pa.scalar(TOPIC), BATCH_RECORDS),
            "partition": pa.repeat(pa.scalar(partition.value, pa.int32()), BATCH_RECORDS),
            "offset": pa.array(np.arange(BATCH_RECORDS)),
            "timestamp": times,
            "timestampType": pa.repeat(pa.scalar(0, pa.int32()), BATCH_RECORDS),
        }
        batch = pa.RecordBatch.from_pydict(columns)
        for left in range(self._count // 2, 0, -BATCH_RECORDS):
            yield batch.slice(0, min(left, BATCH_RECORDS))


def measure(loads: dict[str, Callable[[], Any]], count: int, rounds: int, warm_up: int) -> dict[str, tuple[float, float]]:
    """Return the median records per second and CPU microseconds per record by load."""
    rates: dict[str, list[float]] = {name: [] for name in loads}
    costs: dict[str, list[float]] = {name: [] for name in loads}
    for number in range(1 - warm_up, rounds + 1):
        for name, load in loads.items():
            cpu, began = cpu_seconds(os.getpid()), time.perf_counter()
            load().write.format("noop").mode("overwrite").save()
            took = time.perf_counter() - began
            print(f"{'warming up' if number < 1 else f'round {number}'}: {name} {took:.2f} s", flush=True)
            if number > 0:
                rates[name].append(count / took)
                costs[name].append((cpu_seconds(os.getpid()) - cpu) / count * 1e6)
    return {name: (statistics.median(rates[name]), statistics.median(costs[name])) for name in loads}


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process and all its descendants, the broker included."""
    children: dict[int, list[int]] = {}
    ticks: dict[int, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        children.setdefault(int(fields[1]), []).append(int(folder.name))
        ticks[int(folder.name)] = sum(map(int, fields[11:15]))
    total, waiting = 0, [pid]
    while waiting:
        each = waiting.pop()
        total += ticks.get(each, 0)
        waiting += children.get(each, [])
    return total / os.sysconf("SC_CLK_TCK")


def fill(bootstrap: str, count: int) -> None:
    """Write values of 29 words out of 4,000, which lz4 compresses to two thirds."""
    from confluent_kafka import Producer  # noqa: PLC0415  as every client here
    from confluent_kafka.admin import AdminClient, NewTopic  # noqa: PLC0415

    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(TOPIC, 2, 1, config={"retention.ms": "-1"})])[TOPIC].result(timeout=60)
    rng = random.Random(7)  # noqa: S311  no secret
    words = [b"%06x" % rng.randrange(1 << 24) for _ in range(4000)]
    values = [b" ".join(rng.choices(words, k=29))[:VALUE_BYTES] for _ in range(5000)]
    settings = {"compression.type": "lz4", "batch.size": 16_384, "linger.ms": 50, "queue.buffering.max.messages": 500_000}
    producer = Producer({"bootstrap.servers": bootstrap, **settings})
    for number in range(count):
        while True:
            try:
                producer.produce(TOPIC, values[number % len(values)], partition=number % 2)
                break
            except BufferError:
                producer.poll(0.1)
    if producer.flush(120):
        raise SystemExit("the topic could not be filled")


if __name__ == "__main__":
    main()
