"""docs/lab.md is true: its Python and its calls of the lab run as they stand there, and its table has all commands."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from minibroker.testing import BrokerThread
from tests.support.broker_process import BrokerProcess
from tests.testing.lab.reference_page import with_table

PAGE = (Path(__file__).parents[3] / "docs" / "lab.md").read_text()
PYTHON = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
NODE = re.findall(r"```js\n(.*?)```", PAGE, re.DOTALL)
CURL = re.findall(r"^curl .*$", PAGE, re.MULTILINE)


@pytest.mark.parametrize("number", range(2))
def test_the_python(number: int) -> None:
    assert len(PYTHON) == 2
    exec(PYTHON[number], {})  # noqa: S102  that is what it is for


def test_the_table_has_all_commands() -> None:
    rows = re.findall(r"^\| (`[^|]+`) \|", PAGE.partition("| command |")[2], re.MULTILINE)
    table = {name for row in rows for name in re.findall(r"`([a-z_.]+)`", row)}
    with BrokerThread() as broker:
        commands = {each["command"] for each in broker._hosted.lab.table.describe()}
    assert table == commands
    assert with_table(PAGE) == PAGE, "run: python -m tests.testing.lab.reference_page"


def test_programs_in_other_languages(tmp_path: Path) -> None:
    assert (len(CURL), len(NODE)) == (7, 1)
    if shutil.which("curl") is None:
        pytest.skip("needs curl")
    with BrokerProcess(tmp_path, "--lab-port", "0") as process:
        (url,) = re.findall(r", lab (http://\S+),", process.output)
        for command in CURL[1:]:
            call = command.replace("--json", "-H 'Content-Type: application/json' -d")  # older ones know it not
            words = [*shlex.split(call.replace("$LAB", url))]
            answer = json.loads(subprocess.run(words, capture_output=True, text=True, timeout=60, check=True).stdout)
            assert list(answer) == ["result"]
        if shutil.which("node") is not None:
            result = subprocess.run(
                ["node", "--input-type=module", "-e", NODE[0]],
                env=os.environ | {"LAB": url},
                capture_output=True,
                text=True,
                timeout=60,
                check=True,
            )
            assert "calls: 0, hits: 0" in result.stdout
