"""`minibroker schemas`: a registry in one's hands."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Commands, Ran
from tests.support.certificates import Authority
from tests.support.registry_process import registry_process

ORDER = {"type": "record", "name": "Order", "fields": [{"name": "item", "type": "string"}]}
WITH_COUNT = {**ORDER, "fields": [*ORDER["fields"], {"name": "count", "type": "int"}]}
LINE_PROTO = 'syntax = "proto3";\npackage shop;\n\nmessage Line {\n  int64 sku = 1;\n}'


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with registry_process(tmp_path_factory.mktemp("broker")) as (_, url):
        yield url


@pytest.fixture
def schemas(url: str) -> Callable[..., Ran]:
    commands = Commands("127.0.0.1:1")
    return lambda *words, **options: commands("schemas", words[0], "--registry", url, *words[1:], **options)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("order.avsc").write_text(json.dumps(ORDER))
    Path("counted.avsc").write_text(json.dumps(WITH_COUNT))
    Path("closed.json").write_text(json.dumps({"type": "object", "additionalProperties": False, "properties": {"a": {"type": "string"}}}))
    Path("line.proto").write_text(LINE_PROTO)
    Path("order.proto").write_text('syntax = "proto3"; import "line.proto"; message Order { shop.Line line = 1; }')
    return tmp_path


def test_register_list_get_check_and_delete(schemas: Callable[..., Ran], files: Path) -> None:
    (first,) = json.loads(schemas("register", "orders-value", "order.avsc", "-o", "json").out)
    assert {**first, "id": 0} == {"subject": "orders-value", "version": 1, "id": 0, "type": "AVRO"}
    assert json.loads(schemas("register", "orders-value", "order.avsc", "-o", "json").out) == [first]
    assert schemas("register", "lines", "line.proto").lines[0].split() == ["SUBJECT", "VERSION", "ID", "TYPE"]
    schemas("register", "orders-proto", "order.proto", "--reference", "line.proto=lines:1")
    schemas("register", "closed", "closed.json")

    listed = schemas("list", "orders-").lines
    assert [line.split()[:2] + line.split()[3:] for line in listed[1:]] == [
        ["orders-proto", "1", "PROTOBUF", "lines:1"],
        ["orders-value", "1", "AVRO"],
    ]
    assert schemas("list", "-o", "name").lines == ["closed", "lines", "orders-proto", "orders-value"]
    assert json.loads(schemas("get", "orders-value").out) == ORDER
    assert json.loads(schemas("get", "--id", str(first["id"])).out) == ORDER
    assert schemas("get", "lines", "1").out.strip() == LINE_PROTO
    (whole,) = json.loads(schemas("get", "orders-proto", "-o", "json").out)
    assert (whole["schemaType"], whole["references"]) == ("PROTOBUF", [{"name": "line.proto", "subject": "lines", "version": 1}])

    assert schemas("check", "orders-value", "order.avsc").out == "order.avsc is compatible with orders-value\n"
    assert json.loads(schemas("check", "orders-value", "order.avsc", "-o", "json").out) == []
    refused = schemas("check", "orders-value", "counted.avsc", "-o", "json", code=1)
    assert refused.err == "Error: counted.avsc is not compatible with orders-value\n"
    (problem,) = json.loads(refused.out)
    assert (problem["error"], problem["path"]) == ("READER_FIELD_MISSING_DEFAULT_VALUE", "/fields/1")
    assert "The field 'count' at path '/fields/1' in the new schema has no default value" in problem["reason"]
    Path("closed.json").write_text(json.dumps({"type": "object", "additionalProperties": False, "properties": {}}))
    (problem,) = json.loads(schemas("check", "closed", "closed.json", "-o", "json", "--version", "latest", code=1).out)
    assert (problem["error"], problem["path"]) == ("PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL", "#/properties/a")
    assert "incompatible with an earlier schema" in schemas("register", "orders-value", "counted.avsc", code=1).err

    assert "reference" in schemas("delete", "lines", "1", code=1).err
    assert json.loads(schemas("delete", "orders-proto", "-o", "json").out) == [
        {"subject": "orders-proto", "version": 1, "permanent": False}
    ]
    assert schemas("list", "orders-proto", "--deleted").lines[1].split()[-1] == "yes"
    assert schemas("delete", "orders-proto", "--permanent", "-o", "name").out == "1\n"
    assert schemas("delete", "lines", "latest", "--permanent", "-o", "name").out == "1\n"
    assert schemas("list", "--deleted", "-o", "name").lines == ["closed", "orders-value"]


def test_configurations_and_modes(schemas: Callable[..., Ran], files: Path) -> None:
    def shown(*words: str) -> dict[str, Any]:
        (found,) = json.loads(schemas(*words, "-o", "json").out)
        return dict(found)

    assert shown("config", "set") == {"subject": "set", "compatibility": "BACKWARD", "inherited": True}
    changed = {"subject": "set", "compatibility": "FULL", "normalize": True, "alias": "closed", "inherited": False}
    assert shown("config", "set", "--compatibility", "full", "--normalize", "--alias", "closed") == changed
    del changed["alias"]
    assert shown("config", "set", "--alias", "") == changed
    assert shown("config", "set", "--delete")["inherited"]
    assert shown("config", "--compatibility", "NONE") == {"subject": None, "compatibility": "NONE", "inherited": False}
    assert shown("config", "set")["compatibility"] == "NONE"
    assert shown("config", "--delete")["compatibility"] == "BACKWARD"
    assert schemas("config").lines[0].split() == ["SUBJECT", "COMPATIBILITY", "NORMALIZE", "ALIAS", "INHERITED"]

    assert shown("mode", "set") == {"subject": "set", "mode": "READWRITE", "inherited": True}
    assert shown("mode", "set", "--set", "readonly") == {"subject": "set", "mode": "READONLY", "inherited": False}
    assert "is in read-only mode" in schemas("register", "set", "order.avsc", code=1).err
    assert shown("mode", "set", "--delete")["inherited"]
    schemas("register", "{set}", "order.avsc")
    assert "Cannot import since found existing {set}" in schemas("mode", "{set}", "--set", "IMPORT", code=1).err
    assert shown("mode", "{set}", "--set", "IMPORT", "--force")["mode"] == "IMPORT"
    schemas("mode", "{set}", "--delete")
    schemas("delete", "{set}", "--permanent")

    for words, reason in (
        (["config", "--alias", "x"], "--alias needs SUBJECT"),
        (["config", "x", "--delete", "--normalize"], "--delete and other changes exclude each other"),
        (["mode", "--delete"], "--delete needs SUBJECT"),
        (["mode", "x", "--delete", "--set", "IMPORT"], "excludes --set"),
    ):
        assert reason in schemas(*words, code=2).err


def test_failures_are_one_line_in_plain_english(schemas: Callable[..., Ran], files: Path, offline: Commands) -> None:
    assert schemas("get", "none", code=1).err == "Error: Subject 'none' not found. (error 40401)\n"
    Path("bad.avsc").write_text("{")
    assert schemas("register", "bad", "bad.avsc", code=1).err.startswith("Error: Invalid schema of type AVRO")
    Path("schema.txt").write_text("{}")
    assert "give --type, the name of the file does not end with .avsc, .json, .proto" in schemas("check", "x", "schema.txt", code=2).err
    assert "'a=b' is not NAME=SUBJECT:VERSION" in schemas("register", "x", "order.avsc", "--reference", "a=b", code=2).err
    assert "give SUBJECT or --id" in schemas("get", code=2).err
    gone = offline("schemas", "list", "--registry", "127.0.0.1:1", code=1).err
    assert (
        gone == "Error: no schema registry at http://127.0.0.1:1: Connection refused. 'minibroker serve --registry-port 8081' starts one\n"
    )
    for wrong in ("ftp://x", "http://x:y", "http://", "http://[::1"):
        assert "is not a URL of a schema registry" in offline("schemas", "list", "--registry", wrong, code=1).err


class _Other(BaseHTTPRequestHandler):
    """A server that asks for a login. It sends its visitors on from one path, and is no registry on another."""

    def do_GET(self) -> None:
        is_known = self.headers["Authorization"] == "Basic YW5uOnNlY3JldA=="
        is_elsewhere = self.path.startswith("/subjects/elsewhere")
        self.send_response(302 if is_elsewhere else 200 if is_known else 401)
        if is_elsewhere:
            self.send_header("Location", "http://127.0.0.1:1/")
        self.end_headers()
        self.wfile.write(b"[]" if is_known and self.path.startswith("/schemas") else b"<html>")

    def log_message(self, *_arguments: Any) -> None:
        pass


@pytest.fixture
def other(tmp_path: Path) -> Iterator[str]:
    """Its URL. Its certificate is of the authority in ca.pem."""
    server = HTTPServer(("127.0.0.1", 0), _Other)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(Authority(tmp_path).issue("server").file)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"https://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_login_and_tls_come_from_options_and_properties(other: str, files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands = Commands("127.0.0.1:1")
    place = ["--registry", other]
    assert "its certificate is not trusted" in commands("schemas", "list", *place, code=1).err
    trusting = [*place, "--registry-ca", "ca.pem"]
    assert "the registry wants another login: give --registry-user" in commands("schemas", "list", *trusting, code=1).err
    Path("password").write_text("secret\n")
    user = ["--registry-user", "ann", "--registry-password-file", "password"]
    assert commands("schemas", "list", *trusting, *user, "-o", "json").out == "[]\n"
    assert "the password of ann is missing" in commands("schemas", "list", *trusting, "--registry-user", "ann", code=2).err
    monkeypatch.setenv("MINIBROKER_REGISTRY_PASSWORD", "secret")
    assert commands("schemas", "list", *trusting, "--registry-user", "ann", "-o", "json").out == "[]\n"
    Path("client.properties").write_text(
        f"schema.registry.url={other}\nschema.registry.basic.auth.user.info=ann:secret\nschema.registry.ssl.ca.location=ca.pem\n"
    )
    assert commands("schemas", "list", "--command-config", "client.properties", "-o", "json").out == "[]\n"
    assert "is not a schema registry" in commands("schemas", "get", "a", "--command-config", "client.properties", code=1).err
    moved = commands("schemas", "get", "elsewhere", "--command-config", "client.properties", code=1).err
    assert moved == f"Error: {other} is not a schema registry: HTTP 302 Found\n"
