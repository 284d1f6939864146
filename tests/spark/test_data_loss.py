"""Spark reads a topic that loses records behind its back: the settings of Spark's own tests (segments of 70 bytes, 40 bytes kept)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clients.adapters import CLIENTS, Sent
from tests.spark.test_streaming import Pipeline
from tests.support.broker_process import BrokerProcess

SETTINGS = {"log.segment.bytes": "70", "log.retention.bytes": "40", "log.retention.check.interval.ms": "100"}


@pytest.fixture
def losing(tmp_path: Path) -> Iterator[BrokerProcess]:
    arguments = [word for name, value in SETTINGS.items() for word in ("--set", f"{name}={value}")]
    with BrokerProcess(tmp_path, *arguments) as broker:
        yield broker


def fill(broker: BrokerProcess, values: range) -> None:
    """One batch and so one segment a record."""
    for value in values:
        CLIENTS["confluent-kafka"].write(broker.bootstrap, "losing", [Sent(None, b"%d" % value, (), int(time.time() * 1000))])


def until_begins_at(broker: BrokerProcess, offset: int) -> None:
    folder = broker.data_dir / "losing-0"
    deadline = time.monotonic() + 60
    while min(int(path.name[:20]) for path in folder.glob("*.log")) != offset:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_query_goes_on_behind_the_loss_if_allowed(spark: Any, losing: BrokerProcess, tmp_path: Path) -> None:
    options = {"kafka.bootstrap.servers": losing.bootstrap, "failOnDataLoss": "false"}
    fill(losing, range(10))
    until_begins_at(losing, 9)
    pipeline = Pipeline(spark, options, "losing", tmp_path)
    pipeline.run()
    assert pipeline.rows() == [(0, 9, "9")]
    fill(losing, range(10, 30))
    until_begins_at(losing, 29)
    pipeline.run()
    assert pipeline.rows() == [(0, 9, "9"), (0, 29, "29")]


def test_a_query_fails_if_it_minds(spark: Any, losing: BrokerProcess, tmp_path: Path) -> None:
    pipeline = Pipeline(spark, {"kafka.bootstrap.servers": losing.bootstrap}, "losing", tmp_path)
    fill(losing, range(3))
    until_begins_at(losing, 2)
    pipeline.run()
    fill(losing, range(3, 10))
    until_begins_at(losing, 9)
    with pytest.raises(Exception, match=r"(?i)data loss|failOnDataLoss|may have been missed|lost"):
        pipeline.run()
