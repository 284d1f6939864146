"""JSON Schema to types of Spark."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pyspark.sql.types import ArrayType, StructType

from minibroker.spark.decoding import json_types
from minibroker.spark.decoding.json_types import json_type
from minibroker.spark.failures import SourceError


def type_of(schema: Any, **documents: Any) -> str:
    """The type of a property `x` that has this schema, as Spark writes it."""
    root = {"type": "object", "properties": {"x": schema}, "$defs": {"size": {"type": "integer"}, "a/b": {"type": "boolean"}}}
    found = json_type(json.dumps(root), {name: json.dumps(each) for name, each in documents.items()})
    assert isinstance(found, StructType)
    text: str = found["x"].dataType.simpleString()
    return text


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "string", "format": "date-time"}, "string"),
        ({"type": "integer"}, "bigint"),
        ({"type": "number"}, "double"),
        ({"type": "boolean"}, "boolean"),
        ({"type": ["null", "integer"]}, "bigint"),
        ({"type": ["string", "integer"]}, "string"),
        ({"enum": ["a", 1]}, "string"),
        (True, "string"),
        ({"oneOf": [{"type": "null"}, {"type": "number"}]}, "double"),
        ({"anyOf": [{"type": "number"}, {"type": "string"}]}, "string"),
        ({"type": "array", "items": {"type": "integer"}}, "array<bigint>"),
        ({"type": "array"}, "array<string>"),
        ({"type": "array", "items": [{"type": "integer"}, {"type": "string"}]}, "array<string>"),
        ({"type": "array", "prefixItems": [{"type": "integer"}], "items": {"type": "string"}}, "array<string>"),
        ({"type": "object"}, "string"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, "map<string,bigint>"),
        ({"type": "object", "properties": {"y": {"type": "integer"}, "z": {"type": "string"}}}, "struct<y:bigint,z:string>"),
        ({"properties": {"y": {"type": "integer"}}}, "struct<y:bigint>"),
        ({"allOf": [{"properties": {"y": {"type": "integer"}}}, {"properties": {"z": {"type": "string"}}}]}, "struct<y:bigint,z:string>"),
        ({"$ref": "#/$defs/size"}, "bigint"),
        ({"$ref": "#/$defs/a~1b"}, "boolean"),
        ({"$ref": "#/$defs/nothing"}, "string"),
        ({"$ref": "money.json"}, "struct<cents:bigint>"),
        ({"$ref": "https://x/money"}, "struct<cents:bigint>"),
        ({"$ref": "money.json#/properties/cents"}, "bigint"),
        ({"$ref": "nothing.json"}, "string"),
    ],
)
def test_types(schema: Any, expected: str) -> None:
    money = {"$id": "https://x/money", "type": "object", "properties": {"cents": {"type": "integer"}}}
    assert type_of(schema, **{"money.json": money}) == expected


def test_a_schema_inside_itself_is_text() -> None:
    tree = {"type": "object", "properties": {"size": {"type": "integer"}, "below": {"type": "array", "items": {"$ref": "#"}}}}
    assert json_type(json.dumps(tree), {}).simpleString() == "struct<size:bigint,below:array<string>>"


def test_a_list_of_objects_is_a_type_and_a_number_is_not() -> None:
    assert isinstance(json_type('{"type": "array", "items": {"type": "string"}}', {}), ArrayType)
    for text in ('{"type": "integer"}', '{"type": "object"}', "true"):
        with pytest.raises(SourceError, match="from_json needs a schema of objects or arrays"):
            json_type(text, {})
    for text in ("{", "[" * 100_000):
        with pytest.raises(SourceError, match="the schema is not JSON"):
            json_type(text, {})


def test_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Definitions that use each other twice would double at each level."""
    doubling = {f"d{n}": {"properties": {"a": {"$ref": f"#/$defs/d{n + 1}"}, "b": {"$ref": f"#/$defs/d{n + 1}"}}} for n in range(60)}
    with pytest.raises(SourceError, match="more than 10000 fields"):
        json_type(json.dumps({"$ref": "#/$defs/d0", "$defs": doubling}), {})
    monkeypatch.setattr(json_types, "_DEPTH_MAX", 5)
    deep: Any = {"type": "integer"}
    for _ in range(10):
        deep = {"type": "array", "items": deep}
    assert json_type(json.dumps(deep), {}).simpleString() == "array<array<array<array<array<array<string>>>>>>"


def test_references_that_double_at_each_step_end_at_a_limit() -> None:
    steps = {f"a{number}": {"anyOf": [{"$ref": f"#/definitions/a{number - 1}"}] * 2} for number in range(1, 90)}
    schema = {"definitions": {"a0": {"type": "string"}, **steps}, "properties": {"text": {"$ref": "#/definitions/a40"}}}
    with pytest.raises(SourceError, match="more than 50000 parts"):
        json_type(json.dumps(schema), {})
