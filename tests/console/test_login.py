"""Logins to the console of a secured broker, and what access control lets visitors see and do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from minibroker.console.live import VISITOR_MAX
from minibroker.http.sessions import FAILURES_MAX
from tests.console.served import ServedConsole
from tests.console.visitors import Visitor
from tests.support.becoming import becomes

ACLS = ("ann allow READ TOPIC visible", "ann allow DESCRIBE GROUP visible-*", "bob allow ALL TOPIC visible")


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedConsole]:
    users = [
        "--sasl",
        "ann:ann-secret:PLAIN",
        "--sasl",
        "bob:bob-secret:SCRAM-SHA-512",
        "--sasl",
        "root:root-secret",
        "--super-user",
        "root",
    ]
    acls = [part for each in ACLS for part in ("--acl", each)]
    with ServedConsole(tmp_path_factory.mktemp("secured"), *users, *acls) as served:
        root = Visitor(served.url)
        assert root.log_in("root", "root-secret") == 200
        for name in ("visible", "hidden"):
            status, text = root.ask("/do/topics/create", {"name": name, "partitions": "1"})
            assert status == 200, text
        yield served


@pytest.mark.parametrize("user, password", [("ann", "ann-secret"), ("bob", "bob-secret")])
def test_users_of_plain_and_scram_log_in(secured: ServedConsole, user: str, password: str) -> None:
    visitor = Visitor(secured.url)
    assert visitor.ask("/topics.json")[0] == 401
    assert visitor.ask("/topics")[0] == 303
    assert visitor.log_in(user, password) == 200
    assert "HttpOnly" in visitor.set_cookie
    assert "SameSite=Strict" in visitor.set_cookie
    assert visitor.json("/access.json")["principal"] == f"User:{user}"
    before = visitor.cookie
    assert visitor.ask("/do/logout", {})[0] == 200
    visitor.cookie = before
    assert visitor.ask("/topics.json")[0] == 401


@pytest.mark.parametrize(
    "user, password", [("ann", "wrong"), ("bob", "wrong"), ("nobody", "x"), ("", ""), ("ann", ""), ("ann", "x" * 10_000), ("a\0b", "c")]
)
def test_wrong_logins_fail_alike(secured: ServedConsole, user: str, password: str) -> None:
    visitor = Visitor(secured.url)
    status, text = visitor.ask("/do/login", {"user": user, "password": password})
    assert (status, visitor.cookie) == (403, "")
    assert "wrong user or password" in text


def test_long_bodies_are_not_read_before_the_login(secured: ServedConsole) -> None:
    visitor = Visitor(secured.url)
    assert visitor.ask("/do/login", {"user": "ann", "password": "x" * 20_000})[0] == 413
    assert visitor.ask("/do/topics/create", {"name": "x" * 20_000})[0] == 413
    assert visitor.log_in("ann", "ann-secret") == 200
    assert visitor.ask("/do/topics/create", {"name": "x" * 20_000})[0] == 403  # she may not


def test_topics_and_groups_are_hidden_as_from_clients(secured: ServedConsole) -> None:
    ann = Visitor(secured.url)
    ann.log_in("ann", "ann-secret")
    assert [each["name"] for each in ann.json("/topics.json?internal=1")["topics"]] == ["visible"]
    assert ann.ask("/topic.json?name=hidden")[0] == 404
    assert ann.ask("/records.json?topic=hidden")[0] == 404
    assert ann.ask("/tail?topic=hidden")[0] == 404
    assert ann.ask("/download?topic=hidden&offset=0")[0] == 404
    assert ann.json("/records.json?topic=visible")["rows"] == []
    assert ann.ask("/group.json?id=other")[0] in {403, 404}
    for path in ("/requests.json", "/clients.json", "/charts.json", "/config.json", "/lab.json", "/doctor.json"):
        assert ann.ask(path)[0] == 403, path
    assert ann.json("/index.json")["topic_count"] == 1
    assert "root-secret" not in ann.ask("/access.json")[1]


def test_actions_need_what_clients_need(secured: ServedConsole) -> None:
    ann, bob = Visitor(secured.url), Visitor(secured.url)
    ann.log_in("ann", "ann-secret")
    bob.log_in("bob", "bob-secret")
    record = {"topic": "visible", "value": "x"}
    status, text = ann.ask("/do/produce", record)
    assert (status, re.search("TOPIC_AUTHORIZATION_FAILED", text) is not None) == (403, True)
    assert bob.ask("/do/produce", record)[0] == 200
    assert ann.ask("/do/topics/create", {"name": "more"})[0] == 403
    assert ann.ask("/do/topics/delete", {"name": "visible"})[0] == 403
    assert ann.ask("/do/lab", {"operation": "reset"})[0] == 403
    for action in ("produce", "topics/delete-records", "topics/preview-delete-records", "topics/delete"):
        answers = [ann.ask(f"/do/{action}", {"topic": name, "name": name, "config": "retention.ms"}) for name in ("hidden", "missing")]
        assert answers[0] == (answers[0][0], answers[1][1].replace("missing", "hidden")), "the answer shows which topics exist"


def admin_of(served: ServedConsole) -> AdminClient:
    return AdminClient(
        {"bootstrap.servers": served.bootstrap, "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN",
         "sasl.username": "root", "sasl.password": "root-secret"}
    )  # fmt: skip


def set_password(admin: AdminClient, user: str, password: str | None) -> None:
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    change = UserScramCredentialDeletion(user, info.mechanism) if password is None else upsertion(user, info, password)
    for future in admin.alter_user_scram_credentials([change]).values():
        future.result(30)


def upsertion(user: str, info: ScramCredentialInfo, password: str) -> UserScramCredentialUpsertion:
    return UserScramCredentialUpsertion(user, info, password.encode())


def test_a_session_ends_with_the_password_that_began_it(secured: ServedConsole) -> None:
    admin, eve, bob = admin_of(secured), Visitor(secured.url), Visitor(secured.url)
    assert bob.log_in("bob", "bob-secret") == 200
    set_password(admin, "eve", "first")
    assert eve.log_in("eve", "first") == 200
    assert eve.ask("/topics.json")[0] == 200
    set_password(admin, "eve", "second")
    assert eve.ask("/topics.json")[0] == 401
    assert eve.log_in("eve", "first") == 403
    assert eve.log_in("eve", "second") == 200
    stream = eve.open("/live/topics")
    assert b"event: block" in stream.read(200)
    set_password(admin, "eve", None)
    assert eve.ask("/topics.json")[0] == 401
    assert stream.read() is not None, "the stream goes on"  # the socket's timeout fails it
    assert bob.ask("/topics.json")[0] == 200


def test_a_session_ends_with_the_plain_users_of_the_listener(secured: ServedConsole) -> None:
    admin, ann = admin_of(secured), Visitor(secured.url)
    assert ann.log_in("ann", "ann-secret") == 200
    name = "listener.name.sasl_plaintext.plain.sasl.jaas.config"
    module = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_root="root-secret"'
    try:
        alter(admin, ConfigEntry(name, f'{module} user_ann="other";', incremental_operation=AlterConfigOpType.SET))
        assert ann.ask("/topics.json")[0] == 401
        assert ann.log_in("ann", "other") == 200
        alter(admin, ConfigEntry(name, f"{module};", incremental_operation=AlterConfigOpType.SET))
        assert ann.ask("/topics.json")[0] == 401
    finally:
        alter(admin, ConfigEntry(name, None, incremental_operation=AlterConfigOpType.DELETE))
    assert ann.log_in("ann", "ann-secret") == 200


def alter(admin: AdminClient, entry: ConfigEntry) -> None:
    resource = ConfigResource(ConfigResource.Type.BROKER, "1", incremental_configs=[entry])
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(30)


def test_a_read_only_console_changes_nothing(tmp_path: Any) -> None:
    with ServedConsole(tmp_path, "--console-read-only") as served:
        visitor = Visitor(served.url)
        for action, body in (("topics/create", {"name": "new"}), ("lab", {"operation": "reset"}), ("produce", {"topic": "new"})):
            status, text = visitor.ask(f"/do/{action}", body)
            assert (status, "read-only" in text) == (403, True)
        assert visitor.json("/topics.json")["topics"] == []


def test_one_user_cannot_take_the_streams_of_others(secured: ServedConsole) -> None:
    ann, again, bob = Visitor(secured.url), Visitor(secured.url), Visitor(secured.url)
    for visitor, name in ((ann, "ann"), (again, "ann"), (bob, "bob")):
        assert visitor.log_in(name, f"{name}-secret") == 200
    streams = [ann.open("/live/topics") for _ in range(VISITOR_MAX)]
    assert {each.status for each in streams} == {200}
    for path in ("/live/topics", "/tail?topic=visible"):
        status, text = again.ask(path)  # another session of the same user
        assert (status, f"User:ann has {VISITOR_MAX} open pages" in text) == (503, True)
    assert bob.open("/live/topics").status == 200
    streams.pop().close()
    assert becomes(lambda: again.open("/live/topics").status == 200)


def test_many_failures_block_an_address(secured: ServedConsole) -> None:
    visitor = Visitor(secured.url)
    for _ in range(FAILURES_MAX):
        visitor.log_in("ann", "wrong")
    assert visitor.log_in("ann", "ann-secret") == 403
