"""zookeeper-server-start opens a port, and nothing else."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from minibroker.cli.kafka_tools.main import run_tool
from tests.support.ports import free_port

LIMIT_S = 60
DETACHED_LIMIT_S = 30
COMMAND = [sys.executable, "-m", "minibroker", "kafka-tool", "zookeeper-server-start"]


def test_its_port_is_open_until_it_is_told_to_stop(tmp_path: Path) -> None:
    port = free_port()
    file = tmp_path / "zookeeper.properties"
    file.write_text(f"clientPort={port}\ndataDir=/var/lib/zookeeper/data\n")
    with subprocess.Popen([*COMMAND, str(file)], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "no ZooKeeper is needed: minibroker keeps its own metadata\n"
            for _ in range(2):
                with socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S) as connection:
                    assert connection.recv(1) == b""
            process.terminate()
            assert process.wait(LIMIT_S) == 128 + signal.SIGTERM
        finally:
            process.kill()


def processes_with(file: Path) -> list[int]:
    """Those in whose command line the file is; one that has ended has none."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:  # it has just ended
            continue
        if str(file).encode() in words:
            found.append(int(folder.name))
    return found


def is_open(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=DETACHED_LIMIT_S).close()
    except ConnectionError:
        return False
    return True


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="finds the detached process in /proc")
def test_a_daemon_keeps_the_port_and_nobody_waits_for_it(tmp_path: Path) -> None:
    """The command's output is a pipe here: it would be at its end only with the daemon if that had it, too."""
    port = free_port()
    file = tmp_path / "zookeeper.properties"
    file.write_text("clientPort=1\n")
    call = [*COMMAND, "-daemon", str(file), "--override", f"clientPort={port}"]
    try:
        done = subprocess.run(call, stdin=subprocess.PIPE, capture_output=True, text=True, timeout=DETACHED_LIMIT_S, check=False)
        output = "no ZooKeeper is needed: minibroker keeps its own metadata\n"
        assert (done.returncode, done.stdout, done.stderr) == (0, output, "")
        (daemon,) = processes_with(file)
        assert os.getsid(daemon) == daemon
        for _ in range(2):
            with socket.create_connection(("127.0.0.1", port), timeout=DETACHED_LIMIT_S) as connection:
                assert connection.recv(1) == b""
        os.kill(daemon, signal.SIGTERM)
        deadline_s = time.monotonic() + DETACHED_LIMIT_S
        while processes_with(file) or is_open(port):  # a process that ends loses its command line first, and then its sockets
            assert time.monotonic() < deadline_s
            time.sleep(0.05)
    finally:
        for left in processes_with(file):
            os.kill(left, signal.SIGKILL)


@pytest.mark.parametrize(
    ("properties", "complaint"),
    [
        ("dataDir=/tmp\n", "clientPort is missing: write clientPort=2181"),
        ("clientPort=zoo\n", "clientPort is 'zoo', which is not a port: write clientPort=2181"),
        ("clientPort=65536\n", "clientPort is '65536', which is not a port: write clientPort=2181"),
    ],
)
def test_a_file_without_a_port(properties: str, complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "zookeeper.properties"
    file.write_text(properties)
    assert run_tool("zookeeper-server-start", [str(file)]) == 1
    assert capsys.readouterr().err == f"{file}: {complaint}\n"


def test_an_override_of_no_value(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "zookeeper.properties"
    file.write_text("clientPort=2181\n")
    assert run_tool("zookeeper-server-start", [str(file), "--override", "clientPort"]) == 1
    assert capsys.readouterr().err == "clientPort is not name=value\n"


def test_no_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_tool("zookeeper-server-start", [str(tmp_path / "absent")]) == 1
    assert capsys.readouterr().err == f"Error: config file {tmp_path / 'absent'}: No such file or directory\n"
