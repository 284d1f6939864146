"""Avro to JSON and back, compared with fastavro, which is the reference here; and values that nobody should wait for."""

from __future__ import annotations

import io
import json
import math
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minibroker.registry.parsed_schema import ReferencedSchema
from minibroker.registry.serdes.avro_reading import read_avro
from minibroker.registry.serdes.avro_types import parse_types
from minibroker.registry.serdes.avro_writing import write_avro
from minibroker.registry.serdes.budget import DEPTH_MAX, Budget
from minibroker.registry.serdes.errors import SerdesError
from tests.support.soak import examples

PRIMITIVES = ["null", "boolean", "int", "long", "float", "double", "bytes", "string"]
LIST = {"type": "record", "name": "List", "fields": [{"name": "next", "type": ["null", "List"]}]}


def schemas() -> st.SearchStrategy[Any]:
    """Schemas of all kinds. Names are made unique afterwards."""
    named = st.sampled_from([{"type": "enum", "name": "?", "symbols": ["A", "B"]}, {"type": "fixed", "name": "?", "size": 3}])

    def compound(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        record = st.lists(inner, max_size=3).map(
            lambda types: {"type": "record", "name": "?", "fields": [{"name": f"f{i}", "type": each} for i, each in enumerate(types)]}
        )
        array, table = (inner.map(lambda each, kind=kind, name=name: {"type": kind, name: each}) for kind, name in _COMPOUND)  # type: ignore[misc]
        union = st.lists(st.one_of(st.sampled_from(PRIMITIVES), named, record), min_size=1, max_size=4, unique_by=_union_key)
        return st.one_of(record, array, table, union)

    return st.recursive(st.one_of(st.sampled_from(PRIMITIVES), named), compound, max_leaves=8).map(_with_names)


_COMPOUND = (("array", "items"), ("map", "values"))


def _union_key(schema: Any) -> Any:
    return json.dumps(schema, sort_keys=True)


def _with_names(schema: Any, numbers: Any = None) -> Any:
    numbers = iter(range(1000)) if numbers is None else numbers
    if isinstance(schema, list):
        return [_with_names(each, numbers) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = dict(schema)
    if "name" in found:
        found["name"] = f"N{next(numbers)}"
    for name in ("items", "values"):
        if name in found:
            found[name] = _with_names(found[name], numbers)
    if "fields" in found:
        found["fields"] = [{**each, "type": _with_names(each["type"], numbers)} for each in found["fields"]]
    return found


PRIMITIVE_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "null": st.none(),
    "boolean": st.booleans(),
    "int": st.integers(-(1 << 31), (1 << 31) - 1),
    "long": st.integers(-(1 << 63), (1 << 63) - 1),
    "float": st.floats(width=32, allow_nan=False, allow_infinity=False),
    "double": st.floats(allow_nan=False, allow_infinity=False),
    "bytes": st.binary(max_size=5).map(lambda each: each.decode("latin-1")),
    "string": st.text(max_size=5),
    "enum": st.sampled_from(["A", "B"]),
    "fixed": st.binary(min_size=3, max_size=3).map(lambda each: each.decode("latin-1")),
}


def values_of(schema: Any) -> st.SearchStrategy[Any]:
    """JSON of a schema, as Avro's JSON encoding has it."""
    if isinstance(schema, list):
        return st.one_of([_of_branch(each) for each in schema])
    kind = schema if isinstance(schema, str) else schema["type"]
    if kind == "array":
        return st.lists(values_of(schema["items"]), max_size=3)
    if kind == "map":
        return st.dictionaries(st.text(max_size=3), values_of(schema["values"]), max_size=3)
    if kind == "record":
        return st.fixed_dictionaries({each["name"]: values_of(each["type"]) for each in schema["fields"]})
    return PRIMITIVE_VALUES[kind]


def _of_branch(schema: Any) -> st.SearchStrategy[Any]:
    if schema == "null":
        return st.none()
    name = schema if isinstance(schema, str) else schema["name"]
    return values_of(schema).map(lambda value: {name: value})


@given(st.data())
@examples(40)
def test_it_reads_and_writes_what_fastavro_writes(data: st.DataObject) -> None:
    schema = data.draw(schemas())
    value = data.draw(values_of(schema))
    types = parse_types(json.dumps(schema))
    theirs = io.BytesIO()
    fastavro.schemaless_writer(theirs, fastavro.parse_schema(schema), datum_of(schema, value))
    assert write_avro(value, types, Budget(1000)) == theirs.getvalue()
    assert read_avro(theirs.getvalue(), types, Budget(len(theirs.getvalue()))) == value


def datum_of(schema: Any, value: Any) -> Any:
    """JSON as fastavro takes it."""
    if isinstance(schema, list):
        if value is None:
            return None
        ((name, content),) = value.items()
        (branch,) = (each for each in schema if name == (each if isinstance(each, str) else each["name"]))
        return (name, datum_of(branch, content))
    kind = schema if isinstance(schema, str) else schema["type"]
    if kind in {"bytes", "fixed"}:
        return value.encode("latin-1")
    if kind == "array":
        return [datum_of(schema["items"], each) for each in value]
    if kind == "map":
        return {key: datum_of(schema["values"], each) for key, each in value.items()}
    if kind == "record":
        return {each["name"]: datum_of(each["type"], value[each["name"]]) for each in schema["fields"]}
    return value


def encode(schema: Any, value: Any) -> bytes:
    return write_avro(value, parse_types(json.dumps(schema)), Budget(1000))


def decode(schema: Any, data: bytes, preview_bytes: int | None = None) -> Any:
    return read_avro(data, parse_types(json.dumps(schema)), Budget(len(data), preview_bytes))


LINE = {"type": "record", "name": "Line", "fields": [{"name": "sku", "type": "long"}]}
ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "item", "type": "string"},
        {"name": "count", "type": "int", "default": 1},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "lines", "type": {"type": "array", "items": LINE}},
    ],
}


def test_unions_may_lack_their_branch_and_fields_their_value_if_there_is_a_default() -> None:
    plain = encode(ORDER, {"item": "pears", "note": "ripe", "lines": [{"sku": 3}]})
    assert plain == encode(ORDER, {"item": "pears", "count": 1, "note": {"string": "ripe"}, "lines": [{"sku": 3}]})
    assert decode(ORDER, plain) == {"item": "pears", "count": 1, "note": {"string": "ripe"}, "lines": [{"sku": 3}]}
    either = ["null", LINE]
    assert encode(either, {"Line": {"sku": 3}}) == encode(either, {"sku": 3}) == b"\x02\x06"
    numbers = {"type": "record", "name": "N", "fields": [{"name": "n", "type": "double"}]}
    assert math.isnan(fastavro.schemaless_reader(io.BytesIO(encode(numbers, {"n": "NaN"})), numbers, None)["n"])  # type: ignore[index, call-overload, arg-type]
    assert decode(numbers, encode(numbers, {"n": "-Infinity"})) == {"n": "-Infinity"}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"lines": []}, "field item: it is missing, and has no default"),
        ({"item": 5, "lines": []}, "field item: it must be a string, got 5"),
        ({"item": "x", "lines": [{"sku": 1}, {"sku": "2"}]}, "field lines[1].sku: it must be a whole number (long), got '2'"),
        ({"item": "x", "count": 1 << 40, "lines": []}, "field count: it must be a number of 32 bits, got 1099511627776"),
        ({"item": "x", "note": 5, "lines": []}, "field note: it must be a string, got 5"),
        ({"item": "x", "colour": "red", "lines": []}, "record shop.Order has no field colour; it has item, count, note, lines"),
        ([], "it must be an object, record shop.Order, got a list"),
    ],
)
def test_errors_name_the_field(value: Any, message: str) -> None:
    with pytest.raises(SerdesError) as refused:
        encode(ORDER, value)
    assert str(refused.value) == message


def test_types_of_references_are_known() -> None:
    line = json.dumps({"type": "record", "name": "Line", "namespace": "shop", "fields": [{"name": "sku", "type": "long"}]})
    order = json.dumps({"type": "record", "name": "Order", "namespace": "shop", "fields": [{"name": "line", "type": "Line"}]})
    types = parse_types(order, [ReferencedSchema("shop.Line", line)])
    assert read_avro(b"\x06", types, Budget(1)) == {"line": {"sku": 3}}
    with pytest.raises(SerdesError, match="does not declare the type Line"):
        parse_types(order)


@pytest.mark.parametrize(
    "schema", [{"type": "array", "items": "null"}, {"type": "array", "items": {"type": "record", "name": "E", "fields": []}}]
)
def test_an_array_of_a_billion_values_without_bytes_is_refused_and_cut_in_a_preview(schema: Any) -> None:
    data = b"\x80\x80\x80\x80\x80\x80\x80\x80\x01\0"
    with pytest.raises(SerdesError, match="more than 10160 values, which is more than its size allows"):
        decode(schema, data)
    budget = Budget(len(data), 4096)
    assert len(read_avro(data, parse_types(json.dumps(schema)), budget)) <= 4096
    assert budget.is_cut


def test_values_within_values_end_at_a_limit() -> None:
    with pytest.raises(SerdesError, match=f"more than {DEPTH_MAX} nested values"):
        decode(LIST, b"\x02" * 100_000)
    assert json.dumps(decode(LIST, b"\x02" * 100 + b"\0")).count("next") == 101
    endless = {"type": "record", "name": "A", "fields": [{"name": name, "type": "A", "default": {}} for name in "ab"]}
    with pytest.raises(SerdesError, match="nested values"):
        encode(endless, {})


@pytest.mark.parametrize("data", [b"", b"\x08ab", b"\x01", b"\xff" * 11, b"\x02\xff"])
def test_cut_and_wrong_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(SerdesError):
        decode("string", data)


def test_a_preview_ends_early_and_has_what_was_read() -> None:
    words = {"type": "array", "items": "string"}
    data = encode(words, ["x" * 100] * 1000)
    shown = json.dumps(decode(words, data, 4096))
    assert 3500 < len(shown) < 4600
    assert len(decode("string", encode("string", "é" * 100_000), 4096)) == 2048
