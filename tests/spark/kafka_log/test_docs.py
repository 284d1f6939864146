"""The examples of docs/kafka-log.md run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")

from minibroker.clock import ManualClock
from minibroker.log.log_config import LogConfig
from minibroker.log.partition_log import PartitionLog
from minibroker.spark import session as spark_session
from minibroker.spark.kafka_log.options import parse_options
from minibroker.storage.files import RealFiles
from tests.support.log_batches import batch_of

PAGE = Path(__file__).parents[3] / "docs" / "kafka-log.md"


@pytest.mark.timeout(600)
def test_every_example(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    log = PartitionLog.open(tmp_path / "data" / "flights-0", config=LogConfig(), files=RealFiles(), clock=ManualClock())
    for number in range(20):
        log.append(batch_of(b"%d" % number, b"more"))
    monkeypatch.setattr(spark_session, "kafka_session", lambda name: spark)
    names: dict[str, Any] = {}
    for example in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        here = example.replace("/tmp/flights", f"{tmp_path}/flights").replace("/var/lib/kafka/data", f"{tmp_path}/data")  # noqa: S108
        exec(here, names)  # noqa: S102  that is what it is for
    assert "|flights|        0|   40|" in capsys.readouterr().out
    assert names["values"].columns == ["value", "offset"]
    assert names["rescued"].where("damage is null").count() == 40
    assert len(names["parts"]) == 1
    assert spark.read.parquet(f"{tmp_path}/flights").count() == 40


def test_every_option_of_the_table_is_known() -> None:
    """And those that the module tells of are in the table."""
    page = PAGE.read_text()
    cells = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `")]
    named = {name for cell in cells for name in re.findall(r"`([\w.]+)`", cell)}
    text = parse_options.__globals__["__doc__"]
    assert named - {"kafka.isolation.level"} == set(
        re.findall(r"\b[a-z]+[A-Z]\w*|\bsubscribe\b|\bassign\b|\bmode\b", text.split("\n\n")[1])
    )
