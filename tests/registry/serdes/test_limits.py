"""Schemas and values that would keep a process busy, and bytes that nobody wrote: the only failure is SerdesError."""

from __future__ import annotations

import base64
import json
from contextlib import suppress
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from hypothesis import given
from hypothesis import strategies as st

from minibroker.registry.errors import RegistryError
from minibroker.registry.json_schema import JsonSchema
from minibroker.registry.serdes.codecs import PREVIEWED_MAX, Codec, RegisteredSchema, codec_of
from minibroker.registry.serdes.errors import SerdesError
from minibroker.registry.serdes.framing import Framed, FramingError, join, read_indexes, split, write_indexes
from tests.support.soak import examples

AVRO = {
    "type": "record",
    "name": "R",
    "fields": [
        {"name": "words", "type": {"type": "array", "items": ["null", "string", "R"]}},
        {"name": "map", "type": {"type": "map", "values": "double"}},
        {"name": "kind", "type": {"type": "enum", "name": "K", "symbols": ["A"]}},
    ],
}


def avro(schema: Any) -> Codec:
    return codec_of(RegisteredSchema(7, "AVRO", json.dumps(schema)))


def json_schema(schema: Any) -> Codec:
    return codec_of(RegisteredSchema(7, "JSON", json.dumps(schema)))


def protobuf() -> Codec:
    """message Node { Node next = 1; string name = 2; }."""
    fields = [
        FieldDescriptorProto(name="next", number=1, label=1, type=11, type_name=".Node"),  # type: ignore[arg-type]  # numbers of enums
        FieldDescriptorProto(name="name", number=2, label=1, type=9),  # type: ignore[arg-type]  # as above
    ]
    file = FileDescriptorProto(name="x", syntax="proto3", message_type=[DescriptorProto(name="Node", field=fields)])
    return codec_of(RegisteredSchema(7, "PROTOBUF", base64.b64encode(file.SerializeToString()).decode()))


CODECS = {"avro": avro(AVRO), "json": json_schema({}), "protobuf": protobuf()}


@pytest.mark.parametrize("kind", CODECS)
def test_any_bytes_are_decoded_or_refused(kind: str) -> None:
    @given(st.binary(max_size=60), st.sampled_from([None, 20]))
    @examples(100)
    def check(data: bytes, preview_bytes: int | None) -> None:
        with suppress(SerdesError):
            json.dumps(CODECS[kind].decode(Framed(7, data, None), preview_bytes).value)

    check()


@given(st.binary(max_size=40))
@examples(100)
def test_any_bytes_are_taken_apart(data: bytes) -> None:
    found = split(data)
    assert (found is None) == (data[:1] not in {b"\0", b"\1"} or len(data) < (5 if data[0] == 0 else 17))
    try:
        indexes, end = read_indexes(data)
    except FramingError:
        return
    assert end <= len(data)
    if min(indexes) >= 0 and data[:1] != b"\2":  # the first message may be spelled as one index, 0
        assert read_indexes(write_indexes(indexes))[0] == indexes


def test_a_frame_is_that_of_confluents_documentation() -> None:
    assert join(7, b"x") == b"\0\0\0\0\7x"
    assert join(7, b"x", (0,)) == b"\0\0\0\0\7\0x"
    assert join(7, b"x", (1, 0)) == b"\0\0\0\0\7\4\2\0x"
    assert write_indexes((200,)) == b"\2\x90\3"


def test_references_that_double_at_each_step_end_at_a_limit() -> None:
    steps = {f"a{i}": {"allOf": [{"$ref": f"#/definitions/a{i - 1}"}] * 2} for i in range(1, 60)}
    with pytest.raises(SerdesError, match="has too many references"):
        json_schema({"definitions": {"a0": {}, **steps}, "$ref": "#/definitions/a59"}).encode({})


def test_patterns_take_linear_time() -> None:
    codec = json_schema({"pattern": "^(a+)+$", "patternProperties": {"^(a+)+$": {"type": "string"}}})
    with pytest.raises(SerdesError, match="does not match"):
        codec.encode("a" * 50_000 + "b")
    assert codec.encode({"a" * 50_000 + "b": 5}).startswith(b"\0\0\0\0\7")
    with pytest.raises(SerdesError, match=r"its schema cannot be used: .*perl operator"):
        json_schema({"pattern": "(?=a)"}).encode("a")


def test_subschemas_that_name_their_dialect_have_the_same_limits() -> None:
    dialect = {"$schema": "http://json-schema.org/draft-07/schema#"}
    schema = {**dialect, "properties": {"next": {"$ref": "#"}, "text": {**dialect, "pattern": "^(a+)+$"}}}
    codec = json_schema(schema)
    for value in ({"text": "a" * 5_000 + "b"}, {"next": {"text": "a" * 5_000 + "b"}}):
        with pytest.raises(SerdesError, match="does not match"):
            codec.encode(value)
    steps = {f"a{i}": {**dialect, "allOf": [{"$ref": f"#/definitions/a{i - 1}"}] * 2} for i in range(1, 60)}
    with pytest.raises(SerdesError, match="has too many references"):
        json_schema({**dialect, "definitions": {"a0": {}, **steps}, "properties": {"x": {"$ref": "#/definitions/a59"}}}).encode({"x": 1})


@pytest.mark.parametrize("draft", ["draft-04", "draft-07"])
def test_unique_items_take_one_pass(monkeypatch: pytest.MonkeyPatch, draft: str) -> None:
    monkeypatch.delattr("jsonschema._utils.equal")  # by which the library compares each item with all others
    dialect = {"$schema": f"http://json-schema.org/{draft}/schema#"}
    codec = json_schema({"uniqueItems": True, **dialect})
    codec.encode([{"a": number} for number in range(10_000)])
    codec.encode([1, True, "1", [1], [True], {}, [], None, {"a": 1, "b": [2]}, {"a": 1, "b": [True]}])
    for items in ([1, 1.0], [{"a": 1, "b": 2}, {"b": 2, "a": 1.0}], [[True, {}], [True, {}]], [None, None]):
        with pytest.raises(SerdesError, match="has non-unique elements"):
            codec.encode(items)
    objects: list[Any] = [{"a": number} for number in range(10_000)]  # the metaschemas want unique items as well
    JsonSchema(json.dumps({**dialect, "properties": {"x": {"enum": objects}}}), (), is_new=True)
    with pytest.raises(RegistryError, match="Invalid schema of type JSON"):
        JsonSchema(json.dumps({**dialect, "properties": {"x": {"type": objects[:100]}}}), (), is_new=True)


def test_searches_for_unevaluated_properties_end_at_a_limit() -> None:
    schema: dict[str, Any] = {}
    for _ in range(8):
        schema = {"anyOf": [schema] * 2, "unevaluatedProperties": False}
    with pytest.raises(SerdesError, match="has too many references"):
        json_schema({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}).encode({"a": 1})


def test_unions_that_are_tried_at_each_step_end_at_a_limit() -> None:
    node = {"type": "record", "name": "A", "fields": [{"name": "next", "type": ["string", "A", {**_named("B"), "fields": [_NEXT]}]}]}
    value: Any = 5
    for _ in range(60):
        value = {"next": value}
    with pytest.raises(SerdesError, match=r"more than .* values, which is more than its size allows"):
        avro(node).encode(value)


def _named(name: str) -> dict[str, Any]:
    return {"type": "record", "name": name}


_NEXT = {"name": "next", "type": ["string", "A", "B"]}


def test_protobuf_messages_within_messages_and_large_ones() -> None:
    deep = b""
    for _ in range(200):
        deep = b"\x0a" + _varint(len(deep)) + deep
    with pytest.raises(SerdesError, match="it is not a message Node"):
        CODECS["protobuf"].decode(Framed(7, b"\0" + deep, None))
    large = b"\0\x12" + _varint(PREVIEWED_MAX) + b"x" * PREVIEWED_MAX
    assert len(CODECS["protobuf"].decode(Framed(7, large, None)).value["name"]) == PREVIEWED_MAX
    with pytest.raises(SerdesError, match="a preview has at most 65536"):
        CODECS["protobuf"].decode(Framed(7, large, None), 4096)


def _varint(number: int) -> bytes:
    content = bytearray()
    while number >= 0x80:
        content.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*content, number])
