"""`minibroker groups reset-offsets`: what it plans, what it commits, when it refuses; beside Kafka's ConsumerGroupCommand."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest

from minibroker.cli.reset_offsets import read_offsets
from minibroker.client.offsets import duration_ms
from tests.cli.conftest import Cluster, Commands
from tests.cli.test_groups import CONSUMER_GROUP_COMMAND, Join, commit, items, join, new_group
from tests.support import java

__all__ = ["join"]  # the fixture

HOUR_MS = 3_600_000


@pytest.fixture
def topic(cli: Commands, fresh: Callable[..., str]) -> str:
    """Partition 0 has offsets 0 to 9, of 2013; 1 and 2 are empty."""
    name = fresh(partitions=3, **{"message.timestamp.before.max.ms": str(2**62)})
    lines = [json.dumps({"value": str(number), "partition": 0, "timestamp": 1357034400000 + number * HOUR_MS}) for number in range(10)]
    cli("produce", name, "--input", "jsonl", stdin="\n".join(lines) + "\n")
    return name


def reset(cli: Commands, group: str, *options: str) -> list[int]:
    return [item["new_offset"] for item in items(cli, "reset-offsets", group, *options)]


def committed(cli: Commands, group: str) -> dict[int, int]:
    return {item["partition"]: item["committed_offset"] for item in items(cli, "describe", group)}


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        (["--to-earliest"], [0, 0]),
        (["--to-latest"], [10, 0]),
        (["--to-current"], [4, 0]),
        (["--to-offset", "6"], [6, 0]),
        (["--to-offset", "99"], [10, 0]),
        (["--shift-by", "3"], [7, 0]),
        (["--shift-by", "-3"], [1, 0]),
        (["--shift-by", "-100"], [0, 0]),
        (["--to-datetime", "2013-01-01T12:30:00Z"], [3, 0]),
        (["--to-datetime", "2013-01-01T12:30:00+02:00"], [1, 0]),
        (["--to-datetime", "1357034400000"], [0, 0]),
        (["--to-datetime", "2020-01-01"], [10, 0]),
        (["--by-duration", "P20000D"], [0, 0]),
        (["--by-duration", "PT1S"], [10, 0]),
    ],
)
def test_ways(cli: Commands, cluster: Cluster, topic: str, how: list[str], expected: list[int]) -> None:
    group = new_group()
    commit(cluster, group, **{f"{topic}-0": 4, f"{topic}-1": 0})
    assert reset(cli, group, "--all-topics", *how) == expected
    assert committed(cli, group) == {0: 4, 1: 0}
    assert reset(cli, group, "--all-topics", *how, "--execute") == expected
    assert committed(cli, group) == dict(enumerate(expected))


def test_dry_run_comes_first(cli: Commands, cluster: Cluster, topic: str) -> None:
    group = new_group()
    commit(cluster, group, **{f"{topic}-0": 4})
    shown = cli("groups", "reset-offsets", group, "-t", f"{topic}:0", "--to-latest", "-o", "json")
    (item,) = json.loads(shown.out)
    assert item == {
        "group": group,
        "topic": topic,
        "partition": 0,
        "committed_offset": 4,
        "new_offset": 10,
        "log_start_offset": 0,
        "log_end_offset": 10,
        "reset": False,
    }
    assert shown.err == "Nothing was changed: --execute commits these offsets.\n"
    assert cli("groups", "reset-offsets", group, "--group", group, "-t", topic, "--to-latest", "--dry-run").err == ""
    assert committed(cli, group) == {0: 4}
    (done,) = json.loads(cli("groups", "reset-offsets", group, "-t", f"{topic}:0", "--to-latest", "--execute", "-o", "json").out)
    assert done == {**item, "reset": True}
    assert committed(cli, group) == {0: 10}


def test_partition_selection(cli: Commands, topic: str, fresh: Callable[..., str]) -> None:
    group, other = new_group(), fresh()
    cli("groups", "reset-offsets", group, "-t", f"{topic}:0,2", "-t", other, "--to-earliest", "--execute")  # the group is new
    assert [(row["topic"], row["partition"]) for row in items(cli, "describe", group)] == sorted([(topic, 0), (topic, 2), (other, 0)])
    assert cli("groups", "reset-offsets", group, "-t", topic, "--to-latest", "-o", "name").lines == [
        f"{topic}:{index}" for index in range(3)
    ]
    result = cli("groups", "reset-offsets", group, "-t", topic, "--shift-by", "2", "-o", "jsonl", code=1)
    assert [json.loads(line)["partition"] for line in result.lines] == [0, 2]
    assert f"Error: group {group}: {topic}-1 has no committed offset to shift [OFFSET_OUT_OF_RANGE]\n" in result.err
    assert f"Warning: group {group}: offset 2 of {topic}-2 is after the log end: 0 instead\n" in result.err
    result = cli("groups", "reset-offsets", group, "-t", f"{topic}:0,7", "-t", "nowhere", "--to-latest", "-o", "name", code=1)
    assert result.lines == [f"{topic}:0"]
    assert f"topic {topic} has no partition 7 (it has 3) [UNKNOWN_TOPIC_OR_PARTITION]" in result.err
    assert "Error: topic nowhere does not exist" in result.err
    result = cli("groups", "reset-offsets", "nobody", "--all-topics", "--to-latest", code=1)
    assert result.err == "Error: group nobody has no committed offsets; give --topic [UNKNOWN_TOPIC_OR_PARTITION]\n"
    assert result.out == ""


def test_a_group_with_members_is_refused(cli: Commands, cluster: Cluster, topic: str, join: Join) -> None:
    group, idle = new_group(), new_group()
    commit(cluster, group, **{f"{topic}-0": 4})
    (member,) = join(group, [topic], partitions=3)
    for options in ([], ["--execute"]):
        result = cli("groups", "reset-offsets", group, idle, "-t", topic, "--to-earliest", *options, "-o", "name", code=1)
        assert result.lines == [f"{topic}:{index}" for index in range(3)]
        assert f"Error: group {group} is Stable, members: 1: stop its consumers first" in result.err
        assert result.err.endswith("[NON_EMPTY_GROUP]\n")
    assert committed(cli, group)[0] == 4
    assert committed(cli, idle) == {0: 0, 1: 0, 2: 0}
    member.unsubscribe()
    deadline = time.monotonic() + 60
    while items(cli, "describe", group, "--state")[0]["state"] != "Empty":
        member.poll(0.1)
        assert time.monotonic() < deadline
    assert reset(cli, group, "-t", f"{topic}:0", "--to-earliest", "--execute") == [0]


def test_file(cli: Commands, cluster: Cluster, topic: str, tmp_path: Path) -> None:
    one, two, path = new_group(), new_group(), tmp_path / "offsets.csv"
    commit(cluster, one, **{f"{topic}-0": 4, f"{topic}-1": 0})
    commit(cluster, two, **{f"{topic}-0": 5})
    saved = cli("groups", "reset-offsets", one, "--all-topics", "--to-current", "-o", "csv").out
    assert saved == f"{topic},0,4\n{topic},1,0\n"
    path.write_text(saved)
    cli("groups", "reset-offsets", one, "-t", topic, "--to-latest", "--execute")
    assert reset(cli, one, "--from-file", str(path), "--execute") == [4, 0]
    assert committed(cli, one) == {0: 4, 1: 0, 2: 0}
    assert "must start with its group" in cli("groups", "reset-offsets", one, two, "--from-file", str(path), code=2).err
    both = cli("groups", "reset-offsets", one, two, "--all-topics", "--to-current", "-o", "csv").out
    assert both == f"{one},{topic},0,4\n{one},{topic},1,0\n{one},{topic},2,0\n{two},{topic},0,5\n"
    path.write_text(both)
    assert cli("groups", "reset-offsets", one, two, "--from-file", str(path), "--dry-run", "-o", "csv").out == both
    assert cli("groups", "reset-offsets", two, "--from-file", str(path), "-o", "csv").out == f"{topic},0,5\n"
    result = cli("groups", "reset-offsets", "nobody", "--from-file", str(path), code=1)
    assert result.err == "Error: group nobody: the file has no line for it [UNKNOWN_TOPIC_OR_PARTITION]\n"


def test_plan_matches_consumer_group_command(cli: Commands, cluster: Cluster, topic: str, tmp_path: Path) -> None:
    group, path = new_group(), tmp_path / "exported.csv"
    commit(cluster, group, **{f"{topic}-0": 4, f"{topic}-1": 0})

    def theirs(*options: str) -> list[str]:
        arguments = ("--bootstrap-server", cluster.bootstrap, "--reset-offsets", "--group", group, *options, "--dry-run", "--export")
        lines = java.run_tool(CONSUMER_GROUP_COMMAND, *arguments).splitlines()
        return [line for line in lines if line and not line.startswith("Warn: ")]

    for options in (["--all-topics", "--shift-by", "-3"], ["--topic", f"{topic}:0,2", "--to-datetime", "2013-01-01T12:30:00.000"]):
        exported = theirs(*options)
        ours = cli("groups", "reset-offsets", group, *options, "-o", "csv").lines
        assert sorted(exported) == ours
        path.write_text("\n".join(exported))
        assert cli("groups", "reset-offsets", group, "--from-file", str(path), "-o", "csv").lines == ours


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], "give a GROUP"),
        (["g", "-t", "t"], "give --from-file, or one of --to-earliest"),
        (["g", "--to-latest"], "give one of --topic, --all-topics, --from-file"),
        (["g", "--to-latest", "-t", "t", "--all-topics"], "give one of --topic, --all-topics, --from-file"),
        (["g", "-t", "t", "--to-latest", "--shift-by", "0"], "--to-latest and --shift-by exclude each other"),
        (["g", "-t", "t", "--to-latest", "--dry-run", "--execute"], "--dry-run and --execute exclude each other"),
        (["g", "-t", "t", "--to-datetime", "tomorrow"], "Invalid value for --to-datetime"),
        (["g", "-t", "t", "--by-duration", "1 day"], "'1 day' is not a duration"),
        (["g", "-t", ":0", "--to-latest"], "has no topic"),
        (["g", "-t", "t:x", "--to-latest"], "is not a list of partitions"),
        (["g", "-t", "t", "--to-offset", "-1"], "must be from 0 to 9223372036854775807, got -1"),
    ],
)
def test_usage(offline: Commands, options: list[str], words: str) -> None:
    assert words in offline("groups", "reset-offsets", *options, code=2).err


@pytest.mark.parametrize(
    "line", ["orders,0", "orders,0,1,2,3", "orders,x,1", "orders,0,x", "orders,-1,0", "orders,0,-1", ",0,1", "g,orders,0,", "orders,0,9e3"]
)
def test_invalid_line_of_a_file(line: str) -> None:
    with pytest.raises(click.BadParameter, match="line 2 is not topic,partition,offset"):
        read_offsets(["payments,0,1", line], ["g"])


def test_invalid_file(offline: Commands, tmp_path: Path) -> None:
    path = tmp_path / "offsets.csv"
    path.write_bytes(b"orders,0," + b"1" * 200_000)
    assert f"{path} is not CSV: field larger" in offline("groups", "reset-offsets", "g", "--from-file", str(path), code=2).err
    path.write_bytes(b"\xff\xfe")
    assert "line 1 is not topic,partition,offset" in offline("groups", "reset-offsets", "g", "--from-file", str(path), code=2).err
    assert "does not exist" in offline("groups", "reset-offsets", "g", "--from-file", str(path / "none"), code=2).err
    assert "line 1 is not topic" in offline("groups", "reset-offsets", "g", "--from-file", "-", stdin="orders\n", code=2).err


def test_lines_of_a_file() -> None:
    lines: list[Any] = ['"orders",0,5', "", "orders,1,6"]
    assert read_offsets(lines, ["g"]) == {None: {("orders", 0): 5, ("orders", 1): 6}}
    assert read_offsets(["g,orders,0,5", "h,orders,0,6"], ["g", "h"]) == {"g": {("orders", 0): 5}, "h": {("orders", 0): 6}}
    with pytest.raises(click.BadParameter, match="line 3 is the second line for orders-0"):
        read_offsets([*lines[:2], "orders,0,7"], ["g"])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("PT1S", 1000),
        ("P1D", 86_400_000),
        ("P1DT2H3M4.5S", 93_784_500),
        ("pt0.0019s", 1),
        ("PT90M", 5_400_000),
        ("P", None),
        ("PT", None),
        ("P1DT", None),
        ("1H", None),
        ("PT1.S", None),
        ("P1W", None),
        ("PT-1S", None),
        ("", None),
    ],
)
def test_durations(text: str, expected: int | None) -> None:
    if expected is not None:
        assert duration_ms(text) == expected
        return
    with pytest.raises(ValueError, match="is not a duration such as P2DT3H4M5S"):
        duration_ms(text)
