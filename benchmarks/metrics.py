"""CPU of a request with and without `serve --metrics-port`. It is a command of its own.

    .venv/bin/python benchmarks/metrics.py --rounds 40

Several brokers of both kinds run at once, so that the luck of one process (addresses, hash seeds) does not decide. In each round every
broker serves the same requests of one connection that waits for each answer, one broker after the other, and the order of the kinds
alternates. A figure is the median over all rounds of all brokers of its kind. A ratio is the median of the ratios within rounds, with the
range of its middle half. A third kind is a second set without metrics: its ratio shows the noise.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[1]))

import frames
from pump import Link, Pump, call, connect

from tests.support.broker_process import BrokerProcess

TOPIC: Final = b"orders"
KINDS: Final = {"without": (), "again without": (), "with": ("--metrics-port", "0")}
WARM_UP: Final = 3_000  #: requests, after which the times of one in several are counted

Error = Callable[[bytearray, int, bytes], int]


def fetch_error(answer: bytearray, start: int, topic: bytes) -> int:
    """Return the error code of the one partition."""
    return frames.fetched(answer, start, topic)[0]


def requests() -> dict[str, tuple[bytes, Error]]:
    """Return the frame of each request, and how its error is read."""
    return {
        "Produce, one record": (frames.produce(TOPIC, 0, frames.record_batch(1, 100)), frames.produce_error),
        "ListOffsets": (frames.list_offsets(TOPIC, 0, -1), frames.list_offsets_error),
        "Fetch, one record": (frames.fetch(TOPIC, 0, 0, 1), fetch_error),
    }


class Broker:
    """One broker with a connection to it."""

    def __init__(self, folder: Path, arguments: tuple[str, ...]) -> None:
        folder.mkdir()
        self.process = BrokerProcess(folder, *arguments)
        connection = connect(("127.0.0.1", self.process.port))
        call(connection, frames.create_topic(TOPIC, 1))
        call(connection, frames.produce(TOPIC, 0, frames.record_batch(1, 100)))
        self.pump = Pump([connection], depth=1)

    def cpu_s(self) -> float:
        """Return the CPU time of all threads so far."""
        tasks = Path(f"/proc/{self.process.pid}/task").iterdir()
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9

    def serve(self, frame: bytes, error: Error, count: int) -> float:
        """Send requests, and return the microseconds of CPU that one takes."""

        def check(_: Link, answer: bytearray, start: int, __: int) -> None:
            if error(answer, start, TOPIC):
                raise SystemExit(f"the broker answered with error {error(answer, start, TOPIC)}")

        before_s = self.cpu_s()
        self.pump.run(count, lambda _link, _number: frame, check)
        return (self.cpu_s() - before_s) / count * 1e6


def rounds_of(brokers: dict[str, list[Broker]], frame: bytes, error: Error, count: int, rounds: int) -> dict[str, list[float]]:
    """Return the cost of a request in each round, by kind: the mean of its brokers."""
    for broker in (each for kind in brokers.values() for each in kind):
        broker.serve(frame, error, WARM_UP)
    found: dict[str, list[float]] = {kind: [] for kind in brokers}
    for number in range(rounds):
        order = [(kind, place) for place in range(len(brokers["with"])) for kind in brokers]
        costs: dict[str, list[float]] = {kind: [] for kind in brokers}
        for kind, place in order if number % 2 else reversed(order):
            costs[kind].append(brokers[kind][place].serve(frame, error, count))
        for kind, values in costs.items():
            found[kind].append(statistics.mean(values))
    return found


def main() -> None:
    """Measure, and print a line for each request."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--requests", type=int, default=1_000, help="of one broker in one round")
    parser.add_argument("--brokers", type=int, default=3, help="of each kind")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        brokers: dict[str, list[Broker]] = {kind: [] for kind in KINDS}
        for number in range(options.brokers):
            for kind, arguments in KINDS.items():
                broker = Broker(Path(folder) / f"{kind.replace(' ', '-')}-{number}", arguments)
                stack.callback(broker.process.kill)
                brokers[kind].append(broker)
        print(f"{'us of CPU':<22}{'without':>9}{'with':>9}{'with/without':>22}{'again without/without':>26}")
        for name, (frame, error) in requests().items():
            found = rounds_of(brokers, frame, error, options.requests, options.rounds)
            line = f"{name:<22}{statistics.median(found['without']):>9.2f}{statistics.median(found['with']):>9.2f}"
            for kind, width in (("with", 22), ("again without", 26)):
                ratios = [a / b for a, b in zip(found[kind], found["without"], strict=True)]
                low, middle, high = statistics.quantiles(ratios, n=4)
                line += f"{f'{middle:.3f} ({low:.3f}..{high:.3f})':>{width}}"
            print(line, flush=True)


if __name__ == "__main__":
    main()
