"""Schemas of a registry: references, logins and certificates. The server here sends the answers that a test gives it."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from minibroker.registry.client import RegistryUnavailable
from minibroker.spark.decoding import schemas
from minibroker.spark.decoding.schemas import RegisteredSchema, SchemaReference, SchemaRegistry
from minibroker.spark.failures import SourceError
from tests.support.certificates import Authority

ORDER = {"subject": "orders-value", "version": 3, "id": 7, "guid": "0f9ec2ad-3d5b-4d7a-8a43-5ad1ab2f7b64", "schema": '"string"'}


class FakeRegistry:
    """Answers each path with a status and a body, and notes what was asked."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.answers: dict[str, Any] = {}
        self.asked: list[tuple[str, str | None]] = []
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                registry.asked.append((self.path, self.headers["Authorization"]))
                found = registry.answers.get(self.path, (404, {"error_code": 404, "message": "HTTP 404 Not Found"}))
                status, body = found if isinstance(found, tuple) else (200, found)
                data = body if isinstance(body, bytes) else json.dumps(body).encode()
                self.send_response(status)
                if status == 302:
                    self.send_header("Location", "http://elsewhere:8081")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: Any) -> None:
                """Print nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self.address = f"localhost:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def fake() -> Iterator[FakeRegistry]:
    registry = FakeRegistry()
    yield registry
    registry.stop()


def test_versions_ids_and_references(fake: FakeRegistry) -> None:
    reference = {"name": "money.proto", "subject": "money", "version": 1}
    fake.answers = {
        "/subjects/orders%2Fvalue/versions?deleted=true": [2, 1, 3],
        "/subjects/orders-value/versions/latest": ORDER,
        "/subjects/orders-value/versions/2?deleted=true": {**ORDER, "version": 2, "schemaType": "PROTOBUF", "references": [reference]},
        "/subjects/money/versions/1?deleted=true": {**ORDER, "subject": "money", "version": 1, "id": 5},
        "/schemas/ids/7": {"schema": '"string"'},
    }
    registry = SchemaRegistry(fake.address)
    assert registry.versions("orders/value") == [1, 2, 3]
    assert registry.get_version("orders-value") == RegisteredSchema(7, "AVRO", '"string"', (), str(ORDER["guid"]), "orders-value", 3)
    second = registry.get_version("orders-value", 2)
    assert (second.schema_type, second.references) == ("PROTOBUF", (SchemaReference("money.proto", "money", 1),))
    assert registry.referenced(second) == {"money.proto": '"string"'}
    assert registry.get_schema(7) == registry.get_schema(7) == RegisteredSchema(7, "AVRO", '"string"')
    assert [path for path, _ in fake.asked].count("/schemas/ids/7") == 1


def test_references_are_resolved_by_the_registry_or_it_is_an_error(fake: FakeRegistry) -> None:
    path = "/subjects/orders-value/versions/3"
    order = {**ORDER, "references": [{"name": "Money", "subject": "money", "version": 1}]}
    fake.answers = {f"{path}?deleted=true": order, f"{path}?format=resolved&deleted=true": {**order, "schema": '{"type": "record"}'}}
    assert SchemaRegistry(fake.address).resolved_text(SchemaRegistry(fake.address).get_version("orders-value", 3)) == '{"type": "record"}'
    fake.answers[f"{path}?format=resolved&deleted=true"] = order
    registry = SchemaRegistry(fake.address)
    with pytest.raises(SourceError, match="does not resolve them"):
        registry.resolved_text(registry.get_version("orders-value", 3))


def test_more_references_than_the_limit(fake: FakeRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schemas, "_REFERENCES_MAX", 5)
    for number in range(10):
        reference = {"name": f"n{number + 1}", "subject": f"s{number + 1}", "version": 1}
        fake.answers[f"/subjects/s{number}/versions/1?deleted=true"] = {**ORDER, "subject": f"s{number}", "references": [reference]}
    registry = SchemaRegistry(fake.address)
    with pytest.raises(SourceError, match="references more than 5 schemas"):
        registry.referenced(registry.get_version("s0", 1))
    assert len(fake.asked) < 10


@pytest.mark.parametrize(
    ("url", "login", "sent"),
    [
        ("http://ann:p%40ss@{}", {}, "Basic YW5uOnBAc3M="),
        ("http://{}/", {"user": "ann", "password": "p@ss"}, "Basic YW5uOnBAc3M="),
        ("{}", {"token": "abc"}, "Bearer abc"),
        ("{}", {}, None),
    ],
)
def test_logins(fake: FakeRegistry, url: str, login: dict[str, Any], sent: str | None) -> None:
    fake.answers["/subjects/orders-value/versions/latest"] = ORDER
    registry = SchemaRegistry(url.format(fake.address), **login)
    assert registry.get_version("orders-value").schema_id == 7
    assert fake.asked == [("/subjects/orders-value/versions/latest", sent)]
    assert repr(registry) == f"SchemaRegistry('http://{fake.address}')"


@pytest.mark.parametrize("answer", [{"id": 1}, [1], {**ORDER, "references": [{"name": "x"}]}, {**ORDER, "id": "x"}])
def test_answers_of_another_form(fake: FakeRegistry, answer: Any) -> None:
    fake.answers = {"/subjects/orders-value/versions/latest": answer, "/subjects/orders-value/versions?deleted=true": {"a": 1}}
    registry = SchemaRegistry(fake.address)
    with pytest.raises(RegistryUnavailable, match="is not a schema registry: its answer has another form"):
        registry.get_version("orders-value")
    with pytest.raises(RegistryUnavailable, match="is not a schema registry: its answer has another form"):
        registry.versions("orders-value")


def test_a_url_that_cannot_be_used() -> None:
    with pytest.raises(SourceError, match="is not a URL of a schema registry"):
        SchemaRegistry("ftp://x")


def test_certificates(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.issue("registry").file)
    fake = FakeRegistry(context)
    try:
        fake.answers["/subjects/orders-value/versions/latest"] = ORDER
        assert SchemaRegistry(f"https://{fake.address}", ca=str(authority.file)).get_version("orders-value").version == 3
        with pytest.raises(RegistryUnavailable, match="its certificate is not trusted"):
            SchemaRegistry(f"https://{fake.address}").get_version("orders-value")
        with pytest.raises(SourceError, match=r"nothing\.pem"):
            SchemaRegistry(f"https://{fake.address}", ca="nothing.pem")
    finally:
        fake.stop()
