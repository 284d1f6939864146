"""The example of docs/testing.md for PySpark: a broker in a thread of the test's process serves Spark, and is empty for the next test."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from minibroker.testing import Surface

PAGE = Path(__file__).parents[2] / "docs" / "testing.md"


@pytest.mark.timeout(600)
def test_the_example(minibroker: Surface, spark: Any) -> None:
    if not minibroker.data_dir and minibroker.topics():
        pytest.fail("the broker is not empty")
    (example,) = [each for each in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL) if "spark" in each]
    names: dict[str, Any] = {}
    exec(example, names)  # noqa: S102  that is what it is for
    names["test_totals"](minibroker, spark)
    assert minibroker.request_log.of("Fetch", topic="orders")
    minibroker.reset()
    names["test_totals"](minibroker, spark)
