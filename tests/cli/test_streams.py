"""Standard streams that are closed, full or gone, and Ctrl-C at any time: one line and an exit code, never a traceback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from minibroker.cli.streams import printable
from tests.support.broker_process import BrokerProcess

MINIBROKER = f"{sys.executable} -m minibroker"
NO_ROOM = "Error: cannot write to stdout: No space left on device\n"
CLOSED = "Error: cannot write to stdout: Bad file descriptor\n"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("broker")) as made:
        assert run("seq 3 | MINIBROKER produce t", made).returncode == 0  # creates the topic
        yield made


def run(line: str, broker: BrokerProcess | None = None, *, unbuffered: bool = False) -> subprocess.CompletedProcess[str]:
    """A line of a shell, in which MINIBROKER is the command."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    if broker is not None:
        environment["MINIBROKER_BOOTSTRAP_SERVER"] = broker.bootstrap
    if unbuffered:
        environment["PYTHONUNBUFFERED"] = "1"
    words = ["bash", "-o", "pipefail", "-c", line.replace("MINIBROKER", MINIBROKER)]
    return subprocess.run(words, env=environment, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize("unbuffered", [False, True])
@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        ("MINIBROKER consume t -e >&-", 1, CLOSED),
        ("MINIBROKER topics list >&-", 1, CLOSED),
        ("MINIBROKER produce t <&-", 1, "Error: cannot read stdin: Bad file descriptor: give input by a pipe or a file\n"),
        ("MINIBROKER consume t -e -o json >/dev/full", 1, NO_ROOM),
        ("MINIBROKER consume t -e >/dev/full", 1, NO_ROOM),
        ("MINIBROKER topics list >/dev/full", 1, NO_ROOM),
        ("MINIBROKER --help >/dev/full", 1, NO_ROOM),
        ("MINIBROKER --version >&-", 1, CLOSED),
        ("MINIBROKER health >/dev/full", 1, NO_ROOM),
        ("MINIBROKER consume t -e 2>&- >&2", 1, ""),
        ("MINIBROKER consume t -e | head -1 >/dev/null", 0, ""),
        ("MINIBROKER topics list | true", 0, ""),
    ],
)
def test_one_line_and_an_exit_code(broker: BrokerProcess, line: str, code: int, words: str, unbuffered: bool) -> None:
    ended = run(line, broker, unbuffered=unbuffered)
    assert (ended.returncode, ended.stderr) == (code, words)


def test_a_closed_stderr_takes_nothing_of_the_output(broker: BrokerProcess) -> None:
    """Its number is free for the next socket, which would get what was meant for a person."""
    ended = run("MINIBROKER consume t -e 2>&-; MINIBROKER topics delete nope 2>&-", broker)
    assert (ended.returncode, ended.stdout) == (1, "1\n2\n3\n")


def test_a_broker_serves_without_any_standard_stream(tmp_path: Path) -> None:
    line = f"exec {MINIBROKER} serve --data-dir {tmp_path}/data --port 0 <&- >&- 2>&-"
    with subprocess.Popen(["bash", "-c", line]) as process:
        lock = tmp_path / "data" / "__cluster_metadata-0"
        while not lock.exists():
            assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) in {0, -signal.SIGTERM}, "stopped, or before it listened for the signal"


@pytest.mark.parametrize("module", ["click", "socket"])
def test_ctrl_c_in_an_import_ends_quietly(tmp_path: Path, module: str) -> None:
    (tmp_path / f"{module}.py").write_text("raise KeyboardInterrupt")
    ended = run(f"PYTHONPATH={tmp_path} MINIBROKER topics list")
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain, also \u00e4\u20ac", "plain, also \u00e4\u20ac"),
        ("a\x1b[31mb\x07", "a\\x1b[31mb\\x07"),
        ("two\nlines\tand tabs", "two\nlines\tand tabs"),
        ("c1 \x9b2J, del \x7f, cr \r", "c1 \\x9b2J, del \\x7f, cr \\x0d"),
    ],
)
def test_control_characters_are_shown_as_numbers(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_a_properties_file_cannot_move_the_cursor(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_bytes(b"num.partitions=\x1b[31mthree\nfoo\x1b[2J=1\nlisteners=PLAINTEXT://:1\x07\n")
    for line in (f"MINIBROKER config check {file}", f"MINIBROKER serve -c {file} 2>&1"):
        # On a terminal: click leaves escapes out where there is none.
        ended = run(f"script -qec '{line}' /dev/null </dev/null")
        assert ended.returncode == 1
        assert "\\x1b[31mthree" in ended.stdout
        assert not {"\x1b", "\x07"} & set(ended.stdout)
