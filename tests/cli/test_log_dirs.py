"""`minibroker log-dirs`, and what Kafka's LogDirsCommand says of the same broker."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from typing import Any

import pytest

from minibroker.cli import options
from minibroker.client.client import Client
from minibroker.schemas import k35_describe_log_dirs as k35
from tests.cli.conftest import Cluster, Commands
from tests.client.fake_broker import FakeBroker
from tests.support import java


def items(cli: Commands, *arguments: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in cli("log-dirs", *arguments, "-o", "jsonl").lines]


def test_directories_and_partitions(cli: Commands, cluster: Cluster, fresh: Callable[..., str]) -> None:
    topic, other = fresh(partitions=2), fresh()
    cli("produce", topic, "-p", "1", stdin="a\nb\n")
    cli("produce", other, stdin="a\n")
    logs = items(cli, "--partitions", "--topic", topic)
    log_dir, size = str(cluster.data_dir), (cluster.data_dir / f"{topic}-1" / f"{0:020}.log").stat().st_size
    common = {"broker": 1, "log_dir": log_dir, "offset_lag": 0, "future": False}
    assert size > 0
    assert logs == [
        {"topic": topic, "partition": 0, **common, "size": 0},
        {"topic": topic, "partition": 1, **common, "size": size},
    ]
    assert cli("log-dirs", "--partitions", "-t", topic, "-o", "name").lines == [f"{topic}:0", f"{topic}:1"]
    (directory,) = items(cli, "--topic", topic, "--broker-id", "1")
    assert (directory["broker"], directory["log_dir"], directory["partitions"], directory["size"]) == (1, log_dir, 2, size)
    assert directory["total_bytes"] == shutil.disk_usage(cluster.data_dir).total
    assert 0 < directory["usable_bytes"] < directory["total_bytes"]
    assert directory["cordoned"] is False
    (both,) = items(cli, "--topic", topic, "--topic", other)
    assert both["partitions"] == 3
    assert both["size"] == size + items(cli, "--partitions", "--topic", other)[0]["size"] > size
    (everything,) = items(cli)
    assert everything["partitions"] >= 3
    assert everything["size"] >= both["size"]
    assert cli("log-dirs", "-o", "name").lines == [log_dir]
    assert cli("log-dirs", "--partitions").lines[0].split() == [
        "TOPIC",
        "PARTITION",
        "BROKER",
        "LOG",
        "DIR",
        "SIZE",
        "OFFSET",
        "LAG",
        "FUTURE",
    ]


def test_unknown_topics_and_brokers(cli: Commands) -> None:
    error = cli("log-dirs", "--partitions", "-t", "nowhere", code=1).err
    assert error == "Error: topic nowhere is in no log directory [UNKNOWN_TOPIC_OR_PARTITION]\n"
    result = cli("log-dirs", "--broker-id", "1", "--broker-id", "99", "-o", "json", code=1)
    assert [item["broker"] for item in json.loads(result.out)] == [1]
    assert result.err.startswith("Error: broker 99 is not in the cluster's metadata")


def test_output_matches_log_dirs_command(cli: Commands, cluster: Cluster, fresh: Callable[..., str]) -> None:
    topic = fresh(partitions=3)
    cli("produce", topic, "-p", "2", stdin="a\nb\n")
    output = java.run_tool(java.LOG_DIRS_COMMAND, "--bootstrap-server", cluster.bootstrap, "--describe", "--topic-list", topic)
    (broker,) = json.loads(output.splitlines()[-1])["brokers"]
    (directory,) = broker["logDirs"]
    theirs = [(broker["broker"], directory["logDir"], *log.values()) for log in directory["partitions"]]
    ours = [
        (log["broker"], log["log_dir"], f"{log['topic']}-{log['partition']}", log["size"], log["offset_lag"], log["future"])
        for log in items(cli, "--partitions", "--topic", topic)
    ]
    assert sorted(theirs) == ours


def test_several_brokers_and_a_directory_that_is_offline(monkeypatch: pytest.MonkeyPatch, offline: Commands) -> None:
    broker = FakeBroker()
    broker.nodes = 2
    broker.versions[35] = (0, 3)
    healthy = k35.LogDirResult(error_code=0, log_dir="/b", topics=[])
    broken = k35.LogDirResult(error_code=56, log_dir="/a", topics=[])
    broker.on(k35, lambda *_: k35.Response(results=[healthy, broken]))
    monkeypatch.setattr(options, "open_client", lambda *_: Client("fake:1", connect=broker.connect))
    result = offline("log-dirs", "-o", "json", code=1)
    facts = {"log_dir": "/b", "partitions": 0, "size": 0, "total_bytes": None, "usable_bytes": None, "cordoned": False}
    assert json.loads(result.out) == [{"broker": 1, **facts}, {"broker": 2, **facts}]
    assert result.err.count("[KAFKA_STORAGE_ERROR]") == 2
    assert "Error: log directory /a of broker 2: " in result.err
