"""The examples of docs/replay.md run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")

from minibroker.spark import session as spark_session
from tests.conftest import NO_RETENTION
from tests.support.broker_process import BrokerProcess

PAGE = Path(__file__).parents[3] / "docs" / "replay.md"


@pytest.mark.timeout(600)
def test_every_example(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    columns = (
        "cast(cast(id AS string) AS binary) AS value",
        "'flights' AS topic",
        "cast(id % 2 AS int) AS partition",
        "id div 2 AS offset",
        "now() AS timestamp",
    )
    spark.range(20).selectExpr(*columns).write.parquet(f"{tmp_path}/archive")
    monkeypatch.setattr(spark_session, "kafka_session", lambda name: spark)
    names: dict[str, Any] = {}
    with BrokerProcess(tmp_path, *NO_RETENTION) as broker:
        for example in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
            here = example.replace("/tmp/", f"{tmp_path}/").replace("localhost:9092", broker.bootstrap)  # noqa: S108
            exec(here, names)  # noqa: S102  that is what it is for
    text = capsys.readouterr().out
    assert "20 records, " in text
    assert "flights-again 1 old 0 9 new 0 9" in text
    assert "0 more records" in text
    assert re.search(r"\|\s*flights\|\s*0\|flights-again\|\s*0\|\s*0\|\s*9\|\s*0\|\s*9\|\s*10\|\s*1\|", text)
    assert sum(each.records for each in names["result"].partitions) == 1000
