"""zookeeper-server-start opens a port, and nothing else."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from minibroker.cli.kafka_tools.main import run_tool
from tests.support.ports import free_port

LIMIT_S = 60


def test_its_port_is_open_until_it_is_told_to_stop(tmp_path: Path) -> None:
    port = free_port()
    file = tmp_path / "zookeeper.properties"
    file.write_text(f"clientPort={port}\ndataDir=/var/lib/zookeeper/data\n")
    call = [sys.executable, "-m", "minibroker", "kafka-tool", "zookeeper-server-start", str(file)]
    with subprocess.Popen(call, stdout=subprocess.PIPE, text=True) as process:
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


@pytest.mark.parametrize(
    ("properties", "complaint"),
    [
        ("dataDir=/tmp\n", "clientPort is not there: write clientPort=2181"),
        ("clientPort=zoo\n", "clientPort is 'zoo', no port: write clientPort=2181"),
        ("clientPort=65536\n", "clientPort is '65536', no port: write clientPort=2181"),
    ],
)
def test_a_file_without_a_port(properties: str, complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "zookeeper.properties"
    file.write_text(properties)
    assert run_tool("zookeeper-server-start", [str(file)]) == 1
    assert capsys.readouterr().err == f"{file}: {complaint}\n"


def test_no_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_tool("zookeeper-server-start", [str(tmp_path / "absent")]) == 1
    assert capsys.readouterr().err == f"Error: config file {tmp_path / 'absent'}: No such file or directory\n"
