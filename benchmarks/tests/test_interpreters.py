"""minibroker by several interpreters: what is asked of each, and how the picture compares them."""

from __future__ import annotations

import platform
import shlex
import sys
from dataclasses import replace

import pytest
from figures_of_runs import ABOUT, a_run
from interpreters import Interpreter, interpreter, peers_of, warning
from peers import Unavailable
from reporting.interpreter_plot import bars
from reporting.results import Spread

from minibroker.compilation import is_compiled


def test_an_interpreter_is_asked_and_runs_the_broker() -> None:
    found = interpreter([sys.executable])
    assert found[:2] == (platform.python_implementation(), platform.python_version())
    assert found.compiled == is_compiled()
    ((key, (command, kind, same)),) = peers_of([f"env {shlex.quote(sys.executable)}"]).items()
    assert same == found
    assert key == found.key
    broker = kind()
    broker.folder.rmdir()
    assert broker.command()[:4] == ["env", sys.executable, "-m", "minibroker"]
    assert shlex.split(command)[0] == "env"


def test_a_command_that_starts_no_interpreter_is_refused() -> None:
    with pytest.raises(Unavailable, match="no-such-python"):
        interpreter(["no-such-python"])
    with pytest.raises(Unavailable, match="false: failed"):
        interpreter(["false"])


def test_names_and_warnings() -> None:
    good, bad = (
        Interpreter("CPython", "3.14.1", optimised=True, compiled=True),
        Interpreter("CPython", "3.11.7", optimised=False, compiled=False),
    )
    assert (good.key, bad.key) == ("minibroker 3.14.1 compiled", "minibroker 3.11.7 unoptimised")
    assert (good.build, bad.build) == ("CPython 3.14.1, optimised, compiled", "CPython 3.11.7, NOT optimised")
    assert warning(good) is None
    assert "without PGO" in str(warning(bad))


def test_the_picture_compares_with_the_first_interpreter() -> None:
    """Twice the throughput is 2 x, and so is half of the CPU."""
    newer = "minibroker 3.14.1"
    run = a_run(
        ("minibroker", "produce 1 x 100 B", "requests/s", [100, 200]),
        (newer, "produce 1 x 100 B", "requests/s", [200, 400]),
        ("minibroker", "produce 1 x 100 B", "CPU us/request", [20, 40]),
        (newer, "produce 1 x 100 B", "CPU us/request", [10, 20]),
        about=replace(ABOUT, interpreters={newer: "python3.14"}, peers=("minibroker", newer), loads=("produce 1 x 100 B",)),
    )
    assert [(bar.peer, bar.ratio) for bar in bars(run)] == [(newer, Spread(2, 2, 2))] * 2
