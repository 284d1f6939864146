"""`minibroker topics` against a broker of ours and against Apache Kafka."""

from __future__ import annotations

import json
from collections.abc import Callable

import yaml

from tests.cli.conftest import Cluster, Commands
from tests.support.becoming import becomes


def described(cli: Commands, *names: str) -> list[dict[str, object]]:
    items: list[dict[str, object]] = json.loads(cli("topics", "describe", *names, "-o", "json").out)
    return items


def test_create_describe_alter_delete(cli: Commands, cluster: Cluster) -> None:
    created = json.loads(
        cli("topics", "create", "story", "-p", "2", "-c", "retention.ms=-1", "-c", "cleanup.policy=compact", "-o", "json").out
    )
    assert [(item["name"], item["partitions"], item["replication_factor"], item["created"]) for item in created] == [("story", 2, 1, True)]

    (topic,) = described(cli, "story")
    assert list(topic) == ["name", "topic_id", "partitions", "replication_factor", "internal", "configs"]
    assert topic["topic_id"] == created[0]["topic_id"]
    assert topic["configs"] == {"cleanup.policy": "compact", "retention.ms": "-1"}
    leader = json.loads(cli("api-versions", "-o", "jsonl").lines[0])["node_id"]
    assert topic["partitions"] == [
        {"partition": index, "leader": leader, "leader_epoch": 0, "replicas": [leader], "isr": [leader], "offline": []}
        for index in range(2)
    ]

    assert cli("topics", "alter", "story", "-p", "5", "-c", "max.message.bytes=5000", "--delete-config", "retention.ms").out == ""
    (topic,) = described(cli, "story")
    assert topic["configs"] == {"cleanup.policy": "compact", "max.message.bytes": "5000"}
    assert isinstance(topic["partitions"], list)
    assert len(topic["partitions"]) == 5

    assert cli("topics", "delete", "story", "-o", "name").out == "story\n"
    assert becomes(lambda: "story" not in cli("topics", "list", "-o", "name").lines), "Apache Kafka deletes after it has answered"
    gone = "Error: topic story does not exist [UNKNOWN_TOPIC_OR_PARTITION]\n"
    assert cli("topics", "describe", "story", code=1).err == gone


def test_list_in_every_form(cli: Commands, fresh: Callable[..., str]) -> None:
    name = fresh(partitions=3)
    assert name in cli("topics", "list", "-o", "name").lines
    item = next(item for item in json.loads(cli("topics", "list", "-o", "json").out) if item["name"] == name)
    assert {key: item[key] for key in ("partitions", "replication_factor", "internal")} == {
        "partitions": 3,
        "replication_factor": 1,
        "internal": False,
    }
    assert item in [json.loads(line) for line in cli("topics", "list", "-o", "jsonl").lines]
    assert item in yaml.safe_load(cli("topics", "list", "-o", "yaml").out)
    header, *rows = cli("topics", "list").lines
    assert header.split() == ["NAME", "PARTITIONS", "REPLICATION", "FACTOR", "TOPIC", "ID"]
    assert [name, "3", "1", item["topic_id"]] in [row.split() for row in rows]


def test_describe_for_people(cli: Commands, fresh: Callable[..., str]) -> None:
    lines = cli("topics", "describe", fresh(partitions=2)).lines
    assert "partitions:         2" in lines
    assert "  retention.ms=-1" in lines
    assert [line.split()[:2] for line in lines[-2:]] == [["0", "1"], ["1", "1"]]


def test_describe_with_all_configs(cli: Commands, fresh: Callable[..., str]) -> None:
    (topic,) = json.loads(cli("topics", "describe", fresh(), "--all-configs", "-o", "json").out)
    assert topic["all_configs"]["retention.ms"] == {"value": "-1", "source": "topic"}
    assert topic["all_configs"]["segment.bytes"] == {"value": "1073741824", "source": "default"}


def test_existing_topic_fails_without_if_not_exists(cli: Commands, fresh: Callable[..., str]) -> None:
    name = fresh()
    assert cli("topics", "create", name, code=1).err == f"Error: topic {name}: Topic '{name}' already exists. [TOPIC_ALREADY_EXISTS]\n"
    (item,) = json.loads(cli("topics", "create", name, "--if-not-exists", "-o", "json").out)
    assert item["created"] is False


def test_several_topics_each_have_their_outcome(cli: Commands, fresh: Callable[..., str]) -> None:
    name = fresh()
    result = cli("topics", "create", name, name + "-b", "bad/name", "-o", "name", code=1)
    assert result.lines == [name + "-b"]
    assert len(result.err.splitlines()) == 2
    assert "[INVALID_TOPIC_EXCEPTION]" in result.err
    result = cli("topics", "delete", name, name + "-b", "gone", "-o", "jsonl", code=1)
    assert {item["name"]: item["deleted"] for item in map(json.loads, result.lines)} == {name: True, name + "-b": True}
    assert (
        cli("topics", "delete", "gone", "--if-exists", "-o", "json").out
        == json.dumps([{"name": "gone", "deleted": False}], indent=2) + "\n"
    )


def test_validate_only_creates_nothing(cli: Commands) -> None:
    (item,) = json.loads(cli("topics", "create", "not-yet", "--validate-only", "-o", "json").out)
    assert item["created"] is False
    assert "not-yet" not in cli("topics", "list", "-o", "name").lines
    assert "[INVALID_CONFIG]" in cli("topics", "create", "not-yet", "--validate-only", "-c", "retention.ms=soon", code=1).err


def test_refusals_of_the_broker_are_one_line(cli: Commands, fresh: Callable[..., str]) -> None:
    name = fresh(partitions=2)
    for arguments, code in [
        (("alter", name, "-p", "1"), "INVALID_PARTITIONS"),
        (("alter", name, "-c", "no.such.config=1"), "INVALID_CONFIG"),
        (("alter", "gone-" + name, "-p", "3"), "UNKNOWN_TOPIC_OR_PARTITION"),
        (("create", "r2", "-r", "2"), "INVALID_REPLICATION_FACTOR"),
    ]:
        error = cli("topics", *arguments, code=1).err
        assert error.startswith("Error: topic ")
        assert error.endswith(f"[{code}]\n")
        assert error.count("\n") == 1


def test_wrong_usage_is_one_line_and_code_2(offline: Commands) -> None:
    for arguments in (["create"], ["create", "a", "-p", "0"], ["create", "a", "-c", "novalue"], ["alter", "a"], ["list", "-o", "xml"]):
        error = offline("topics", *arguments, code=2).err
        assert error.startswith("Error: ")
        assert error.endswith(f"Try 'minibroker topics {arguments[0]} --help'.\n")
        assert error.count("\n") == 1


def test_no_broker_is_one_line_and_code_1(offline: Commands) -> None:
    error = offline("topics", "list", code=1).err
    assert error == "Error: cannot connect to 127.0.0.1:1: Connection refused. Is a broker running there?\n"
