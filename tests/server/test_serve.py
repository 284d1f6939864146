"""`minibroker serve` as a process: the ready line, signals, configurations that cannot be served."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import signal
import socket
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.becoming import becomes
from tests.support.broker_process import BrokerProcess


def serve(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `serve` that is expected to end by itself."""
    return subprocess.run(
        [sys.executable, "-m", "minibroker", "serve", *arguments], capture_output=True, text=True, timeout=120, check=False
    )


def api_versions(port: int) -> int:
    """The error code of an ApiVersions answer."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
        client.sendall(struct.pack(">ihhih", 10, 18, 0, 7, -1))
        answer = client.recv(10)
    return int(struct.unpack(">iih", answer)[2])


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_one_ready_line_then_served_then_a_clean_stop(tmp_path: Path, loop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINIBROKER_LOOP", loop)
    with BrokerProcess(tmp_path) as broker:
        (line,) = broker.output.splitlines()
        assert re.fullmatch(rf"minibroker ready: PLAINTEXT://localhost:{broker.port}, data in {broker.data_dir}, \d+\.\d\d s", line)
        assert api_versions(broker.port) == 0
        assert broker.stop() == 0
        assert broker.output.splitlines() == [line]
    assert (broker.data_dir / ".kafka_cleanshutdown").exists()


def test_several_brokers_print_that_nothing_is_replicated(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, "--brokers", "2", "--racks", "a,b") as broker:
        (line,) = broker.output.splitlines()
        listeners = r"PLAINTEXT://localhost:(\d+), PLAINTEXT://localhost:(\d+)"
        found = re.match(rf"minibroker ready: {listeners}, data in .*, 2 simulated brokers: nothing is replicated, \d", line)
        assert found is not None
        assert [api_versions(int(port)) for port in found.groups()] == [0, 0]
        assert broker.stop() == 0


def test_a_second_signal_ends_it_at_once(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker, socket.create_connection(("127.0.0.1", broker.port)) as silent:
        # A client whose answers cannot leave keeps the broker from stopping at once: it asks for more than the sockets hold.
        silent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        silent.setblocking(False)
        request = struct.pack(">ihhih", 10, 18, 0, 7, -1)
        sent = 0
        try:
            while sent < 1 << 28:
                sent += silent.send(request * 10_000)
        except BlockingIOError:
            pass
        os.kill(broker.pid, signal.SIGTERM)
        os.kill(broker.pid, signal.SIGINT)
        assert broker._process is not None
        assert broker._process.wait(timeout_s=60) == 130  # 0 once it has cut that client


def test_exits_when_its_only_log_directory_is_removed(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker:
        shutil.rmtree(broker.data_dir)
        assert broker._process is not None
        assert broker._process.wait(timeout_s=60) == 1
        *_, directory, all_of_them, last = broker.output.splitlines()
    assert f"{broker.data_dir} was removed while the broker was running" in directory
    assert "every log directory is offline" in all_of_them
    assert last == (
        f"Error: every log directory is offline ({broker.data_dir}), so minibroker exits. The log above says what failed: "
        "repair the disk or put the directory back, then start it again"
    )


def test_with_a_lab_it_lives_on_without_a_log_directory(tmp_path: Path) -> None:
    """Its tests let disks fail, and heal them."""
    with BrokerProcess(tmp_path, "--lab-port", "0") as broker:
        shutil.rmtree(broker.data_dir)
        becomes(lambda: "every log directory is offline" in broker.output)
        assert api_versions(broker.port) == 0
        assert broker.stop() == 0


def test_descriptor_limit_is_raised_to_the_hard_limit(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    ours = max(int(path.name) for path in Path("/proc/self/fd").iterdir())  # a long test run has many open itself
    few = min(256 + ours, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (few, hard))
    try:
        with BrokerProcess(tmp_path) as broker:
            (line,) = [line for line in Path(f"/proc/{broker.pid}/limits").read_text().splitlines() if line.startswith("Max open files")]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert int(line.split()[3]) == min(hard if hard != resource.RLIM_INFINITY else 1 << 20, 1 << 20)


def test_json_logs(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, "--log-format", "json") as broker:
        with socket.create_connection(("127.0.0.1", broker.port)) as client:
            client.sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert client.recv(1) == b""
        line = broker.output.splitlines()[-1]
        assert "HTTP" in json.loads(line)["message"]
        assert broker.stop() == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--set", "num.partitions=none"], "num.partitions"),
        (["--set", "listeners=SSL://:9092"], "SSL"),
        (["--set", "listeners=PLAINTEXT://no.such.host.invalid:9092"], "cannot listen on PLAINTEXT://no.such.host.invalid:9092"),
    ],
)
def test_startup_error_is_one_line_and_exit_code_1(tmp_path: Path, arguments: list[str], message: str) -> None:
    ended = serve("--data-dir", str(tmp_path / "data"), *arguments)
    assert (ended.returncode, ended.stdout) == (1, "")
    (line,) = ended.stderr.splitlines()
    assert message in line


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"PLAINTEXT://127.0.0.1:{taken.getsockname()[1]}"
        ended = serve("--data-dir", str(tmp_path / "data"), "--set", f"listeners={address}")
    assert ended.stderr == (
        f"Error: listeners: cannot listen on {address}: Address already in use"
        ". Stop the process that uses the port, or choose another one (--port 0 takes a free port)\n"
    )


def test_a_second_broker_on_the_same_directory_refuses(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker:
        ended = serve("--data-dir", str(broker.data_dir), "--port", "0")
        assert ended.returncode == 1
        (line,) = ended.stderr.splitlines()
        assert str(broker.data_dir) in line
        assert api_versions(broker.port) == 0
