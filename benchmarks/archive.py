"""Archiving a topic from minibroker and from Apache Kafka: the same records, the same Spark, one after the other.

    python benchmarks/archive.py [--records 5000000] [--rounds 3] [--brokers minibroker kafka]

Records of 200 bytes, lz4, two partitions, into Parquet with zstd on this disk; `local[2]`, one session, warmed up with a whole round. In
each round the brokers take turns, each running alone (the other one is stopped by SIGSTOP). It prints the medians of records per second
and of CPU microseconds per record of Spark and of the broker; and the driver's peak memory, which must not grow with the topic.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parent.parent))

from kafka_log import TOPIC, cpu_seconds, fill
from peers import ApacheKafka, Minibroker, Peer

from minibroker.spark import session as spark_session
from minibroker.spark.archive import archive

PEERS: dict[str, type[Peer]] = {"minibroker": Minibroker, "kafka": ApacheKafka}


class Figures(NamedTuple):
    """What one archive run measured."""

    records_per_s: float
    spark_us: float  #: CPU time per record
    broker_us: float  #: the same of the broker


def main() -> None:
    """Fill, warm up, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--records", type=int, default=5_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--brokers", choices=list(PEERS), nargs="+", default=list(PEERS))
    arguments = parser.parse_args()
    with ExitStack() as stack:
        brokers = {}
        for kind in arguments.brokers:
            brokers[kind] = PEERS[kind]()
            brokers[kind].start()
            stack.callback(brokers[kind].stop)
            fill(bootstrap_of(brokers[kind]), arguments.records)
            os.kill(brokers[kind].pid, signal.SIGSTOP)
            stack.callback(os.kill, brokers[kind].pid, signal.SIGCONT)
        spark = spark_session.kafka_session("archive", master="local[2]", conf={"spark.driver.memory": "2g"})
        stack.callback(spark.stop)
        found = measure(spark, brokers, arguments.records, arguments.rounds)
    show(found)


def bootstrap_of(peer: Peer) -> str:
    """Return the address as HOST:PORT."""
    return f"{peer.address[0]}:{peer.address[1]}"


def measure(spark: Any, brokers: dict[str, Peer], count: int, rounds: int) -> dict[str, list[Figures]]:
    """Return the figures of each round without the first, which warms up."""
    found: dict[str, list[Figures]] = {kind: [] for kind in brokers}
    for number in range(rounds + 1):
        for kind, broker in brokers.items():
            os.kill(broker.pid, signal.SIGCONT)
            figures = one(spark, broker, count)
            os.kill(broker.pid, signal.SIGSTOP)
            summary = (
                f"{figures.records_per_s:,.0f} records/s, {figures.spark_us:.2f} us of Spark and {figures.broker_us:.2f} us of the broker"
            )
            print(f"{'warming up' if number == 0 else f'round {number}'}: {kind} {summary}", flush=True)
            if number:
                found[kind].append(figures)
    return found


def one(spark: Any, broker: Peer, count: int) -> Figures:
    """Archive the whole topic and delete the archive."""
    folder = tempfile.mkdtemp(prefix="archive-")
    try:
        of_all, of_broker, began = cpu_seconds(os.getpid()), broker.tree_cpu_seconds(), time.perf_counter()
        result = archive(spark, bootstrap_of(broker), folder, [TOPIC])
        took = time.perf_counter() - began
        broker_used = broker.tree_cpu_seconds() - of_broker
        spark_used = cpu_seconds(os.getpid()) - of_all - broker_used
    finally:
        shutil.rmtree(folder)
    if result.record_count != count:
        raise SystemExit(f"{result.record_count} records were archived, {count} were written")
    return Figures(count / took, spark_used / count * 1e6, broker_used / count * 1e6)


def show(found: dict[str, list[Figures]]) -> None:
    """Print the medians, and the median ratio of minibroker's rounds to Kafka's."""
    for kind, rows in found.items():
        figures = Figures(*(statistics.median(column) for column in zip(*rows, strict=True)))
        cpu = f"{figures.spark_us:8.2f} us Spark {figures.broker_us:8.2f} us broker per record"
        print(f"{kind:12} {figures.records_per_s:12,.0f} records/s {cpu}")
    print(f"peak memory of the driver's Python: {peak_kb():,} kB")
    if len(found) > 1:
        ratio = statistics.median(one[0] / other[0] for one, other in zip(found["minibroker"], found["kafka"], strict=True))
        print(f"through minibroker {ratio:.2f} times as fast as through Apache Kafka")


def peak_kb() -> int:
    """Return the peak resident set of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1])


if __name__ == "__main__":
    main()
