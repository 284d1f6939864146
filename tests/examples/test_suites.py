"""The examples' own suites, on minibroker and on Apache Kafka; that of PySpark is run by tests/spark/test_examples.py."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.support.kafka_process import KafkaProcess

EXAMPLES = Path(__file__).parents[2] / "examples"
SUITES = ("orders_async", "orders_sync")
TIMEOUT_S = 240


class Suite:
    """A run of pytest that goes on beside others."""

    def __init__(self, name: str, *arguments: str) -> None:
        self.name = name
        command = [sys.executable, "-m", "pytest", name, "-rs", "-p", "no:cacheprovider", *arguments]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
        self._process = subprocess.Popen(
            command, cwd=EXAMPLES, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def result(self) -> tuple[int, list[str]]:
        """How many tests passed, and why each of the others was skipped; it fails with what pytest said where a test failed."""
        said, _ = self._process.communicate(timeout=TIMEOUT_S)
        assert self._process.returncode == 0, f"{self.name}:\n{said}"
        passed = re.search(r"(\d+) passed", said)
        assert passed, said
        return int(passed[1]), re.findall(r"^SKIPPED .*?: (.*)", said, re.MULTILINE)


def test_on_minibroker_nothing_is_skipped() -> None:
    suites = [Suite(name) for name in SUITES]
    for passed, skipped in [suite.result() for suite in suites]:
        assert passed >= 14
        assert skipped == []


def test_only_minibroker_features_are_skipped_on_apache_kafka(tmp_path: Path) -> None:
    with KafkaProcess(tmp_path) as kafka:
        for name in SUITES:
            passed, skipped = Suite(name, "--minibroker-bootstrap", kafka.bootstrap).result()
            assert passed >= 12
            assert skipped
            assert all(" needs a minibroker: " in reason for reason in skipped)
