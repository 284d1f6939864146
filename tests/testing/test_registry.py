"""`broker.registry`: the schema registry of a broker under test, its schemas from files, and its faults."""

from __future__ import annotations

import asyncio
import http.client
import json
import re
import threading
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import aiohttp  # noqa: F401  before pytester, which makes this process forget the modules that its suites import
import pytest
from click.testing import CliRunner

import minibroker
from minibroker.cli.main import main
from minibroker.extras import install_command
from minibroker.registry.client import RegistryClient, RegistryRefused, RegistryUnavailable
from minibroker.testing import Broker, BrokerError, BrokerProcess, BrokerThread, GivenCluster, Surface, Unsupported
from tests.support.becoming import wait_until
from tests.support.broker_process import BrokerProcess as ServeProcess

pytest_plugins = "pytester"

ITEM = {"type": "record", "name": "Item", "fields": [{"name": "name", "type": "string"}]}
ORDER = {"type": "record", "name": "Order", "fields": [{"name": "item", "type": "Item"}]}


def send(url: str, path: str, body: Any = None) -> Any:
    """The JSON of the response, or (status, error code)."""
    data = None if body is None else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(url + path, data), timeout=30) as answer:  # noqa: S310  our own
            return json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)["error_code"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An order that references an item, and two versions of prices."""
    folder = tmp_path / "schemas"
    (folder / "prices-value").mkdir(parents=True)
    (folder / "an-order-value.avsc").write_text(json.dumps(ORDER))
    (folder / "an-order-value.references.json").write_text('[{"name": "Item", "subject": "items-value"}]')
    (folder / "items-value.avsc").write_text(json.dumps(ITEM))
    (folder / "prices-value" / "2.json").write_text('{"type": "number"}')
    (folder / "prices-value" / "10.json").write_text('{"type": ["number", "null"]}')
    (folder / "README.md").write_text("no schema")
    return folder


def test_a_secured_broker_has_a_secured_registry(tmp_path: Path) -> None:
    """HTTPS with the certificate of the broker, also after a new start, and logins of its users."""
    with minibroker.secure(users={"alice": "secret"}, acls=["alice allow READ TOPIC orders"]) as broker:
        for subject in ("orders-value", "prices-value"):
            broker.registry.register(subject, '"string"')
        (tmp_path / "ca.pem").write_text(broker.client_config("confluent", user="alice")["ssl.ca.pem"])
        trusted = {"schema.registry.ssl.ca.location": str(tmp_path / "ca.pem")}
        url = broker.registry.url
        assert url.startswith("https://")
        for _ in range(2):
            alice = RegistryClient(url, {**trusted, "basic.auth.user.info": "alice:secret"})
            assert alice.get("/subjects") == ["orders-value"]
            with pytest.raises(RegistryRefused, match="40301"):
                alice.get("/subjects/prices-value/versions")
            with pytest.raises(RegistryRefused, match="401"):
                RegistryClient(url, trusted).get("/subjects")
            with pytest.raises(RegistryUnavailable, match="certificate is not trusted"):
                RegistryClient(url).get("/subjects")
            broker.stop()
            broker.start()
            assert broker.registry.url == url


@pytest.mark.parametrize("form", [BrokerThread, BrokerProcess])
def test_schemas_in_files_are_there_at_the_start_and_after_each_reset(form: type[Surface], folder: Path) -> None:
    with form(schemas=folder) as broker:  # type: ignore[call-arg]  # of the forms
        url = broker.registry.url
        for _ in range(2):
            assert broker.registry.subjects == send(url, "/subjects") == ["an-order-value", "items-value", "prices-value"]
            assert broker.registry.versions("prices-value") == [1, 2]
            assert broker.registry.version("prices-value")["schema"] == '{"type":["number","null"]}'
            order = broker.registry.version("an-order-value")
            assert order["references"] == [{"name": "Item", "subject": "items-value", "version": 1}]
            assert broker.registry.schema(order["id"])["schemaType"] == "AVRO"
            assert send(url, "/subjects/more/versions", {"schema": '"string"'})["id"] == 5
            assert "more" in broker.registry.subjects
            broker.reset()
        broker.stop()
        broker.start()
        assert send(broker.registry.url, "/subjects") == ["an-order-value", "items-value", "prices-value"]


def test_a_snapshot_has_the_schemas() -> None:
    with BrokerThread() as broker:
        broker.registry.register("orders-value", '"string"')
        snapshot = broker.snapshot()
        broker.registry.register("prices-value", '"int"')
        assert broker.registry.subjects == ["orders-value", "prices-value"]
        broker.restore(snapshot)
        assert broker.registry.subjects == send(broker.registry.url, "/subjects") == ["orders-value"]
        assert broker.registry.register("prices-value", '"long"') == 2


def test_what_is_wrong_is_one_line(folder: Path) -> None:
    with BrokerThread() as broker:
        with pytest.raises(BrokerError, match=r"registry: Subject 'x' not found. \(40401\)"):
            broker.registry.versions("x")
        broker.registry.register("orders-value", '"string"')
        with pytest.raises(BrokerError, match=r"registry: Schema being registered is incompatible .* \(409\)"):
            broker.registry.register("orders-value", '"int"')
        broker.registry.set_compatibility("NONE", "orders-value")
        assert broker.registry.register("orders-value", '"int"') == 2
    (folder / "items-value.references.json").write_text('[{"name": "Order", "subject": "an-order-value"}]')
    with pytest.raises(BrokerError, match=r"schemas: these reference each other: \S+an-order-value.avsc, \S+items-value.avsc"):
        BrokerThread(schemas=folder)
    (folder / "items-value.references.json").unlink()
    (folder / "items-value.avsc").write_text('"sting"')
    with pytest.raises(BrokerError, match=r"schemas: \S+/items-value.avsc: "):
        BrokerThread(schemas=folder).start()
    with pytest.raises(BrokerError, match=r"must end with \.avsc, \.json, \.proto"):
        BrokerThread(schemas={"orders-value": folder / "README.md"})
    (folder / "prices-value" / "new.json").write_text("{}")
    with pytest.raises(BrokerError, match=r"new.json: the files of a subject with several versions are numbered: 1.json, 2.json"):
        BrokerThread(schemas=folder)
    with pytest.raises(BrokerError, match="No such file"):
        BrokerThread(schemas="nowhere")
    with pytest.raises(Unsupported, match=r"registry\.subjects needs a minibroker"):
        _ = GivenCluster("127.0.0.1:1").registry.subjects


def test_without_the_extra_there_is_a_clear_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("minibroker.testing.hosted_registry.find_spec", lambda name: None if name == "avro" else object())
    with BrokerThread() as broker, pytest.raises(BrokerError, match=re.escape(f"needs avro and aiohttp: {install_command('registry')}")):
        _ = broker.registry.url


async def test_awaited(folder: Path) -> None:
    async with Broker() as broker:
        await broker.registry.load({"items-value": folder / "items-value.avsc"})
        assert await broker.registry.subjects == ["items-value"]
        fault = await broker.faults.registry_error(503).once()
        url = await broker.registry.url
        assert await asyncio.to_thread(send, url, "/subjects") == (503, 503)
        assert await fault.hits == 1


# Faults


@pytest.fixture(scope="module")
def broker() -> Any:
    with BrokerThread() as broker:
        yield broker


@pytest.fixture(autouse=True)
def _empty(request: pytest.FixtureRequest) -> None:
    if "broker" in request.fixturenames:
        request.getfixturevalue("broker").reset()


def test_errors_hit_the_requests_of_their_scope(broker: BrokerThread) -> None:
    url = broker.registry.url
    broker.registry.register("orders-value", '"string"')
    fault = broker.faults.registry_error(500, error_code=50001, subject="orders-value", method="GET").times(2)
    got = [send(url, "/subjects/orders-value/versions") for _ in range(3)]
    assert got == [(500, 50001), (500, 50001), [1]]
    assert send(url, "/subjects/prices-value/versions") == (404, 40401)
    assert (fault.calls, fault.hits) == (3, 2)
    with broker.faults.registry_error(401, path="/schemas/ids/*").always():
        assert send(url, "/schemas/ids/1") == (401, 401)
        assert send(url, "/subjects") == ["orders-value"]
    assert send(url, "/schemas/ids/1") == {"schema": '"string"', "guid": send(url, "/schemas/ids/1")["guid"]}
    assert broker.faults.list()[0]["kind"] == "error"
    broker.faults.registry_error(after=True, method="POST").once()
    assert send(url, "/subjects/lost-value/versions", {"schema": '"int"'}) == (503, 503)
    assert "lost-value" in broker.registry.subjects


def test_a_delay_is_by_the_brokers_clock(broker: BrokerThread) -> None:
    url = broker.registry.url
    fault = broker.faults.registry_delay(20_000).once()
    found: list[Any] = []
    asking = threading.Thread(target=lambda: found.append(send(url, "/subjects")))
    asking.start()
    wait_until(lambda: fault.hits == 1, "the request has not come")
    broker.advance(seconds=19)
    assert found == []
    broker.advance(seconds=1)
    asking.join()
    assert found == [[]]


def test_a_connection_is_closed_before_or_after_the_work(broker: BrokerThread) -> None:
    url = broker.registry.url
    for when, expected in (("before", []), ("after", ["after-value"])):
        broker.faults.registry_disconnect(when=when).once()
        with pytest.raises((http.client.RemoteDisconnected, ConnectionResetError)):
            send(url, f"/subjects/{when}-value/versions", {"schema": '"int"'})
        assert broker.registry.subjects == expected


def test_a_wrong_id_is_that_of_the_answer_alone(broker: BrokerThread) -> None:
    url = broker.registry.url
    fault = broker.faults.registry_wrong_id().once()
    assert send(url, "/subjects") == []
    assert send(url, "/subjects/orders-value/versions", {"schema": '"int"'})["id"] == 2147483647
    assert send(url, "/schemas/ids/2147483647") == (404, 40403)
    assert send(url, "/subjects/orders-value", {"schema": '"int"'})["id"] == 1
    assert (fault.calls, fault.hits) == (2, 1)
    broker.faults.registry_wrong_id(7, subject="orders-value").once()
    assert send(url, "/subjects/orders-value/versions/1")["id"] == 7


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ({"kind": "error"}, "error needs 'status'"),
        ({"kind": "error", "status": 200}, "status must be from 400 to 599, got 200"),
        ({"kind": "error", "status": 503, "topic": "orders"}, "error has no 'topic'"),
        ({"kind": "disconnect", "when": "now"}, "there is no when 'now'"),
        ({"kind": "delay", "ms": True}, "ms must be from 0 to "),
        ({"kind": "delay", "ms": 1, "method": "PATCH"}, "there is no method 'PATCH'"),
        ({"kind": "error", "status": 503, "after": 1}, "after must be true or false"),
        ({"kind": "delay", "ms": 1, "subject": 1}, "subject must be a string"),
    ],
)
def test_senseless_rules_are_refused(broker: BrokerThread, rule: dict[str, Any], message: str) -> None:
    with pytest.raises(BrokerError, match=message):
        broker._execute("faults.registry", {"rule": rule})


# Over HTTP, and in pytest


def test_the_lab_over_http(tmp_path: Path) -> None:
    run = CliRunner().invoke
    with ServeProcess(tmp_path, "--registry-port", "0", "--lab-port", "0") as process:
        lab = ["lab", "--lab-url", process.output.partition("lab ")[2].partition(",")[0]]
        url = process.output.partition("registry ")[2].partition(",")[0]
        assert run(main, [*lab, "do", "registry.url"]).output == f'"{url}"\n'
        inject = [*lab, "faults", "registry-error", "--status", "500", "--subject", "orders-value", "--once"]
        assert run(main, inject).output == "registry-1\n"
        assert send(url, "/subjects/orders-value/versions") == (500, 500)
        assert '"hits": 1' in run(main, [*lab, "faults", "list", "-o", "json"]).output
        assert run(main, [*lab, "do", "registry.register", '{"subject": "a", "schema": "\\"int\\""}']).output == "1\n"
    with ServeProcess(tmp_path, "--lab-port", "0") as process:
        lab = ["lab", "--lab-url", process.output.partition("lab ")[2].partition(",")[0]]
        assert "start it with 'serve --registry-port'" in run(main, [*lab, "do", "registry.url"]).output


SUITE = """
import pytest

@pytest.fixture(scope="session")
def minibroker_seed():
    return lambda broker: broker.registry.register("seeded-value", '"long"')

def test_one(minibroker):
    assert minibroker.registry.subjects == ["items-value", "seeded-value"]
    minibroker.registry.register("b", '"string"')

@pytest.mark.minibroker_schemas({"c": "schemas/items-value.avsc"})
def test_two(minibroker):
    assert minibroker.registry.subjects == ["c", "items-value", "seeded-value"]
"""


def test_in_pytest(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nminibroker_schemas = schemas\nasyncio_default_fixture_loop_scope = function\n")
    (pytester.mkdir("schemas") / "items-value.avsc").write_text(json.dumps(ITEM))
    pytester.makepyfile(SUITE)
    pytester.runpytest_inprocess().assert_outcomes(passed=2)
