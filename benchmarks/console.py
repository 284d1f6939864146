"""An honest producer beside a browser of the console that tails one topic and searches another. It is a command of its own.

    .venv/bin/python benchmarks/console.py --records 10000000 --rounds 20

One broker serves both. Short rounds with and without the browser alternate, so that a busy machine disturbs both alike. The producer
sends single records of 200 bytes with acks=all, and waits for each. In all rounds 1,000 records a second are appended to a topic. In half
of them the console streams these, and searches the other topic for a text that no record has. The result is the ratio of the medians of
the rounds. `--data-dir` keeps the records for the next run.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

ROUND_S = 3.0
PAUSE_S = 0.004
TAILED_PER_S = 1_000
SETTLING_S = 1.5  # the other process starts


class Other:
    """A process that works beside the producer until it is closed: in the same one, Python's lock would delay the measurement."""

    def __init__(self, work: Callable[..., None], *arguments: Any) -> None:
        context = multiprocessing.get_context("spawn")
        self._is_closed = context.Event()
        self._count = context.Value("q", 0)
        self._process = context.Process(target=work, args=(self._is_closed, self._count, *arguments))
        self._process.start()

    def close(self) -> int:
        """Stop it, and return what it counted."""
        self._is_closed.set()
        self._process.join()
        return int(self._count.value)


def append(is_closed: Event, _count: Any, bootstrap: str) -> None:
    """Append records to the tailed topic."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
    while not is_closed.wait(0.01):
        for _ in range(TAILED_PER_S // 100):
            producer.produce("tailed", b"x" * 100)
        producer.poll(0)
    producer.flush(10)


def browse(is_closed: Event, count: Any, console: str, only: str | None) -> None:
    """Tail and search. Counts the records that were searched.

    This process gives way to the producer: on two processors a browser's own work would delay it.
    """
    os.nice(19)

    def tail() -> None:
        with contextlib.suppress(TimeoutError), urllib.request.urlopen(f"{console}/tail?topic=tailed", timeout=15) as stream:  # noqa: S310  our own address
            while not is_closed.is_set() and stream.readline():
                pass

    def search() -> None:
        cursor = ""
        while not is_closed.is_set():
            address = f"{console}/records.json?topic=searched&from=oldest&q=nowhere-to-be-found&cursor={cursor}"
            with urllib.request.urlopen(address, timeout=60) as answer:  # noqa: S310  as above
                found = json.load(answer)
            count.value += found["record_count"]
            cursor = found["cursor"]

    threads = [threading.Thread(target=each) for name, each in (("tail", tail), ("search", search)) if only in {None, name}]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def latencies_ms(producer: Producer, round_s: float, pause_s: float = PAUSE_S) -> list[float]:
    """Return how long single records took during a round."""
    found, end_s = [], time.monotonic() + round_s
    while time.monotonic() < end_s:
        began_s = time.perf_counter()
        producer.produce("honest", b"y" * 200)
        producer.flush(10)
        found.append((time.perf_counter() - began_s) * 1000)
        time.sleep(pause_s)
    return found


def fill(bootstrap: str, count: int) -> None:
    """Create the topics, and produce what is searched."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic(name, 1) for name in ("honest", "tailed", "searched")]).values():
        future.result(30)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "queue.buffering.max.messages": 1_000_000})
    for number in range(count):
        while True:
            with contextlib.suppress(BufferError):
                producer.produce("searched", b'{"id": %d, "text": "a value of usual size"}' % number, b"key-%d" % number)
                break
            producer.poll(0.01)
    producer.flush(300)


def compare(bootstrap: str, console: str, given: argparse.Namespace) -> None:
    """Measure, and print a line for each kind of round, and the ratio."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "acks": "all"})
    latencies_ms(producer, ROUND_S)
    appender = Other(append, bootstrap)
    alone, beside, searched = [], [], 0
    for _ in range(given.rounds):
        time.sleep(SETTLING_S)
        alone.append(latencies_ms(producer, ROUND_S))
        browser = Other(browse, console, given.only)
        time.sleep(SETTLING_S)
        beside.append(latencies_ms(producer, ROUND_S))
        searched += browser.close()
    appender.close()
    medians = []
    for name, figures in (("alone", alone), ("beside a browser", beside)):
        parts = [statistics.quantiles(each, n=100) for each in figures]
        medians.append([statistics.median(part[place] for part in parts) for place in (49, 89, 98)])
        print(f"{name:<18} p50 {medians[-1][0]:6.2f} ms   p90 {medians[-1][1]:6.2f} ms   p99 {medians[-1][2]:6.2f} ms")
    ratios = [after / before for before, after in zip(*medians, strict=True)]
    print(
        f"{'ratio':<18} p50 {ratios[0]:6.2f}      p90 {ratios[1]:6.2f}      p99 {ratios[2]:6.2f}      (of medians of {given.rounds} rounds)"
    )
    print(f"searched {searched:,} records, {searched / (given.rounds * (ROUND_S + SETTLING_S)):,.0f} a second")


def main() -> None:
    """Start a broker, and compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000, help="records of the searched topic")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--only", choices=("tail", "search"), help="do one of both")
    parser.add_argument("--data-dir", type=Path, help="where the records stay; they are produced if it is missing")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        data = given.data_dir or Path(folder) / "data"
        is_filled = data.exists()
        command = [sys.executable, "-m", "minibroker", "serve", "--data-dir", str(data), "--port", "0", "--console-port", "0"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as broker:
            assert broker.stdout is not None  # noqa: S101  of a pipe
            ready = broker.stdout.readline()
            bootstrap, console = re.findall(r"localhost:\d+", ready)[0], re.findall(r"http://[\d.:]+", ready)[0]
            if not is_filled:
                fill(bootstrap, given.records)
            compare(bootstrap, console, given)
            broker.terminate()


if __name__ == "__main__":
    main()
