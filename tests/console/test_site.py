"""The console over HTTP: its pages' data, its actions, and what it refuses."""

from __future__ import annotations

import http.client
import json
import shlex
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlsplit

import click
import pytest

from minibroker.cli.main import main
from minibroker.console.table import PAGES
from tests.console.scene import HOSTILE, LEGAL, consume, get, post
from tests.console.served import ServedConsole

PARAMETERS = {
    "/topic": "name=payments",
    "/records": "topic=hostile",
    "/record": "topic=hostile&partition=0&offset=0",
    "/produce": "topic=orders",
    "/partition": "topic=payments&partition=0",
    "/batch": "topic=payments&partition=0&offset=0",
    "/schema": "subject=orders-value",
    "/group": "id=billing",
    "/transaction": f"id={quote(HOSTILE)}",
    "/request": "number=5",
}


def ask(
    served: ServedConsole, path: str, method: str = "GET", body: str | None = None, **headers: str
) -> tuple[int, Mapping[str, str], str]:
    connection = http.client.HTTPConnection(urlsplit(served.url).netloc, timeout=30)
    connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
    response = connection.getresponse()
    return response.status, dict(response.headers), response.read().decode(errors="replace")


def address_of(served: ServedConsole, path: str, suffix: str = "") -> str:
    if path == "/client":
        number = get(served.url, "/clients.json?q=billing")["clients"][0]["number"]
        return f"/client{suffix}?number={number}"
    if path == "/instance":
        (instance,) = [each for each in get(served.url, "/clients.json")["telemetry"] if each["client_id"] == "shop"]
        return f"/instance{suffix}?id={instance['instance_id']}"
    return f"{'/index' if path == '/' and suffix else path}{suffix}?{PARAMETERS.get(path, '')}"


@pytest.mark.parametrize("path", PAGES)
def test_each_page_has_a_json_twin_and_the_same_command(filled: ServedConsole, path: str) -> None:
    status, headers, page = ask(filled, address_of(filled, path))
    assert status == 200, page
    assert headers["Content-Type"] == "text/html; charset=utf-8"
    assert "<script>alert" not in page
    assert "<img src=x" not in page
    data = get(filled.url, address_of(filled, path, ".json"))
    check_command(data["command"])
    assert "This page as JSON" in page


def check_command(command: str) -> None:
    """Check that a command line is one: every word is known to the command that gets it."""
    words = shlex.split(command)
    found: click.Command = main
    context: click.Context | None = None
    while words:
        context = found.make_context(words[0], words[1:], parent=context)
        if not isinstance(found, click.Group):
            return
        _, inner, words = found.resolve_command(context, context._protected_args + context.args)
        assert inner is not None
        found, words = inner, [str(inner.name), *words]


def test_pages_allow_no_code_and_no_frames(filled: ServedConsole) -> None:
    for path in ("/", "/topics.json", "/static/console.js", "/nothing", "/download?topic=hostile&offset=0"):
        _, headers, _ = ask(filled, path)
        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["X-Frame-Options"] == "DENY"


def test_downloads_are_attachments_without_a_type(filled: ServedConsole) -> None:
    status, headers, body = ask(filled, "/download?topic=hostile&partition=0&offset=3&part=value")
    assert status == 200
    assert len(body) == 900_000
    assert headers["Content-Type"] == "application/octet-stream"
    assert headers["Content-Disposition"].startswith("attachment")


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Host": "evil.example"},
        {"Content_Type": "text/plain"},
        {"Content_Type": "application/x-www-form-urlencoded"},
    ],
)
def test_other_sites_change_nothing(filled: ServedConsole, headers: dict[str, str]) -> None:
    given = {"Content_Type": "application/json"} | headers
    status, answer, body = ask(filled, "/do/topics/delete", "POST", json.dumps({"name": "orders"}), **given)
    assert status in {403, 415}, body
    assert "Access-Control-Allow-Origin" not in answer
    assert get(filled.url, "/topic.json?name=orders")["name"] == "orders"


def test_own_pages_may_post(filled: ServedConsole) -> None:
    headers = {"Content_Type": "application/json", "Origin": filled.url, "Sec_Fetch_Site": "same-origin"}
    status, _, body = ask(filled, "/do/topics/create", "POST", json.dumps({"name": "own", "partitions": "2"}), **headers)
    assert (status, json.loads(body)["go"]) == (200, "/topic?name=own")
    assert post(filled.url, "topics/delete", name="own")["go"] == "/topics"


@pytest.mark.parametrize(
    "path, status",
    [
        ("/topic?name=missing", 404),
        ("/records?topic=orders&partition=9", 404),
        ("/records?topic=orders&json=user", 400),
        ("/records?topic=orders&from=time", 400),
        ("/records?topic=orders&from=time&time=soon", 400),
        ("/records?topic=orders&count=1000000", 400),
        ("/records?topic=orders&cursor=x", 400),
        ("/topics?page=x", 400),
        ("/topics?page=-1", 400),
        ("/group?id=missing", 404),
        ("/transaction?id=missing", 404),
        ("/request?number=999999999", 404),
        ("/client?number=999999999", 404),
        ("/batch?topic=orders&offset=999999", 404),
        ("/static/../site.py", 404),
        ("/nothing", 404),
    ],
)
def test_wrong_addresses_are_explained(filled: ServedConsole, path: str, status: int) -> None:
    found, _, page = ask(filled, path)
    assert found == status, page
    assert ("<h1>Not found</h1>" if status == 404 else "<h1>Invalid address</h1>") in page or path.startswith("/static/")
    assert "Traceback" not in page


def test_strips_show_transactions(filled: ServedConsole) -> None:
    first, second = get(filled.url, "/topic.json?name=payments")["partitions"]
    kinds = [each["kind"] for each in first["ranges"]]
    assert (kinds.count("committed"), kinds.count("aborted"), len(first["markers"])) == (6, 3, 9)
    assert first["last_stable_offset"] == first["log_end_offset"] == 54
    assert [each["kind"] for each in second["ranges"]] == ["open"]
    assert (second["last_stable_offset"], second["high_watermark"]) == (10, 14)


def test_records_are_found_by_offset_key_text_json_and_time(filled: ServedConsole) -> None:
    def rows(query: str) -> list[Any]:
        found: list[Any] = get(filled.url, f"/records.json?topic=orders&{query}")["rows"]
        return found

    assert len(rows("")) == 25
    assert [row["offset"] for row in rows("partition=0&from=offset&offset=3&count=2")] == [3, 4]
    assert [row["key"]["text"] for row in rows("key=order-17")] == ["order-17"]
    assert len(rows("json=" + quote("$.user.id = 3") + "&count=100")) == 24
    assert [row["key"]["text"] for row in rows("q=" + quote("0000000000000011"))] == ["order-17"]
    assert rows("from=time&time=2100-01-01") == []
    assert len(rows("from=time&time=-1h&count=50&partition=0")) == 50


def test_a_search_that_finds_enough_can_be_continued(filled: ServedConsole) -> None:
    seen: list[int] = []
    cursor = ""
    for _ in range(20):
        found = get(filled.url, f"/records.json?topic=orders&partition=0&from=oldest&q=order&count=20&cursor={cursor}")
        seen += [row["offset"] for row in found["rows"]]
        cursor = found["cursor"]
        if found["is_complete"]:
            break
    end = get(filled.url, "/topic.json?name=orders")["partitions"][0]["log_end_offset"]
    assert seen == list(range(end))


def test_a_search_for_the_newest_goes_backwards(filled: ServedConsole) -> None:
    post(filled.url, "topics/create", name="long", partitions="1")
    for number in range(6):
        post(filled.url, "produce", topic="long", value=f"round {number}", copies=1000)
    seen: list[int] = []
    cursor = ""
    for _ in range(100):
        found = get(filled.url, f"/records.json?topic=long&q=round&count=100&cursor={cursor}")
        offsets = [row["offset"] for row in found["rows"]]
        assert offsets == sorted(offsets, reverse=True)
        seen += offsets
        cursor = found["cursor"]
        if found["is_complete"]:
            break
    assert seen == list(range(5_999, -1, -1))
    found = get(filled.url, "/records.json?topic=long&q=" + quote("round 2") + "&count=5")
    assert [row["offset"] for row in found["rows"]] == [2_999, 2_998, 2_997, 2_996, 2_995]
    post(filled.url, "topics/delete", name="long")


def test_every_legal_name_has_a_page(filled: ServedConsole) -> None:
    assert get(filled.url, f"/topic.json?name={LEGAL}")["name"] == LEGAL
    name = "a.json"
    post(filled.url, "topics/create", name=name)
    assert get(filled.url, f"/topic.json?name={name}")["partition_count"] == 1
    post(filled.url, "topics/delete", name=name)
    group = "group/with?every&letter#%"
    assert get(filled.url, f"/group.json?id={quote(group, safe='')}")["group"] == group
    assert get(filled.url, f"/group.json?id={quote(HOSTILE, safe='')}")["group"] == HOSTILE


def test_groups_have_members_lag_and_events(filled: ServedConsole) -> None:
    group = get(filled.url, "/group.json?id=billing")
    assert (group["state"], group["type"], group["member_count"]) == ("Stable", "classic", 1)
    assert sum(row["lag"] or 0 for row in group["offsets"]) == group["lag"]
    assert {"PreparingRebalance", "Stable"} <= {event["state"] for event in group["events"]}
    assert "JoinGroup" in {event["request"] for event in group["events"]}


def test_a_reset_is_previewed_and_refused_while_members_are_there(filled: ServedConsole) -> None:
    plan = post(filled.url, "groups/preview-reset", id="auditors", to="earliest")["plan"]
    assert {row["new_offset"] for row in plan} == {0}
    before = get(filled.url, "/group.json?id=auditors")["lag"]
    post(filled.url, "groups/reset", id="auditors", to="earliest", topic="payments")
    assert get(filled.url, "/group.json?id=auditors")["lag"] > before
    with pytest.raises(AssertionError, match="NON_EMPTY_GROUP"):
        post(filled.url, "groups/reset", id="billing", to="earliest")


def test_a_group_behind_markers_alone_has_read_everything(filled: ServedConsole) -> None:
    post(filled.url, "topics/create", name="marked", partitions="1")
    post(filled.url, "produce", topic="marked", value="x", transaction="commit")
    consume(filled.bootstrap, "marker-reader", "marked", count=1).close()
    offset = get(filled.url, "/group.json?id=marker-reader")["offsets"][0]
    assert (offset["offset"], offset["lag"], offset["is_at_end"]) == (1, 1, True)
    post(filled.url, "produce", topic="marked", value="y")
    offset = get(filled.url, "/group.json?id=marker-reader")["offsets"][0]
    assert (offset["lag"], offset["is_at_end"]) == (2, False)
    post(filled.url, "topics/delete", name="marked")


def test_requests_have_bodies_and_lead_from_an_error_to_its_fault(filled: ServedConsole) -> None:
    rule = json.dumps({"kind": "error", "api": "Produce", "error": "NOT_ENOUGH_REPLICAS", "often": {"times": 1}})
    post(filled.url, "lab", operation="faults.inject", rule=rule)
    assert get(filled.url, "/lab.json")["faults"][0]["hits"] == 0
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": filled.bootstrap, "client.id": "victim"})
    producer.produce("orders", "hit")
    producer.flush(30)
    row = get(filled.url, "/requests.json?errors=1&client=victim")["requests"][0]
    assert row["errors"] == ["NOT_ENOUGH_REPLICAS"]
    assert row["faults"]
    body = get(filled.url, f"/request.json?number={row['number']}")
    assert body["body"]["topic_data"][0]["name"] == "orders"
    assert body["response"]["responses"][0]["partition_responses"][0]["error_code"] == 19
    post(filled.url, "lab", operation="faults.clear")


def test_produced_records_can_be_tombstones_with_headers(filled: ServedConsole) -> None:
    written = post(filled.url, "produce", topic="customers", key="user-1", is_tombstone="on", headers="a=1\nb")
    row = get(filled.url, f"/record.json?topic=customers&partition=0&offset={written['base_offset']}")["row"]
    assert row["value"]["kind"] == "null"
    assert [(each["key"], each["value"]["text"], each["value"]["kind"]) for each in row["headers"]] == [
        ("a", "1", "text"),
        ("b", "", "null"),
    ]


def test_values_of_60_mb_are_previews_with_a_download(filled: ServedConsole) -> None:
    from confluent_kafka import Producer

    size = 60_000_000
    post(filled.url, "topics/create", name="large", partitions="1", configs="max.message.bytes=70000000")
    producer = Producer({"bootstrap.servers": filled.bootstrap, "message.max.bytes": 70_000_000})
    producer.produce("large", b"x" * size, "key")
    assert producer.flush(60) == 0
    (row,) = get(filled.url, "/records.json?topic=large")["rows"]
    assert (row["value"]["size"], row["value"]["is_cut"], len(row["value"]["text"])) == (size, True, 4096)
    for path in ("/records?topic=large", "/record?topic=large&partition=0&offset=0", "/batch?topic=large&partition=0&offset=0"):
        status, _, page = ask(filled, path)
        assert (status, len(page) < 50_000) == (200, True)
    assert len(ask(filled, "/download?topic=large&partition=0&offset=0")[2]) == size
    post(filled.url, "topics/delete", name="large")


@pytest.mark.parametrize(
    "fields, problem",
    [
        ({"topic": "missing"}, "UNKNOWN_TOPIC"),
        ({"topic": "orders", "copies": "100000"}, "copies"),
        ({"topic": "orders", "partition": "x"}, "partition"),
        ({"topic": "orders", "partition": "77"}, "UNKNOWN_TOPIC"),
        ({"topic": "orders", "encoding": "base64", "value": "%%"}, "base64"),
        ({"topic": "orders", "transaction": "maybe"}, "transaction"),
        ({"topic": 5}, "topic"),
    ],
)
def test_invalid_fields_are_explained(filled: ServedConsole, fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(AssertionError, match=problem):
        post(filled.url, "produce", **fields)
