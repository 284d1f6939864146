"""`minibroker offsets`, and that it says what Kafka's GetOffsetShell says of the same broker."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.cli.conftest import Cluster, Commands
from tests.support import java


@pytest.fixture
def topic(cli: Commands, fresh: Callable[..., str]) -> str:
    """Three partitions: 0 with records of 2013, 2014 and 2015, 1 with one of 2014, 2 with none."""
    name = fresh(partitions=3)
    for partition, year in ((0, 2013), (0, 2014), (0, 2015), (1, 2014)):
        cli("produce", name, "-p", str(partition), "--timestamp", f"{year}-01-01", stdin="a\nb\n")
    return name


def shell(cli: Commands, topic: str, *more: str) -> list[str]:
    return [line.removeprefix(topic) for line in cli("offsets", "--topic", topic, "-o", "shell", *more).lines]


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        ("earliest", [":0:0", ":1:0", ":2:0"]),
        ("-2", [":0:0", ":1:0", ":2:0"]),
        ("latest", [":0:6", ":1:2", ":2:0"]),
        ("-1", [":0:6", ":1:2", ":2:0"]),
        ("earliest-local", [":0:0", ":1:0", ":2:0"]),
        ("2014-01-01", [":0:2", ":1:0"]),
        ("2014-01-01T00:00:00.001Z", [":0:4"]),
        ("2014-01-01T01:00:00+01:00", [":0:2", ":1:0"]),
        ("1388534400000", [":0:2", ":1:0"]),
        ("0", [":0:0", ":1:0"]),
        ("2016-01-01", []),
    ],
)
def test_times(cli: Commands, topic: str, time: str, expected: list[str]) -> None:
    assert shell(cli, topic, "--time", time) == expected


def test_max_timestamp(cli: Commands, topic: str) -> None:
    items = [json.loads(line) for line in cli("offsets", "--topic", topic, "--time", "max-timestamp", "-o", "jsonl").lines]
    assert [(item["partition"], item["timestamp"]) for item in items] == [(0, 1420070400000), (1, 1388534400000), (2, None)]


@pytest.mark.parametrize(("partitions", "expected"), [("0", [":0:6"]), ("1-2", [":1:2", ":2:0"]), ("2,0", [":0:6", ":2:0"])])
def test_partitions(cli: Commands, topic: str, partitions: str, expected: list[str]) -> None:
    assert shell(cli, topic, "--partitions", partitions) == expected


def test_missing_partitions_are_reported_next_to_results(cli: Commands, topic: str) -> None:
    result = cli("offsets", "-t", topic, "-t", "gone", "-p", "0,7", "-o", "shell", code=1)
    assert result.lines == [f"{topic}:0:6"]
    assert f"topic {topic} has no partition 7 (it has 3)" in result.err
    assert "topic gone does not exist" in result.err


def test_topics_by_pattern_and_all(cli: Commands, topic: str) -> None:
    assert cli("offsets", "--topic-pattern", "c.i" + topic[3:], "-p", "0", "-o", "name").lines == [f"{topic}:0"]
    assert f"{topic}:0:6" in cli("offsets", "-o", "shell").lines
    assert cli("offsets", "--topic-pattern", "no-such-.*", code=1).err.startswith("Error: no topic and partition matches")
    assert "not a regular expression" in cli("offsets", "--topic-pattern", "(", code=2).err


def test_other_forms(cli: Commands, topic: str) -> None:
    items = json.loads(cli("offsets", "-t", topic, "--time", "2014-01-01", "-o", "json").out)
    assert items == [
        {"topic": topic, "partition": 0, "offset": 2, "timestamp": 1388534400000, "leader_epoch": 0},
        {"topic": topic, "partition": 1, "offset": 0, "timestamp": 1388534400000, "leader_epoch": 0},
        {"topic": topic, "partition": 2, "offset": None, "timestamp": None, "leader_epoch": -1},
    ]
    rows = [line.split() for line in cli("offsets", "-t", topic).lines]
    assert rows == [["TOPIC", "PARTITION", "OFFSET"], [topic, "0", "6"], [topic, "1", "2"], [topic, "2", "0"]]


def test_both_isolation_levels_are_supported(cli: Commands, topic: str) -> None:
    for isolation in ("read_uncommitted", "read_committed"):
        assert shell(cli, topic, "--isolation", isolation) == [":0:6", ":1:2", ":2:0"]


def test_all_bounds(cli: Commands, topic: str) -> None:
    rows = [line.split() for line in cli("offsets", "--all", "-t", topic, "-p", "0-1").lines]
    assert rows[1:] == [[topic, "0", "0", "6", "6", "6"], [topic, "1", "0", "2", "2", "2"]]
    items = json.loads(cli("offsets", "--all", "-t", topic, "-p", "1", "-o", "json").out)
    bounds = {"log_start_offset": 0, "last_stable_offset": 2, "high_watermark": 2, "log_end_offset": 2}
    assert items == [{"topic": topic, "partition": 1, **bounds}]
    assert cli("offsets", "--all", "-t", topic, "-t", "gone", "-o", "name", code=1).lines == [f"{topic}:{n}" for n in range(3)]


@pytest.mark.parametrize("more", [["--time", "0"], ["--isolation-level", "read_committed"], ["-o", "shell"]])
def test_all_bounds_are_of_no_time_and_level(offline: Commands, more: list[str]) -> None:
    assert "--all cannot be combined with" in offline("offsets", "--all", *more, code=2).err


def test_senseless_times_are_refused(offline: Commands) -> None:
    for time in ("-7", "yesterday", "2013-13-01"):
        assert "Invalid value for '--time'" in offline("offsets", "--time", time, code=2).err


def test_output_matches_get_offset_shell(cli: Commands, cluster: Cluster, topic: str) -> None:
    for more in (
        ("--time", "-1"),
        ("--time", "-2"),
        ("--time", "-3"),
        ("--time", "1388534400000"),
        ("--time", "-1", "--partitions", "0,2"),
    ):
        expected = java.run_tool(java.GET_OFFSET_SHELL, "--bootstrap-server", cluster.bootstrap, "--topic", topic, *more)
        assert cli("offsets", "--topic", topic, "-o", "shell", *more).out == expected, more
