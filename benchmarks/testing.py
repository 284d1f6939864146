"""What a broker under test costs a suite: resets, starts, and 200 tests beside the same 200 on Apache Kafka.

    python benchmarks/testing.py [--resets 30] [--starts 5] [--tests 200] [--without-kafka] [--publish]

A reset is measured with 50 topics of three kinds, for each way in which a broker runs: those that a test has created, with records in ten
of them; those of the options, which exist again afterwards; and those of a seed, which come back by a snapshot. A start is that of the
fixture in a process that has imported nothing. Each of the 200 tests creates three topics, writes ten records and reads them; between two
tests minibroker forgets everything, and on Apache Kafka the fixture deletes what the test has created. It prints wall times, and the CPU of
the process that has the broker, which is what can be compared on a machine with other things to do.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

from machine import commit, machine
from peers import CPU_CLOCK_OF_PROCESS, ApacheKafka, Peer, Unavailable
from tabulate import tabulate

from minibroker.client.topics import create_topics
from minibroker.testing import TEMPORARY, BrokerProcess, BrokerThread

Broker = BrokerThread | BrokerProcess

HERE: Final = Path(__file__).parent
TOPICS: Final = [f"topic-{number}" for number in range(50)]
WRITTEN: Final = TOPICS[::5]
KINDS: Final = ("created by the test", "of the options")
SEED: Final = "of a seed, restored"
RESET_TARGET_MS: Final = 20
START_TARGET_MS: Final = 500
FORMS: Final[dict[str, type[Broker]]] = {"thread": BrokerThread, "process": BrokerProcess}
RESULTS: Final = HERE / "results" / "testing"
PAGE: Final = HERE.parent / "BENCHMARKS.md"
SECTION: Final = re.compile(r"(<!-- testing -->\n).*?(<!-- end of testing -->)", re.DOTALL)

START: Final = """
import sys, time
began, used = time.perf_counter(), time.process_time()
from minibroker.testing import {form}
with {form}() as broker:
    print((time.perf_counter() - began) * 1000, (time.process_time() - used) * 1000)
"""

SUITE: Final = """
import pytest

@pytest.mark.parametrize("number", range({count}))
def test_records_are_read(minibroker, number):
    for topic in ("orders", "payments", "shipments"):
        minibroker.create_topic(topic, partitions=2)
    minibroker.produce("orders", *[f"order {{each}}" for each in range(10)])
    assert len(minibroker.records("orders", count=10)) == 10
"""


class Spread(NamedTuple):
    """Several measurements in milliseconds."""

    median: float
    p90: float
    cpu: float  #: mean of the process that has the broker

    def __str__(self) -> str:
        return f"{self.median:.1f} / {self.p90:.1f} / {self.cpu:.1f}"


def main() -> None:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--resets", type=int, default=30)
    parser.add_argument("--starts", type=int, default=5)
    parser.add_argument("--tests", type=int, default=200)
    parser.add_argument("--without-kafka", action="store_true")
    parser.add_argument("--publish", action="store_true", help="also write the tables into BENCHMARKS.md")
    arguments = parser.parse_args()
    about = {"date": f"{datetime.now(UTC):%Y-%m-%d %H:%M}", "commit": commit(), "load": round(os.getloadavg()[0], 1), "machine": machine()}
    found = {
        "about": about | {"resets": arguments.resets, "starts": arguments.starts, "tests": arguments.tests},
        "reset ms": dict(resets(arguments.resets)),
        "start ms": {form: start(kind, arguments.starts) for form, kind in FORMS.items()},
        "suite": suites(arguments.tests, with_kafka=not arguments.without_kafka),
    }
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{datetime.now(UTC):%Y-%m-%d_%H%M}.json"
    kept = found | {name: named(found[name]) for name in ("reset ms", "start ms")}
    path.write_text(json.dumps(kept, indent=1) + "\n")
    page = tables(found) + f"\nKept in [{path.relative_to(PAGE.parent)}]({path.relative_to(PAGE.parent)}).\n"
    print(page)
    if arguments.publish:
        PAGE.write_text(SECTION.sub(lambda marks: f"{marks[1]}{page}{marks[2]}", PAGE.read_text()))


# -- resets -------------------------------------------------------------------------------------------------------------


def resets(count: int) -> Iterator[tuple[str, dict[str, Spread]]]:
    """Measure resets with topics of each kind, by form and place of the data."""
    for form, kind in FORMS.items():
        for place in ("memory", "temporary folder", "given folder"):
            with folder_of(place) as where:
                found = {}
                with kind(**where) as broker:
                    found[KINDS[0]] = spread(broker, broker.reset, count, before=lambda broker: write(broker, creates=True))
                with kind(topics=TOPICS, **where) as broker:
                    broker.reset()
                    found[KINDS[1]] = spread(broker, broker.reset, count, before=write)
                    found[SEED] = of_a_seed(broker, count)
            say(f"reset, {form}, {place}: {', '.join(f'{kind} {figures}' for kind, figures in found.items())}")
            yield f"{form}, {place}", found


@contextmanager
def folder_of(place: str) -> Iterator[dict[str, Any]]:
    """Yield the arguments of a broker that keeps its data there."""
    if place != "given folder":
        yield {"data_dir": TEMPORARY} if place == "temporary folder" else {}
        return
    with tempfile.TemporaryDirectory(prefix="bench-testing-") as folder:
        yield {"data_dir": folder}


def write(broker: Broker, *, creates: bool = False) -> None:
    """Write what a test writes: records in a fifth of the topics."""
    if creates:
        with broker._client() as client:  # noqa: SLF001  fifty topics by one request
            create_topics(client, TOPICS, partition_count=1, replication_factor=1, configs={})
    for topic in WRITTEN:
        broker.produce(topic, "value")


def of_a_seed(broker: Broker, count: int) -> Spread:
    """Measure the restore of a snapshot of topics with records."""
    broker.reset()
    write(broker)
    snapshot = broker.snapshot()
    return spread(broker, lambda: broker.restore(snapshot), count, before=write)


def spread(broker: Broker, work: Callable[[], None], count: int, *, before: Callable[[Broker], None]) -> Spread:
    """Measure `work` after each `before`."""
    walls, used = [], []
    pid = broker.pid if isinstance(broker, BrokerProcess) else os.getpid()
    for _ in range(count):
        before(broker)
        cpu, began = cpu_seconds(pid), time.perf_counter()
        work()
        walls.append((time.perf_counter() - began) * 1000)
        used.append((cpu_seconds(pid) - cpu) * 1000)
    return Spread(statistics.median(walls), sorted(walls)[count * 9 // 10], statistics.mean(used))


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of all threads of a process, to the nanosecond."""
    return time.clock_gettime(~pid << 3 | CPU_CLOCK_OF_PROCESS)


# -- starts -------------------------------------------------------------------------------------------------------------


def start(kind: type[Broker], count: int) -> Spread:
    """Measure from the first import to a broker that serves, in a new process; CPU is of that process alone."""
    walls, used = [], []
    for _ in range(count):
        program = [sys.executable, "-c", START.format(form=kind.__name__)]
        output = subprocess.run(program, check=True, capture_output=True, text=True, cwd=HERE.parent).stdout.split()
        walls.append(float(output[0]))
        used.append(float(output[1]))
    found = Spread(statistics.median(walls), sorted(walls)[count * 9 // 10], statistics.mean(used))
    say(f"start, {kind.__name__}: {found}")
    return found


# -- suites -------------------------------------------------------------------------------------------------------------


def suites(count: int, *, with_kafka: bool) -> dict[str, dict[str, float]]:
    """Measure the same suite on each broker."""
    found = {
        "minibroker in a thread": suite(count),
        "minibroker in a process": suite(count, "-o", "minibroker_form=process"),
    }
    if with_kafka:
        kafka = ApacheKafka()
        try:
            kafka.start()
            found["Apache Kafka"] = suite(count, "--minibroker-bootstrap", f"127.0.0.1:{kafka.port}", peer=kafka)
        except Unavailable as reason:
            say(f"Apache Kafka cannot run here: {reason}")
        finally:
            kafka.stop()
    return found


def suite(count: int, *arguments: str, peer: Peer | None = None) -> dict[str, float]:
    """Return wall and CPU seconds of pytest with its processes and the broker; without the start of a running `peer`."""
    with tempfile.TemporaryDirectory(prefix="bench-testing-") as folder:
        (Path(folder) / "test_suite.py").write_text(SUITE.format(count=count))
        (Path(folder) / "pytest.ini").write_text("[pytest]\n")
        before, of_peer, began = os.times(), peer.cpu_seconds() if peer else 0.0, time.perf_counter()
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_suite.py", *arguments]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        wall, after = time.perf_counter() - began, os.times()
    if f"{count} passed" not in done.stdout:
        raise SystemExit(f"the suite failed:\n{done.stdout[-3000:]}{done.stderr[-1000:]}")
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    found = {"wall s": wall, "CPU s": cpu + (peer.cpu_seconds() - of_peer if peer else 0.0), "ms a test": wall / count * 1000}
    say(f"suite, {' '.join(arguments) or 'thread'}: {found}")
    return found


# -- output -------------------------------------------------------------------------------------------------------------


def tables(found: dict[str, Any]) -> str:
    """Return the tables in Markdown."""
    about = found["about"]
    rows = [
        [form, *(figures[kind] for kind in KINDS), verdict([figures[kind] for kind in KINDS], RESET_TARGET_MS), figures[SEED]]
        for form, figures in found["reset ms"].items()
    ]
    starts = [[form, figures, verdict([figures], START_TARGET_MS)] for form, figures in found["start ms"].items()]
    suite_rows = [[on, *(f"{each:.1f}" for each in figures.values())] for on, figures in found["suite"].items()]
    of = f"{about['date']} UTC, commit {about['commit']}, {about['machine']['processor']}, load {about['load']} at the beginning"
    parts = [
        f"{of}, `benchmarks/testing.py`. Milliseconds: median / 90th percentile / CPU (mean).",
        tabulate(rows, [f"reset, {len(TOPICS)} topics", *KINDS, f"median <= {RESET_TARGET_MS} ms", SEED], "github"),
        tabulate(starts, ["start", "ms", f"median <= {START_TARGET_MS} ms"], "github"),
        tabulate(suite_rows, [f"{about['tests']} tests on", "wall s", "CPU s", "ms a test"], "github", disable_numparse=True),
    ]
    return "\n\n".join(parts) + "\n"


def verdict(figures: Any, target_ms: float) -> str:
    """Return whether all figures meet the target."""
    return "✓ met" if all(each.median <= target_ms for each in figures) else "✗ not met"


def named(figures: Any) -> Any:
    """Return figures as JSON stores them."""
    return figures._asdict() if isinstance(figures, Spread) else {name: named(each) for name, each in figures.items()}


def say(words: str) -> None:
    """Print progress."""
    print(words, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
