"""`produce` and `consume` with a schema registry: JSON goes in and comes out, and records have the schemas' ids."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from minibroker.cli.serdes import Serdes
from minibroker.client.consumer import ConsumedRecord
from minibroker.records.batch import TimestampType
from minibroker.records.record import Record
from minibroker.registry.client import RegistryClient
from tests.cli.conftest import Commands
from tests.support.registry_process import registry_process

ORDER = {"type": "record", "name": "Order", "fields": [{"name": "item", "type": "string"}, {"name": "note", "type": ["null", "string"]}]}
CHANGED = {**ORDER, "fields": [*ORDER["fields"], {"name": "count", "type": "int", "default": 1}]}
PROTO = (
    'syntax = "proto3"; message Other { int64 n = 1; } message Order { string item = 1; message Line { int64 sku = 1; } Line line = 2; }'
)
JSON_SCHEMA = {"type": "object", "properties": {"item": {"type": "string", "pattern": "^[a-z]+$"}}, "required": ["item"]}


class Place(NamedTuple):
    cli: Commands
    url: str

    def produce(self, topic: str, *words: str, stdin: str, code: int = 0) -> str:
        return self.cli("produce", topic, "--registry", self.url, *words, stdin=stdin, code=code).err

    def consume(self, topic: str, *words: str) -> str:
        return self.cli("consume", topic, "-e", "--registry", self.url, *words).out


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with registry_process(tmp_path_factory.mktemp("broker")) as (broker, url):
        yield Place(Commands(broker.bootstrap), url)


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("order.avsc").write_text(json.dumps(ORDER))
    Path("changed.avsc").write_text(json.dumps(CHANGED))
    Path("order.proto").write_text(PROTO)
    Path("order.json").write_text(json.dumps(JSON_SCHEMA))


def test_values_and_keys_of_avro_and_a_copy_of_the_topic(place: Place) -> None:
    refused = place.produce("orders", "--value-schema", "order.avsc", stdin="{}", code=1)
    assert refused == "Error: order.avsc is not registered under orders-value: add --register\n"
    Path("key.avsc").write_text('"long"')
    both = ["--value-schema", "order.avsc", "--key-schema", "key.avsc", "--register", "-K", "|"]
    place.produce("orders", *both, stdin='7|{"item": "pears", "note": null}\n8|{"item": "plums", "note": "ripe"}\n')
    place.produce("orders", "--value-schema", "changed.avsc", "--register", stdin='{"item": "figs", "note": {"string": "dry"}}\n')
    assert place.consume("orders", "-f", "%k %v\n").splitlines() == [
        '7 {"item":"pears","note":null}',
        '8 {"item":"plums","note":{"string":"ripe"}}',
        ' {"item":"figs","note":{"string":"dry"},"count":1}',
    ]
    raw = place.cli("consume", "orders", "-c", "1", "-f", "%v").raw
    assert raw == b"\0" + raw[1:5] + b"\x0apears\0"

    lines = place.consume("orders", "-o", "jsonl")
    first = json.loads(lines.splitlines()[0])
    assert (first["key"], first["value"]) == (7, {"item": "pears", "note": None})
    assert first["value_schema_id"] == int.from_bytes(raw[1:5])
    place.produce("copy", "--value-schema", "orders-value", "--key-schema", "orders-key:1", "--input", "jsonl", stdin=lines)
    assert [json.loads(each)["value"]["item"] for each in place.consume("copy", "-o", "jsonl").splitlines()] == ["pears", "plums", "figs"]
    place.produce("by-id", "--value-schema", str(first["value_schema_id"]), stdin='{"item": "kiwi", "note": null}')
    assert "kiwi" in place.consume("by-id", "-o", "table")
    assert "item: kiwi" in place.consume("by-id", "-o", "yaml")


def test_protobuf_and_json(place: Place) -> None:
    protobuf = ["--value-schema", "order.proto", "--register"]
    place.produce("protobuf", *protobuf, stdin='{"n": 1}\n')
    place.produce("protobuf", *protobuf, "--value-message", "Order", stdin='{"item": "pears", "line": {"sku": 3}}\n')
    place.produce("protobuf", *protobuf, "--value-message", "Order.Line", stdin='{"sku": 4}\n')
    assert place.consume("protobuf").splitlines() == ['{"n":"1"}', '{"item":"pears","line":{"sku":"3"}}', '{"sku":"4"}']
    place.produce("json", "--value-schema", "order.json", "--register", stdin='{"item": "pears"}\n')
    assert place.consume("json") == '{"item":"pears"}\n'
    refused = place.produce("json", "--value-schema", "order.json", stdin='{"item": "pears"}\n{"item": "P"}\n', code=1)
    assert refused == "Error: stdin, record 2: value: field item: 'P' does not match '^[a-z]+$'\n"


def test_errors_name_the_record_and_the_field_and_options_go_together(place: Place) -> None:
    Path("orders.jsonl").write_text('{"value": {"item": "a", "note": null}}\n{"value": {"item": 5, "note": null}}\n')
    given = ["--value-schema", "order.avsc", "--register"]
    refused = place.cli("produce", "refused", "orders.jsonl", "--input", "jsonl", "-r", place.url, *given, code=1).err
    assert refused == "Error: orders.jsonl, record 2: value: field item: it must be a string, got 5\n"
    assert "record 1: value: it is not JSON" in place.produce("refused", *given, stdin="x", code=1)
    assert "Subject 'none' not found" in place.produce("refused", "--value-schema", "none", stdin="", code=1)
    assert "--register needs a file" in place.produce("refused", "--value-schema", "none", "--register", stdin="", code=2)
    assert "need --registry" in place.cli("produce", "refused", "--value-schema", "order.avsc", code=2).err
    assert "needs one of them" in place.produce("refused", stdin="", code=2)
    assert "a login at a registry needs --registry" in place.cli("consume", "refused", "--registry-user", "ann", code=2).err
    assert "no schema registry at" in place.cli("produce", "refused", "-r", "127.0.0.1:1", "--value-schema", "a", code=1).err


def test_what_does_not_decode_is_shown_as_it_is_with_the_reason(place: Place) -> None:
    place.produce("mixed", "--value-schema", "order.avsc", "--register", stdin='{"item": "pears", "note": null}\n')
    schema_id = place.cli("consume", "mixed", "-c", "1", "-f", "%v").raw[:5]
    for content in (b"plain", schema_id + b"\x0apea", b"\0" + (9999).to_bytes(4) + b"x", b""):
        place.cli("produce", "mixed", "--input", "whole", stdin=content)
    ran = place.cli("consume", "mixed", "-e", "--registry", place.url)
    assert ran.raw.split(b"\n")[0] == b'{"item":"pears","note":null}'
    assert ran.raw.split(b"\n", 1)[1] == b"plain\n" + schema_id + b"\x0apea\n" + b"\0" + (9999).to_bytes(4) + b"x\n\n"
    assert ran.err.splitlines() == [
        "Warning: mixed-0 offset 2: the value is shown as it is: field item: the bytes end early: 5 are needed, 3 are left",
        "Warning: mixed-0 offset 3: the value is shown as it is: the registry has no schema 9999",
    ]
    items = [json.loads(line) for line in place.consume("mixed", "-o", "jsonl").splitlines()]
    assert [item.get("value_error") for item in items][2:] == [
        "field item: the bytes end early: 5 are needed, 3 are left",
        "the registry has no schema 9999",
        None,
    ]
    assert items[2]["value"] == "\0" + schema_id[1:].decode() + "\npea"


def test_a_registry_that_stops_meanwhile_does_not_end_the_command(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    place.cli("topics", "create", "none")
    assert "no schema registry at" in place.cli("consume", "none", "-r", "127.0.0.1:1", code=1).err
    registry = RegistryClient(place.url)
    decoder = Serdes(registry).decoder()
    registry.url = "http://127.0.0.1:1"
    consumed = ConsumedRecord("orders", 0, TimestampType.CREATE_TIME, Record(0, 0, None, b"\0" + bytes(4)))
    assert "Connection refused" in decoder.fields(consumed)["value_error"]
    assert decoder.as_text(consumed) == consumed
    for _ in range(100):
        decoder.fields(consumed)
    assert len(capsys.readouterr().err.splitlines()) == 21
