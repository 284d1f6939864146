"""Values of Confluent's serializers, decoded by Spark with a registry's schemas: of several versions, in batches and in a stream."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("grpc_tools")
pytest.importorskip("google.protobuf")

from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient, header_schema_id_serializer
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.json_format import MessageToDict
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812  as PySpark's own documentation calls it
from pyspark.sql.protobuf import functions

from minibroker.registry.client import RegistryRefused
from minibroker.spark.decoding import SchemaRegistry, from_registry
from minibroker.spark.decoding.framing import FramedColumn
from minibroker.spark.failures import SourceError, reason_of
from tests.support.broker_process import BrokerProcess
from tests.support.confluent import Producer

SPARKS = (Py4JJavaError, PySparkException)
VALUE = MessageField.VALUE
ORDER = {"type": "record", "name": "Order", "fields": [{"name": "item", "type": "string"}]}
COUNT = {"name": "count", "type": ["null", "int"], "default": None}
EVOLVED = {**ORDER, "fields": [COUNT, {"name": "item", "type": "string"}]}
COLUMNS = "number int, value binary, headers array<struct<key: string, value: binary>>"

LINE = 'syntax = "proto3"; package shop; message Line { string item = 1; int32 count = 2; }'
NEWER = """
syntax = "proto3";
package shop;
import "cents.proto";
message Note {}
message Line { string item = 1; int32 count = 2; Cents price = 3; }
"""
CENTS = 'syntax = "proto3"; package shop; message Cents { int64 cents = 1; }'


def frame_of(spark: Any, values: Sequence[bytes | tuple[bytes, list[tuple[str, bytes]]] | None]) -> Any:
    rows = [(number, *(each if isinstance(each, tuple) else (each, None))) for number, each in enumerate(values)]
    return spark.createDataFrame(rows, COLUMNS).coalesce(1)


def decoded(spark: Any, values: Sequence[Any], *given: Any, **options: Any) -> list[Any]:
    frame = frame_of(spark, values).select("number", from_registry("value", *given, **options).alias("value"))
    return [row.value.asDict(recursive=True) if row.value is not None else None for row in frame.orderBy("number").collect()]


def framed(schema_id: int, payload: bytes) -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big") + payload


def test_avro_of_two_versions_and_in_every_frame(spark: Any, url: str, confluent: SchemaRegistryClient) -> None:
    context = SerializationContext("avro", VALUE)
    first = AvroSerializer(confluent, json.dumps(ORDER))({"item": "pears"}, context)
    second = AvroSerializer(confluent, json.dumps(EVOLVED))({"item": "plums", "count": 3}, context)
    headers: list[tuple[str, bytes]] = []
    with_header = AvroSerializer(confluent, json.dumps(EVOLVED), conf={"schema.id.serializer": header_schema_id_serializer})
    third = with_header({"item": "figs", "count": 0}, SerializationContext("avro", VALUE, headers))
    assert [name for name, _ in headers] == ["__value_schema_id"]
    guid = headers[0][1] + third
    values: list[Any] = [first, None, second, (third, headers), guid]
    registry = SchemaRegistry(url)
    by_id = confluent.get_latest_version("avro-value").schema_id
    cut = framed(by_id, b"\2")
    values += [framed(999, b""), b"text", b"", b"\1" * 16, cut]
    columns = [
        from_registry("value", registry, "avro-value", mode="PERMISSIVE", headers="headers").alias("latest"),
        from_registry("value", registry, "avro-value", version=1, mode="PERMISSIVE").alias("first"),
        from_registry("value", registry, schema_id=by_id, mode="PERMISSIVE").alias("one"),
        FramedColumn(F.col("value"), None, "value").description().alias("words"),
    ]
    rows = [row.asDict(recursive=True) for row in frame_of(spark, values).select("number", *columns).orderBy("number").collect()]
    pears, plums, figs = {"count": None, "item": "pears"}, {"count": 3, "item": "plums"}, {"count": 0, "item": "figs"}
    nothing = {"count": None, "item": None}  # Spark's null for a struct that is damaged
    assert [row["latest"] for row in rows] == [pears, None, plums, figs, figs, None, None, None, None, nothing]
    assert [row["first"] and row["first"]["item"] for row in rows] == ["pears", None, "plums", None, "figs", *[None] * 5]
    assert [row["one"] for row in rows] == [None, None, plums, None, figs, *[None] * 4, nothing]
    guid_words = f"schema GUID {headers[0][1][1:].hex()}"
    ids = [f"schema id {each}" for each in (by_id - 1, by_id, 999)]
    none = "no schema id"
    assert [row["words"] for row in rows] == [ids[0], none, ids[1], none, guid_words, ids[2], none, none, none, ids[1]]

    for value, words in [
        (framed(999, b""), "a value has schema id 999, which is not one of those that the subject avro-value had"),
        (cut, "Malformed"),
    ]:
        with pytest.raises(SPARKS) as failed:
            decoded(spark, [value], registry, "avro-value")
        assert words in reason_of(failed.value)


def test_avro_with_a_reference(spark: Any, url: str, confluent: SchemaRegistryClient) -> None:
    confluent.register_schema("money", Schema(json.dumps({**ORDER, "name": "Money"}), "AVRO"))
    text = json.dumps({"type": "record", "name": "Bill", "fields": [{"name": "paid", "type": "Money"}]})
    schema_id = confluent.register_schema("bills-value", Schema(text, "AVRO", [SchemaReference("Money", "money", 1)]))
    assert decoded(spark, [framed(schema_id, b"\4ab")], SchemaRegistry(url), "bills-value") == [{"paid": {"item": "ab"}}]


def test_protobuf_whose_message_moves_in_its_file(
    spark: Any, url: str, confluent: SchemaRegistryClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Version 2 has another message before it, and imports a third. Google's library stands in for spark-protobuf."""
    one = confluent.register_schema("lines-value", Schema(LINE, "PROTOBUF"))
    confluent.register_schema("cents", Schema(CENTS, "PROTOBUF"))
    two = confluent.register_schema("lines-value", Schema(NEWER, "PROTOBUF", [SchemaReference("cents.proto", "cents", 1)]))
    registry = SchemaRegistry(url)
    with pytest.raises(SourceError, match="the session lacks the package spark-protobuf"):
        from_registry("value", registry, "lines-value")
    real = functions.from_protobuf
    called: list[tuple[str, dict[str, str], bytes]] = []

    def from_protobuf(payload: Any, name: str, *, options: dict[str, str], binaryDescriptorSet: bytes) -> Any:  # noqa: N803  PySpark's name
        real(payload, name, options=options, binaryDescriptorSet=binaryDescriptorSet)  # PySpark itself has the function
        called.append((name, options, binaryDescriptorSet))
        return payload

    monkeypatch.setattr("minibroker.spark.decoding.column._require", lambda *_: None)
    monkeypatch.setattr("pyspark.sql.protobuf.functions.from_protobuf", from_protobuf)
    values = [
        framed(one, b"\0\x0a\2ab"),
        framed(one, b"\2\0\x0a\2cd\x10\5"),
        framed(two, b"\2\2\x0a\2ef\x1a\2\x08\7"),
        framed(two, b"\0"),  # a Note
        None,
    ]
    column = from_registry("value", registry, "lines-value", message="shop.Line", mode="PERMISSIVE")
    rows = frame_of(spark, values).select("number", column.alias("payload")).orderBy("number").collect()
    ((name, options, descriptors),) = called
    line = message_of(descriptors, name)
    assert options == {"mode": "PERMISSIVE", "emit.default.values": "true"}
    assert [row.payload and MessageToDict(line.FromString(bytes(row.payload))) for row in rows] == [
        {"item": "ab"},
        {"item": "cd", "count": 5},
        {"item": "ef", "price": {"cents": "7"}},
        None,
        None,
    ]
    with pytest.raises(SourceError, match=r"version 2 of lines-value has no message shop.Lines: it has shop.Note, shop.Line"):
        from_registry("value", registry, "lines-value", message="shop.Lines")
    frame = frame_of(spark, [framed(two, b"\0")]).select(from_registry("value", registry, "lines-value", message="shop.Line"))
    with pytest.raises(SPARKS) as failed:
        frame.collect()
    assert f"a value has schema id {two}, which is not one of those" in reason_of(failed.value)


def message_of(descriptors: bytes, name: str) -> Any:
    """The class of a message."""
    pool = descriptor_pool.DescriptorPool()
    for each in descriptor_pb2.FileDescriptorSet.FromString(descriptors).file:
        pool.Add(each)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


def test_json_of_two_versions(spark: Any, url: str, confluent: SchemaRegistryClient) -> None:
    first = {"title": "Person", "type": "object", "additionalProperties": False, "properties": {"name": {"type": "string"}}}
    evolved = {**first, "properties": {"name": {"type": "string"}, "age": {"type": "integer"}}}
    context = SerializationContext("people", VALUE)
    values = [
        JSONSerializer(json.dumps(schema), confluent)(person, context)
        for schema, person in [(first, {"name": "Ann"}), (evolved, {"name": "Bob", "age": 7})]
    ]
    assert decoded(spark, values, SchemaRegistry(url), "people-value") == [{"name": "Ann", "age": None}, {"name": "Bob", "age": 7}]


def test_a_topic_as_a_batch_and_as_a_stream(
    spark: Any, broker: BrokerProcess, url: str, confluent: SchemaRegistryClient, tmp_path: Path
) -> None:
    """A version that is registered while a stream runs is known after its next start."""
    producer = Producer({"bootstrap.servers": broker.bootstrap})

    def produce(schema: Any, value: Any) -> None:
        producer.produce("orders", AvroSerializer(confluent, json.dumps(schema))(value, SerializationContext("orders", VALUE)), partition=0)
        producer.flush()

    source = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": "orders", "startingOffsets": "earliest"}
    registry = SchemaRegistry(url)
    seen: list[tuple[str, int | None]] = []

    def start() -> Any:
        """A stream of what is there now."""
        order = from_registry("value", registry, "orders-value").alias("order")
        stream = spark.readStream.format("kafka").options(**source).load().select(order).select("order.*")
        writing = stream.writeStream.foreachBatch(
            lambda batch, _: seen.extend((row["item"], row.asDict().get("count")) for row in batch.collect())
        )
        return writing.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()

    produce(ORDER, {"item": "pears"})
    planned = from_registry("value", registry, "orders-value")
    start().awaitTermination()
    produce(EVOLVED, {"item": "plums", "count": 3})
    batch = spark.read.format("kafka").options(**source).load()
    with pytest.raises(SPARKS) as failed:
        batch.select(planned).collect()
    assert "create it again, or check the subject" in reason_of(failed.value)
    start().awaitTermination()
    assert seen == [("pears", None), ("plums", 3)]
    order = from_registry(F.col("value"), registry, "orders-value").alias("order")
    assert [row.item for row in batch.select(order, "offset").orderBy("offset").select("order.*").collect()] == ["pears", "plums"]


def test_mistakes(spark: Any, url: str, confluent: SchemaRegistryClient, monkeypatch: pytest.MonkeyPatch) -> None:
    registry = SchemaRegistry(url)
    confluent.register_schema("mistakes", Schema('"string"', "AVRO"))
    for options, words in [
        ({}, "from_registry needs a subject, or a schema_id"),
        ({"subject": "mistakes", "schema_id": 1}, "from_registry needs a subject, or a schema_id"),
        ({"subject": "mistakes", "mode": "DROPMALFORMED"}, "mode must be FAILFAST or PERMISSIVE, got DROPMALFORMED"),
        ({"subject": "mistakes", "message": "a.B"}, "version 1 of mistakes is AVRO: only Protobuf has a message to choose"),
    ]:
        with pytest.raises(SourceError, match=words):
            from_registry("value", registry, **options)  # type: ignore[arg-type]
    with pytest.raises(RegistryRefused, match="Subject 'nothing' not found"):
        from_registry("value", registry, "nothing")
    monkeypatch.setattr("minibroker.spark.decoding.column._PACKAGES", {"AVRO": ("spark-nothing", "no.such.Class")})
    with pytest.raises(SourceError, match=r"the session lacks the package spark-nothing: create it with kafka_session\(packages="):
        from_registry("value", registry, "mistakes")
