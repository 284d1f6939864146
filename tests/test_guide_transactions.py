"""docs/transactions.md is true: its shell lines print what it shows, its program does what it says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.broker_process import BrokerProcess

PAGE = (Path(__file__).parents[1] / "docs" / "transactions.md").read_text()
MINIBROKER = f"{sys.executable} -m minibroker"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("broker")) as broker:
        yield broker


def shell(line: str, broker: BrokerProcess) -> str:
    environment = os.environ | {"MINIBROKER_BOOTSTRAP_SERVER": broker.bootstrap}
    line = re.sub(r"(^|\| )minibroker ", rf"\1{MINIBROKER} ", line)
    done = subprocess.run(["bash", "-c", line], env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, ""), line
    return "".join(f"{line.rstrip()}\n" for line in done.stdout.splitlines())


def test_the_shell_lines(broker: BrokerProcess) -> None:
    """Each text block is what the shell block before it prints, all but its first lines' comments."""
    blocks = re.findall(r"```sh\n(.*?)```\n+```text\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) == 2
    for lines, printed in blocks:
        said = "".join(shell(line, broker) for line in lines.splitlines())
        assert said == printed


def test_the_program(broker: BrokerProcess) -> None:
    (program,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    program = program.replace("localhost:9092", broker.bootstrap)
    for new, receipts in ((5, 5), (0, 5), (3, 8)):  # each run goes on where the last one committed
        shell(f"seq {new} | {MINIBROKER} produce payments", broker)
        subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
        found = shell(f"{MINIBROKER} consume receipts -e --isolation-level read_committed", broker).splitlines()
        assert len(found) == receipts
    assert found == [f"paid {number}" for number in (1, 2, 3, 4, 5, 1, 2, 3)]
