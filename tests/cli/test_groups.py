"""`minibroker groups`, and what Kafka's ConsumerGroupCommand says of the same broker."""

from __future__ import annotations

import itertools
import json
import os
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.cli.conftest import Cluster, Commands
from tests.support import java

Join = Callable[..., Any]
CONSUMER_GROUP_COMMAND = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
TIMEOUT_S = 60.0
NOT_READY = (14, 15, 16)  #: COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR

_numbers = itertools.count(1)


def new_group() -> str:
    return f"group-{os.getpid()}-{next(_numbers)}"


@pytest.fixture
def join(cluster: Cluster, cli: Commands) -> Iterator[Join]:
    """Members of a group: `join("readers", ["orders"], 2, partitions=3)` polls until all of these partitions are given to the two."""
    from tests.support.confluent import Consumer

    consumers: list[Any] = []

    def make(group: str, topics: list[str], count: int = 1, *, partitions: int, **settings: str) -> list[Any]:
        common = {"bootstrap.servers": cluster.bootstrap, "group.id": group, "enable.auto.commit": False, "auto.offset.reset": "earliest"}
        members = [Consumer(common | {"client.id": f"client-{number}"} | settings) for number in range(count)]
        consumers.extend(members)
        for member in members:
            member.subscribe(topics)
        deadline = time.monotonic() + TIMEOUT_S
        while not _settled(cli, group, members, partitions):
            assert time.monotonic() < deadline, [member.assignment() for member in members]
            for member in members:
                member.poll(0.1)
        return members

    yield make
    for consumer in consumers:
        consumer.close()


def _settled(cli: Commands, group: str, members: list[Any], partitions: int) -> bool:
    """Every member has its share, and the coordinator thinks so too."""
    if sum(len(member.assignment()) for member in members) != partitions:
        return False
    (state,) = items(cli, "describe", group, "--state")
    return (state["state"], state["members"]) == ("Stable", len(members))


def commit(cluster: Cluster, group: str, **offsets: int) -> None:
    """Commit from outside, as an assigned consumer does: `commit(cluster, "readers", **{"orders-0": 3})`."""
    from confluent_kafka import KafkaException, TopicPartition

    from tests.support.confluent import Consumer

    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group})
    names = [(name.rpartition("-"), offset) for name, offset in offsets.items()]
    expected = [TopicPartition(topic, int(index), offset) for (topic, _, index), offset in names]
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        try:
            committed = consumer.commit(offsets=expected, asynchronous=False)
            break
        except KafkaException as error:  # Apache Kafka makes the topic of offsets only now
            if error.args[0].code() not in NOT_READY or time.monotonic() > deadline:
                raise
    assert [each.error for each in committed] == [None] * len(expected)
    consumer.close()


def items(cli: Commands, *arguments: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in cli("groups", *arguments, "-o", "jsonl").lines]


def test_list(cli: Commands, cluster: Cluster, fresh: Callable[..., str], join: Join) -> None:
    topic = fresh()
    idle, busy = new_group(), new_group()
    commit(cluster, idle, **{f"{topic}-0": 0})
    join(busy, [topic], partitions=1)
    found = {item["group"]: item for item in items(cli, "list")}
    assert [name for name in found if name in {idle, busy}] == sorted([idle, busy])
    assert found[idle] == {**found[busy], "group": idle, "protocol_type": "", "state": "Empty"}
    node = found[busy]["coordinator"]
    assert found[busy] == {"group": busy, "type": "classic", "protocol_type": "consumer", "state": "Stable", "coordinator": node}
    for options, expected in (
        (["--state", "stable"], [busy]),
        (["--state", "Empty", "--type", "Classic"], [idle]),
        (["--state", "Empty", "--state", "Stable"], sorted([idle, busy])),
        (["--type", "share"], []),
    ):
        assert [name for name in cli("groups", "list", *options, "-o", "name").lines if name in {idle, busy}] == expected
    assert cli("groups", "list").lines[0].split("  ")[0] == "GROUP"


def test_offsets_and_owners(cli: Commands, cluster: Cluster, fresh: Callable[..., str], join: Join) -> None:
    topic, group = fresh(partitions=3), new_group()
    cli("produce", topic, "-p", "0", stdin="a\nb\nc\n")
    commit(cluster, group, **{f"{topic}-0": 1})
    (row,) = items(cli, "describe", group)
    assert row == {
        "group": group,
        "topic": topic,
        "partition": 0,
        "committed_offset": 1,
        "log_end_offset": 3,
        "lag": 2,
        "owner": None,
        "client_id": None,
        "host": None,
        "group_instance_id": None,
        "leader_epoch": None,
        "metadata": "",
    }
    join(group, [topic], 4, partitions=3, **{"partition.assignment.strategy": "range"})
    rows = items(cli, "describe", "--group", group)
    assert [(row["topic"], row["partition"], row["committed_offset"], row["lag"]) for row in rows] == [
        (topic, 0, 1, 2),
        (topic, 1, None, None),
        (topic, 2, None, None),
        (None, None, None, None),
    ]
    assert len({row["owner"] for row in rows}) == 4
    assert sorted(row["client_id"] for row in rows) == ["client-0", "client-1", "client-2", "client-3"]
    assert {row["host"] for row in rows} == {"127.0.0.1"}
    assert cli("groups", "describe", group, "--members", "--state", code=2).err.startswith(
        "Error: --members and --state exclude each other."
    )
    assert cli("groups", "describe", group, "-o", "name").lines == [f"{topic}:{index}" for index in range(3)]
    header, *lines = cli("groups", "describe", group).lines
    assert re.split(r"  +", header) == [
        "GROUP",
        "TOPIC",
        "PARTITION",
        "COMMITTED OFFSET",
        "LOG END OFFSET",
        "LAG",
        "OWNER",
        "CLIENT ID",
        "HOST",
    ]
    assert [line.split()[:6] for line in lines] == [
        [group, topic, "0", "1", "3", "2"],
        [group, topic, "1", "-", "0", "-"],
        [group, topic, "2", "-", "0", "-"],
        [group, "-", "-", "-", "-", "-"],
    ]
    assert {group} <= {item["group"] for item in items(cli, "describe")}


def test_members_and_state_of_a_classic_group(cli: Commands, fresh: Callable[..., str], join: Join) -> None:
    topics, group = sorted([fresh(partitions=2), fresh()]), new_group()
    join(group, topics, partitions=3, **{"group.instance.id": "first", "partition.assignment.strategy": "roundrobin"})
    (member,) = items(cli, "describe", group, "--members")
    assigned = member["assignment"]
    assert sorted((each["topic"], each["partition"]) for each in assigned) == [(each["topic"], each["partition"]) for each in assigned]
    assert {each["topic"] for each in assigned} == set(topics)
    assert len(assigned) == 3
    assert member == {
        "group": group,
        "member_id": member["member_id"],
        "group_instance_id": "first",
        "client_id": "client-0",
        "host": "127.0.0.1",
        "protocol": "classic",
        "member_epoch": None,
        "topics": topics,
        "topic_regex": None,
        "assignment": assigned,
        "target_assignment": None,
    }
    assert member["member_id"].startswith("first-")
    line = cli("groups", "describe", group, "--members").lines[1].split()
    assert line[-2:] == [",".join(topics), ",".join(f"{each['topic']}-{each['partition']}" for each in assigned)]
    (state,) = items(cli, "describe", group, "--state")
    assert state == {
        "group": group,
        "type": "classic",
        "state": "Stable",
        "members": 1,
        "coordinator": state["coordinator"],
        "protocol_type": "consumer",
        "assignor": "roundrobin",
        "group_epoch": None,
        "assignment_epoch": None,
    }
    assert cli("groups", "describe", group, "--members", "-o", "name").lines == [member["member_id"]]


def test_group_of_kip_848(cli: Commands, fresh: Callable[..., str], join: Join) -> None:
    topic, group = fresh(partitions=2), new_group()
    join(group, [f"^{topic}$"], 2, partitions=2, **{"group.protocol": "consumer"})
    rows = items(cli, "describe", group)
    assert [(row["topic"], row["partition"]) for row in rows] == [(topic, 0), (topic, 1)]
    members = {item["member_id"]: item for item in items(cli, "describe", group, "--members")}
    for row in rows:
        member = members[row["owner"]]
        assert member["assignment"] == member["target_assignment"] == [{"topic": topic, "partition": row["partition"]}]
        assert (member["protocol"], member["client_id"]) == ("consumer", row["client_id"])
        assert topic in member["topic_regex"]
        assert member["member_epoch"] > 0
    (state,) = items(cli, "describe", group, "--state")
    assert (state["type"], state["state"], state["members"], state["assignor"]) == ("consumer", "Stable", 2, "uniform")
    assert state["group_epoch"] == state["assignment_epoch"] == max(member["member_epoch"] for member in members.values())
    assert [item["type"] for item in items(cli, "list") if item["group"] == group] == ["consumer"]
    assert f"/{members[rows[0]['owner']]['topic_regex']}/" in cli("groups", "describe", group, "--members").lines[1].split()
    refused = cli("groups", "reset-offsets", group, "-t", topic, "--to-earliest", code=1).err
    assert refused.startswith(f"Error: group {group} is Stable, members: 2: ")


def test_unknown_groups_and_topics(cli: Commands, cluster: Cluster, fresh: Callable[..., str]) -> None:
    group, gone = new_group(), fresh()
    for view in ("--offsets", "--members", "--state"):
        assert cli("groups", "describe", group, view, code=1).err.endswith("[GROUP_ID_NOT_FOUND]\n")
    commit(cluster, group, **{f"{gone}-0": 0})
    result = cli("groups", "describe", group, "nobody", "-o", "json", code=1)
    assert [row["group"] for row in json.loads(result.out)] == [group]
    assert result.err.startswith("Error: group nobody: ")
    assert cli("groups", "describe", group, "--members").lines == [
        "GROUP  MEMBER ID  GROUP INSTANCE ID  CLIENT ID  HOST  PROTOCOL  MEMBER EPOCH  TOPICS  ASSIGNMENT"
    ]


def test_delete(cli: Commands, cluster: Cluster, fresh: Callable[..., str], join: Join) -> None:
    topic, idle, busy = fresh(), new_group(), new_group()
    commit(cluster, idle, **{f"{topic}-0": 0})
    join(busy, [topic], partitions=1)
    result = cli("groups", "delete", idle, busy, "nobody", "-o", "json", code=1)
    assert json.loads(result.out) == [{"group": idle, "deleted": True}]
    assert f"Error: group {busy}: The group is not empty. [NON_EMPTY_GROUP]\n" in result.err
    assert "Error: group nobody: The group id does not exist. [GROUP_ID_NOT_FOUND]\n" in result.err
    there = cli("groups", "list", "-o", "name").lines
    assert busy in there
    assert idle not in there
    assert cli("groups", "delete", idle, "--if-exists", "-o", "name").lines == [idle]


def test_delete_offsets(cli: Commands, cluster: Cluster, fresh: Callable[..., str], join: Join) -> None:
    read, left, group = fresh(), fresh(partitions=3), new_group()
    commit(cluster, group, **{f"{read}-0": 0, **{f"{left}-{index}": index for index in range(3)}})
    join(group, [read], partitions=1)
    refused = cli("groups", "delete-offsets", group, "-t", read, code=1)
    assert refused.out == ""
    assert refused.err.endswith("[GROUP_SUBSCRIBED_TO_TOPIC]\n")
    (item,) = items(cli, "delete-offsets", group, "--topic", f"{left}:1")
    assert item == {"group": group, "topic": left, "partition": 1, "committed_offset": 1, "deleted": True}
    (again,) = items(cli, "delete-offsets", group, "--topic", f"{left}:1")
    assert again == {**item, "committed_offset": None, "deleted": False}
    assert [row["partition"] for row in items(cli, "describe", group) if row["topic"] == left] == [0, 2]
    assert cli("groups", "delete-offsets", group, "-t", left, "-o", "name").lines == [f"{left}:0", f"{left}:2"]
    assert [row["topic"] for row in items(cli, "describe", group)] == [read]
    nothing = f"Error: group {group} committed nothing of topic {left} [UNKNOWN_TOPIC_OR_PARTITION]\n"
    assert cli("groups", "delete-offsets", group, "-t", left, code=1).err == nothing
    assert cli("groups", "delete-offsets", "nobody", "-t", f"{left}:0", code=1).err.endswith("[GROUP_ID_NOT_FOUND]\n")
    assert cli("groups", "delete-offsets", "nobody", "-t", left, code=1).err.endswith("[GROUP_ID_NOT_FOUND]\n")


def test_output_matches_consumer_group_command(cli: Commands, cluster: Cluster, fresh: Callable[..., str], join: Join) -> None:
    topic, group = fresh(partitions=3), new_group()
    cli("produce", topic, "-p", "1", stdin="a\nb\n")
    commit(cluster, group, **{f"{topic}-1": 1})
    join(group, [topic], 2, partitions=3)

    def rows(*arguments: str) -> list[list[str]]:
        output = java.run_tool(CONSUMER_GROUP_COMMAND, "--bootstrap-server", cluster.bootstrap, "--group", group, *arguments)
        return [line.split() for line in output.splitlines() if line.startswith(group)]

    def cells(*values: object) -> list[str]:
        return ["-" if value is None else str(value) for value in values]

    fields = ("group", "topic", "partition", "leader_epoch", "committed_offset", "log_end_offset", "lag", "owner")
    ours = [cells(*[row[field] for field in fields], f"/{row['host']}", row["client_id"]) for row in items(cli, "describe", group)]
    assert sorted(rows("--describe", "--verbose")) == sorted(ours)
    members = [
        cells(group, member["member_id"], f"/{member['host']}", member["client_id"], len(member["assignment"]))
        for member in items(cli, "describe", group, "--members")
    ]
    assert sorted(rows("--describe", "--members")) == sorted(members)
    (state,) = items(cli, "describe", group, "--state")
    ((name, address, node, *facts),) = rows("--describe", "--state")
    assert (name, address.rpartition(":")[2], node) == (group, cluster.bootstrap.rpartition(":")[2], f"({state['coordinator']})")
    assert facts == [state["assignor"], state["state"], str(state["members"])]
