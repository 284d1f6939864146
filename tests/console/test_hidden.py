"""A secured console shows a visitor nothing that the broker refuses to the visitor's own tools.

What is hidden has "hush" in its name, so that a page that shows any of it is noticed, whatever the page is.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from minibroker.console.table import PAGES
from tests.console.scene import consume
from tests.console.served import ServedConsole
from tests.console.visitors import Visitor

USERS = ("root", "eve", "lou", "mia", "dora")
ACLS = (
    "lou allow DESCRIBE TOPIC shown",
    "mia allow DESCRIBE TOPIC shown",
    "mia allow DESCRIBE GROUP mixed",
    "dora allow DESCRIBE TOPIC shown",
    "dora allow DESCRIBE CLUSTER",
)
NAMED = (
    "name=hush-topic", "topic=hush-topic", "topic=hush-topic&partition=0&offset=0", "id=hush-group", "id=hush-txn", "id=mixed",
    "name=shown", "topic=shown", "topic=shown&partition=0&offset=0", "q=hush", "internal=1&q=", "number=1", "subject=x",
    "topic=__consumer_offsets", "topic=__consumer_offsets&partition=0&offset=0", "name=__transaction_state",
)  # fmt: skip


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedConsole]:
    users = [part for each in USERS for part in ("--sasl", f"{each}:{each}-secret")]
    acls = [part for each in ACLS for part in ("--acl", each)]
    folder = tmp_path_factory.mktemp("hush-folder")
    with ServedConsole(folder, *users, "--super-user", "root", *acls, "--registry-port", "0", has_lab=False) as served:
        root = visitor_of(served, "root")
        login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "root", "sasl.password": "root-secret"}
        for name in ("shown", "hush-topic"):
            root.do("topics/create", name=name, partitions="1")
            root.do("produce", topic=name, value="hush-value", key="hush-key", transaction="abort", transactional_id="hush-txn")
            root.do("produce", topic=name, value="hush-value", copies=7)
        consume(served.bootstrap, "mixed", "shown", "hush-topic", count=14, **login).close()
        consume(served.bootstrap, "hush-group", "hush-topic", count=7, **login, **{"client.id": "a-client"}).close()
        root.do("produce", topic="hush-topic", value="hush-value", transaction="open", transactional_id="hush-txn")
        root.do("acls/add", acl="hush-user allow READ TOPIC hush-topic")
        yield served


def visitor_of(served: ServedConsole, user: str) -> Visitor:
    visitor = Visitor(served.url)
    assert visitor.log_in(user, f"{user}-secret") == 200
    return visitor


def answers(visitor: Visitor) -> Iterator[tuple[str, int, str]]:
    """Yield every page with every kind of parameter, its twin, and downloads."""
    for path in PAGES:
        twin = "/index.json" if path == "/" else f"{path}.json"
        yield f"{path}?", *visitor.ask(path)
        for query in ("", *NAMED):
            yield f"{twin}?{query}", *visitor.ask(f"{twin}?{query}")
    for query in NAMED:
        yield f"/download?{query}", *visitor.ask(f"/download?{query}")


@pytest.mark.parametrize("user", ["eve", "lou", "mia", "dora"])
def test_nothing_hidden_is_on_any_page(secured: ServedConsole, user: str) -> None:
    statuses = set()
    for address, status, text in answers(visitor_of(secured, user)):
        statuses.add(status)
        named = address.partition("?")[2]
        if user == "dora" and address.startswith(("/access", "/groups")):
            continue  # DESCRIBE on the cluster lists all groups and entries
        shown = text.replace("hush-folder", "") if user == "dora" else text  # likewise log directories
        for word in ("hush-key", "hush-value", "hush-user", "hush-folder"):
            assert word not in shown, address
        if "hush" not in named:  # what the visitor has asked for is repeated in the answer
            assert "hush" not in shown, address
        assert status != 500, f"{address}: {text}"
    assert {200, 403, 404} <= statuses


def test_the_super_user_sees_all_of_it(secured: ServedConsole) -> None:
    seen = "".join(text for _, status, text in answers(visitor_of(secured, "root")) if status == 200)
    for word in ("hush-key", "hush-value", "hush-user", "hush-topic", "hush-group", "hush-txn", "hush-folder"):
        assert word in seen


def test_names_that_exist_are_answered_like_others(secured: ServedConsole) -> None:
    eve = visitor_of(secured, "eve")
    for path in ("/topic?name=", "/records?topic=", "/partition?topic=", "/group?id=", "/transaction?id="):
        for kind in ("topic", "group", "txn"):
            found, other = (eve.ask(f"{path}{prefix}-{kind}") for prefix in ("hush", "nope"))
            assert found == (other[0], other[1].replace("nope-", "hush-")), path


def test_offsets_without_a_right_to_read_have_no_transactions_and_no_files(secured: ServedConsole) -> None:
    root, lou = visitor_of(secured, "root"), visitor_of(secured, "lou")
    (full,) = root.json("/topic.json?name=shown")["partitions"]
    assert ([each["kind"] for each in full["ranges"]], full["markers"], full["size"] > 0) == (["aborted"], [1], True)
    topic = lou.json("/topic.json?name=shown")
    (strip,) = topic["partitions"]
    assert (strip["ranges"], strip["markers"], strip["segments"], strip["size"], topic["size"]) == ([], [], [], None, None)
    assert (strip["log_start_offset"], strip["high_watermark"]) == (0, 9)
    for path in ("/records.json?topic=shown", "/partition.json?topic=shown", "/download?topic=shown&offset=0", "/tail?topic=shown"):
        assert lou.ask(path)[0] == 403, path


def test_the_lag_of_a_group_counts_the_visible_topics(secured: ServedConsole) -> None:
    root, mia = visitor_of(secured, "root"), visitor_of(secured, "mia")

    def offsets(visitor: Visitor) -> tuple[Any, Any]:
        listed = next(each for each in visitor.json("/groups.json")["groups"] if each["group"] == "mixed")
        return listed["partition_count"], [row["topic"] for row in visitor.json("/group.json?id=mixed")["offsets"]]

    assert offsets(root) == (2, ["hush-topic", "shown"])
    dora = {each["group"]: each for each in visitor_of(secured, "dora").json("/groups.json")["groups"]}
    assert dora["mixed"]["partition_count"] == 0, "she may list groups, and not describe this one"
    assert offsets(mia) == (1, ["shown"])


def test_requests_and_their_bodies_are_for_those_who_may_know(secured: ServedConsole) -> None:
    root, dora = visitor_of(secured, "root"), visitor_of(secured, "dora")
    every, some = (visitor.json("/requests.json")["requests"] for visitor in (root, dora))
    assert any(each["group"] == "hush-group" for each in every)
    assert 0 < len(some) < len(every)
    assert "hush" not in json.dumps(some)
    number = some[0]["number"]
    assert (root.ask(f"/request.json?number={number}")[0], dora.ask(f"/request.json?number={number}")[0]) == (200, 403)


def test_an_open_page_ends_when_its_right_is_revoked(secured: ServedConsole) -> None:
    root, lou = visitor_of(secured, "root"), visitor_of(secured, "lou")
    stream = lou.open("/live/topic?name=shown")
    while not stream.readline().startswith(b"event: block"):
        pass
    root.do("acls/remove", acl="lou allow DESCRIBE TOPIC shown")
    try:
        rest = stream.read().decode()  # it ends; the socket's timeout fails this test
        event, data = rest.rstrip().splitlines()[-2:]
        assert (event, json.loads(data.removeprefix("data: "))) == ("event: gone", {"message": "there is no topic 'shown'"})
    finally:
        root.do("acls/add", acl="lou allow DESCRIBE TOPIC shown")
