"""`minibroker groups` with share groups, on both brokers; what Kafka's ShareGroupCommand says of the same ones."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from minibroker.schemas import k76_share_group_heartbeat as k76
from tests.cli.conftest import Cluster, Commands
from tests.cli.test_groups import items, new_group
from tests.golden.captures.admin import ask
from tests.golden.share_scenario import A, B, beat
from tests.support import java

SHARE_GROUP_COMMAND = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"
TIMEOUT_S = 60.0
NOT_READY = {14, 15, 16}


class Members:
    """Members of one group, by raw requests."""

    def __init__(self, cluster: Cluster, group: str, topic: str) -> None:
        self._port = int(cluster.bootstrap.rpartition(":")[2])
        self.group, self.topic = group, topic

    def settle(self, *member_ids: str, partitions: int) -> None:
        """All have joined, and share so many partitions."""
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            answers = [ask(self._port, beat(member_id, 0, self.topic, group=self.group)) for member_id in member_ids]
            if list(map(_size, answers)) == [partitions // len(member_ids)] * len(member_ids):
                return
            assert time.monotonic() < deadline, answers
            time.sleep(0.1)

    def leave(self, *member_ids: str) -> None:
        for member_id in member_ids:
            assert ask(self._port, beat(member_id, -1, group=self.group)).error_code == 0


def _size(answer: k76.Response) -> int:
    assert answer.error_code in {0, *NOT_READY}
    return sum(len(each.partitions) for each in answer.assignment.topic_partitions) if answer.assignment is not None else 0


@pytest.fixture
def members(cluster: Cluster, cli: Commands, fresh: Callable[..., str]) -> Members:
    """Two members of a share group of a topic with two partitions and three records."""
    topic, group = fresh(partitions=2), new_group()
    cli("produce", topic, "-p", "0", stdin="a\nb\nc\n")
    cli("groups", "describe", group, code=1)  # whoever asks for its coordinator makes one
    found = Members(cluster, group, topic)
    found.settle(A, B, partitions=2)
    return found


def offsets(cli: Commands, group: str) -> dict[int, tuple[Any, ...]]:
    return {row["partition"]: (row["committed_offset"], row["log_end_offset"], row["lag"]) for row in items(cli, "describe", group)}


def test_members_and_states(cli: Commands, members: Members) -> None:
    group, topic = members.group, members.topic
    listed = {row["group"]: row for row in items(cli, "list", "--type", "share")}[group]
    assert (listed["type"], listed["protocol_type"], listed["state"]) == ("share", "share", "Stable")
    (state,) = items(cli, "describe", group, "--state")
    assert (state["type"], state["state"], state["members"], state["assignor"]) == ("share", "Stable", 2, "simple")
    rows = items(cli, "describe", group, "--members")
    assert [(row["member_id"], row["protocol"], row["host"], row["topics"]) for row in rows] == [
        (member_id, "share", "127.0.0.1", [topic]) for member_id in (A, B)
    ]
    assert sorted(each["partition"] for row in rows for each in row["assignment"]) == [0, 1]
    assert offsets(cli, group) == {0: (None, 3, None), 1: (None, 0, None)}
    assert [row["owner"] for row in items(cli, "describe", group)] == [None, None]
    assert group in {row["group"] for row in items(cli, "describe")}
    members.leave(A, B)


def test_a_group_with_members_is_left_alone(cli: Commands, members: Members) -> None:
    group, topic = members.group, members.topic
    for command in (["reset-offsets", group, "--topic", topic, "--to-earliest", "--execute"], ["delete", group]):
        assert "NON_EMPTY_GROUP" in cli("groups", *command, code=1).err
    members.leave(A, B)
    assert "deletes offsets of whole topics only" in cli("groups", "delete-offsets", group, "--topic", f"{topic}:0", code=2).err


def test_offsets_of_an_empty_group(cli: Commands, members: Members) -> None:
    group, topic = members.group, members.topic
    members.leave(A, B)
    planned = items(cli, "reset-offsets", group, "--topic", topic, "--to-offset", "2", "--execute")
    assert [(row["committed_offset"], row["new_offset"], row["reset"]) for row in planned] == [(None, 2, True), (None, 0, True)]
    assert offsets(cli, group) == {0: (2, 3, 1), 1: (0, 0, 0)}
    planned = items(cli, "reset-offsets", group, "--all-topics", "--shift-by", "-1")
    assert [(row["committed_offset"], row["new_offset"], row["reset"]) for row in planned] == [(2, 1, False), (0, 0, False)]
    deleted = items(cli, "delete-offsets", group, "--topic", topic)
    assert [(row["partition"], row["committed_offset"], row["deleted"]) for row in deleted] == [(0, 2, True), (1, 0, True)]
    assert offsets(cli, group) == {}
    assert "committed nothing" in cli("groups", "delete-offsets", group, "--topic", topic, code=1).err
    cli("groups", "delete", group)
    cli("groups", "describe", group, code=1)


def test_output_matches_kafka(cli: Commands, cluster: Cluster, members: Members) -> None:
    group, topic = members.group, members.topic
    members.leave(A, B)
    cli("groups", "reset-offsets", group, "--topic", topic, "--to-earliest", "--execute")
    assert offsets(cli, group) == {0: (0, 3, 3), 1: (0, 0, 0)}
    text = java.run_tool(SHARE_GROUP_COMMAND, "--bootstrap-server", cluster.bootstrap, "--group", group, "--describe")
    rows = [line.split() for line in text.splitlines() if line.startswith(group)]
    assert sorted(rows) == [[group, topic, "0", "0", "3"], [group, topic, "1", "0", "0"]]
