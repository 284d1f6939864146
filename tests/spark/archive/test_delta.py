"""Archives in Delta Lake, by a program with a Spark of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from minibroker.spark import session as spark_session
from tests.support.broker_process import BrokerProcess


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_runs_deaths_and_streams(tmp_path: Path) -> None:
    problem = spark_session.missing()
    if problem:
        pytest.skip(problem)
    with BrokerProcess(tmp_path) as broker:
        command = [sys.executable, "-m", "tests.spark.archive.delta_program", broker.bootstrap, str(tmp_path)]
        ran = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=800, check=False)
    told = ran.stdout.splitlines()
    if ran.returncode and "io.delta" in ran.stderr and "not found" in ran.stderr:
        pytest.skip("Delta Lake's jars cannot be fetched here")
    assert ran.returncode == 0, ran.stderr[-4000:]
    assert told[-1] == "[5, 6, 3, 3, 3]", told
