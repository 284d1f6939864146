"""`minibroker storage check`: verify log directories, in as many processes as there are processors."""

from __future__ import annotations

import json
import os
import pickle
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

import click

from minibroker.background import WorkLost
from minibroker.cli.options import output_option
from minibroker.cli.storage_info import with_directories
from minibroker.cluster.directories.storage_checking import StorageCheck, StorageTotals
from minibroker.coordinator.record_checking import record_check_of
from minibroker.log.findings import ERROR, Finding
from minibroker.log.segment_checking import SegmentTask, check_segment, check_segments
from minibroker.storage.files import RealFiles

if TYPE_CHECKING:
    from minibroker.server.worker_processes import Worker

GROUP_BYTES = 64 << 20  #: the work of a process at one time: a large segment, or many small ones
GROUP_SEGMENTS = 256
ALONE_BYTES = 64 << 20  #: up to this size, starting a second process takes longer than it saves

Group = list[SegmentTask]


@click.command(
    "check",
    epilog="""\b
Examples:
  minibroker storage check ./data
  minibroker storage check /var/lib/kafka/data/orders-0 --deep
  minibroker storage check -c server.properties -o json
""",
)
@with_directories
@click.option("--deep", is_flag=True, help="Decompress and decode every record as well.")
@click.option(
    "--jobs", type=click.IntRange(min=1), default=os.cpu_count() or 1, show_default="one per processor", help="Number of processes."
)
@click.option("--progress/--no-progress", default=None, help="Show progress on stderr.  [default: on a terminal]")
@output_option("text", "json", "jsonl")
def check(paths: tuple[str, ...], *, deep: bool, jobs: int, progress: bool | None, output: str) -> None:
    """Verify log directories. Writes nothing.

    A DIR is one of log.dirs, of minibroker or of Apache Kafka, or the folder of one partition. The command checks the CRC of every
    batch, offsets, indexes, aborted transactions, producer snapshots, leader epochs, checkpoints, the records of __transaction_state
    and __consumer_offsets, and whether the metadata log agrees with the folders. Give all log.dirs of a node together, so that the
    metadata log is among them.

    An error is damage, and makes the exit code 1. A warning is something that a crash leaves and the next start repairs, or that may
    be intended. The directory of a running broker can be checked, but files that change meanwhile may look damaged.
    """
    started = time.perf_counter()
    work = StorageCheck(RealFiles(), list(paths), deep=deep, record_check_of=record_check_of)
    work.plan()
    _run(work, jobs, _Progress(work, shown=sys.stderr.isatty() if progress is None else progress))
    findings = work.finish()
    _print(findings, work.totals, time.perf_counter() - started, output)
    if any(finding.severity == ERROR for finding in findings):
        raise click.exceptions.Exit(1)


# Work


class _Progress:
    """One line on stderr that is overwritten."""

    def __init__(self, work: StorageCheck, *, shown: bool) -> None:
        self._work = work
        self._shown = shown
        self._total = sum(map(work.size_of, work.tasks)) if shown else 0
        self._started = time.perf_counter()

    def show(self) -> None:
        """Show the progress."""
        if self._shown:
            done = self._work.totals.bytes
            speed = done / 1e6 / max(time.perf_counter() - self._started, 1e-9)
            click.echo(f"\r{done / 1e6:,.0f} of {self._total / 1e6:,.0f} MB, {speed:,.0f} MB/s ", err=True, nl=False)

    def clear(self) -> None:
        """Clear the line."""
        if self._shown:
            click.echo("\r\x1b[K", err=True, nl=False)


def _run(work: StorageCheck, jobs: int, progress: _Progress) -> None:
    groups = list(_groups(work))
    total = sum(size for size, _ in groups)
    try:
        if jobs == 1 or total <= ALONE_BYTES or len(groups) == 1:
            for task in (task for _, group in groups for task in group):
                work.done(task.directory, check_segment(RealFiles(), task))
                progress.show()
        else:
            _run_in_processes(work, [group for _, group in groups], min(jobs, len(groups)), progress.show)
    finally:
        progress.clear()


def _groups(work: StorageCheck) -> Iterator[tuple[int, Group]]:
    """Yield pieces of work with their sizes, the largest segments first, so that all processes end at about the same time."""
    group: Group = []
    size = 0
    for task_size, task in sorted(((work.size_of(task), task) for task in work.tasks), key=lambda each: -each[0]):
        group.append(task)
        size += task_size
        if size >= GROUP_BYTES or len(group) >= GROUP_SEGMENTS:
            yield size, group
            group, size = [], 0
    if group:
        yield size, group


def _run_in_processes(work: StorageCheck, groups: list[Group], jobs: int, show: Callable[[], None]) -> None:
    """Run in processes, with a thread for each. They never outlive this process."""
    from minibroker.server.worker_processes import Worker  # noqa: PLC0415  a small directory needs none

    queue: SimpleQueue[Group] = SimpleQueue()
    for group in groups:
        queue.put(group)
    workers = [Worker() for _ in range(jobs)]
    results: SimpleQueue[Any] = SimpleQueue()
    with ThreadPoolExecutor(jobs) as threads:
        futures = [threads.submit(_drive, worker, queue, results) for worker in workers]
        try:
            _collect(work, futures, results, show)
        except WorkLost as error:
            raise click.ClickException(f"the check is not complete: {error}; try --jobs 1") from error
        finally:
            for worker in workers:
                worker.kill()
    for worker in workers:
        worker.end()


def _drive(worker: Worker, queue: SimpleQueue[Group], results: SimpleQueue[Any]) -> None:
    """Give a process work until the queue is empty. Runs in a thread."""
    while True:
        try:
            group = queue.get_nowait()
        except Empty:
            return
        results.put(worker.call(pickle.dumps(partial(check_segments, RealFiles(), group))))


def _collect(work: StorageCheck, futures: list[Future[None]], results: SimpleQueue[Any], show: Callable[[], None]) -> None:
    pending = set(futures)
    while pending or not results.empty():
        try:
            for directory, report in results.get(timeout=0.1):
                work.done(directory, report)
        except Empty:
            ended, pending = wait(pending, timeout=0, return_when=FIRST_EXCEPTION)
            for future in ended:
                future.result()
        show()


# Output


def _print(findings: list[Finding], totals: StorageTotals, seconds: float, output: str) -> None:
    errors = sum(finding.severity == ERROR for finding in findings)
    items = [{"severity": each.severity, "file": each.path, "position": each.position, "problem": each.problem} for each in findings]
    summary = {"errors": errors, "warnings": len(findings) - errors, **totals._asdict(), "seconds": round(seconds, 3)}
    if output == "json":
        click.echo(json.dumps({**summary, "findings": items}, ensure_ascii=False, indent=2))
    elif output == "jsonl":
        for item in items:
            click.echo(json.dumps(item, ensure_ascii=False))
        click.echo(json.dumps({"severity": "summary", **summary}))
    else:
        for finding in findings:
            where = finding.path if finding.position is None else f"{finding.path} at position {finding.position}"
            click.echo(f"{finding.severity}: {where}: {finding.problem}")
        click.echo(_in_words(totals, seconds, errors, len(findings) - errors))


def _in_words(totals: StorageTotals, seconds: float, errors: int, warnings: int) -> str:
    megabytes = totals.bytes / 1e6
    return (
        f"{_count(totals.partitions, 'partition')}, {_count(totals.segments, 'segment')}, {_count(totals.batches, 'batch', 'batches')}, "
        f"{megabytes:,.1f} MB in {seconds:.2f} s ({megabytes / max(seconds, 1e-9):,.0f} MB/s): "
        f"{_count(errors, 'error')}, {_count(warnings, 'warning')}"
    )


def _count(number: int, one: str, many: str | None = None) -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"
