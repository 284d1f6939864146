"""`make bench` in small: every load runs against a real broker process and gives its figures."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

RUN = Path(__file__).parents[2] / "benchmarks" / "run.py"


def test_every_load_gives_its_figures() -> None:
    command = [sys.executable, str(RUN), "--peer", "minibroker", "--rounds", "1", "--scale", "0.004", "--no-save"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    for figure in (
        "cold start ms",
        "idle memory MB",
        "MB for 1,000 connections",
        "CPU us/request",
        "CPU s/GB",
        "requests/s",
        "acknowledged p99 us",
        "delivered p50 us",
        "compaction s/GB",
        "recovered after s",
        "start after SIGKILL s",
        "check MB/s",
        "acknowledged p99 us under compaction",
        "transactions/s",
        "EndTxn p99 us",
        "first message p50 us",
        "first message, confluent-kafka p50 ms",
        "rebalance of 20 p50 us",
        "commits/s",
    ):
        assert f"| {figure}" in done.stdout


def test_an_unknown_load_is_refused() -> None:
    done = subprocess.run([sys.executable, str(RUN), "--load", "magic"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "'magic' is not one of" in done.stderr


def test_a_peer_takes_only_the_loads_that_mean_something_to_it() -> None:
    command = [sys.executable, str(RUN), "--peer", "mock", "--rounds", "1", "--scale", "0.004", "--no-save", "--load", "produce 1 x 100 B"]
    done = subprocess.run([*command, "--load", "group of 20"], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "| produce 1 x 100 B" in done.stdout
    assert "group of 20" not in done.stdout
