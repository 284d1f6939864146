"""`minibroker groups` with streams groups, on both brokers."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from minibroker.schemas import k88_streams_group_heartbeat as k88
from tests.cli.conftest import Cluster, Commands
from tests.cli.test_groups import items, new_group
from tests.golden.captures.admin import ask
from tests.golden.streams_scenes import subtopology, topology

TIMEOUT_S = 60.0
MEMBER = "a member"
NONE: dict[str, list[k88.TaskIds]] = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}


def beat(cluster: Cluster, group: str, epoch: int, **fields: Any) -> k88.Response:
    port = int(cluster.bootstrap.rpartition(":")[2])
    request = k88.Request(group_id=group, member_id=MEMBER, member_epoch=epoch, endpoint_information_epoch=-1, **fields)
    answer: k88.Response = ask(port, request)
    return answer


def settle(cluster: Cluster, group: str, topic: str) -> None:
    """A member has joined and has all tasks."""
    deadline = time.monotonic() + TIMEOUT_S
    fields = {"rebalance_timeout_ms": 60_000, "topology": topology(subtopology("0", [topic])), "process_id": "p", **NONE}
    while not beat(cluster, group, 0, **fields).active_tasks:
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_described_reset_and_deleted(cluster: Cluster, cli: Commands, fresh: Callable[..., str]) -> None:
    topic, group = fresh(partitions=2), new_group()
    cli("produce", topic, "-p", "0", stdin="a\nb\nc\n")
    cli("groups", "describe", group, code=1)  # whoever asks for its coordinator makes one
    settle(cluster, group, topic)
    (listed,) = [row for row in items(cli, "list", "--type", "streams") if row["group"] == group]
    assert (listed["type"], listed["protocol_type"], listed["state"]) == ("streams", "streams", "Stable")
    (state,) = items(cli, "describe", group, "--state")
    assert (state["type"], state["state"], state["members"], state["assignor"]) == ("streams", "Stable", 1, None)
    (member,) = items(cli, "describe", group, "--members")
    assert (member["member_id"], member["protocol"], member["host"], member["topics"]) == (MEMBER, "streams", "127.0.0.1", [topic])
    assert member["assignment"] == [{"topic": topic, "partition": each} for each in (0, 1)]
    rows = items(cli, "describe", group)
    assert [(row["partition"], row["log_end_offset"], row["owner"]) for row in rows] == [(0, 3, MEMBER), (1, 0, MEMBER)]
    assert "NON_EMPTY_GROUP" in cli("groups", "reset-offsets", group, "--topic", topic, "--to-latest", "--execute", code=1).err
    cli("groups", "delete", group, code=1)
    assert beat(cluster, group, -1).error_code == 0
    cli("groups", "reset-offsets", group, "--topic", topic, "--to-latest", "--execute")
    assert {row["partition"]: (row["committed_offset"], row["lag"], row["owner"]) for row in items(cli, "describe", group)} == {
        0: (3, 0, None),
        1: (0, 0, None),
    }
    cli("groups", "delete", group)
    assert group not in {row["group"] for row in items(cli, "list")}
