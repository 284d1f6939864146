"""The examples of docs/archive.md run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from minibroker.cli.spark.archive import archive as command
from minibroker.spark import session as spark_session
from tests.clients.adapters import CLIENTS, Sent
from tests.support.broker_process import BrokerProcess

PAGE = Path(__file__).parents[3] / "docs" / "archive.md"


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_every_example(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(spark_session, "kafka_session", lambda name: spark)
    names: dict[str, Any] = {}
    with BrokerProcess(tmp_path, "--set", "log.retention.ms=-1") as broker:
        rows = [Sent(None, b"%d" % number, (), 1_700_000_000_000 + number * 40_000_000) for number in range(10)]
        CLIENTS["confluent-kafka"].write(broker.bootstrap, "flights", rows)
        for number, example in enumerate(re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)):
            if number == 1:
                CLIENTS["confluent-kafka"].write(broker.bootstrap, "flights", rows[:3])
            here = example.replace("localhost:9092", broker.bootstrap).replace("/archives", str(tmp_path / "archives"))
            exec(here, names)  # noqa: S102  that is what it is for
    told = capsys.readouterr().out
    assert "10 records, 1 runs" in told
    assert "|2023-11-15|    2|" in told
    assert "1 [(0, 0, 10, 10)]" in told
    assert told.endswith("[0]\n")
    assert names["flights"].count() == 10


def test_every_option_that_it_names_is_there() -> None:
    there = {name for parameter in command.params for name in parameter.opts}
    named = set(re.findall(r"(?<!-)--[a-z][a-z-]*", PAGE.read_text()))
    assert named <= there
    assert {"--allow-gaps", "--allow-recreated", "--overlap", "--format", "--runs", "--follow", "--data-dir"} <= named
