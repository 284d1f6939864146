"""The README's section on groups is true: its program reads what it says, its shell lines print what it shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.support.broker_process import BrokerProcess

README = (Path(__file__).parents[1] / "README.md").read_text()
SECTION = README.partition("\n## Consumer groups\n")[2].partition("\n## ")[0]


def shell(line: str, broker: BrokerProcess) -> str:
    """What a terminal shows of it."""
    environment = os.environ | {"MINIBROKER_BOOTSTRAP_SERVER": broker.bootstrap}
    line = line.replace(".venv/bin/minibroker", f"{sys.executable} -m minibroker")
    done = subprocess.run(["bash", "-c", line], env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return "".join(f"{line.rstrip()}\n" for line in (done.stdout + done.stderr).splitlines())


def test_the_section(tmp_path: Path) -> None:
    first, shown = re.findall(r"```sh\n(.*?)```", SECTION, re.DOTALL)
    (program,) = re.findall(r"```python\n(.*?)```", SECTION, re.DOTALL)
    (printed,) = re.findall(r"```text\n(.*?)```", SECTION, re.DOTALL)
    with BrokerProcess(tmp_path) as broker:
        shell(first, broker)
        program = program.replace("localhost:9092", broker.bootstrap)
        read = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=120).stdout
        assert read.splitlines() == [f"0 {number - 1} b'{number}'" for number in range(1, 7)]
        assert "".join(shell(line, broker) for line in shown.splitlines()) == printed
        (alter,) = re.findall(r"`(minibroker configs alter [^`]*)`", SECTION)
        assert shell(alter.replace("minibroker", ".venv/bin/minibroker", 1), broker) == ""
