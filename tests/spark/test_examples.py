"""The suites of the examples with PySpark, on minibroker and on Apache Kafka, with the Spark session that tests share."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from minibroker.spark import session as spark_session
from tests.support.kafka_process import KafkaProcess

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(params=["minibroker", pytest.param("kafka", marks=pytest.mark.java)])
def given(request: pytest.FixtureRequest) -> Iterator[str]:
    """HOST:PORT of an Apache Kafka; "" for minibroker."""
    if request.param == "minibroker":
        yield ""
        return
    with tempfile.TemporaryDirectory() as folder, KafkaProcess(Path(folder)) as kafka:
        yield kafka.bootstrap


class Outcomes:
    """A plugin that notes the outcome of each test."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or not report.passed:
            self.found.append(report.longreprtext if report.failed else report.outcome)


@pytest.mark.timeout(600)
def test_orders_spark(spark: Any, given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = outcomes_of("orders_spark", given, spark, monkeypatch)
    assert found == ["passed"] * 4 + ["skipped" if given else "passed"]  # faults


def test_orders_archive(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("grpc_tools")
    assert outcomes_of("orders_archive", "", spark, monkeypatch) == ["passed"]


def outcomes_of(suite: str, bootstrap: str, spark: Any, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Run a suite without pytester, which forgets imported modules after a run: another run would mix old ones and new ones."""
    monkeypatch.setattr(spark_session, "kafka_session", lambda *_, **__: spark)
    monkeypatch.setattr(spark, "stop", lambda: None)
    monkeypatch.syspath_prepend(EXAMPLES)
    outcomes = Outcomes()
    arguments = ["--minibroker-bootstrap", bootstrap] if bootstrap else []
    pytest.main(["-p", "no:cacheprovider", str(EXAMPLES / suite), *arguments], plugins=[outcomes])
    return sorted(outcomes.found)
