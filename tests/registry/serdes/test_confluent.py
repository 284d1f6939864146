"""What Confluent's serializers write is decoded, and their deserializers read what is encoded here: all types, with references."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient, header_schema_id_serializer
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.json_format import ParseDict
from google.protobuf.message_factory import GetMessageClass

from minibroker.client.errors import ClientError
from minibroker.registry.client import RegistryClient
from minibroker.registry.protoc import compile_proto
from minibroker.registry.serdes.codecs import codec_of
from minibroker.registry.serdes.errors import SerdesError
from minibroker.registry.serdes.source import Decoder, RegistrySource
from tests.support.registry_process import registry_process

LINE = {"type": "record", "name": "Line", "namespace": "shop", "fields": [{"name": "sku", "type": "long"}]}
ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [{"name": "item", "type": "string"}, {"name": "lines", "type": {"type": "array", "items": "Line"}}],
}
LINE_PROTO = 'syntax = "proto3"; package shop; message Line { int64 sku = 1; }'
ORDER_PROTO = """
syntax = "proto3";
package shop;
import "line.proto";
import "google/protobuf/timestamp.proto";
message Other { string name = 1; }
message Order {
  string item = 1;
  repeated Line lines = 2;
  google.protobuf.Timestamp time = 3;
  message Note { message Author { string name = 1; } Author author = 1; }
  Note note = 4;
}
"""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with registry_process(tmp_path_factory.mktemp("broker")) as (_, url):
        yield url


@pytest.fixture
def client(url: str) -> SchemaRegistryClient:
    return SchemaRegistryClient({"url": url})


@pytest.fixture
def source(url: str) -> RegistrySource:
    return RegistrySource(RegistryClient(url))


def context(topic: str) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE, [])


def decoded(source: RegistrySource, content: bytes, headers: Any = ()) -> Any:
    found = Decoder(source).decode(content, headers, "value")
    assert found is not None
    return found[0].value


def test_avro_with_references(client: SchemaRegistryClient, source: RegistrySource) -> None:
    client.register_schema("line", Schema(json.dumps(LINE), "AVRO"))
    schema = Schema(json.dumps(ORDER), "AVRO", [SchemaReference("shop.Line", "line", 1)])
    value = {"item": "pears", "lines": [{"sku": 3}]}
    written = AvroSerializer(client, schema)(value, context("avro"))
    assert decoded(source, written) == value
    encoded = codec_of(source.by_subject("avro-value")).encode(value)
    assert encoded == written
    assert AvroDeserializer(client)(encoded, context("avro")) == value


def test_the_guid_in_a_header(client: SchemaRegistryClient, source: RegistrySource) -> None:
    in_header = {"schema.id.serializer": header_schema_id_serializer}
    message = ParseDict({"author": {"name": "Ann"}}, message_class("shop.Order.Note")())
    cases: list[tuple[Any, Any, Any]] = [
        (AvroSerializer(client, json.dumps(LINE), conf=in_header), {"sku": 3}, {"sku": 3}),
        (ProtobufSerializer(type(message), client, in_header), message, {"author": {"name": "Ann"}}),
    ]
    for number, (serializer, datum, value) in enumerate(cases):
        place = context(f"header-{number}")
        written = serializer(datum, place)
        headers = list(place.headers)
        assert [name for name, _ in headers] == ["__value_schema_id"]
        assert decoded(source, written, headers) == value
        with pytest.raises(SerdesError, match="has no schema id"):
            decoded(source, written, [("__value_schema_id", b"\1ab")])


def test_json_with_references(client: SchemaRegistryClient, source: RegistrySource) -> None:
    line = {"type": "object", "properties": {"sku": {"type": "integer"}}, "required": ["sku"]}
    client.register_schema("line.json", Schema(json.dumps(line), "JSON"))
    order = {"title": "Order", "type": "object", "properties": {"lines": {"type": "array", "items": {"$ref": "line.json"}}}}
    schema = Schema(json.dumps(order), "JSON", [SchemaReference("line.json", "line.json", 1)])
    value = {"lines": [{"sku": 3}]}
    written = JSONSerializer(schema, client)(value, context("json"))
    assert decoded(source, written) == value
    codec = codec_of(source.by_subject("json-value"))
    assert JSONDeserializer(None, schema_registry_client=client)(codec.encode(value), context("json")) == value
    with pytest.raises(SerdesError) as refused:
        codec.encode({"lines": [{"sku": 1}, {"sku": "x"}]})
    assert str(refused.value) == "field lines[1].sku: 'x' is not of type 'integer'"


def message_class(name: str) -> Any:
    pool = DescriptorPool()
    for each in FileDescriptorSet.FromString(compile_proto({"line.proto": LINE_PROTO, "order.proto": ORDER_PROTO}, "order.proto")).file:
        pool.Add(each)
    return GetMessageClass(pool.FindMessageTypeByName(name))


def test_protobuf_with_references_and_nested_messages(url: str, client: SchemaRegistryClient, source: RegistrySource) -> None:
    order = {"item": "pears", "lines": [{"sku": "3"}], "time": "2013-01-01T00:00:00Z", "note": {"author": {"name": "Ann"}}}
    values: dict[str, dict[str, Any]] = {"shop.Order": order, "shop.Other": {"name": "x"}, "shop.Order.Note.Author": {"name": "Ann"}}
    for name, value in values.items():
        message = ParseDict(value, message_class(name)())
        written = ProtobufSerializer(type(message), client)(message, context("protobuf"))
        assert decoded(source, written) == value
        schema = source.by_subject("protobuf-value")
        for spelling in (name, name.removeprefix("shop.")):
            assert codec_of(schema, spelling).encode(value) == written
        reader = ProtobufDeserializer(type(message), {}, SchemaRegistryClient({"url": url}))  # one client mixes up the forms of a schema
        assert reader(codec_of(schema, name).encode(value), context("protobuf")) == message
    with pytest.raises(SerdesError, match=r"has no message Bill; it has Other, Order, Order.Note, Order.Note.Author"):
        codec_of(schema, "Bill")
    with pytest.raises(SerdesError, match=r"is not a message shop.Order: .*colour"):
        codec_of(schema, "Order").encode({"colour": "red"})


def test_confluents_own_files_are_imported_without_a_reference(client: SchemaRegistryClient, source: RegistrySource) -> None:
    text = """syntax = "proto3"; import "confluent/meta.proto"; import "confluent/type/decimal.proto";
    message Price { confluent.type.Decimal amount = 1 [(confluent.field_meta).doc = "in EUR"]; }"""
    client.register_schema("prices-value", Schema(text, "PROTOBUF"))
    value = {"amount": {"value": "AQ==", "scale": 2}}
    assert decoded(source, codec_of(source.by_subject("prices-value")).encode(value)) == value


def test_what_does_not_decode_says_why(client: SchemaRegistryClient, source: RegistrySource) -> None:
    schema_id = client.register_schema("cut-value", Schema(json.dumps(LINE), "AVRO"))
    with pytest.raises(SerdesError, match="the registry has no schema 9999"):
        decoded(source, b"\0" + (9999).to_bytes(4))
    with pytest.raises(SerdesError, match="field sku: the bytes end within a number"):
        decoded(source, b"\0" + schema_id.to_bytes(4))
    assert Decoder(source).decode(b"plain", (), "value") is None
    assert Decoder(source).decode(None, (), "value") is None
    with pytest.raises(ClientError, match=r"no schema registry at http://127.0.0.1:1: Connection refused"):
        decoded(RegistrySource(RegistryClient("127.0.0.1:1")), b"\0" + schema_id.to_bytes(4))
