"""The examples of docs/report.md run, in Python and on the command line; and its table of fields is whole."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("matplotlib")

from minibroker.clock import ManualClock
from minibroker.log.log_config import LogConfig
from minibroker.log.partition_log import PartitionLog
from minibroker.spark import report as api
from minibroker.spark import session as spark_session
from minibroker.storage.files import RealFiles
from tests.cli.conftest import Commands
from tests.conftest import NO_RETENTION
from tests.spark.report import example
from tests.support.broker_process import BrokerProcess
from tests.support.log_batches import batch_of

PAGE = Path(__file__).parents[3] / "docs" / "report.md"

pytestmark = [pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("shop"), *NO_RETENTION) as started:
        example.fill(started.bootstrap, 0.1)
        yield started
        example.OPEN.clear()


def here(text: str, broker: BrokerProcess, folder: Path) -> str:
    """An example, at this broker and in this folder."""
    text = text.replace("localhost:9092", broker.bootstrap).replace("/var/lib/kafka/data", str(broker.data_dir))
    return re.sub(r"(?<![\w/])(/tmp/)?report\.(svg|png)", lambda match: f"{folder}/report.{match[2]}", text)


def test_every_example_in_python(
    spark: Any, broker: BrokerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(spark_session, "kafka_session", lambda name: spark)
    names: dict[str, Any] = {}
    for text in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        exec(here(text, broker, tmp_path), names)  # noqa: S102  that is what it is for
    out = capsys.readouterr().out
    (topic,) = names["found"].topics
    ends = [partition.high_watermark for partition in topic.partitions]
    contents = topic.partitions[1].contents
    assert f"1 0 {ends[1]} {ends[1] - 2 * 40 - 2} {2 * 40}\n" in out  # two transactions of 40 records, two markers
    assert (contents.control, contents.aborted) == (2, 80)
    assert "|2026-10-23|" in out
    assert "nightly-import" in out
    assert (tmp_path / "report.png").exists()
    assert f"\n{max(each.lag for each in names['found'].groups)}\n" in out
    assert out.rstrip().endswith("True")


def test_every_command(pipelines: Commands, broker: BrokerProcess, tmp_path: Path) -> None:
    (block,) = re.findall(r"```\n(minibroker spark report.*?)```", PAGE.read_text(), re.DOTALL)
    outputs = [pipelines(*shlex.split(here(line, broker, tmp_path))[2:]).out for line in block.splitlines()]
    assert "importer" in outputs[0]
    assert "customers" not in outputs[0]
    assert "PARTITION    LEADER    LOG START    LAST STABLE    HIGH WATERMARK    ON DISK    RECORDS" in outputs[0]
    found = json.loads(outputs[1])
    assert [topic["topic"] for topic in found["topics"]] == ["customers", "orders"]
    assert (tmp_path / "report.svg").read_text().count("prefers-color-scheme") == 1
    assert re.search(r"^HOUR +RECORDS +BYTES$", outputs[2], re.MULTILINE)
    assert "2026-11-21T" in outputs[2]
    assert "records were not counted" in outputs[3]
    assert "2026-11-11T00:00:00.000Z" in outputs[3]
    assert "RECORDS" not in outputs[3]


def test_commands_that_are_wrong(pipelines: Commands, broker: BrokerProcess, tmp_path: Path) -> None:
    at = ("-b", broker.bootstrap)
    for arguments, code, words in [
        (("report", "nobody", *at), 1, "there is no topic nobody"),
        (("report", "orders", *at, "--picture", f"{tmp_path}/a.pdf"), 1, "a picture is a .png or an .svg"),
        (("report", "orders", *at, "--time", "yesterday"), 2, "'yesterday' is not a time"),
        (("report", "--pattern", "(", *at), 1, "not a regular expression"),
        (("report", "--data-dir", str(tmp_path)), 1, "is not a Kafka log directory"),
    ]:
        result = pipelines(*arguments, code=code)
        assert words in result.err
        assert result.err.count("\n") == 1


def test_a_corrupt_batch_is_one_line_with_its_place(pipelines: Commands, tmp_path: Path) -> None:
    log = PartitionLog.open(tmp_path / "orders-0", config=LogConfig(), files=RealFiles(), clock=ManualClock())
    size = len(batch_of(b"x" * 100))
    for _ in range(2):
        log.append(batch_of(b"x" * 100))
    path = tmp_path / "orders-0" / "00000000000000000000.log"
    data = bytearray(path.read_bytes())
    data[-10] ^= 1
    path.write_bytes(data)
    result = pipelines("report", "orders", "--data-dir", str(tmp_path), code=1)
    assert f"Error: {path}, position {size}: corrupt batch: its CRC is wrong\n" in result.err
    assert "1 partition" in pipelines("report", "orders", "--data-dir", str(tmp_path), "--no-scan").out


def test_every_field_is_told_on_the_page() -> None:
    page = PAGE.read_text()
    classes = [getattr(api, name) for name in api.__all__ if name != "report"]
    for field in (field.name for each in classes for field in fields(each)):
        assert f"`{field}`" in page, field
