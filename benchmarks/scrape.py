"""What a scrape of /metrics costs, beside Apache Kafka with the JMX exporter. It is a command of its own.

    .venv/bin/python benchmarks/scrape.py
    .venv/bin/python benchmarks/scrape.py --no-kafka

For each size: a broker with topics of one partition, and groups that have committed ten offsets each. Between two scrapes a record is
appended to every tenth topic, or to each (`busy`), so that numbers change. CPU is that of the whole process during the scrape. The first
scrape is not counted. The JMX exporter has rules with the shapes of Strimzi's: one pattern for each combination of keys.
"""

from __future__ import annotations

import argparse
import gzip
import os
import statistics
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from confluent_kafka import ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.broker_process import BrokerProcess
from tests.support.java import jars
from tests.support.kafka_process import KafkaProcess
from tests.support.ports import free_port

JMX_EXPORTER: Final = "io.prometheus.jmx:jmx_prometheus_javaagent:1.0.1"
RULES: Final = """lowercaseOutputName: true
rules:
- {pattern: 'kafka\\.(\\w+)<type=(.+), name=(.+)PerSec\\w*, (.+)=(.+), (.+)=(.+)><>Count', name: kafka_$1_$2_$3_total, type: COUNTER, labels: {"$4": "$5", "$6": "$7"}}
- {pattern: 'kafka\\.(\\w+)<type=(.+), name=(.+)PerSec\\w*, (.+)=(.+)><>Count', name: kafka_$1_$2_$3_total, type: COUNTER, labels: {"$4": "$5"}}
- {pattern: 'kafka\\.(\\w+)<type=(.+), name=(.+)PerSec\\w*><>Count', name: kafka_$1_$2_$3_total, type: COUNTER}
- {pattern: 'kafka\\.(\\w+)<type=(.+), name=(.+), (.+)=(.+), (.+)=(.+)><>Value', name: kafka_$1_$2_$3, type: GAUGE, labels: {"$4": "$5", "$6": "$7"}}
- {pattern: 'kafka\\.(\\w+)<type=(.+), name=(.+), (.+)=(.+)><>Value', name: kafka_$1_$2_$3, type: GAUGE, labels: {"$4": "$5"}}
- {pattern: 'kafka\\.(\\w+)<type=(.+), name=(.+)><>Value', name: kafka_$1_$2_$3, type: GAUGE}
- {pattern: 'kafka\\.(\\w+)<type=(.+), name=(.+), (.+)=(.+)><>(\\d+)thPercentile', name: kafka_$1_$2_$3, type: GAUGE, labels: {"$4": "$5", quantile: "0.$6"}}
- {pattern: 'kafka\\.(\\w+)<type=(.+), name=(.+)><>(\\d+)thPercentile', name: kafka_$1_$2_$3, type: GAUGE, labels: {quantile: "0.$4"}}
"""  # noqa: E501  one rule a line
#: As bin/kafka-server-start.sh: the options of tests are for a broker that lives for seconds.
KAFKA_JVM: Final = ("-Xmx1g", "-Xms1g", "-XX:TieredStopAtLevel=4", "-XX:-UseSerialGC", "-XX:+UseG1GC")
SETTLING_S: Final = 2.0
CLIENT: Final = {"enable.metrics.push": False, "log_level": 0}  #: what clients push would be on /metrics as well


class Target(NamedTuple):
    """A running broker that serves metrics."""

    bootstrap: str
    url: str
    pid: int


@contextmanager
def minibroker(folder: Path) -> Iterator[Target]:
    """Start minibroker with the default names."""
    process = BrokerProcess(folder, "--metrics-port", "0")
    try:
        url = process.output.partition("metrics ")[2].partition(",")[0]
        yield Target(process.bootstrap, f"{url}/metrics", process.pid)
    finally:
        process.kill()


@contextmanager
def kafka(folder: Path) -> Iterator[Target]:
    """Start Apache Kafka with the JMX exporter."""
    (agent,) = jars("jmx-exporter", JMX_EXPORTER).glob("jmx_prometheus_javaagent-*.jar")
    rules, port = folder / "rules.yaml", free_port()
    rules.write_text(RULES)
    agent_option = f"-javaagent:{agent}=127.0.0.1:{port}:{rules}"
    with KafkaProcess(folder, jvm_options=[*KAFKA_JVM, agent_option]) as process:
        yield Target(process.bootstrap, f"http://127.0.0.1:{port}/metrics", process._process.pid)  # noqa: SLF001  the only way to it


def cpu_s(pid: int) -> float:
    """Return the CPU time of all threads so far. Linux counts it in nanoseconds, but forgets threads that ended."""
    found = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            found += int((task / "schedstat").read_text().split()[0])
        except OSError:
            continue  # it has ended
    return found / 1e9


def names(count: int) -> list[str]:
    """Return the names of the topics."""
    return [f"topic-{number:04}" for number in range(count)]


def fill(target: Target, topics: int, groups: int) -> None:
    """Create topics and groups."""
    admin = AdminClient({"bootstrap.servers": target.bootstrap} | CLIENT)
    for start in range(0, topics, 100):
        created = [NewTopic(name, 1, 1) for name in names(topics)[start : start + 100]]
        for future in admin.create_topics(created, operation_timeout=300, request_timeout=300).values():
            future.result(300)
    append(target, names(topics))
    for number in range(groups):
        offsets = [TopicPartition(names(topics)[(number * 10 + index) % topics], 0, 0) for index in range(min(10, topics))]
        for future in admin.alter_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(f"group-{number}", offsets)], request_timeout=300
        ).values():
            future.result(300)


def append(target: Target, topics: list[str]) -> None:
    """Append a record to each topic."""
    producer = Producer({"bootstrap.servers": target.bootstrap} | CLIENT)
    for topic in topics:
        producer.produce(topic, b"x" * 100)
    if producer.flush(120):
        raise SystemExit("records were not delivered")


class Scrape(NamedTuple):
    """One scrape."""

    seconds: float
    cpu_s: float
    size: int
    series: int


def scrape(target: Target, *, is_compressed: bool) -> Scrape:
    """Scrape once. The size is that of the text."""
    request = urllib.request.Request(target.url, headers={"Accept-Encoding": "gzip"} if is_compressed else {})  # noqa: S310  our own
    before_s, began_s = cpu_s(target.pid), time.perf_counter()
    with urllib.request.urlopen(request, timeout=300) as answer:  # noqa: S310  as above
        data = answer.read()
    seconds = time.perf_counter() - began_s
    spent_s = cpu_s(target.pid) - before_s
    text = gzip.decompress(data) if is_compressed else data
    return Scrape(seconds, spent_s, len(text), sum(not line.startswith(b"#") for line in text.splitlines()))


def measure(name: str, target: Target, topics: int, count: int) -> None:
    """Print a line for each way to scrape."""
    scrape(target, is_compressed=False)
    ways = (("", topics // 10, False), (", busy", topics, False), (", gzip", topics // 10, True))
    for title, changed, is_compressed in ways if name.startswith("minibroker") else ways[:1]:
        found = []
        for _ in range(count):
            append(target, names(topics)[: max(changed, 1)])
            time.sleep(SETTLING_S)
            found.append(scrape(target, is_compressed=is_compressed))
        seconds, spent_s = (statistics.median(getattr(each, field) for each in found) for field in ("seconds", "cpu_s"))
        last = found[-1]
        print(f"{name + title:<52}{seconds * 1000:>9.1f}{spent_s * 1000:>10.1f}{last.size / 1e6:>9.2f}{last.series:>9,}", flush=True)


def main() -> None:
    """Measure all sizes of both brokers."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--scrapes", type=int, default=7)
    parser.add_argument("--kafka-scrapes", type=int, default=3, help="fewer, because they take long")
    parser.add_argument("--sizes", type=int, nargs="+", default=[4, 1000], help="numbers of topics")
    parser.add_argument("--no-kafka", action="store_true")
    options = parser.parse_args()
    print(f"load of the machine: {os.getloadavg()[0]:.1f}")
    print(f"{'':<52}{'ms':>9}{'CPU ms':>10}{'MB':>9}{'series':>9}")
    for size in options.sizes:
        groups = 100 if size >= 100 else 2
        for start in (minibroker,) if options.no_kafka else (minibroker, kafka):
            with tempfile.TemporaryDirectory() as folder, start(Path(folder)) as target:
                fill(target, size, groups)
                count = options.scrapes if start is minibroker else options.kafka_scrapes
                measure(f"{start.__name__}, {size:,} topics, {groups} groups", target, size, count)


if __name__ == "__main__":
    main()
