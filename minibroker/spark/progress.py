"""Show on standard error how far Spark is: a bar on a terminal, a line every ten seconds elsewhere. Sizes are in readable units.

    phase       declares what a pipeline does now: `with phase("writing the archive"):`
    JobStatus   Spark's figures: tasks and records of the running jobs
    Progress    a thread that reads both twice a second and prints them (bar, line)

Pipelines always declare their phases. The command line shows them; without a Progress they cost nothing.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TextIO

from minibroker.spark.failures import jvm_errors

if TYPE_CHECKING:
    from pyspark import SparkContext


LOOK_S = 0.5  #: between two updates
LINE_S = 10.0  #: between two lines if standard error is not a terminal
BAR_COLUMNS = 24


class JobStatus(NamedTuple):
    """Figures of the jobs that run now."""

    tasks: int
    tasks_done: int
    tasks_failed: int
    records: int  #: read so far; the figures of running tasks are some seconds old


IDLE = JobStatus(0, 0, 0, 0)


@dataclass(slots=True)
class Phase:
    """One step of a pipeline; `advance` counts work that Spark does not see."""

    words: str
    total: int = 0
    done: int = 0

    def advance(self, count: int = 1) -> None:
        """Count `count` more items as done."""
        self.done += count


#: the open phases, the innermost last; one process runs one pipeline at a time
_phases: list[Phase] = []


@contextmanager
def phase(words: str, total: int = 0) -> Iterator[Phase]:
    """Show `words` ("writing flights") while the block runs; give a `total` if `advance` counts up to it."""
    entered = Phase(words, total)
    _phases.append(entered)
    try:
        yield entered
    finally:
        _phases.remove(entered)


def status_of(context: SparkContext) -> JobStatus:
    """Return the figures of Spark's running jobs."""
    tracker = context.statusTracker()
    tasks = done = failed = records = 0
    for job in tracker.getActiveJobsIds():
        info = tracker.getJobInfo(job)
        for stage in info.stageIds if info else ():
            figures = tracker.getStageInfo(stage)
            if figures is None:
                continue
            tasks += figures.numTasks
            done += figures.numCompletedTasks
            failed += figures.numFailedTasks
            records += _records_read(context, stage)
    return JobStatus(tasks, done, failed, records)


def _records_read(context: SparkContext, stage: int) -> int:
    """Return a stage's records from the status store of Spark's web pages."""
    return int(context._jsc.sc().statusStore().lastStageAttempt(stage).inputRecords())  # noqa: SLF001  PySpark's tracker has no records


class Progress:
    """Show phases and jobs from `start` to `stop`."""

    def __init__(self, out: TextIO, *, now: Callable[[], float] = time.monotonic) -> None:
        self._out = out
        self._now = now
        self._is_terminal = out.isatty()
        self._shown: Phase | None = None
        self._began_s = now()  #: start of what is shown
        self._printed_s = self._began_s
        self._is_drawn = False
        self._context: SparkContext | None = None
        self._quit = threading.Event()
        self._lock = threading.Lock()  #: a bar is drawn or erased as a whole
        self._thread = threading.Thread(target=self._run, name="progress", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def watch(self, context: SparkContext) -> None:
        """Show the jobs of this Spark context as well."""
        self._context = context

    def stop(self) -> None:
        """Stop showing progress; the terminal's line is empty when this returns."""
        self._context = None
        self._quit.set()
        with self._lock:
            self._erase()

    def look(self) -> None:
        """Update what is shown."""
        status = self._status()
        current = _phases[-1] if _phases else None
        with self._lock:
            if self._quit.is_set():
                return
            if current is None and not status.tasks:
                self._erase()
                self._shown, self._began_s = None, self._now()
                self._printed_s = self._began_s
                return
            if current is not self._shown:
                self._shown, self._began_s = current, self._now()
            self._show(current, status)

    def _status(self) -> JobStatus:
        context = self._context
        if context is None:
            return IDLE
        try:
            return status_of(context)
        except jvm_errors():  # the stage is gone, or the JVM stops: the next look shows the state
            return IDLE

    def _show(self, current: Phase | None, status: JobStatus) -> None:
        now_s = self._now()
        elapsed_s = now_s - self._began_s
        words = current.words if current else "working"
        total, done = (current.total, current.done) if current and current.total else (status.tasks, status.tasks_done)
        if self._is_terminal:
            columns = shutil.get_terminal_size().columns
            self._out.write(f"\r{bar(words, done, total, status, elapsed_s)[: columns - 1]}\x1b[K")
            self._is_drawn = True
        elif now_s - self._printed_s >= LINE_S:
            self._printed_s = now_s
            self._out.write(f"{line(words, done, total, status, elapsed_s)}\n")
        self._out.flush()

    def _erase(self) -> None:
        if self._is_drawn:
            self._is_drawn = False
            self._out.write("\r\x1b[K")
            self._out.flush()

    def _run(self) -> None:
        while not self._quit.wait(LOOK_S):
            self.look()


def bar(words: str, done: int, total: int, status: JobStatus, elapsed_s: float) -> str:
    """Return the text for a terminal: `writing flights  [########----]  8/12  3,400,000 records  0:23`."""
    filled = BAR_COLUMNS * min(done, total) // total if total else 0
    parts = [
        words,
        f"[{'#' * filled}{'-' * (BAR_COLUMNS - filled)}]  {done:,}/{total:,}" if total else "",
        *_figures(status),
        _clock(elapsed_s),
    ]
    return "  ".join(part for part in parts if part)


def line(words: str, done: int, total: int, status: JobStatus, elapsed_s: float) -> str:
    """Return the text for a log: `writing flights: 8 of 12, 3,400,000 records, 0:23`."""
    parts = [f"{done:,} of {total:,}" if total else "", *_figures(status), _clock(elapsed_s)]
    return f"{words}: {', '.join(part for part in parts if part)}"


def _figures(status: JobStatus) -> tuple[str, str]:
    failed = f"failed and tried again: {status.tasks_failed:,}" if status.tasks_failed else ""
    return f"{status.records:,} records" if status.records else "", failed


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


def size_text(size: int) -> str:
    """Return bytes with three digits: 987 B, 1.23 MB; a kB is 1000 B."""
    value = float(size)
    for unit in UNITS:
        if value < 999.5 or unit == UNITS[-1]:
            break
        value /= 1000
    return f"{size} B" if unit == "B" else f"{value:#.3g}".rstrip(".") + f" {unit}"
