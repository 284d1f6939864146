"""What users of real clients see: confluent-kafka (librdkafka) and the Java client's own performance tools, with their default settings.

The client is most of the work here, and on two cores it takes from the broker: a ratio near 1 means that the client sets the pace. CPU is
the broker's alone.
"""

from __future__ import annotations

import os
import random
import string
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

from peers import Need, Peer, java_tool
from pump import LoadError

from loads.common import LINKS, READY_TIMEOUT_S, new_topic, percentile_us
from loads.declaration import Figures, Load

VALUE_SIZE = 1000
RECORDS = 300_000  #: 300 MB
FLUSHES = 3000
TOOL_TIMEOUT_S = 300
PATIENT = ("--timeout", "60000")  #: for the tools that read: ms without a record until they give up
PAYLOADS = 100  #: different ones; a tool that makes a new payload per record measures its random generator

_groups = count(time.time_ns() // 1_000_000)


def confluent_produce(peer: Peer, scale: float) -> Figures:
    """confluent-kafka: 1 kB records to four partitions as fast as produce() takes them, until the last one is acknowledged."""
    topic = new_topic(peer, LINKS).decode()
    total = max(1000, int(RECORDS * scale))
    with _producing(peer) as producer:
        _send(producer, topic, max(1000, int(RECORDS * min(scale, 1.0) / 2)))
        cpu = peer.cpu_seconds()
        started = time.perf_counter()
        _send(producer, topic, total)
        seconds = time.perf_counter() - started
        cpu = peer.cpu_seconds() - cpu
    return _throughput(total, seconds, cpu)


def confluent_flush(peer: Peer, scale: float) -> Figures:
    """confluent-kafka: one record of 100 bytes and flush(), one after the other."""
    topic = new_topic(peer, 1).decode()
    value = os.urandom(100)
    seconds: list[float] = []
    with _producing(peer) as producer:
        for timed in [False] * max(20, int(FLUSHES * min(scale, 1.0))) + [True] * max(50, int(FLUSHES * scale)):
            started = time.perf_counter()
            producer.produce(topic, value)
            if producer.flush(READY_TIMEOUT_S):
                raise LoadError("a record is not acknowledged")
            if timed:
                seconds.append(time.perf_counter() - started)
    seconds.sort()
    return {
        "records/s": len(seconds) / sum(seconds),
        "acknowledged p50 us": percentile_us(seconds, 0.50),
        "acknowledged p99 us": percentile_us(seconds, 0.99),
    }


def confluent_consume(peer: Peer, scale: float) -> Figures:
    """confluent-kafka: four partitions of 1 kB records from their start, by one consumer that asks for 10,000 records at a time."""
    topic = new_topic(peer, LINKS).decode()
    total = max(1000, int(RECORDS * scale))
    with _producing(peer) as producer:
        _send(producer, topic, total)
    _consume(peer, topic, total)
    cpu = peer.cpu_seconds()
    seconds = _consume(peer, topic, total)
    cpu = peer.cpu_seconds() - cpu
    return _throughput(total, seconds, cpu)


@contextmanager
def _producing(peer: Peer) -> Iterator[Any]:
    from confluent_kafka import Producer  # noqa: PLC0415  other loads do without it

    failures: list[str] = []
    producer = Producer(
        {
            "bootstrap.servers": at(peer),
            "on_delivery": lambda failure, _: failures.append(str(failure)) if failure is not None else None,
        }
    )
    try:
        yield producer
    finally:
        producer.purge()
        producer.flush(READY_TIMEOUT_S)
    if failures:
        raise LoadError(f"{len(failures)} records are not acknowledged: {failures[0]}")


def _send(producer: Any, topic: str, records: int) -> None:
    """Return when all records are acknowledged."""
    value = os.urandom(VALUE_SIZE)
    for number in range(records):
        while True:
            try:
                producer.produce(topic, value, partition=number % LINKS)
                break
            except BufferError:  # its queue is full: 100,000 records by default
                producer.poll(0.01)
        if not number % 100:
            producer.poll(0)
    if producer.flush(READY_TIMEOUT_S):
        raise LoadError("records are not acknowledged")


def _consume(peer: Peer, topic: str, records: int) -> float:
    """Return the seconds from a new consumer's start to the last record."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition  # noqa: PLC0415  other loads do without it

    started = time.perf_counter()
    consumer = Consumer({"bootstrap.servers": at(peer), "group.id": new_group(), "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in range(LINKS)])
        left = records
        while left > 0:
            found = consumer.consume(min(left, 10_000), READY_TIMEOUT_S)  # returns when it has that many
            if not found or found[0].error():
                raise LoadError(f"{left} of {records} records are missing")
            left -= len(found)
        return time.perf_counter() - started
    finally:
        consumer.close()


def java_produce(peer: Peer, scale: float) -> Figures:
    """Kafka's ProducerPerformance: 1 kB records to four partitions; the tool's own figures, without the first third of the records."""
    topic = new_topic(peer, LINKS).decode()
    total = max(2000, int(RECORDS * scale * 1.5))
    cpu = peer.cpu_seconds()
    output = produced_by_tool(peer, topic, total, "--warmup-records", str(total // 3))
    cpu = peer.cpu_seconds() - cpu
    found = steady_state(output)
    return {"CPU s/GB": cpu / (total * VALUE_SIZE / 1e9), **found}


def java_consume(peer: Peer, scale: float) -> Figures:
    """Kafka's ConsumerPerformance: a new member of a group reads four partitions; with the time to join, and without."""
    topic = new_topic(peer, LINKS).decode()
    total = max(2000, int(RECORDS * scale * 1.5))
    produced_by_tool(peer, topic, total)
    consume = ("org.apache.kafka.tools.ConsumerPerformance", "--bootstrap-server", at(peer), "--topic", topic, *PATIENT)
    run_tool(*consume, "--num-records", str(min(total, 20_000)))  # the broker's first group makes the topic of offsets
    cpu = peer.cpu_seconds()
    found = table_of(run_tool(*consume, "--num-records", str(total)))
    cpu = peer.cpu_seconds() - cpu
    return {
        "records/s": found["nMsg.sec"],
        "fetched records/s": found["fetch.nMsg.sec"],
        "CPU s/GB": cpu / (found["data.consumed.in.nMsg"] * VALUE_SIZE / 1e9),
        "until assigned ms": found["rebalance.time.ms"],
    }


def produced_by_tool(peer: Peer, topic: str, records: int, *more: str) -> str:
    """Return the output of ProducerPerformance."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as payloads:
        letters = random.Random(1)  # noqa: S311  payloads are no secret
        payloads.writelines("".join(letters.choices(string.ascii_letters, k=VALUE_SIZE)) + "\n" for _ in range(PAYLOADS))
        payloads.flush()
        where = ("--bootstrap-server", at(peer), "--topic", topic, "--payload-file", payloads.name)
        return run_tool("org.apache.kafka.tools.ProducerPerformance", *where, "--num-records", str(records), "--throughput", "-1", *more)


def run_tool(main_class: str, *arguments: str) -> str:
    """Return the output of one of Kafka's tools."""
    done = subprocess.run(java_tool(main_class, *arguments), capture_output=True, text=True, timeout=TOOL_TIMEOUT_S, check=False)
    if done.returncode:
        raise LoadError(f"{main_class.rsplit('.', 1)[1]}: {(done.stderr + done.stdout).strip().splitlines()[-1:]}")
    return done.stdout


def steady_state(output: str) -> Figures:
    """Return what ProducerPerformance prints about the records after its `--warmup-records`."""
    parts = next(line for line in output.splitlines() if "steady state records sent" in line).rstrip(".").split(", ")
    records_s = float(parts[1].split()[0])
    percentiles_ms = {part.split()[-1]: float(part.split()[0]) for part in parts if part.endswith("th")}
    return {
        "records/s": records_s,
        "MB/s": records_s * VALUE_SIZE / 1e6,
        "acknowledged p50 ms": percentiles_ms["50th"],
        "acknowledged p99 ms": percentiles_ms["99th"],
    }


def table_of(output: str) -> dict[str, float]:
    """Return the figures of ConsumerPerformance and ShareConsumerPerformance: a line of names, a line of values."""
    lines = [line.split(", ") for line in output.splitlines() if line.count(", ") > 3]
    names = next(line for line in lines if line[0] == "start.time")
    found = {}
    for name, value in zip(names, lines[lines.index(names) + 1], strict=True):
        if name not in {"start.time", "end.time"}:
            found[name] = float(value)
    return found


def at(peer: Peer) -> str:
    """Return the bootstrap address for clients."""
    return f"127.0.0.1:{peer.port}"


def new_group() -> str:
    """Return a name that no group has."""
    return f"bench-clients-{next(_groups)}"


def _throughput(records: int, seconds: float, cpu: float) -> Figures:
    size = records * VALUE_SIZE
    return {"records/s": records / seconds, "MB/s": size / seconds / 1e6, "CPU s/GB": cpu / (size / 1e9)}


_THEME = "Real clients"
_NEEDS = frozenset({Need.CLIENTS})
LOADS = (
    Load("confluent-kafka, produce", confluent_produce, _THEME, seconds=12, quick=0.1, needs=_NEEDS),
    Load("confluent-kafka, one record at a time", confluent_flush, _THEME, seconds=10, needs=_NEEDS),
    Load("confluent-kafka, consume", confluent_consume, _THEME, seconds=12, quick=0.1, needs=_NEEDS),
    Load("Java ProducerPerformance", java_produce, _THEME, seconds=15, needs=_NEEDS),
    Load("Java ConsumerPerformance", java_consume, _THEME, seconds=20, needs=_NEEDS),
)
