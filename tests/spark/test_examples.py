"""The suite of examples/orders_spark, on minibroker and on Apache Kafka, with the Spark session that tests share."""

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
    """A plugin that notes what became of each test."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or not report.passed:
            self.found.append(report.longreprtext if report.failed else report.outcome)


@pytest.mark.timeout(600)
def test_the_suite(spark: Any, given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not by pytester, which forgets imported modules behind a run: another run would mix old ones and new ones."""
    monkeypatch.setattr(spark_session, "kafka_session", lambda *_, **__: spark)
    monkeypatch.setattr(spark, "stop", lambda: None)
    monkeypatch.syspath_prepend(EXAMPLES)
    outcomes = Outcomes()
    arguments = ["--minibroker-bootstrap", given] if given else []
    pytest.main(["-p", "no:cacheprovider", str(EXAMPLES / "orders_spark"), *arguments], plugins=[outcomes])
    assert sorted(outcomes.found) == ["passed"] * 4 + ["skipped" if given else "passed"]  # faults
