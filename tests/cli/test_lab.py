"""`minibroker lab`: each command does to a broker what it says."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

from minibroker.schemas import k71_get_telemetry_subscriptions as k71
from minibroker.schemas import k72_push_telemetry as k72
from tests.cli.conftest import Commands
from tests.support.broker_process import BrokerProcess
from tests.support.kafka_users import KafkaUser


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """(bootstrap, URL of the lab)."""
    with BrokerProcess(tmp_path_factory.mktemp("lab"), "--lab-port", "0") as process:
        (url,) = re.findall(r", lab (http://\S+),", process.output)
        yield process.bootstrap, url


@pytest.fixture
def run(served: tuple[str, str]) -> Commands:
    """Any command on the broker, emptied."""
    Commands(served[0])("lab", "--lab-url", served[1], "reset")
    return Commands(served[0])


@pytest.fixture
def lab(served: tuple[str, str], run: Commands) -> Commands:
    return Commands(served[0], before=("lab", "--lab-url", served[1]))


def consumed(run: Commands, topic: str = "orders") -> list[str]:
    return run("consume", topic, "-e").lines


def words(scope: dict[str, object]) -> list[str]:
    return [word for name, value in scope.items() for word in (f"--{name.replace('_', '-')}", str(value))]


@pytest.mark.parametrize(
    ("arguments", "row"),
    [
        (["inject", "Produce", "NOT_LEADER_OR_FOLLOWER", "--topic", "orders", "--once"], {"error": "NOT_LEADER_OR_FOLLOWER"}),
        (["inject", "EndTxn", "UNKNOWN_SERVER_ERROR", "--after", "--always"], {"error": "UNKNOWN_SERVER_ERROR", "after": True}),
        (["delay", "Fetch", "--ms", "20", "--probability", "0.5", "--seed", "3"], {"ms": 20, "when": "after"}),
        (["delay", "Produce", "--ms", "0", "--when", "before", "--probability", "0"], {"ms": 0, "when": "before"}),
        (["throttle", "Produce", "--ms", "10", "--times", "2"], {"ms": 10}),
        (["disconnect", "Heartbeat", "--when", "after", "--on-call", "2"], {"when": "after"}),
        (["tear", "Fetch", "--size", "100", "--always"], {"size": 100}),
        (["silence", "Produce", "--always"], {"when": "before"}),
        (["storage", "--on", "sync", "--error", "EIO", "--topic", "orders", "--partition", "1", "--once"], {"on": "sync", "error": "EIO"}),
    ],
)
def test_each_kind_of_fault_is_added_listed_and_removed(lab: Commands, arguments: list[str], row: dict[str, object]) -> None:
    number = lab("faults", *arguments).out.strip()
    (found,) = json.loads(lab("faults", "list", "-o", "json").out)
    assert str(found["id"]) == number
    assert found["kind"] == ("error" if arguments[0] == "inject" else arguments[0])
    assert row.items() <= found["what"].items()
    assert (found["calls"], found["hits"]) == (0, 0)
    assert lab("faults", "list", "-o", "name").lines == [number]
    lab("faults", "remove", number)
    assert lab("faults", "list", "-o", "name").lines == []


def test_clients_are_shown_with_what_they_pushed(lab: Commands, served: tuple[str, str]) -> None:
    assert lab("clients", "-o", "jsonl").lines == []
    message = MetricsData()
    point = message.resource_metrics.add().scope_metrics.add().metrics.add(name="latency", unit="ms").gauge.data_points.add(as_double=1.5)
    point.attributes.add(key="node").value.string_value = "1"
    with KafkaUser(int(served[0].rpartition(":")[2]), "") as client:
        subscription = client.ask(k71.Request(client_instance_id=UUID(int=0)), client_id="orders")
        push = k72.Request(
            client_instance_id=subscription.client_instance_id,
            subscription_id=subscription.subscription_id,
            terminating=False,
            compression_type=0,
            metrics=message.SerializeToString(),
        )
        assert client.ask(push, client_id="orders").error_code == 0
        (shown,) = map(json.loads, lab("clients", "-o", "jsonl").lines)
    assert (shown["client_id"], shown["push_count"], shown["is_connected"], shown["metrics"]) == ("orders", 1, True, 1)
    header, row = lab("clients", "--metrics").lines
    assert header.split() == ["CLIENT", "ID", "NAME", "LABELS", "VALUE", "UNIT"]
    assert row.split() == ["orders", "latency", "node=1", "1.5", "ms"]


def test_a_proxy_is_for_other_places(lab: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("urllib.request._opener", None)
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    assert lab("faults", "list", "-o", "name").lines == []


def test_how_often_and_for_whom(lab: Commands) -> None:
    often = {
        ("--once",): {"times": 1},
        ("--times", "3"): {"times": 3},
        ("--on-call", "2"): {"call": 2},
        ("--probability", "0.25"): {"probability": 0.25, "seed": 1},
        ("--always",): {},
    }
    for options in often:
        lab("faults", "inject", "Produce", "NOT_LEADER_OR_FOLLOWER", *options)
    assert [each["often"] for each in json.loads(lab("faults", "list", "-o", "json").out)] == list(often.values())
    lab("faults", "clear")
    scope = {"topic": "orders", "partition": 0, "client_id": "app", "transactional_id": "t", "node": 0}
    lab("faults", "inject", "Produce", "NOT_LEADER_OR_FOLLOWER", *words(scope), "--once")
    (found,) = json.loads(lab("faults", "list", "-o", "json").out)
    assert found["scope"] == scope
    for wrong in ((), ("--once", "--always")):
        assert "give one of --once" in lab("faults", "inject", "Produce", "NOT_LEADER_OR_FOLLOWER", *wrong, code=2).err


def test_a_fault_hits_a_client(run: Commands, lab: Commands) -> None:
    run("topics", "create", "orders")
    number = lab("faults", "inject", "Produce", "NOT_LEADER_OR_FOLLOWER", "--topic", "orders", "--once").out.strip()
    run("produce", "orders", stdin="apples\n")
    assert consumed(run) == ["apples"]
    (found,) = json.loads(lab("faults", "list", "-o", "json").out)
    assert (str(found["id"]), found["calls"], found["hits"]) == (number, 2, 1)
    text = lab("requests").out
    assert re.search(r"Produce v\d+  orders  -> NOT_LEADER_OR_FOLLOWER", text)
    rows = [json.loads(line) for line in lab("requests", "-o", "jsonl").lines]
    assert ["NOT_LEADER_OR_FOLLOWER"] in [row["errors"] for row in rows if row["api"] == "Produce"]


def test_requests_are_followed(run: Commands, lab: Commands) -> None:
    run("topics", "create", "orders")
    command = [sys.executable, "-u", "-m", "minibroker", *lab.before, "requests", "--follow"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as following:
        assert following.stdout is not None
        lines = iter(following.stdout.readline, "")
        assert any("CreateTopics" in line for line in lines)
        run("produce", "orders", stdin="apples\n")
        assert any("Produce" in line for line in lines)
        lab("reset")
        run("topics", "create", "prices")
        assert any("CreateTopics" in line and "prices" in line for line in lines)
        following.kill()


def test_a_full_disk_is_healed(run: Commands, lab: Commands) -> None:
    run("topics", "create", "orders")
    lab("faults", "storage", "--on", "write", "--error", "ENOSPC", "--topic", "orders", "--always")
    assert run("produce", "orders", "--timeout", "1", stdin="lost\n", code=124).out == ""
    assert '"log_dirs": {' in lab("info", "-o", "json").out
    assert "(offline)" in lab("info").out
    assert "log dir" in run("health", code=1).err
    lab("faults", "heal")
    assert "(online)" in lab("info").out
    run("produce", "orders", stdin="kept\n")
    assert consumed(run) == ["kept"]


def test_records_are_held_back(run: Commands, lab: Commands) -> None:
    run("topics", "create", "orders")
    assert lab("hold", "orders", "0").out.strip().isdecimal()
    command = [sys.executable, "-m", "minibroker", "produce", "orders", "-b", run.bootstrap]
    writer = subprocess.Popen(command, stdin=subprocess.PIPE, text=True)
    assert writer.stdin is not None
    writer.stdin.write("hidden\n")
    writer.stdin.close()
    end_s = time.monotonic() + 30
    while "Produce" not in lab("requests").out:
        assert time.monotonic() < end_s
        time.sleep(0.02)
    assert consumed(run) == []
    assert "orders-0" in lab("info").out
    assert writer.poll() is None
    assert lab("release", "orders", "0").out == "1\n"
    assert writer.wait(60) == 0
    assert consumed(run) == ["hidden"]
    assert lab("release").out == "0\n"


def test_time_and_data(run: Commands, lab: Commands) -> None:
    run("produce", "orders", stdin="one\n")
    lab("snapshot", "one")
    run("produce", "orders", stdin="two\n")
    lab("restore", "one")
    assert consumed(run) == ["one"]
    assert "one" in json.loads(lab("info", "-o", "json").out)[0]["snapshots"]
    before_ms = json.loads(lab("info", "-o", "json").out)[0]["now_ms"]
    lab("advance", "--hours", "2", "--ms", "5")
    assert json.loads(lab("info", "-o", "json").out)[0]["now_ms"] - before_ms >= 7_200_005
    lab("do", "advance", '{"ms": 1000}')
    assert json.loads(lab("do", "high_watermark.list").out) == []
    lab("reset")
    assert run("topics", "list", "-o", "name").lines == []


def test_leaders_and_brokers(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, "--brokers", "3", "--lab-port", "0") as process:
        (url,) = re.findall(r", lab (http://\S+),", process.output)
        run, lab = Commands(process.bootstrap), Commands("", before=("lab", "--lab-url", url))
        run("topics", "create", "orders", "--partitions", "3", "--replication-factor", "3")

        def leader() -> dict[str, int]:
            (found,) = json.loads(lab("leaders", "describe", "orders", "0", "-o", "json").out)
            return {name: found[name] for name in ("leader", "leader_epoch")}

        preferred, epoch = leader().values()
        other = preferred % 3 + 1
        lab("leaders", "move", "orders", "0", "--to", str(other))
        assert leader() == {"leader": other, "leader_epoch": epoch + 1}
        lab("leaders", "elect", "orders", "0")
        assert leader() == {"leader": preferred, "leader_epoch": epoch + 2}
        lab("leaders", "bump-epoch", "orders", "0")
        lab("leaders", "take-away", "orders", "0")
        assert leader()["leader"] is None
        lab("leaders", "give-back", "orders", "0")
        assert leader()["leader"] == preferred
        assert lab("leaders", "move", "orders", "0", "--to", "9", code=1).err.startswith("Error: ")
        lab("nodes", "stop", "3")
        nodes = json.loads(lab("nodes", "list", "-o", "json").out)
        assert [each["alive"] for each in nodes] == [True, True, False]
        assert all(each["address"].startswith(("localhost:", "127.0.0.1:")) for each in nodes)
        assert lab("nodes", "stop", "9", code=1).err == "Error: there is no node 9 (nodes: 1, 2, 3)\n"
        lab("nodes", "start", "3")
        assert all(each["alive"] for each in json.loads(lab("nodes", "list", "-o", "json").out))
        lab("faults", "inject", "Produce", "NOT_LEADER_OR_FOLLOWER", "--node", str(preferred), "--once")
        run("produce", "orders", stdin="apples\n")
        assert consumed(run) == ["apples"]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["restore", "nothing"], 1, "Error: restore: there is no snapshot 'nothing'"),
        (["hold", "nowhere", "0"], 1, "Error: high_watermark.hold: UNKNOWN_TOPIC_OR_PARTITION"),
        (
            ["faults", "storage", "--on", "write", "--error", "ENOSUCH", "--once"],
            1,
            "Error: storage: 'ENOSUCH' is not an error of a file system",
        ),
        (["faults", "certificate", "expird", "--once"], 1, "Error: faults: there is no problem 'expird': did you mean expired?"),
        (["faults", "certificate", "expired", "--once"], 1, "Error: faults: certificate needs a listener with TLS"),
        (["faults", "revoke", "alice", "--always"], 1, "Error: faults: revoke needs a listener with logins"),
        (
            ["faults", "delay-login", "--ms", "10", "--user", "alice", "--once"],
            1,
            "Error: faults: delay_login needs a listener with logins",
        ),
        (["do", "rese"], 1, "Error: there is no command 'rese': did you mean reset?"),
        (["do", "reset", "{"], 2, "'{' is not JSON"),
        (["do", "reset", "[]"], 2, "'[]' is not a JSON object"),
        (["do", "reset", '{"command": 1}'], 1, "Error: reset: there is no argument 'command' (arguments: none)"),
        (["advance"], 2, "give a time, such as --hours 2"),
    ],
)
def test_errors_are_one_line(lab: Commands, arguments: list[str], code: int, message: str) -> None:
    assert message in lab(*arguments, code=code).err


def test_no_lab_is_running(served: tuple[str, str]) -> None:
    nowhere = Commands("", before=("lab", "--lab-url", "127.0.0.1:1"))
    assert nowhere("info", code=1).err.startswith("Error: no lab at http://127.0.0.1:1: Connection refused. Start")
    broker = Commands("", before=("lab", "--lab-url", f"http://{served[0]}"))
    assert broker("info", code=1).err.startswith(f"Error: http://{served[0]}")
