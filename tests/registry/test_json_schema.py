"""JSON schemas: which changes are compatible, by the rules of Schema Registry's documentation, and by what jsonschema accepts."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema.validators import Draft7Validator

from minibroker.registry import json_schema_compatibility
from minibroker.registry.errors import RegistryError
from minibroker.registry.json_schema import JsonSchema
from minibroker.registry.parsed_schema import ReferencedSchema
from tests.support.failing import failing
from tests.support.soak import examples


def parse(schema: Any, *references: ReferencedSchema, is_new: bool = True) -> JsonSchema:
    return JsonSchema(schema if isinstance(schema, str) else json.dumps(schema), references, is_new=is_new)


def changes(old: Any, new: Any) -> list[str]:
    """The kinds and paths of changes that are not compatible."""
    found = parse(new).differences(parse(old))
    matches = [re.fullmatch(r'{errorType:"(\w+)", description:".*path \'(.*?)\'.*\'}', each) for each in found]
    return [f"{match[1]} {match[2]}" for match in matches if match is not None]


def props(required: list[str] | None = None, **properties: Any) -> dict[str, Any]:
    """An object: open, unless it is `closed`."""
    return {"type": "object", "properties": properties} | ({"required": required} if required else {})


def closed(schema: dict[str, Any]) -> dict[str, Any]:
    return {**schema, "additionalProperties": False}


S, N, INTEGER, B = {"type": "string"}, {"type": "number"}, {"type": "integer"}, {"type": "boolean"}
ANY = True
OK: list[str] = []

#: Old schema, new schema, what a reader with the new one cannot read, and what a reader with the old one cannot read. Under BACKWARD the
#: first counts, under FORWARD the second, under FULL both. Source: "JSON Schema compatibility rules" of Schema Registry's documentation.
TABLE: dict[str, tuple[Any, Any, list[str], list[str]]] = {
    "nothing": (S, S, OK, OK),
    "title and description": ({**S, "title": "a"}, {**S, "description": "b"}, OK, OK),
    "default": ({**S, "default": "a"}, {**S, "default": "b"}, OK, OK),
    "id": ({**S, "$id": "http://x/a"}, {**S, "$id": "http://x/b"}, OK, OK),
    "any type": (S, {}, OK, ["TYPE_CHANGED #/"]),
    "no type": (False, S, OK, ["TYPE_CHANGED #/"]),
    "type": (S, N, ["TYPE_CHANGED #/"], ["TYPE_CHANGED #/"]),
    "integer to number": (INTEGER, N, OK, ["TYPE_NARROWED #/"]),
    "one type to two": (S, {"type": ["string", "null"]}, OK, ["TYPE_CHANGED #/"]),
    "two types to three": ({"type": ["string", "null"]}, {"type": ["string", "null", "number"]}, OK, ["SUM_TYPE_NARROWED #/"]),
    "minLength added": (S, {**S, "minLength": 1}, ["MIN_LENGTH_ADDED #/minLength"], OK),
    "minLength increased": ({**S, "minLength": 1}, {**S, "minLength": 2}, ["MIN_LENGTH_INCREASED #/minLength"], OK),
    "maxLength added": (S, {**S, "maxLength": 1}, ["MAX_LENGTH_ADDED #/maxLength"], OK),
    "maxLength decreased": ({**S, "maxLength": 2}, {**S, "maxLength": 1}, ["MAX_LENGTH_DECREASED #/maxLength"], OK),
    "pattern added": (S, {**S, "pattern": "a"}, ["PATTERN_ADDED #/pattern"], OK),
    "pattern changed": ({**S, "pattern": "a"}, {**S, "pattern": "b"}, ["PATTERN_CHANGED #/pattern"], ["PATTERN_CHANGED #/pattern"]),
    "maximum added": (N, {**N, "maximum": 1}, ["MAXIMUM_ADDED #/maximum"], OK),
    "maximum decreased": ({**N, "maximum": 2.5}, {**N, "maximum": 2}, ["MAXIMUM_DECREASED #/maximum"], OK),
    "minimum added": (N, {**N, "minimum": 1}, ["MINIMUM_ADDED #/minimum"], OK),
    "minimum increased": ({**N, "minimum": -1}, {**N, "minimum": 0}, ["MINIMUM_INCREASED #/minimum"], OK),
    "exclusiveMaximum added": (N, {**N, "exclusiveMaximum": 1}, ["EXCLUSIVE_MAXIMUM_ADDED #/exclusiveMaximum"], OK),
    "exclusiveMaximum decreased": (
        {**N, "exclusiveMaximum": 2}, {**N, "exclusiveMaximum": 1}, ["EXCLUSIVE_MAXIMUM_DECREASED #/exclusiveMaximum"], OK,
    ),
    "exclusiveMinimum added": (N, {**N, "exclusiveMinimum": 1}, ["EXCLUSIVE_MINIMUM_ADDED #/exclusiveMinimum"], OK),
    "exclusiveMinimum increased": (
        {**N, "exclusiveMinimum": 1}, {**N, "exclusiveMinimum": 2}, ["EXCLUSIVE_MINIMUM_INCREASED #/exclusiveMinimum"], OK,
    ),
    "multipleOf added": (N, {**N, "multipleOf": 2}, ["MULTIPLE_OF_ADDED #/multipleOf"], OK),
    "multipleOf a multiple": ({**N, "multipleOf": 2}, {**N, "multipleOf": 4}, ["MULTIPLE_OF_EXPANDED #/multipleOf"], OK),
    "multipleOf another": (
        {**N, "multipleOf": 2}, {**N, "multipleOf": 3}, ["MULTIPLE_OF_CHANGED #/multipleOf"], ["MULTIPLE_OF_CHANGED #/multipleOf"],
    ),
    "multipleOf of the same value": ({**N, "multipleOf": 0.5}, '{"type": "number", "multipleOf": 0.50}', OK, OK),
    "enum value added": ({"enum": ["a"]}, {"enum": ["a", "b"]}, OK, ["ENUM_ARRAY_NARROWED #/enum"]),
    "enum value replaced": ({"enum": ["a"]}, {"enum": ["b"]}, ["ENUM_ARRAY_CHANGED #/enum"], ["ENUM_ARRAY_CHANGED #/enum"]),
    "enum 1 and true": ({"enum": [1]}, {"enum": [True]}, ["ENUM_ARRAY_CHANGED #/enum"], ["ENUM_ARRAY_CHANGED #/enum"]),
    "const": ({"const": 1}, {"const": 2}, ["ENUM_ARRAY_CHANGED #/const"], ["ENUM_ARRAY_CHANGED #/const"]),
    "optional property added to an open object": (
        props(a=S), props(a=S, b=S), ["OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL #/properties/b"], OK,
    ),
    "required property added to an open object": (
        props(a=S), props(["b"], a=S, b=S), ["REQUIRED_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL #/properties/b"], OK,
    ),
    "required property with a default added to an open object": (
        props(a=S), props(["b"], a=S, b={**S, "default": ""}),
        ["REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_OPEN_CONTENT_MODEL #/properties/b"], OK,
    ),
    "property of any type added to an open object": (props(a=S), props(a=S, b=ANY), OK, OK),
    "optional property added to a closed object": (
        closed(props(a=S)), closed(props(a=S, b=S)), OK, ["PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL #/properties/b"],
    ),
    "required property added to a closed object": (
        closed(props(a=S)), closed(props(["b"], a=S, b=S)),
        ["REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL #/properties/b"],
        ["PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL #/properties/b"],
    ),
    "required property with a default added to a closed object": (
        closed(props(a=S)), closed(props(["b"], a=S, b={**S, "default": ""})), OK,
        ["PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL #/properties/b"],
    ),
    "property that cannot be removed from a closed object": (closed(props(a=S, b=False)), closed(props(a=S)), OK, OK),
    "property allowed by the schema of others": (
        {**props(a=S), "additionalProperties": S}, {**props(a=S, b=S), "additionalProperties": S}, OK, OK,
    ),
    "property not allowed by the schema of others": (
        {**props(a=S), "additionalProperties": S}, {**props(a=S, b=N), "additionalProperties": S},
        ["TYPE_CHANGED #/properties/b", "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/properties/b"],
        ["TYPE_CHANGED #/properties/b", "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/properties/b"],
    ),
    "property allowed by a pattern": (
        closed({**props(a=S), "patternProperties": {"^b": S}}), closed({**props(a=S, b=S), "patternProperties": {"^b": S}}), OK, OK,
    ),
    "property not allowed by a pattern": (
        closed({**props(a=S), "patternProperties": {"^x": S}}), closed({**props(a=S, b=S), "patternProperties": {"^x": S}}), OK,
        ["PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL #/properties/b"],
    ),
    "property made required": (props(a=S), props(["a"], a=S), ["REQUIRED_ATTRIBUTE_ADDED #/required/a"], OK),
    "property with a default made required": (props(a={**S, "default": ""}), props(["a"], a={**S, "default": ""}), OK, OK),
    "property's type": (props(a=S), props(a=N), ["TYPE_CHANGED #/properties/a"], ["TYPE_CHANGED #/properties/a"]),
    "property of a property": (
        props(a=props(b=S)), props(a=props(b=N)),
        ["TYPE_CHANGED #/properties/a/properties/b"], ["TYPE_CHANGED #/properties/a/properties/b"],
    ),
    "object closed": (props(a=S), closed(props(a=S)), ["ADDITIONAL_PROPERTIES_REMOVED #/additionalProperties"], OK),
    "schema of other properties added": (
        props(a=S), {**props(a=S), "additionalProperties": S}, ["ADDITIONAL_PROPERTIES_NARROWED #/additionalProperties"], OK,
    ),
    "schema of other properties changed": (
        {**props(a=S), "additionalProperties": S}, {**props(a=S), "additionalProperties": N},
        ["TYPE_CHANGED #/additionalProperties"], ["TYPE_CHANGED #/additionalProperties"],
    ),
    "maxProperties added": (props(), {**props(), "maxProperties": 1}, ["MAX_PROPERTIES_ADDED #/maxProperties"], OK),
    "maxProperties decreased": (
        {**props(), "maxProperties": 2}, {**props(), "maxProperties": 1}, ["MAX_PROPERTIES_DECREASED #/maxProperties"], OK,
    ),
    "minProperties added": (props(), {**props(), "minProperties": 1}, ["MIN_PROPERTIES_ADDED #/minProperties"], OK),
    "minProperties increased": (
        {**props(), "minProperties": 1}, {**props(), "minProperties": 2}, ["MIN_PROPERTIES_INCREASED #/minProperties"], OK,
    ),
    "dependency added": (props(), {**props(), "dependencies": {"a": ["b"]}}, ["DEPENDENCY_ARRAY_ADDED #/dependencies/a"], OK),
    "dependency extended": (
        {**props(), "dependencies": {"a": ["b"]}}, {**props(), "dependencies": {"a": ["b", "c"]}},
        ["DEPENDENCY_ARRAY_EXTENDED #/dependencies/a"], OK,
    ),
    "dependency changed": (
        {**props(), "dependencies": {"a": ["b"]}}, {**props(), "dependencies": {"a": ["c"]}},
        ["DEPENDENCY_ARRAY_CHANGED #/dependencies/a"], ["DEPENDENCY_ARRAY_CHANGED #/dependencies/a"],
    ),
    "dependent schema added": (
        props(), {**props(), "dependencies": {"a": props(b=S)}}, ["DEPENDENCY_SCHEMA_ADDED #/dependencies/a"], OK,
    ),
    "type of items": ({"type": "array", "items": S}, {"type": "array", "items": N}, ["TYPE_CHANGED #/items"], ["TYPE_CHANGED #/items"]),
    "schema of items added": ({"type": "array"}, {"type": "array", "items": S}, ["SCHEMA_ADDED #/items"], OK),
    "maxItems added": ({"type": "array"}, {"type": "array", "maxItems": 1}, ["MAX_ITEMS_ADDED #/maxItems"], OK),
    "maxItems decreased": (
        {"type": "array", "maxItems": 2}, {"type": "array", "maxItems": 1}, ["MAX_ITEMS_DECREASED #/maxItems"], OK,
    ),
    "minItems added": ({"type": "array"}, {"type": "array", "minItems": 1}, ["MIN_ITEMS_ADDED #/minItems"], OK),
    "minItems increased": (
        {"type": "array", "minItems": 1}, {"type": "array", "minItems": 2}, ["MIN_ITEMS_INCREASED #/minItems"], OK,
    ),
    "uniqueItems": ({"type": "array"}, {"type": "array", "uniqueItems": True}, ["UNIQUE_ITEMS_ADDED #/uniqueItems"], OK),
    "item added to an open array": ({"items": [S]}, {"items": [S, N]}, ["ITEM_ADDED_TO_OPEN_CONTENT_MODEL #/items/1"], OK),
    "item of any type added to an open array": ({"items": [S]}, {"items": [S, ANY]}, OK, OK),
    "item added to a closed array": (
        {"items": [S], "additionalItems": False}, {"items": [S, N], "additionalItems": False}, OK,
        ["ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL #/items/1"],
    ),
    "item allowed by the schema of others": (
        {"items": [S], "additionalItems": N}, {"items": [S, N], "additionalItems": N}, OK, OK,
    ),
    "item not allowed by the schema of others": (
        {"items": [S], "additionalItems": B}, {"items": [S, N], "additionalItems": B},
        ["TYPE_CHANGED #/items/1", "ITEM_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/items/1"],
        ["TYPE_CHANGED #/items/1", "ITEM_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/items/1"],
    ),
    "array closed": ({"items": [S]}, {"items": [S], "additionalItems": False}, ["ADDITIONAL_ITEMS_REMOVED #/additionalItems"], OK),
    "oneOf extended": ({"oneOf": [S, N]}, {"oneOf": [S, N, B]}, OK, ["SUM_TYPE_NARROWED #/"]),
    "oneOf reordered": ({"oneOf": [S, N]}, {"oneOf": [N, S]}, OK, OK),
    "oneOf another": (
        {"oneOf": [S, N]}, {"oneOf": [S, B]}, ["COMBINED_TYPE_SUBSCHEMAS_CHANGED #/"], ["COMBINED_TYPE_SUBSCHEMAS_CHANGED #/"],
    ),
    "oneOf to anyOf": ({"oneOf": [S, N]}, {"anyOf": [S, N]}, OK, ["COMBINED_TYPE_CHANGED #/"]),
    "allOf extended": (
        {"allOf": [S, {"minLength": 1}]}, {"allOf": [S, {"minLength": 1}, {"maxLength": 5}]}, ["PRODUCT_TYPE_EXTENDED #/"], OK,
    ),
    "part of an allOf": ({"allOf": [S, {"minLength": 1}]}, S, OK, ["TYPE_CHANGED #/"]),
    "not widened": ({"not": INTEGER}, {"not": N}, ["NOT_TYPE_EXTENDED #/not"], OK),
    "recursive": (
        {"$ref": "#/definitions/l", "definitions": {"l": props(v=S, next={"$ref": "#/definitions/l"})}},
        {"$ref": "#/definitions/l", "definitions": {"l": props(v=N, next={"$ref": "#/definitions/l"})}},
        ["TYPE_CHANGED #/properties/v", "TYPE_CHANGED #/properties/next/properties/v"],
        ["TYPE_CHANGED #/properties/v", "TYPE_CHANGED #/properties/next/properties/v"],
    ),
    "unevaluatedProperties": (
        {"$schema": "https://json-schema.org/draft/2020-12/schema", **props(a=S)},
        {"$schema": "https://json-schema.org/draft/2020-12/schema", **props(a=S), "unevaluatedProperties": False},
        ["UNEVALUATED_PROPERTIES_REMOVED #/unevaluatedProperties"], OK,
    ),
    "prefixItems": (
        {"$schema": "https://json-schema.org/draft/2020-12/schema", "prefixItems": [S], "items": False},
        {"$schema": "https://json-schema.org/draft/2020-12/schema", "prefixItems": [S, N], "items": False}, OK,
        ["ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL #/items/1"],
    ),
    "dependentRequired": (
        {"$schema": "https://json-schema.org/draft/2020-12/schema", **props(a=S)},
        {"$schema": "https://json-schema.org/draft/2020-12/schema", **props(a=S), "dependentRequired": {"a": ["b"]}},
        ["DEPENDENCY_ARRAY_ADDED #/dependencies/a"], OK,
    ),
}  # fmt: skip


def check_row(name: str) -> None:
    old, new, backward, forward = TABLE[name]
    assert (changes(old, new), changes(new, old)) == (backward, forward)


def test_each_change_has_its_verdict_in_both_directions() -> None:
    assert failing(TABLE, check_row) == {}


@pytest.mark.parametrize(
    "text",
    ["", "{", "1", '"string"', "[]", '{"type": "strin"}', '{"minLength": -1}', '{"required": "a"}', '{"properties": []}', '{"enum": 1}'],
)
def test_texts_that_are_no_schemas(text: str) -> None:
    with pytest.raises(RegistryError, match="Invalid schema of type JSON"):
        parse(text)


@pytest.mark.parametrize(
    "reference", ["#/definitions/missing", "other.json", "http://example.org/schema.json", "file:///etc/passwd", "#nowhere"]
)
def test_references_that_lead_nowhere_are_refused_without_the_network(reference: str) -> None:
    with pytest.raises(RegistryError, match="cannot resolve the reference"):
        parse({"properties": {"a": {"$ref": reference}}})


def test_references_lead_to_registered_schemas_by_name_and_by_id() -> None:
    text = '{"$id": "http://x/address", "definitions": {"zip": {"type": "string"}}, "type": "object"}'
    address = ReferencedSchema("address.json", text)
    for reference in ("address.json", "address.json#/definitions/zip", "http://x/address#/definitions/zip"):
        person = {"properties": {"home": {"$ref": reference}}}
        parse(person, address)
    zipped = {"properties": {"home": {"$ref": "address.json#/definitions/zip"}}}
    changed = ReferencedSchema("address.json", text.replace('"string"', '"number"'))
    assert len(parse(zipped, changed).differences(parse(zipped, address))) == 1


def test_the_text_keeps_its_order_and_the_normal_text_does_not() -> None:
    schema = parse('{ "type": "object",\n "properties": {"b": {}, "a": {}} }')
    assert schema.text == '{"type":"object","properties":{"b":{},"a":{}}}'
    assert schema.normal_text == '{"properties":{"a":{},"b":{}},"type":"object"}'


def test_schemas_that_multiply_are_refused() -> None:
    """Each level compares all parts with all: without a bound this takes very long."""
    shared: dict[str, Any] = {"l40": S}
    for level in range(40):
        reference = {"$ref": f"#/definitions/l{level + 1}"}
        shared[f"l{level}"] = {"oneOf": [{"type": "object", "properties": {f"p{part}": reference}} for part in range(40)]}
    old = {"definitions": shared, "$ref": "#/definitions/l0"}
    new = json.loads(json.dumps(old).replace('"type": "string"', '"type": "number"'))
    with pytest.raises(RegistryError, match="too complex"):
        parse(new).differences(parse(old))


def test_negations_that_multiply_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_schema_compatibility, "_PAIRS_MAX", 5_000)

    def schema(least: int) -> JsonSchema:
        levels: dict[str, Any] = {"l0": {"type": "string", "minLength": least}}
        for level in range(1, 30):
            below = {"$ref": f"#/definitions/l{level - 1}"}
            levels[f"l{level}"] = {"anyOf": [{"not": {"anyOf": [below, {"type": "string", "minLength": part}]}} for part in range(3)]}
        return parse({"definitions": levels, "anyOf": [{"$ref": "#/definitions/l29"}, {"type": "null"}]})

    with pytest.raises(RegistryError, match="too complex"):
        schema(2).differences(schema(1))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", "ab", "abc"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)


@st.composite
def schemas(draw: st.DrawFn, depth: int = 2) -> Any:
    inner = schemas(depth - 1) if depth else st.just(True)
    kind = draw(st.sampled_from(["string", "integer", "number", "boolean", "null", "object", "array", "any", "enum", "anyOf", "types"]))
    schema: dict[str, Any] = {} if kind in {"any", "enum", "anyOf", "types"} else {"type": kind}
    match kind:
        case "string":
            schema |= draw(st.fixed_dictionaries({}, optional={"minLength": st.integers(0, 2), "maxLength": st.integers(0, 3)}))
        case "integer" | "number":
            limits = {"minimum": st.integers(-2, 2), "maximum": st.integers(-2, 2), "multipleOf": st.sampled_from([1, 2])}
            schema |= draw(st.fixed_dictionaries({}, optional=limits))
        case "object":
            schema["properties"] = draw(st.dictionaries(st.sampled_from("abc"), inner, max_size=2))
            others = st.booleans() | inner
            required = st.lists(
                st.sampled_from(sorted(schema["properties"]) or ["a"]), unique=True, max_size=2 if schema["properties"] else 0
            )
            schema |= draw(st.fixed_dictionaries({}, optional={"additionalProperties": others, "required": required}))
        case "array":
            schema |= draw(
                st.fixed_dictionaries({}, optional={"items": inner, "maxItems": st.integers(0, 2), "uniqueItems": st.booleans()})
            )
        case "enum":
            schema["enum"] = draw(st.lists(st.sampled_from([1, "a", None, True]), min_size=1, unique_by=repr, max_size=3))
        case "anyOf":
            schema["anyOf"] = draw(st.lists(inner, min_size=1, max_size=2))
        case "types":
            schema["type"] = draw(st.lists(st.sampled_from(["string", "null", "integer"]), min_size=1, unique=True))
    return schema


@given(old=schemas(), new=schemas(), value=VALUES)
@examples(300)
def test_what_was_valid_stays_valid_after_a_compatible_change(old: Any, new: Any, value: Any) -> None:
    if Draft7Validator(old).is_valid(value) and not changes(old, new):
        assert Draft7Validator(new).is_valid(value)
