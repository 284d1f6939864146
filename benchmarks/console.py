"""An honest producer beside a browser of the console that tails one topic and searches another. It is a command of its own.

    .venv/bin/python benchmarks/console.py --records 10000000 --rounds 6

One broker serves both. Rounds with and without the browser alternate, so that a busy machine disturbs both alike. The producer sends
single records of 200 bytes with acks=all, and waits for each. Meanwhile 1,000 records a second are appended to the tailed topic, which
the console streams, and the console searches the other topic for a text that no record has.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

ROUND_S = 8.0
PAUSE_S = 0.004
TAILED_PER_S = 1_000
SETTLING_S = 1.0


class Browser:
    """Tails and searches until it is closed."""

    def __init__(self, bootstrap: str, console: str) -> None:
        self.searched = 0
        self._bootstrap, self._console = bootstrap, console
        self._is_closed = threading.Event()
        self._threads = [threading.Thread(target=each) for each in (self._append, self._tail, self._search)]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Stop everything."""
        self._is_closed.set()
        for thread in self._threads:
            thread.join()

    def _append(self) -> None:
        producer = Producer({"bootstrap.servers": self._bootstrap, "linger.ms": 5})
        while not self._is_closed.wait(0.01):
            for _ in range(TAILED_PER_S // 100):
                producer.produce("tailed", b"x" * 100)
            producer.poll(0)
        producer.flush(10)

    def _tail(self) -> None:
        with contextlib.suppress(TimeoutError), urllib.request.urlopen(f"{self._console}/tail?topic=tailed", timeout=15) as stream:  # noqa: S310  our own address
            while not self._is_closed.is_set() and stream.readline():
                pass

    def _search(self) -> None:
        cursor = ""
        while not self._is_closed.is_set():
            address = f"{self._console}/records.json?topic=searched&from=oldest&q=nowhere-to-be-found&cursor={cursor}"
            with urllib.request.urlopen(address, timeout=60) as answer:  # noqa: S310  as above
                found = json.load(answer)
            self.searched += found["record_count"]
            cursor = found["cursor"]


def latencies_ms(producer: Producer) -> list[float]:
    """Return how long single records took during a round."""
    found, end_s = [], time.monotonic() + ROUND_S
    while time.monotonic() < end_s:
        began_s = time.perf_counter()
        producer.produce("honest", b"y" * 200)
        producer.flush(10)
        found.append((time.perf_counter() - began_s) * 1000)
        time.sleep(PAUSE_S)
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


def compare(bootstrap: str, console: str, rounds: int) -> None:
    """Measure, and print a line for each kind of round."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "acks": "all"})
    latencies_ms(producer)
    alone, beside, searched = [], [], 0
    for _ in range(rounds):
        alone.append(latencies_ms(producer))
        browser = Browser(bootstrap, console)
        time.sleep(SETTLING_S)
        beside.append(latencies_ms(producer))
        browser.close()
        searched += browser.searched
    for name, figures in (("alone", alone), ("beside a browser", beside)):
        parts = [statistics.quantiles(each, n=100) for each in figures]
        p50, p99 = (statistics.median(part[place] for part in parts) for place in (49, 98))
        print(f"{name:<18} p50 {p50:6.2f} ms   p99 {p99:6.2f} ms   (medians of {rounds} rounds)")
    print(f"searched {searched:,} records, {searched / (rounds * (ROUND_S + SETTLING_S)):,.0f} a second")


def main() -> None:
    """Start a broker, and compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000, help="records of the searched topic")
    parser.add_argument("--rounds", type=int, default=4)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "minibroker", "serve", "--data-dir", f"{folder}/data", "--port", "0", "--console-port", "0"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as broker:
            assert broker.stdout is not None  # noqa: S101  of a pipe
            ready = broker.stdout.readline()
            bootstrap, console = re.findall(r"localhost:\d+", ready)[0], re.findall(r"http://[\d.:]+", ready)[0]
            fill(bootstrap, given.records)
            compare(bootstrap, console, given.rounds)
            broker.terminate()


if __name__ == "__main__":
    main()
