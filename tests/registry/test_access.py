"""Who may do what in the registry: logins by HTTP Basic and bearer tokens, access control entries of topics, and HTTPS."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError

from minibroker.http import sessions
from minibroker.registry.access import topic_of
from minibroker.security import scram
from minibroker.testing import BrokerThread
from tests.support.broker_process import BrokerProcess
from tests.support.ports import free_port

USERS = {"root": "root-secret", "ann": "ann-secret", "bob": "bob-secret"}
ACLS = [
    "ann allow READ TOPIC orders",
    "bob allow WRITE,DELETE,ALTER_CONFIGS TOPIC orders",
    "bob allow DESCRIBE TOPIC items",
    "bob allow WRITE TOPIC com.example.*",
]
ITEM = '{"type":"record","name":"Item","fields":[{"name":"name","type":"string"}]}'
ORDER = '{"type":"record","name":"Order","fields":[{"name":"item","type":"Item"}]}'


class Client:
    """Sends requests as a user."""

    def __init__(self, url: str, user: str = "", password: str = "", *, header: str = "", context: ssl.SSLContext | None = None) -> None:
        self._url = url
        self._context = context
        login = base64.b64encode(f"{user}:{password or f'{user}-secret'}".encode()).decode()
        self._headers = {"Authorization": header or f"Basic {login}"} if user or header else {}

    def send(self, method: str, path: str, body: Any = None) -> Any:
        """The JSON of the response, or its error code."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._url + path, data, self._headers, method=method)  # noqa: S310  our own
        try:
            with urllib.request.urlopen(request, timeout=30, context=self._context) as answer:  # noqa: S310  likewise
                return json.load(answer)
        except urllib.error.HTTPError as error:
            found = error.headers.get("WWW-Authenticate", "none").partition(" ")[0]
            assert (error.code == 401) == (found == "Basic")  # noqa: PT017  in each error
            return json.load(error)["error_code"]

    def get(self, path: str) -> Any:
        return self.send("GET", path)

    def register(self, subject: str, schema: str, *references: dict[str, Any]) -> Any:
        answer = self.send("POST", f"/subjects/{subject}/versions", {"schema": schema, "references": list(references)})
        return answer["id"] if isinstance(answer, dict) else answer


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerThread]:
    with BrokerThread(users=USERS, super_users=["root"], acls=ACLS) as broker:
        root = Client(broker.registry.url, "root")
        assert root.register("orders-value", '"string"') == 1
        assert root.register("items-value", ITEM) == 2
        assert root.register("hidden-value", '"long"') == 3
        assert root.register("hidden-key", '"string"') == 1
        assert root.register(":.other:orders-value", '"int"') == 1
        yield broker


@pytest.fixture
def url(broker: BrokerThread) -> str:
    return broker.registry.url


def test_a_subject_belongs_to_a_topic() -> None:
    subjects = (
        "orders-value",
        "orders-key",
        ":.ctx:orders-value",
        "com.example.Order",
        "orders-com.example.Order",
        "-value",
        ":.ctx:",
        None,
    )
    topics = ["orders", "orders", "orders", "com.example.Order", "orders-com.example.Order", "-value", "_schemas", "_schemas"]
    assert [*map(topic_of, subjects)] == topics


def test_nothing_is_served_without_a_valid_login(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "FAILURE_DELAY_S", 0.0)
    wrong = [Client(url), Client(url, "ann", "wrong"), Client(url, "nobody"), Client(url, header="Basic ?"), Client(url, header="Bearer x")]
    for client in wrong:
        for path in ("/", "/subjects", "/schemas/types", "/schemas/ids/1", "/contexts", "/config"):
            if client is wrong[0] or path == "/subjects":  # few failures: ten within a minute block the address
                assert client.get(path) == 401, path
    assert Client(url, "ann").get("/schemas/types") == ["AVRO", "JSON", "PROTOBUF"]


def test_apicurios_api_has_the_same_rights(url: str) -> None:
    ann, bob, api = Client(url, "ann"), Client(url, "bob"), "/apis/registry/v3"
    assert [Client(url).get(f"{api}/ids/contentIds/1"), ann.get(f"{api}/ids/contentIds/3")] == [401, 403]
    version = "/artifacts/orders-value/versions/1"
    assert ann.get(f"{api}/groups/default{version}")["contentId"] == 1
    assert [ann.get(f"{api}/groups/default/artifacts/hidden-value/versions/1"), ann.get(f"{api}/groups/hidden{version}")] == [403, 403]
    hidden = [{"groupId": "default", "artifactId": "hidden-value", "version": "1", "name": "x"}]
    for client, references in ((ann, []), (bob, hidden)):
        content = {"artifactId": "orders-new", "firstVersion": {"content": {"content": '"int"', "references": references}}}
        assert client.send("POST", f"{api}/groups/default/artifacts", content) == 403
    assert ann.send("POST", f"{api}/search/versions?artifactId=hidden-value", "") == 403
    assert ann.send("POST", "/apis/registry/v2/groups/default/artifacts/hidden-value/meta", "") == 403


def test_readers_see_the_subjects_of_their_topics(url: str) -> None:
    ann, root = Client(url, "ann"), Client(url, "root")
    assert ann.get("/subjects") == [":.other:orders-value", "orders-value"]
    assert [each["subject"] for each in ann.get("/schemas")] == [":.other:orders-value", "orders-value"]
    assert len(root.get("/schemas")) == 5
    assert ann.get("/subjects/orders-value/versions/1/schema") == "string"
    for path in ("versions", "versions/1", "versions/latest/schema", "versions/1/referencedby", "metadata"):
        assert ann.get(f"/subjects/hidden-value/{path}") == 40301, path
    assert ann.get("/subjects/no-such-value/versions") == 40301
    assert ann.send("POST", "/subjects/hidden-value", {"schema": '"long"'}) == 40301
    assert ann.send("POST", "/compatibility/subjects/hidden-value/versions/latest", {"schema": '"long"'}) == 40301
    assert ann.get("/contexts") == [".", ".other"]


def test_a_schema_is_read_by_its_id_where_one_of_its_subjects_may_be_read(url: str) -> None:
    ann, root = Client(url, "ann"), Client(url, "root")
    assert ann.get("/schemas/ids/1")["schema"] == '"string"'
    assert root.get("/schemas/ids/1/subjects") == ["hidden-key", "orders-value"]
    assert ann.get("/schemas/ids/1/subjects") == ["orders-value"]
    assert [each["subject"] for each in ann.get("/schemas/ids/1/versions")] == ["orders-value"]
    guids = {name: root.get(f"/schemas/ids/{schema_id}")["guid"] for name, schema_id in (("seen", 1), ("hidden", 3))}
    assert ann.get("/schemas/ids/3") == ann.get("/schemas/ids/3/schema") == ann.get(f"/schemas/guids/{guids['hidden']}") == 40301
    assert ann.get(f"/schemas/guids/{guids['seen']}")["schema"] == '"string"'
    assert ann.get(f"/schemas/guids/{guids['hidden']}/ids") == []
    assert ann.get("/schemas/ids/99") == 40403


def test_changes_need_the_rights_of_topics(url: str) -> None:
    ann, bob = Client(url, "ann"), Client(url, "bob")
    assert ann.register("orders-value", '["string","int"]') == 40301
    assert ann.send("DELETE", "/subjects/orders-value") == ann.send("DELETE", "/subjects/orders-value/versions/1") == 40301
    assert ann.send("PUT", "/config/orders-value", {"compatibility": "NONE"}) == ann.send("DELETE", "/config/orders-value") == 40301
    assert ann.send("PUT", "/mode/orders-value", {"mode": "IMPORT"}) == ann.send("DELETE", "/mode/orders-value") == 40301
    assert bob.send("PUT", "/config/orders-value", {"compatibility": "NONE"}) == {"compatibility": "NONE"}
    assert bob.send("PUT", "/config", {"compatibility": "NONE"}) == bob.send("PUT", "/config/:.:", {"compatibility": "NONE"}) == 40301
    assert bob.send("PUT", "/mode/:.other:", {"mode": "READONLY"}) == bob.get("/config") == 40301
    assert bob.get("/config/orders-value?defaultToGlobal=true")["compatibilityLevel"] == "NONE"
    assert bob.register("com.example.Thing", '"bytes"') > 3
    assert bob.register("com.other.Thing", '"bytes"') == 40301


def test_a_reference_needs_the_right_to_read_it(url: str) -> None:
    bob = Client(url, "bob")
    assert bob.register("com.example.Order", ORDER, {"name": "Item", "subject": "items-value", "version": 1}) > 3
    hidden = {"name": "Item", "subject": "hidden-value", "version": 1}
    assert bob.register("com.example.Order", ORDER, hidden) == 40301
    body = {"schema": ORDER, "references": [hidden]}
    assert bob.send("POST", "/subjects/com.example.Order", body) == 40301
    assert bob.send("POST", "/compatibility/subjects/com.example.Order/versions", body) == 40301


def test_an_alias_gives_no_rights(url: str) -> None:
    bob, root = Client(url, "bob"), Client(url, "root")
    assert bob.send("PUT", "/config/orders-key", {"alias": "hidden-value"}) == {"alias": "hidden-value"}
    assert bob.get("/subjects/orders-key/versions") == 40301
    assert root.get("/subjects/orders-key/versions") == [1]


def test_a_password_is_checked_once(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[str] = []
    derive = scram.derive

    def counted(mechanism: str, *rest: Any) -> Any:
        checked.append(mechanism)
        return derive(mechanism, *rest)

    monkeypatch.setattr(sessions, "derive", counted)
    client = Client(url, header="basic " + base64.b64encode(b"ann:ann-secret").decode())  # another spelling than other tests have
    assert [client.get("/") for _ in range(3)] == [{}] * 3
    assert checked == ["SCRAM-SHA-256", "SCRAM-SHA-512"]


def test_confluents_client_logs_in(url: str) -> None:
    client = SchemaRegistryClient({"url": url, "basic.auth.user.info": "bob:bob-secret"})
    assert client.get_latest_version("orders-value").schema.schema_str == '"string"'
    with pytest.raises(SchemaRegistryError, match="may not DESCRIBE topic hidden") as refused:
        client.get_versions("hidden-value")
    assert refused.value.http_status_code == 403


def test_failures_of_an_address_block_new_logins_and_not_known_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "FAILURE_DELAY_S", 0.0)
    with BrokerThread(users=USERS, super_users=["root"], acls=ACLS) as broker:
        ann, bob = Client(broker.registry.url, "ann"), Client(broker.registry.url, "bob")
        assert ann.get("/subjects") == []
        for _ in range(sessions.FAILURES_MAX):
            assert Client(broker.registry.url, "bob", "wrong").get("/subjects") == 401
        assert bob.get("/subjects") == 401
        assert ann.get("/subjects") == []


async def test_failures_block_logins_that_came_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "FAILURE_DELAY_S", 0.0)
    checked: list[str] = []

    async def check(_sessions: sessions.Sessions, _name: str, password: str) -> None:
        checked.append(password)
        await asyncio.sleep(0)

    monkeypatch.setattr(sessions.Sessions, "_password", check)
    broker: Any = None  # nothing asks for it
    found = sessions.Sessions(lambda: broker, "console")
    guesses = [found.begin("ann", f"guess-{number}", "10.0.0.1") for number in range(100)]
    assert await asyncio.gather(*guesses) == [None] * 100
    assert sessions.FAILURES_MAX <= len(checked) < 2 * sessions.FAILURES_MAX


def token(name: str, expires_s: int) -> str:
    parts = (json.dumps(each).encode() for each in ({"alg": "none"}, {"sub": name, "exp": expires_s}))
    return ".".join(base64.urlsafe_b64encode(each).decode().rstrip("=") for each in parts) + "."


def test_bearer_tokens_are_those_of_the_listener(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "FAILURE_DELAY_S", 0.0)
    config = {
        "listener.name.sasl_plaintext.sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER",
        "listener.name.sasl_plaintext.oauthbearer.sasl.jaas.config": (
            "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;"
        ),
    }
    thread = BrokerThread(users=USERS, super_users=["root"], acls=ACLS)
    thread._hosted._options.config |= config  # the test kit sets the mechanisms of its users
    with thread as broker:
        url = broker.registry.url
        now_s = int(time.time())
        ann = Client(url, header=f"Bearer {token('ann', now_s + 600)}")
        assert ann.get("/subjects") == []
        assert ann.register("orders-value", '"int"') == 40301
        assert Client(url, header=f"Bearer {token('root', now_s + 600)}").register("orders-value", '"int"') == 1
        assert Client(url, header=f"Bearer {token('root', now_s - 600)}").get("/subjects") == 401
        broker.advance(seconds=700)
        assert ann.get("/subjects") == 401


def test_https_shows_the_brokers_certificate_and_asks_for_a_login(tmp_path: Path) -> None:
    tls = tmp_path / "tls"
    listener = ("--tls", "--tls-dir", str(tls), "--sasl", "alice:secret")
    port = str(free_port())
    others = ("--metrics-port", port, "--metrics-tls", "--console-port", port, "--console-tls")
    options = (*listener, "--registry-port", "0", "--registry-host", "0.0.0.0", "--registry-tls", *others)
    with BrokerProcess(tmp_path, *options) as broker:
        found = re.search(r"registry https://0\.0\.0\.0:(\d+),", broker.output)
        assert found is not None
        url = f"https://localhost:{found[1]}"
        context = ssl.create_default_context(cafile=str(tls / "ca.pem"))
        assert Client(url, context=context).get("/subjects") == 401
        alice = Client(url, "alice", "secret", context=context)
        assert alice.register("a", '"int"') == 1
        assert alice.get("/subjects") == ["a"]
        for path, text in (("/metrics", b"kafka_brokers 1"), ("/login", b"Log in")):
            with urllib.request.urlopen(f"https://localhost:{port}{path}", context=context, timeout=30) as answer:
                assert text in answer.read()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--tls", "--registry-port", "0", "--registry-host", "0.0.0.0"), "--registry-host: 0.0.0.0 lets other machines change schemas"),
        (("--registry-port", "0", "--registry-tls"), "--registry-tls: it needs a listener with TLS"),
        (("--registry-tls",), "--registry-tls needs --registry-port"),
    ],
)
def test_options_that_do_not_fit(tmp_path: Path, options: tuple[str, ...], message: str) -> None:
    with pytest.raises(AssertionError, match=re.escape(message)):
        BrokerProcess(tmp_path, *options)
