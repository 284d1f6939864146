"""Records with schemas in the console: decoded previews, what does not decode, the form, another registry, and who may see a schema."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import pytest

from minibroker.client.client import Client
from minibroker.client.producer import Producer
from minibroker.console.decoding import RemoteCodecs, RowDecoder
from minibroker.console.scanning import RECORD
from minibroker.console.values import PREVIEW_BYTES, shown, shown_bytes
from minibroker.records.record import Record
from minibroker.registry.client import RegistryClient, path
from minibroker.registry.serdes.codecs import codec_of
from minibroker.registry.serdes.source import RegistrySource
from tests.console.scene import get, post
from tests.console.served import ServedConsole
from tests.console.visitors import Visitor

ORDER = {"type": "record", "name": "Order", "fields": [{"name": "item", "type": "string"}]}
LIST = {"type": "record", "name": "List", "fields": [{"name": "words", "type": {"type": "array", "items": "string"}}]}
PROTO = 'syntax = "proto3"; message Other { string name = 1; } message Line { int64 sku = 1; }'
REGISTERED = {"orders-value": ("AVRO", json.dumps(ORDER)), "orders-key": ("AVRO", '"long"'), "lists-value": ("AVRO", json.dumps(LIST)),
              "lines-value": ("PROTOBUF", PROTO), "notes-value": ("JSON", '{"type": "object", "required": ["text"]}'),
              ":.other:form-value": ("AVRO", '"int"')}  # fmt: skip


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedConsole]:
    with ServedConsole(tmp_path_factory.mktemp("decoding"), "--registry-port", "0", has_lab=False) as served:
        client = RegistryClient(served.site_url("registry"))
        for subject, (kind, text) in REGISTERED.items():
            client.post(path("subjects", subject, "versions"), {"schema": text, "schemaType": kind})
        yield served


def html(url: str, page: str) -> str:
    status, text = Visitor(url).ask(page)
    assert status == 200, text
    return text


def encoded(served: ServedConsole, subject: str, value: Any, message: str | None = None) -> bytes:
    return codec_of(RegistrySource(RegistryClient(served.site_url("registry"))).by_subject(subject), message).encode(value)


def write(served: ServedConsole, topic: str, *values: bytes, key: bytes | None = None) -> list[dict[str, Any]]:
    """Write records to a new topic, and return the rows that the console shows."""
    with Client(served.bootstrap) as client:
        producer = Producer(client, topic)
        for value in values:
            producer.add(Record(0, 1_000, key, value))
        producer.flush()
    rows: list[dict[str, Any]] = get(served.url, f"/records.json?topic={topic}&from=oldest")["rows"]
    return rows


def test_keys_and_values_are_decoded_with_subject_version_and_id_and_are_there_as_they_are(served: ServedConsole) -> None:
    value = encoded(served, "orders-value", {"item": "pears"})
    (row,) = write(served, "orders", value, key=encoded(served, "orders-key", 7))
    assert json.loads(row["value"]["text"]) == {"item": "pears"}
    assert row["key"]["text"] == "7"
    schema_id = int.from_bytes(value[1:5])
    assert row["value"]["schema"] == {"id": schema_id, "type": "AVRO", "subject": "orders-value", "shown": "orders-value", "version": 1}
    assert row["value"]["size"] == len(value)
    assert row["value"]["raw"] == shown_bytes(value)
    page = html(served.url, "/record?topic=orders&partition=0&offset=0")
    assert f"version 1, id {schema_id}, AVRO" in page
    assert "/schema?subject=orders-value&amp;version=1" in page
    assert "As it is in the record" in page
    assert RECORD not in row
    command = get(served.url, "/record.json?topic=orders&partition=0&offset=0")["command"]
    assert f"-o jsonl -r {served.site_url('registry').replace('127.0.0.1', 'localhost')} -b localhost:" in command


def test_protobuf_and_json_are_decoded(served: ServedConsole) -> None:
    (row,) = write(served, "lines", encoded(served, "lines-value", {"sku": 3}, "Line"))
    assert json.loads(row["value"]["text"]) == {"sku": "3"}
    (row,) = write(served, "notes", encoded(served, "notes-value", {"text": "x" * 100_000}))
    assert (row["value"]["is_cut"], row["value"]["text"][:9]) == (True, '{"text":"')
    assert row["value"]["schema"]["type"] == "JSON"


def test_json_paths_find_values_of_avro_and_protobuf(served: ServedConsole) -> None:
    write(served, "found-orders", *(encoded(served, "orders-value", {"item": f"item {number}"}) for number in range(5)))
    write(served, "found-lines", *(encoded(served, "lines-value", {"sku": number}, "Line") for number in range(5)))
    for topic, path_ in (("found-orders", "$.item = item 3"), ("found-lines", "$.sku = 3")):
        for start in ("newest", "oldest"):
            found = get(served.url, f"/records.json?topic={topic}&from={start}&json={quote(path_)}")
            assert ([row["offset"] for row in found["rows"]], found["is_complete"], found["record_count"]) == ([3], True, 5)


def test_what_does_not_decode_is_shown_as_it_is_with_the_reason(served: ServedConsole) -> None:
    value = encoded(served, "orders-value", {"item": "pears"})
    rows = write(served, "broken", value[:-2], b"\0\0\0\x27\x0fx", b"plain")
    assert rows[0]["value"]["schema"]["error"] == "field item: the bytes end early: 5 are needed, 3 are left"
    assert rows[0]["value"]["line"] == shown_bytes(value[:-2])["line"]
    assert rows[1]["value"]["schema"] == {"id": 9999, "error": "the registry has no schema 9999"}
    assert "schema" not in rows[2]["value"]
    assert "not decoded" in html(served.url, "/records?topic=broken&from=oldest")
    assert "Not decoded by schema 9999: the registry has no schema 9999" in html(served.url, "/record?topic=broken&offset=1")


def test_previews_of_large_values_are_small(served: ServedConsole) -> None:
    large = encoded(served, "lists-value", {"words": ["word"] * 150_000})
    endless = large[:5] + b"\x80\x80\x80\x80\x80\x80\x01" + b"\0" * 200_000  # an array that says it has a billion words
    rows = write(served, "lists", large, endless)
    for row in rows:
        assert row["value"]["is_cut"]
        assert len(row["value"]["text"]) <= PREVIEW_BYTES
        assert row["value"]["text"].startswith('{\n  "words": [')


def test_the_form_encodes_by_the_latest_schema_of_a_subject(served: ServedConsole) -> None:
    post(served.url, "topics/create", name="form", partitions="1")
    assert 'name="value_schema"' in html(served.url, "/produce?topic=form")
    post(served.url, "produce", topic="form", value='{"item": "figs"}', value_schema="orders-value", key="8", key_schema="orders-key")
    post(served.url, "produce", topic="form", value='{"sku": 4}', value_schema="lines-value", value_message="Line")
    rows = get(served.url, "/records.json?topic=form&from=oldest")["rows"]
    assert [json.loads(row["value"]["text"]) for row in rows] == [{"item": "figs"}, {"sku": "4"}]
    assert rows[0]["key"]["text"] == "8"
    assert rows[0]["value"]["raw"] == shown_bytes(encoded(served, "orders-value", {"item": "figs"}))
    post(
        served.url, "produce", topic="form", value="7", value_schema=":.other:form-value"
    )  # whose id has another schema in the default context
    assert Visitor(served.url).ask("/download?topic=form&partition=0&offset=2")[1] == "\0\0\0\0\x01\x0e"
    for value, subject, message in (
        ('{"item": 5}', "orders-value", "produce: value: field item: it must be a string, got 5"),
        ("{", "orders-value", "produce: value: it is not JSON"),
        ("{}", "none", "produce: value: the registry has no subject none"),
        ("{}", "notes-value", "produce: value: 'text' is a required property"),
    ):
        status, answer = Visitor(served.url).ask("/do/produce", {"topic": "form", "value": value, "value_schema": subject})
        assert (status, json.loads(answer)["error"][: len(message)]) == (400, message)


def test_another_registry_decodes_and_one_that_is_gone_does_not_hold_pages(served: ServedConsole, tmp_path: Any) -> None:
    value = encoded(served, "orders-value", {"item": "pears"})
    with ServedConsole(tmp_path, "--console-registry", served.site_url("registry"), has_lab=False) as other:
        (row,) = write(other, "orders", value)
        assert row["value"]["schema"]["subject"] == "orders-value"
        assert json.loads(row["value"]["text"]) == {"item": "pears"}
        page = html(other.url, "/record?topic=orders&partition=0&offset=0")
        assert "orders-value" in page
        assert 'href="/schema' not in page
        post(other.url, "produce", topic="orders", value='{"item": "figs"}', value_schema="orders-value")


class Reader:
    """One who may see some topics."""

    def __init__(self, *topics: str) -> None:
        self._topics = topics

    def may_see_topic(self, name: str) -> bool:
        return name in self._topics

    async def in_thread(self, work: Callable[..., Any], *arguments: Any) -> Any:
        return work(*arguments)


async def test_a_visitor_learns_nothing_of_a_schema_whose_topic_is_hidden(served: ServedConsole) -> None:
    decoder = RowDecoder(RemoteCodecs(served.site_url("registry")))
    value = await asyncio.to_thread(encoded, served, "orders-value", {"item": "pears"})

    async def seen(*topics: str) -> dict[str, Any]:
        row: dict[str, Any] = {"marker": None, "key": shown(None), "value": shown(value), RECORD: Record(0, 0, None, value)}
        await decoder.decode([row], "mine", Reader(*topics))
        found: dict[str, Any] = row["value"]["schema"]
        return found

    assert (await seen("mine", "orders"))["subject"] == "orders-value"
    assert await seen("mine") == {"id": int.from_bytes(value[1:5]), "error": "you may not read its schema"}
    with pytest.raises(ValueError, match="you may not read the schemas of orders-value"):
        await decoder.encode("{}", "orders-value", None, Reader("mine"))


@pytest.mark.parametrize("answer", [{}, [], None, {"schema": "{", "schemaType": "AVRO", "references": [1]}])
async def test_what_no_registry_answers_is_a_reason_in_the_row(monkeypatch: pytest.MonkeyPatch, answer: Any) -> None:
    monkeypatch.setattr(RegistryClient, "get", lambda _self, _resource, **_query: answer)
    decoder = RowDecoder(RemoteCodecs("http://127.0.0.1:1"))
    row: dict[str, Any] = {"marker": None, "key": shown(None), "value": shown(b"x"), RECORD: Record(0, 0, None, b"\0\0\0\0\1x")}
    await decoder.decode([row], "orders", Reader())
    assert row["value"]["schema"]["error"].startswith("the registry returned schema 1 in an unknown form")
    with pytest.raises(ValueError, match="the registry returned version latest of orders-value in an unknown form"):
        await decoder.encode("{}", "orders-value", None, Reader("orders"))


async def test_a_registry_that_does_not_answer_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def get(self: RegistryClient, resource: str, **_query: object) -> Any:
        asked.append(resource)
        return RegistryClient.send(self, "GET", resource, None)

    monkeypatch.setattr(RegistryClient, "get", get)
    decoder = RowDecoder(RemoteCodecs("http://127.0.0.1:1"))
    for _ in range(3):
        row: dict[str, Any] = {"marker": None, "key": shown(None), "value": shown(b"x"), RECORD: Record(0, 0, None, b"\0\0\0\0\1x")}
        await decoder.decode([row], "orders", Reader())
        assert "no schema registry at http://127.0.0.1:1" in row["value"]["schema"]["error"]
    assert asked == ["/schemas/ids/1"]
