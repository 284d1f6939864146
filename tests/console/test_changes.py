"""Changes by the forms of the console: access control, quotas, configs, offsets, records; each refused like the request of a client."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from minibroker.console.actions import ACTIONS
from tests.console.scene import consume, get, post
from tests.console.served import ServedConsole
from tests.console.visitors import Visitor

USERS = ("root:root-secret", "ann:ann-secret", "eve:eve-secret")
ACLS = ("ann allow ALL TOPIC mine", "ann allow ALL GROUP mine")


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedConsole]:
    with ServedConsole(tmp_path_factory.mktemp("changed")) as served:
        post(served.url, "topics/create", name="orders", partitions="3")
        post(served.url, "topics/create", name="mine", partitions="1")
        yield served


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedConsole]:
    users = [part for each in USERS for part in ("--sasl", each)]
    acls = [part for each in ACLS for part in ("--acl", each)]
    with ServedConsole(tmp_path_factory.mktemp("secured"), *users, "--super-user", "root", *acls, has_lab=False) as served:
        yield served


def visitor_of(served: ServedConsole, user: str) -> Visitor:
    visitor = Visitor(served.url)
    assert visitor.log_in(user, f"{user}-secret") == 200
    return visitor


def acls_of(visitor: Visitor) -> set[str]:
    return {each["acl"] for each in visitor.json("/access.json")["acls"]}


def test_entries_of_access_control_are_added_and_removed_after_a_preview(secured: ServedConsole) -> None:
    root = visitor_of(secured, "root")
    before = acls_of(root)
    lines = "bob allow READ,WRITE TOPIC orders-*\nann allow ALL TOPIC mine"
    plan = root.do("acls/preview-add", acl=lines)
    assert [(each["acl"], each["effect"]) for each in plan["plan"]] == [
        ("bob allow READ TOPIC orders-*", "is added"),
        ("bob allow WRITE TOPIC orders-*", "is added"),
        ("ann allow ALL TOPIC mine", "exists already"),
    ]
    assert acls_of(root) == before, "a preview changes nothing"
    root.do("acls/add", acl=lines)
    added = {"bob allow READ TOPIC orders-*", "bob allow WRITE TOPIC orders-*"}
    assert acls_of(root) == before | added

    assert {each["acl"] for each in root.do("acls/preview-remove", principal="bob")["plan"]} == added
    assert acls_of(root) == before | added
    row = next(each for each in root.json("/access.json")["acls"] if each["acl"] == "bob allow READ TOPIC orders-*")
    assert root.do("acls/remove", entry=json.dumps(row["entry"]))["message"] == "removed 1 entry"
    assert acls_of(root) == before | {"bob allow WRITE TOPIC orders-*"}
    root.do("acls/remove", principal="bob", type="TOPIC", resource="orders-*")
    assert acls_of(root) == before


@pytest.mark.parametrize(
    "action, fields, problem",
    [
        ("acls/remove", {}, "fill in at least one field"),
        ("acls/remove", {"type": "TOPIC", "operation": "FLY"}, "FLY"),
        ("acls/remove", {"entry": "[1, 2]"}, "entry must be"),
        ("acls/remove", {"entry": "[" * 100_000}, "entry must be"),
        ("acls/remove", {"entry": "[2, null, 1, null, null, 1, 1]"}, "pattern type"),
        ("acls/add", {"acl": " "}, "acl is empty"),
        ("acls/add", {"acl": "ann allow FLY TOPIC mine"}, "FLY"),
        ("acls/add", {"acl": "ann allow READ TOPIC mine\n" * 101}, "at most 100"),
        ("quotas/alter", {"quota": "producer_byte_rate", "value": "1"}, "name a user"),
        ("quotas/alter", {"user": "ann", "quota": "producer_byte_rate", "value": "nan"}, "must be a number"),
        ("quotas/alter", {"user": "ann", "quota": "love", "value": "1"}, "love"),
        ("configs/alter", {"kind": "planet", "config": "x"}, "kind must be"),
        ("configs/alter", {"kind": "topic", "name": "mine", "config": "retention.ms", "operation": "sing"}, "operation must be"),
        ("topics/delete-records", {"name": "mine", "offset": "-5"}, "offset must be"),
    ],
)  # fmt: skip
def test_wrong_fields_are_explained(secured: ServedConsole, action: str, fields: dict[str, str], problem: str) -> None:
    status, answer = visitor_of(secured, "root").ask(f"/do/{action}", fields)
    assert (status in {400, 409}, problem in answer) == (True, True), answer


CHANGES: tuple[tuple[str, dict[str, str]], ...] = (
    ("acls/add", {"acl": "eve allow ALL TOPIC *"}),
    ("acls/preview-add", {"acl": "eve allow ALL TOPIC *"}),
    ("acls/remove", {"principal": "ann"}),
    ("acls/preview-remove", {"principal": "ann"}),
    ("quotas/alter", {"user": "ann", "quota": "producer_byte_rate", "value": "1"}),
    ("configs/alter", {"kind": "topic", "name": "mine", "config": "retention.ms", "value": "1"}),
    ("configs/preview", {"kind": "topic", "name": "mine", "config": "retention.ms", "value": "1"}),
    ("configs/alter", {"kind": "broker", "config": "log.retention.ms", "value": "1"}),
    ("configs/alter", {"kind": "cluster", "config": "log.retention.ms", "value": "1"}),
    ("configs/preview", {"kind": "cluster", "config": "log.retention.ms", "value": "1"}),
    ("configs/alter", {"kind": "group", "name": "mine", "config": "consumer.session.timeout.ms", "value": "50000"}),
    ("topics/create", {"name": "new"}),
    ("topics/delete", {"name": "mine"}),
    ("topics/delete-records", {"name": "mine"}),
    ("topics/preview-delete-records", {"name": "mine"}),
    ("groups/delete-offsets", {"id": "mine", "topic": "mine"}),
    ("groups/reset", {"id": "mine", "to": "earliest"}),
    ("groups/preview-reset", {"id": "mine", "to": "earliest"}),
    ("groups/delete", {"id": "mine"}),
    ("produce", {"topic": "mine", "value": "x"}),
    ("lab", {"operation": "reset"}),
)


def test_every_action_is_refused_to_a_visitor_without_rights(secured: ServedConsole) -> None:
    root, eve = visitor_of(secured, "root"), visitor_of(secured, "eve")
    root.ask("/do/topics/create", {"name": "mine", "partitions": "1"})
    before = root.json("/access.json"), root.json("/topic.json?name=mine")
    assert {name for name, _ in CHANGES} == {*ACTIONS}
    for action, fields in CHANGES:
        status, answer = eve.ask(f"/do/{action}", fields)
        assert status == 403, f"{action}: {status} {answer}"
    assert (root.json("/access.json"), root.json("/topic.json?name=mine")) == before


def test_a_read_only_console_refuses_every_change(tmp_path: Any) -> None:
    with ServedConsole(tmp_path, "--console-read-only") as served:
        for action, fields in CHANGES:
            status, answer = Visitor(served.url).ask(f"/do/{action}", fields)
            if ACTIONS[action].changes:
                assert (status, "read-only" in answer) == (403, True), action
        assert get(served.url, "/topics.json")["topics"] == []


def test_owners_of_a_topic_change_it(secured: ServedConsole) -> None:
    root, ann = visitor_of(secured, "root"), visitor_of(secured, "ann")
    root.ask("/do/topics/create", {"name": "mine", "partitions": "1"})
    ann.do("produce", topic="mine", value="x", copies=10)
    assert ann.do("topics/preview-delete-records", name="mine", offset="4")["plan"][0]["count"] == 4
    ann.do("topics/delete-records", name="mine", offset="4")
    assert ann.json("/topic.json?name=mine")["partitions"][0]["log_start_offset"] == 4
    ann.do("configs/alter", kind="topic", name="mine", config="retention.ms", value="60000")
    configs = {each["name"]: each["value"] for each in ann.json("/topic.json?name=mine")["configs"]}
    assert configs["retention.ms"] == "60000"
    assert ann.ask("/do/configs/alter", {"kind": "cluster", "config": "log.retention.ms", "value": "1"})[0] == 403


def test_quotas_are_set_and_removed(plain: ServedConsole) -> None:
    def quotas() -> list[tuple[Any, Any]]:
        return [(each["entity"], each["limits"]) for each in get(plain.url, "/access.json")["quotas"]]

    post(plain.url, "quotas/alter", user="ann", client_id="<default>", quota="producer_byte_rate", value="1e6")
    assert quotas() == [({"user": "ann", "client-id": None}, {"producer_byte_rate": 1e6})]
    post(plain.url, "quotas/alter", user="ann", client_id="<default>", quota="producer_byte_rate")
    assert quotas() == []


def test_configs_say_where_their_value_comes_from(plain: ServedConsole) -> None:
    def config(name: str) -> tuple[str, str]:
        found = next(each for each in get(plain.url, f"/config.json?all=1&q={name}")["configs"] if each["name"] == name)
        return found["value"], found["source"]

    assert config("offsets.topic.num.partitions") == ("3", "--set offsets.topic.num.partitions")
    assert config("listeners")[1] == "--port"
    name = "log.retention.ms"
    first = config(name)
    for kind, value, source in (("cluster", "1000", "cluster, while it runs"), ("broker", "2000", "broker, while it runs")):
        plan = post(plain.url, "configs/preview", kind=kind, config=name, value=value)["plan"]
        assert [(each["config"], each["new_value"]) for each in plan] == [(name, value)]
        post(plain.url, "configs/alter", kind=kind, config=name, value=value)
        assert config(name) == (value, source)
    plan = post(plain.url, "configs/preview", kind="broker", config=name, operation="reset")["plan"]
    assert [(each["value"], each["new_value"]) for each in plan] == [("2000", "1000")]
    post(plain.url, "configs/alter", kind="broker", config=name, operation="reset")
    assert config(name) == ("1000", "cluster, while it runs")
    post(plain.url, "configs/alter", kind="cluster", config=name, operation="reset")
    assert config(name) == first
    with pytest.raises(AssertionError, match="INVALID"):
        post(plain.url, "configs/preview", kind="broker", config="node.id", value="7")
    post(plain.url, "topics/create", name="compacted", partitions="1")
    post(plain.url, "configs/alter", kind="topic", name="compacted", config="cleanup.policy", operation="append", value="compact")
    rows = {row["name"]: row for row in get(plain.url, "/topic.json?name=compacted")["configs"]}
    row = rows["cleanup.policy"]
    assert (set(row["value"].split(",")), row["source"]) == ({"delete", "compact"}, "topic")
    assert row["synonyms"][1]["value"] == "delete"


def test_configs_of_a_group_are_on_its_page(plain: ServedConsole) -> None:
    post(plain.url, "produce", topic="mine", value="x", copies=5)
    consume(plain.bootstrap, "configured", "mine", count=5).close()
    post(plain.url, "configs/alter", kind="group", name="configured", config="consumer.session.timeout.ms", value="50000")
    assert [(each["name"], each["value"]) for each in get(plain.url, "/group.json?id=configured")["configs"]] == [
        ("consumer.session.timeout.ms", "50000")
    ]


def test_single_offsets_of_a_group_are_deleted(plain: ServedConsole) -> None:
    for index in range(3):
        post(plain.url, "produce", topic="orders", partition=str(index), value="x", copies=2)
    consume(plain.bootstrap, "forgetful", "orders", count=6).close()

    def committed() -> dict[int, int]:
        return {row["partition"]: row["offset"] for row in get(plain.url, "/group.json?id=forgetful")["offsets"]}

    assert committed() == {0: 2, 1: 2, 2: 2}
    post(plain.url, "groups/delete-offsets", id="forgetful", topic="orders", partition="1")
    assert committed() == {0: 2, 2: 2}
    with pytest.raises(AssertionError, match="no offset of topic mine"):
        post(plain.url, "groups/delete-offsets", id="forgetful", topic="mine")
    post(plain.url, "groups/delete-offsets", id="forgetful", topic="orders")
    status, _ = Visitor(plain.url).ask("/group.json?id=forgetful")
    assert status == 404 or committed() == {}


def test_records_are_deleted_up_to_an_offset(plain: ServedConsole) -> None:
    post(plain.url, "topics/create", name="long", partitions="2")
    for index in range(2):
        post(plain.url, "produce", topic="long", partition=str(index), value="x", copies=10)

    def starts() -> list[int]:
        return [each["log_start_offset"] for each in get(plain.url, "/topic.json?name=long")["partitions"]]

    plan = post(plain.url, "topics/preview-delete-records", name="long", partition="1", offset="7")["plan"]
    assert plan == [{"partition": 1, "log_start_offset": 0, "new_offset": 7, "count": 7}]
    assert starts() == [0, 0]
    post(plain.url, "topics/delete-records", name="long", partition="1", offset="7")
    assert starts() == [0, 7]
    with pytest.raises(AssertionError, match="OFFSET_OUT_OF_RANGE"):
        post(plain.url, "topics/delete-records", name="long", partition="1", offset="11")
    post(plain.url, "topics/delete-records", name="long")
    assert starts() == [10, 10]
    post(plain.url, "topics/delete", name="long")
