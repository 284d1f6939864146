"""What a user sees of a running pipeline; Spark's figures are judged in test_cli.py's run."""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import Any

import pytest

from minibroker.spark import progress
from minibroker.spark.progress import JobStatus, Progress, bar, line, phase


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def running(monkeypatch: pytest.MonkeyPatch, status: JobStatus) -> Any:
    monkeypatch.setattr(progress, "status_of", lambda context: status)
    return SimpleNamespace()


def test_a_bar_and_a_line() -> None:
    status = JobStatus(tasks=12, tasks_done=8, tasks_failed=1, records=3_400_000)
    assert bar("writing flights", 8, 12, status, 83) == (
        "writing flights  [################--------]  8/12  3,400,000 records  failed and tried again: 1  1:23"
    )
    assert line("writing flights", 8, 12, status, 3_723) == (
        "writing flights: 8 of 12, 3,400,000 records, failed and tried again: 1, 1:02:03"
    )
    assert bar("starting Spark", 0, 0, progress.IDLE, 3) == "starting Spark  0:03"


def test_on_a_terminal_one_line_is_drawn_again_and_erased() -> None:
    out, clock = Terminal(), Clock()
    shown = Progress(out, now=clock)
    shown.look()
    assert out.getvalue() == ""
    with phase("moving files", total=4) as moving:
        shown.look()
        moving.advance(2)
        clock.now_s += 2
        shown.look()
        assert out.getvalue().endswith("\rmoving files  [############------------]  2/4  0:02\x1b[K")
    shown.look()
    assert out.getvalue().endswith("\x1b[K\r\x1b[K")
    shown.stop()
    with phase("too late"):
        shown.look()
    assert "too late" not in out.getvalue()


def test_stop_erases_what_is_drawn() -> None:
    out = Terminal()
    shown = Progress(out, now=Clock())
    with phase("outer"), phase("inner"):
        shown.look()
        shown.stop()
    assert out.getvalue() == "\rinner  0:00\x1b[K\r\x1b[K"


def test_elsewhere_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    out, clock = io.StringIO(), Clock()
    shown = Progress(out, now=clock)
    shown.watch(running(monkeypatch, JobStatus(tasks=4, tasks_done=1, tasks_failed=0, records=0)))
    for _ in range(50):
        shown.look()
        clock.now_s += 0.5
    assert out.getvalue() == "working: 1 of 4, 0:10\nworking: 1 of 4, 0:20\n"


def test_a_long_line_is_cut_to_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    out = Terminal()
    shown = Progress(out, now=Clock())
    with phase("a pipeline with a very long name"):
        shown.look()
    assert out.getvalue() == "\ra pipeline with a v\x1b[K"
