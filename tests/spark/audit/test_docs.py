"""The examples of docs/audit.md run, and its calls are valid."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")

from minibroker.cli.spark.audit import audit as command
from minibroker.spark import session as spark_session
from minibroker.spark.audit import parse_side
from minibroker.spark.audit.result import MISSING_RIGHT
from tests.clients.adapters import CLIENTS, Sent

PAGE = (Path(__file__).parents[3] / "docs" / "audit.md").read_text()


@pytest.mark.timeout(600)
def test_every_example(spark: Any, bootstrap: str, tmp_path: Path, admin: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from confluent_kafka.admin import NewTopic

    admin.create_topics([NewTopic("flights", 1, 1, config={"retention.ms": "-1"})])["flights"].result(timeout=60)
    try:
        CLIENTS["confluent-kafka"].write(bootstrap, "flights", [Sent(None, b"%d" % number) for number in range(20)])
        monkeypatch.setattr(spark_session, "kafka_session", lambda name: spark)
        names: dict[str, Any] = {}
        for example in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
            exec(example.replace("localhost:9092", bootstrap).replace("/tmp/archive", f"{tmp_path}/archive"), names)  # noqa: S102, S108  that is what it is for
    finally:
        admin.delete_topics(["flights"])["flights"].result(timeout=60)
    assert names["result"].is_equal
    assert names["result"].left_count == 20
    first = names["first"]
    assert (first.kind, first.position, first.left.offset, first.left.value) == (MISSING_RIGHT, 10, 10, b"10")


def test_every_call_is_a_valid_one() -> None:
    calls = [line for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()]
    assert len(calls) >= 3
    for call in calls:
        # click keeps the help option of the first context for the whole process, and the pages of tests/cli show `-h`
        command.make_context("audit", shlex.split(call)[3:], help_option_names=["-h", "--help"])


def test_the_ways_to_write_a_side_are_those_that_are_understood() -> None:
    named = set(re.findall(r"`([a-z]+:)(?:DIR|PATH|HOST)", PAGE))
    assert named == {"kafka:", "log:", "table:", "delta:"}
    text = parse_side.__doc__
    assert text is not None
    assert all(f"`{each}`" in text for each in named)
