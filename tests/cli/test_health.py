"""`minibroker health`: what a container's health check gets to know, and at what price."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from minibroker.cli import health_check
from minibroker.cli.health_check import Health, Unhealthy, check_health
from minibroker.client.transport import Address, Deadline
from minibroker.schemas import k03_metadata, k35_describe_log_dirs
from tests.cli.conftest import Cluster, Commands
from tests.client.fake_broker import FakeBroker
from tests.support.broker_in_memory import BrokerInMemory
from tests.support.client_in_memory import connector


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """As a container runs it."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("KAFKA_", "MINIBROKER_"))}
    words = [sys.executable, "-m", "minibroker", "health", *arguments]
    return subprocess.run(words, env=own | environment, capture_output=True, text=True, check=False)


def test_a_broker_that_serves(cli: Commands, cluster: Cluster) -> None:
    output = cli("health").out
    assert output.startswith(f"healthy: {cluster.bootstrap}, cluster ")
    assert output.endswith(", 1 log directory online\n")
    assert output.count("\n") == 1
    assert cli("health", "-b", f"{cluster.bootstrap},{cluster.bootstrap}").out.count(cluster.bootstrap) == 2


def test_one_broker_of_those_named_does_not(cli: Commands, cluster: Cluster) -> None:
    result = cli("health", "-b", f"{cluster.bootstrap},127.0.0.1:1", code=1)
    assert (result.out, result.err) == ("", "Error: cannot connect to 127.0.0.1:1: Connection refused. Is a broker running there?\n")


def test_default_address_is_the_local_listener(cluster: Cluster, tmp_path: Path) -> None:
    port = cluster.bootstrap.rpartition(":")[2]
    listeners = f"INSIDE://127.0.0.1:{port},OUTSIDE://:{port},CONTROLLER://:1"
    names = {"KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT", "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER"}
    result = run(KAFKA_LISTENERS=listeners, **names)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith(f"healthy: 127.0.0.1:{port}, 127.0.0.1:{port}, cluster ")
    file = tmp_path / "server.properties"
    file.write_text("listeners=PLAINTEXT://127.0.0.1:1\n")
    assert run("-c", str(file)).returncode == 1
    assert run("-c", str(file), KAFKA_LISTENERS=f"PLAINTEXT://:{port}").returncode == 0, "the environment wins over the file"


def test_port_zero_is_refused() -> None:
    done = run(KAFKA_LISTENERS="PLAINTEXT://:0")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "Error: listeners: PLAINTEXT://:0 has port 0, a free port that only the broker knows: give the address with -b\n"


def test_one_that_is_silent_is_unhealthy_soon(offline: Commands) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        result = offline("health", "-b", address, "--timeout", "0.1", code=1)  # not 124: Docker knows 0 and 1
    assert result.err == f"Error: no answer from {address} in time\n"


def test_a_directory_that_is_offline() -> None:
    broker = BrokerInMemory()
    address, deadline = Address("memory", 1), Deadline(60_000)
    assert check_health(address, deadline, connector(broker)) == Health(address, broker.cluster.cluster_id, 1, 1)
    (directory,) = broker.cluster.log_directories
    directory.take_offline(OSError(5, "Input/output error"))
    with pytest.raises(Unhealthy, match=f"^memory:1: log directory {directory.absolute_path} is offline: "):
        check_health(address, deadline, connector(broker))


def test_unhealthy_answers(monkeypatch: pytest.MonkeyPatch, offline: Commands) -> None:
    broker = FakeBroker()
    monkeypatch.setattr(health_check, "check_health", lambda address, deadline, *_: check_health(address, deadline, broker.connect))
    both = [k35_describe_log_dirs.LogDirResult(error_code=code, log_dir=name, topics=[]) for code, name in ((0, "/a"), (56, "/b"))]
    broker.on(k35_describe_log_dirs, lambda *_: k35_describe_log_dirs.Response(results=both))
    assert offline("health", code=1).err == "Error: 127.0.0.1:1: log directory /b is offline: see the broker's log, then restart it\n"
    both[1] = k35_describe_log_dirs.LogDirResult(error_code=0, log_dir="/b", topics=[])
    assert offline("health").out == "healthy: 127.0.0.1:1, cluster None, 2 log directories online\n"
    (requests,) = {tuple(request.topics) for request in broker.requests_for(k35_describe_log_dirs)}
    assert requests == (), "sizes of all partitions would cost the broker more than the check may"
    broker.on(k03_metadata, lambda *_: k03_metadata.Response(brokers=[], topics=[]))
    assert "127.0.0.1:1 knows no broker" in offline("health", code=1).err


@pytest.mark.parametrize("listeners", ["PLAINTEXT://{bootstrap}", "PLAINTEXT://127.0.0.1:1", "PLAINTEXT://:0", "PLAINTEXT://nothing"])
def test_fast_path_prints_the_same_as_click(cluster: Cluster, listeners: str) -> None:
    environment = {"KAFKA_LISTENERS": listeners.format(bootstrap=cluster.bootstrap)}
    quick, slow = run(**environment), run("--timeout", "5", **environment)
    assert (quick.returncode, quick.stdout, quick.stderr) == (slow.returncode, slow.stdout, slow.stderr)
    assert quick.returncode == (0 if "bootstrap" in listeners else 1)


def test_fast_path_leaves_other_options_to_click() -> None:
    assert health_check.quick(["health"], {"MINIBROKER_BOOTSTRAP_SERVER": "kafka:9092"}) is None
    assert health_check.quick(["container", "--health"], {"MINIBROKER_SERVE_OPTIONS": "--port 9"}) is None
    assert health_check.quick(["topics", "health"], {}) is None


def test_it_imports_little(cluster: Cluster) -> None:
    program = "import os, sys, minibroker.cli.entry as entry\nos._exit = sys.exit\ntry: entry.main()\nfinally: print(*sys.modules)"
    environment = {"KAFKA_LISTENERS": f"PLAINTEXT://{cluster.bootstrap}", "PATH": "/usr/bin:/bin"}
    for words in (["health"], ["container", "--health"]):
        result = subprocess.run([sys.executable, "-c", program, *words], env=environment, capture_output=True, text=True, check=True)
        output, names = result.stdout.splitlines()
        assert output.startswith(f"healthy: {cluster.bootstrap}, ")
        heavy = {"asyncio", "click", "dataclasses", "json", "javaproperties", "logging", "pathlib", "ssl", "tabulate", "yaml"}
        assert not (heavy | {"minibroker.config.broker_config", "minibroker.server"}) & set(names.split())
