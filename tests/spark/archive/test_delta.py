"""Archives in Delta Lake, by a program with a Spark of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from minibroker.spark import session as spark_session
from minibroker.spark.archive import delta
from tests.support.broker_process import BrokerProcess


def test_each_spark_gets_the_delta_lake_for_it() -> None:
    versions = {spark: delta.package_for(spark).rpartition(":")[2] for spark in ("4.0.0", "4.0.2", "4.1.1", "4.2.0", "5.0.0")}
    assert versions == {"4.0.0": "4.0.0", "4.0.2": "4.0.0", "4.1.1": "4.1.0", "4.2.0": "4.2.0", "5.0.0": "4.2.0"}
    assert delta.package_for(pyspark.__version__) in delta.PACKAGES


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_runs_deaths_and_streams(tmp_path: Path) -> None:
    problem = spark_session.missing()
    if problem:
        pytest.skip(problem)
    with BrokerProcess(tmp_path) as broker:
        command = [sys.executable, "-m", "tests.spark.archive.delta_program", broker.bootstrap, str(tmp_path)]
        result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=800, check=False)
    lines = result.stdout.splitlines()
    if result.returncode and "io.delta" in result.stderr and "not found" in result.stderr:
        pytest.skip("Delta Lake's jars cannot be fetched here")
    assert result.returncode == 0, result.stderr[-4000:]
    assert lines[-1] == "[5, 6, 3, 3, 3]", lines
