"""Changes of Avro schemas: each rule of "Schema Resolution" in Avro's specification, with what is not compatible in either direction."""

from __future__ import annotations

from typing import Any, Final

OK: list[str] = []

#: Old schema, new schema, what a reader with the new one cannot read, and what a reader with the old one cannot read.
Row = tuple[Any, Any, list[str], list[str]]


def record(*fields: Any, **others: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}, *fields]} | others


def of(kind: Any) -> dict[str, Any]:
    """A record whose field x has a type."""
    return {"type": "record", "name": "R", "fields": [{"name": "x", "type": kind}]}


def enum(*symbols: str, **others: Any) -> dict[str, Any]:
    return {"type": "enum", "name": "E", "symbols": [*symbols]} | others


B, B_WITH_DEFAULT = {"name": "b", "type": "int"}, {"name": "b", "type": "int", "default": 0}
TREE: dict[str, Any] = record({"name": "next", "type": ["null", "R"], "default": None})
MISMATCH = ["TYPE_MISMATCH /"]
X_MISMATCH = ["TYPE_MISMATCH /fields/0/type"]


def promoted(old: str, new: str) -> Row:
    return (old, new, OK, MISMATCH)


AVRO: Final[dict[str, Row]] = {
    "nothing": (record(), record(), OK, OK),
    "doc of a record": (record(doc="one"), record(doc="two"), OK, OK),
    "other attributes": (record(owner="me"), record(owner="you"), OK, OK),
    "field with a default added": (record(), record(B_WITH_DEFAULT), OK, OK),
    "field without a default added": (record(), record(B), ["READER_FIELD_MISSING_DEFAULT_VALUE /fields/1"], OK),
    "field with a default removed": (record(B_WITH_DEFAULT), record(), OK, OK),
    "field without a default removed": (record(B), record(), OK, ["READER_FIELD_MISSING_DEFAULT_VALUE /fields/1"]),
    "default added": (record(B), record(B_WITH_DEFAULT), OK, OK),
    "default changed": (record(B_WITH_DEFAULT), record({**B, "default": 1}), OK, OK),
    "fields in another order": (
        {"type": "record", "name": "R", "fields": [B, {"name": "c", "type": "string"}]},
        {"type": "record", "name": "R", "fields": [{"name": "c", "type": "string"}, B]}, OK, OK,
    ),
    "order of sorting": (of("int"), {"type": "record", "name": "R", "fields": [{"name": "x", "type": "int", "order": "ignore"}]}, OK, OK),
    "field renamed": (
        record(B), record({"name": "c", "type": "int"}),
        ["READER_FIELD_MISSING_DEFAULT_VALUE /fields/1"], ["READER_FIELD_MISSING_DEFAULT_VALUE /fields/1"],
    ),
    "field renamed, with an alias": (
        record(B), record({"name": "c", "type": "int", "aliases": ["b"]}), OK, ["READER_FIELD_MISSING_DEFAULT_VALUE /fields/1"],
    ),
    "field of another type": (of("int"), of("string"), X_MISMATCH, X_MISMATCH),
    "field of a wider type": (of("int"), of("long"), OK, X_MISMATCH),
    "record renamed": (record(), record(name="S"), ["NAME_MISMATCH /name"], ["NAME_MISMATCH /name"]),
    "record renamed, with an alias": (record(), record(name="S", aliases=["R"]), OK, ["NAME_MISMATCH /name"]),
    "record in another namespace": (record(), record(namespace="n"), OK, OK),
    "record that contains itself": (
        TREE, record({"name": "next", "type": ["null", "R"], "default": None}, B),
        ["READER_FIELD_MISSING_DEFAULT_VALUE /fields/2"], OK,
    ),
    "int to long": promoted("int", "long"),
    "int to float": promoted("int", "float"),
    "int to double": promoted("int", "double"),
    "long to float": promoted("long", "float"),
    "long to double": promoted("long", "double"),
    "float to double": promoted("float", "double"),
    "string to bytes": ("string", "bytes", OK, OK),
    "int to string": ("int", "string", MISMATCH, MISMATCH),
    "int to boolean": ("int", "boolean", MISMATCH, MISMATCH),
    "null to int": ("null", "int", MISMATCH, MISMATCH),
    "logical type of the same type": ("long", {"type": "long", "logicalType": "timestamp-millis"}, OK, OK),
    "enum symbol added": (enum("A"), enum("A", "B"), OK, ["MISSING_ENUM_SYMBOLS /symbols"]),
    "enum symbol removed, with a default": (enum("A", "B"), enum("A", default="A"), OK, OK),
    "enum symbol replaced": (enum("A", "B"), enum("A", "C"), ["MISSING_ENUM_SYMBOLS /symbols"], ["MISSING_ENUM_SYMBOLS /symbols"]),
    "enum symbols in another order": (enum("A", "B"), enum("B", "A"), OK, OK),
    "enum renamed": (enum("A"), enum("A", name="F"), ["NAME_MISMATCH /name"], ["NAME_MISMATCH /name"]),
    "enum to string": (enum("A"), "string", MISMATCH, MISMATCH),
    "items of an array widened": (
        {"type": "array", "items": "int"}, {"type": "array", "items": "long"}, OK, ["TYPE_MISMATCH /items"],
    ),
    "items of an array": (
        {"type": "array", "items": "int"}, {"type": "array", "items": "string"}, ["TYPE_MISMATCH /items"], ["TYPE_MISMATCH /items"],
    ),
    "values of a map widened": (
        {"type": "map", "values": "float"}, {"type": "map", "values": "double"}, OK, ["TYPE_MISMATCH /values"],
    ),
    "array to map": ({"type": "array", "items": "int"}, {"type": "map", "values": "int"}, MISMATCH, MISMATCH),
    "fixed of another size": (
        {"type": "fixed", "name": "F", "size": 4}, {"type": "fixed", "name": "F", "size": 8},
        ["FIXED_SIZE_MISMATCH /size"], ["FIXED_SIZE_MISMATCH /size"],
    ),
    "fixed renamed": (
        {"type": "fixed", "name": "F", "size": 4}, {"type": "fixed", "name": "G", "size": 4},
        ["NAME_MISMATCH /name"], ["NAME_MISMATCH /name"],
    ),
    "fixed to bytes": ({"type": "fixed", "name": "F", "size": 4}, "bytes", MISMATCH, MISMATCH),
    "type to a union with it": ("int", ["null", "int"], OK, ["TYPE_MISMATCH /0"]),
    "field made nullable": (of("int"), of(["null", "int"]), OK, ["TYPE_MISMATCH /fields/0/type/0"]),
    "union branch added": (["null", "int"], ["null", "int", "string"], OK, ["MISSING_UNION_BRANCH /2"]),
    "union branches in another order": (["null", "int"], ["int", "null"], OK, OK),
    "union branch replaced": (["null", "int"], ["null", "string"], ["MISSING_UNION_BRANCH /1"], ["MISSING_UNION_BRANCH /1"]),
    "union branch widened": (["null", "int"], ["null", "long"], OK, ["MISSING_UNION_BRANCH /1"]),
    "union of what a type can read": (["int", "float"], "double", OK, ["MISSING_UNION_BRANCH /"]),
}  # fmt: skip
