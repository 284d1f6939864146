"""docs/groups.md is true: its program reads what it says, its shell lines print what it shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.support.broker_process import BrokerProcess

PAGE = (Path(__file__).parents[1] / "docs" / "groups.md").read_text()


def shell(line: str, broker: BrokerProcess) -> str:
    """What a terminal shows of it."""
    environment = os.environ | {"MINIBROKER_BOOTSTRAP_SERVER": broker.bootstrap}
    line = re.sub(r"(^|\| )minibroker ", rf"\1{sys.executable} -m minibroker ", line)
    done = subprocess.run(["bash", "-c", line], env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return "".join(f"{line.rstrip()}\n" for line in (done.stdout + done.stderr).splitlines())


def test_the_page(tmp_path: Path) -> None:
    first, shown = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    (program,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    (printed,) = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)
    with BrokerProcess(tmp_path) as broker:
        shell(first, broker)
        program = program.replace("localhost:9092", broker.bootstrap)
        read = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=120).stdout
        assert read.splitlines() == [f"0 {number - 1} b'{number}'" for number in range(1, 7)]
        assert "".join(shell(line, broker) for line in shown.splitlines()) == printed
        (alter,) = re.findall(r"`(minibroker configs alter [^`]*)`", PAGE)
        assert shell(alter, broker) == ""
