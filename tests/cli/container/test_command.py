"""`minibroker container` as a process: what stands in the environment and makes no sense is one line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.broker_process import BrokerProcess


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("MINIBROKER_SERVE_OPTIONS", "--set 'x=1", """MINIBROKER_SERVE_OPTIONS: "--set 'x=1" cannot be split like in a shell: """),
        ("MINIBROKER_SERVE_OPTIONS", "--broker 3", "No such option '--broker'."),
        ("KAFKA_LISTENERS", "9092", "listeners: '9092' is not NAME://HOST:PORT"),
        ("KAFKA_ADVERTISED_LISTENERS", "localhost:9092", "advertised.listeners: 'localhost:9092' is not NAME://HOST:PORT"),
    ],
)
def test_what_makes_no_sense_is_one_line(tmp_path: Path, variable: str, value: str, message: str) -> None:
    environment = {**os.environ, "KAFKA_LOG_DIRS": str(tmp_path), variable: value}
    command = [sys.executable, "-m", "minibroker", "container", "--config", str(tmp_path / "none")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode in {1, 2}
    assert done.stderr.startswith(f"Error: {message}")
    assert done.stderr.count("\n") == 1
    assert not done.stdout


def test_health_asks_where_the_options_say(tmp_path: Path) -> None:
    """As a health check does: the same environment, and a broker that listens by an option."""
    with BrokerProcess(tmp_path) as broker:
        port = broker.bootstrap.rpartition(":")[2]
        for options in (f"-p {port}", f"--set listeners=PLAINTEXT://127.0.0.1:{port}"):
            environment = {**os.environ, "KAFKA_LISTENERS": "PLAINTEXT://:1", "MINIBROKER_SERVE_OPTIONS": options}
            command = [sys.executable, "-m", "minibroker", "container", "--config", str(tmp_path / "none"), "--health"]
            done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
            assert (done.returncode, done.stderr) == (0, "")
            assert done.stdout.startswith("healthy: ")
