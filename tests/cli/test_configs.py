"""`minibroker configs`, and what Kafka's ConfigCommand says of the same broker."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.cli.conftest import Cluster, Commands
from tests.support import java

NODE = "1"


def items(cli: Commands, *arguments: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in cli("configs", *arguments, "-o", "jsonl").lines]


def values(cli: Commands, *arguments: str) -> dict[str, str | None]:
    return {item["name"]: item["value"] for item in items(cli, "describe", *arguments)}


def wait_for(cli: Commands, expected: dict[str, str], *entity: str) -> None:
    """Apache Kafka's brokers hear of a change after it was answered."""
    deadline = time.monotonic() + 60
    while {name: value for name, value in values(cli, *entity).items() if name in expected} != expected:
        assert time.monotonic() < deadline, values(cli, *entity)


def test_topics(cli: Commands, fresh: Callable[..., str]) -> None:
    topic, other = fresh(), fresh()
    cli("configs", "alter", "topics", topic, other, "-c", "retention.ms=5000", "--append", "cleanup.policy=compact")
    wait_for(cli, {"retention.ms": "5000", "cleanup.policy": "delete,compact"}, "topics", topic)
    wait_for(cli, {"retention.ms": "5000", "cleanup.policy": "delete,compact"}, "topics", other)
    found = {item["name"]: item for item in items(cli, "describe", "topics", topic)}
    common = {"type": "topics", "entity": topic, "source": "topic", "read_only": False, "sensitive": False}
    assert found["retention.ms"] == {**common, "name": "retention.ms", "value": "5000"}
    cli("configs", "alter", "topics", topic, "--subtract", "cleanup.policy=delete", "--delete-config", "retention.ms")
    wait_for(cli, {"cleanup.policy": "compact"}, "topics", topic)
    assert values(cli, "topics", topic) == {"cleanup.policy": "compact"}
    everything = {item["name"]: item for item in items(cli, "describe", "topics", topic, "--all")}
    assert list(everything) == sorted(everything)
    assert everything["retention.ms"]["source"] in {"default", "file"}
    assert cli("configs", "describe", "topics", topic, "-o", "name").lines == ["cleanup.policy"]
    assert [line.split() for line in cli("configs", "describe", "topics", topic).lines] == [
        ["TYPE", "ENTITY", "NAME", "VALUE", "SOURCE"],
        ["topics", topic, "cleanup.policy", "compact", "topic"],
    ]


def test_empty_description_suggests_the_all_option(cli: Commands) -> None:
    cli("topics", "create", "plain")
    result = cli("configs", "describe", "topics", "plain")
    assert (result.lines, result.err) == (["TYPE  ENTITY  NAME  VALUE  SOURCE"], "No config was set: --all shows the values that apply.\n")
    assert cli("configs", "describe", "topics", "plain", "-o", "json").err == ""
    assert cli("configs", "describe", "topics", "plain", "--all").err == ""
    cli("topics", "delete", "plain")


def test_a_change_that_is_refused_or_only_tried(cli: Commands, fresh: Callable[..., str]) -> None:
    topic = fresh()
    before = values(cli, "topics", topic)
    cli("configs", "alter", "topics", topic, "-c", "max.message.bytes=100", "--dry-run")
    refused = cli("configs", "alter", "topics", topic, "nowhere", "-c", "max.message.bytes=100", "-c", "retention.ms=soon", code=1).err
    assert f"Error: topics {topic}: " in refused
    assert "[INVALID_CONFIG]" in refused
    assert "Error: topics nowhere: " in refused
    assert values(cli, "topics", topic) == before
    result = cli("configs", "describe", "topics", topic, "nowhere", "-o", "json", code=1)
    assert {item["entity"] for item in json.loads(result.out)} == {topic}
    assert result.err.endswith("[UNKNOWN_TOPIC_OR_PARTITION]\n")


def test_brokers(cli: Commands) -> None:
    cli("configs", "alter", "brokers", "--default", "-c", "message.max.bytes=2000000")
    cli("configs", "alter", "brokers", NODE, "-c", "message.max.bytes=3000000")
    wait_for(cli, {"message.max.bytes": "3000000"}, "brokers", NODE)
    (ours,) = [item for item in items(cli, "describe", "brokers", NODE) if item["name"] == "message.max.bytes"]
    assert (ours["entity"], ours["source"]) == (NODE, "broker")
    (shared,) = [item for item in items(cli, "describe", "brokers", "--default") if item["name"] == "message.max.bytes"]
    assert (shared["entity"], shared["value"], shared["source"]) == (None, "2000000", "cluster")
    cli("configs", "alter", "brokers", NODE, "--delete-config", "message.max.bytes")
    wait_for(cli, {"message.max.bytes": "2000000"}, "brokers", NODE)
    cli("configs", "alter", "brokers", "--default", "--delete-config", "message.max.bytes")
    wait_for(cli, {"message.max.bytes": "1048588"}, "brokers", NODE, "--all")
    assert cli("configs", "describe", "brokers", "99", code=1).err.startswith("Error: broker 99 is not in the cluster's metadata")


def test_output_matches_config_command(cli: Commands, cluster: Cluster, fresh: Callable[..., str]) -> None:
    topic = fresh(**{"segment.bytes": "2000000"})
    arguments = ("--bootstrap-server", cluster.bootstrap, "--describe", "--all", "--entity-type", "topics", "--entity-name", topic)
    output = [line.strip().split(" ")[0] for line in java.run_tool(java.CONFIG_COMMAND, *arguments).splitlines()[1:]]
    assert sorted(output) == [f"{item['name']}={item['value']}" for item in items(cli, "describe", "topics", topic, "--all")]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["describe", "topics"], "give an ENTITY"),
        (["describe", "topics", ""], "give an ENTITY"),
        (["describe", "topics", "--default"], "--default is only for brokers, and excludes an ENTITY"),
        (["describe", "brokers", "1", "--default"], "--default is only for brokers"),
        (["describe", "brokers", "one"], "an ENTITY of brokers is a broker id, which is a number"),
        (["describe", "users", "alice"], "'users' is not one of"),
        (["alter", "topics", "t"], "nothing to alter"),
        (["alter", "topics", "t", "--append", "a"], "'a' is not NAME=VALUE"),
    ],
)
def test_usage(offline: Commands, arguments: list[str], words: str) -> None:
    assert words in offline("configs", *arguments, code=2).err


def test_other_types(cli: Commands) -> None:
    for kind, entity, name, value, source in (
        ("groups", "billing", "consumer.session.timeout.ms", "50000", "group"),
        ("client-metrics", "some", "interval.ms", "5000", "client-metrics"),
    ):
        cli("configs", "alter", kind, entity, "-c", f"{name}={value}")
        wait_for(cli, {name: value}, kind, entity)
        assert [item["source"] for item in items(cli, "describe", kind, entity)] == [source]
        assert entity in cli("configs", "list", kind, "-o", "name").lines
        cli("configs", "alter", kind, entity, "--delete-config", name)
    loggers = items(cli, "describe", "broker-loggers", NODE)
    assert {item["source"] for item in loggers} == {"logger"}
    (level,) = [item["value"] for item in loggers if item["name"] == "root"]
    cli("configs", "alter", "broker-loggers", NODE, "-c", "root=FATAL")
    wait_for(cli, {"root": "FATAL"}, "broker-loggers", NODE)
    cli("configs", "alter", "broker-loggers", NODE, "-c", f"root={level}")
    refused = cli("configs", "alter", "broker-loggers", NODE, "-c", "nobody=INFO", code=1).err
    assert refused == f"Error: broker-loggers {NODE}: Logger nobody does not exist! [INVALID_CONFIG]\n"


def test_list(cli: Commands, fresh: Callable[..., str]) -> None:
    topic = fresh()
    assert topic in cli("configs", "list", "topics", "-o", "name").lines
    assert cli("configs", "list", "brokers").lines == ["TYPE     ENTITY", f"brokers  {NODE}"]
    assert "billing" not in cli("configs", "list", "groups", "-o", "name").lines
