"""`minibroker serve --registry-port`: confluent-kafka's client and serializers, a kill under load, and what the broker's options allow."""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.timestamp_pb2 import Timestamp

from tests.support.broker_process import BrokerProcess
from tests.support.confluent import Consumer, Producer
from tests.support.ports import free_port

ORDER = {"type": "record", "name": "Order", "fields": [{"name": "item", "type": "string"}]}


def url_of(broker: BrokerProcess) -> str:
    found = re.search(r"registry (http://\S+?),", broker.output)
    assert found is not None
    return found[1]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path, "--registry-port", str(free_port())) as broker:
        yield broker


def test_records_with_schemas_are_written_and_read_by_confluents_client(broker: BrokerProcess) -> None:
    client = SchemaRegistryClient({"url": url_of(broker)})
    context = SerializationContext("orders", MessageField.VALUE)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    first = AvroSerializer(client, json.dumps(ORDER))
    producer.produce("orders", first({"item": "pears"}, context))
    evolved = {**ORDER, "fields": [*ORDER["fields"], {"name": "count", "type": "int", "default": 1}]}
    producer.produce("orders", AvroSerializer(client, json.dumps(evolved))({"item": "plums", "count": 3}, context))
    producer.flush()
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    deserializer = AvroDeserializer(client, json.dumps(evolved))
    read = [deserializer(message.value(), context) for message in consumer.consume(2, timeout=30)]
    consumer.close()
    assert read == [{"item": "pears", "count": 1}, {"item": "plums", "count": 3}]

    incompatible = {**ORDER, "fields": [{"name": "item", "type": "int"}]}
    with pytest.raises(SchemaRegistryError, match="Schema being registered is incompatible with an earlier schema") as refused:
        AvroSerializer(client, json.dumps(incompatible))({"item": 1}, context)
    assert refused.value.http_status_code == 409
    assert not client.test_compatibility("orders-value", Schema(json.dumps(incompatible), "AVRO"))
    assert client.get_versions("orders-value") == [1, 2]


def test_json_is_written_read_and_refused_by_confluents_client(broker: BrokerProcess) -> None:
    client = SchemaRegistryClient({"url": url_of(broker)})
    context = SerializationContext("people", MessageField.VALUE)
    closed = {"title": "Person", "type": "object", "additionalProperties": False}
    first = {**closed, "properties": {"name": {"type": "string"}}, "required": ["name"]}
    written = JSONSerializer(json.dumps(first), client)({"name": "Ann"}, context)
    evolved = {**first, "properties": {**first["properties"], "age": {"type": "integer"}}}  # type: ignore[dict-item]
    newer = JSONSerializer(json.dumps(evolved), client)({"name": "Bob", "age": 7}, context)
    deserializer = JSONDeserializer(None, schema_registry_client=client)
    assert [deserializer(each, context) for each in (written, newer)] == [{"name": "Ann"}, {"name": "Bob", "age": 7}]
    with pytest.raises(SchemaRegistryError, match="PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL") as refused:
        JSONSerializer(json.dumps({**closed, "properties": {}}), client)({}, context)
    assert refused.value.http_status_code == 409


def test_protobuf_is_written_and_read_by_confluents_client(broker: BrokerProcess) -> None:
    client = SchemaRegistryClient({"url": url_of(broker)})
    context = SerializationContext("times", MessageField.VALUE)
    serializer = ProtobufSerializer(Timestamp, client, {"use.deprecated.format": False})
    deserializer = ProtobufDeserializer(Timestamp, {"use.deprecated.format": False})
    assert deserializer(serializer(Timestamp(seconds=7), context), context) == Timestamp(seconds=7)
    registered = client.get_latest_version("times-value").schema
    assert registered.schema_type == "PROTOBUF"
    assert "message Timestamp {\n  int64 seconds = 1;" in registered.schema_str
    changed = registered.schema_str.replace("int64 seconds", "string seconds")
    with pytest.raises(SchemaRegistryError, match="FIELD_SCALAR_KIND_CHANGED"):
        client.register_schema("times-value", Schema(changed, "PROTOBUF"))


def register(url: str, subject: str, schema: Any) -> int | None:
    """The id; None if the broker is gone before its answer."""
    body = json.dumps({"schema": json.dumps(schema)}).encode()
    request = urllib.request.Request(f"{url}/subjects/{subject}/versions", body, {"Content-Type": "application/json"})  # noqa: S310  our own
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310  likewise
            schema_id: int = json.load(answer)["id"]
            return schema_id
    except OSError:
        return None


def test_the_registry_of_a_lab_follows_its_data(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, "--registry-port", "0", "--lab-port", "0") as broker:
        url = url_of(broker)
        assert register(url, "a", "string") == 1
        lab = re.search(r"lab (http://\S+?),", broker.output)
        assert lab is not None
        reset = urllib.request.Request(f"{lab[1]}/reset", b"{}", {"Content-Type": "application/json"})  # noqa: S310  our own
        urllib.request.urlopen(reset, timeout=30).close()  # noqa: S310  likewise
        with urllib.request.urlopen(f"{url}/subjects", timeout=30) as answer:  # noqa: S310  likewise
            assert json.load(answer) == []
        assert register(url, "b", "int") == 1
