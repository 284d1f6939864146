"""The schema registry's pages."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.console.scene import HOSTILE_SUBJECT, fill_registry, get, register, send
from tests.console.served import ServedConsole
from tests.console.visitors import Visitor


def test_subjects_have_their_latest_version_id_and_compatibility(filled: ServedConsole) -> None:
    data = get(filled.url, "/schemas.json")
    rows = {each["subject"]: each for each in data["subjects"]}
    assert {*rows} == {"user", "orders-value", ":.test:orders-value", HOSTILE_SUBJECT}
    orders = rows["orders-value"]
    assert (orders["version"], orders["version_count"], orders["type"], orders["reference_count"]) == (2, 2, "JSON", 1)
    assert (orders["compatibility"], rows[HOSTILE_SUBJECT]["compatibility"], data["compatibility"]) == ("BACKWARD", "NONE", "BACKWARD")
    assert data["registry_url"] == filled.site_url("registry")
    assert [each["subject"] for each in get(filled.url, "/schemas.json?q=USER")["subjects"]] == ["user"]
    assert [each["subject"] for each in get(filled.url, f"/schemas.json?q={orders['id']}")["subjects"]] == ["orders-value"]


def test_a_version_has_its_text_references_and_ids(filled: ServedConsole) -> None:
    latest = get(filled.url, "/schema.json?subject=orders-value")
    assert latest["version"] == 2
    assert json.loads(latest["text"])["properties"]["user"] == {"$ref": "user.json"}
    assert latest["references"] == [{"name": "user.json", "subject": "user", "version": 1}]
    assert [each["version"] for each in latest["versions"]] == [2, 1]
    user = get(filled.url, "/schema.json?subject=user")
    assert [(each["subject"], each["version"]) for each in user["referenced_by"]] == [("orders-value", 2)]
    assert get(filled.url, f"/schema.json?id={latest['id']}")["subject"] == "orders-value"
    assert get(filled.url, "/schema.json?subject=orders-value&version=1")["id"] != latest["id"]
    assert get(filled.url, "/schema.json?subject=" + quote(":.test:orders-value"))["version"] == 1


@pytest.mark.parametrize("query, status", [("", 400), ("subject=x", 404), ("subject=user&version=7", 404), ("id=999", 404), ("id=x", 400)])
def test_wrong_addresses_are_explained(filled: ServedConsole, query: str, status: int) -> None:
    assert Visitor(filled.url).ask(f"/schema.json?{query}")[0] == status


def test_a_deleted_subject_is_shown_on_demand(filled: ServedConsole) -> None:
    register(filled.site_url("registry"), "gone", {"type": "string"})
    registry = filled.site_url("registry")
    send(registry, "DELETE", "/subjects/gone", None)

    def found(query: str) -> list[Any]:
        return [each["is_deleted"] for each in get(filled.url, f"/schemas.json?q=gone{query}")["subjects"]]

    assert (found(""), found("&deleted=1")) == ([], [True])
    assert get(filled.url, "/schema.json?subject=gone")["is_deleted"]
    send(registry, "DELETE", "/subjects/gone?permanent=true", None)
    assert found("&deleted=1") == []


def test_a_visitor_sees_what_the_registry_would_show(tmp_path: Path) -> None:
    names = ("root", "ann", "eve", "max")
    users = [word for name in names for word in ("--sasl", f"{name}:{name}-secret")]
    entries = ["--acl", "ann allow READ TOPIC orders", "--acl", "max allow DESCRIBE TOPIC _schemas"]
    with ServedConsole(tmp_path, *users, "--super-user", "root", *entries, "--registry-port", "0", has_lab=False) as served:
        root, ann, eve, other = (Visitor(served.url) for _ in names)
        for name, visitor in zip(names, (root, ann, eve, other), strict=True):
            visitor.log_in(name, f"{name}-secret")
        fill_registry(served.site_url("registry"), "root:root-secret")
        assert [each.json("/schemas.json")["total"] for each in (root, ann, eve, other)] == [4, 2, 0, 0]
        assert [each["subject"] for each in ann.json("/schemas.json")["subjects"]] == [":.test:orders-value", "orders-value"]
        assert [each.json("/schemas.json")["mode"] for each in (root, ann, other)] == ["READWRITE", None, "READWRITE"]
        assert [each.json("/schemas.json")["contexts"] for each in (root, ann, eve)] == [[".", ".test"], [".", ".test"], ["."]]
        orders, user = root.json("/schema.json?subject=orders-value"), root.json("/schema.json?subject=user")
        assert ann.json("/schema.json?subject=orders-value") == orders
        assert [len(user["referenced_by"]), ann.ask("/schema.json?subject=user")[0]] == [1, 403]
        assert ann.json(f"/schema.json?id={orders['id']}")["subject"] == "orders-value"
        for query in (f"id={user['id']}", "subject=user", "subject=missing"):
            assert ann.ask(f"/schema.json?{query}")[0] == 403
        assert eve.ask("/schema.json?subject=orders-value")[0] == 403


def test_there_is_no_page_without_a_registry(tmp_path: Path) -> None:
    with ServedConsole(tmp_path, has_lab=False) as served:
        visitor = Visitor(served.url)
        status, text = visitor.ask("/schemas")
        assert (status, "--registry-port" in text) == (404, True)
        assert 'href="/schemas"' not in visitor.ask("/")[1]
        (word, url) = shlex.split(visitor.json("/requests.json?api=Fetch&client=a%26b")["command"])
        assert (word, url) == ("curl", f"{served.url}/requests.json?api=Fetch&client=a%26b"), "a page without a command of minibroker"
        assert 'href="/requests.json?client=a%26b"' in visitor.ask("/requests?client=a%26b")[1]
