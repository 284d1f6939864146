"""Avro schemas, compared with what Avro's Java library prints and decides (tests/golden/captures/avro.py)."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import fastavro
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from minibroker.registry.avro_schema import AvroSchema
from minibroker.registry.errors import RegistryError
from minibroker.registry.parsed_schema import ReferencedSchema
from tests.support.failing import failing
from tests.support.soak import examples

JAVA: dict[str, Any] = json.loads((Path(__file__).parents[1] / "golden" / "avro_java_1.12.json").read_text(encoding="utf-8"))
ADDRESS = ReferencedSchema("Address", '{"type":"record","name":"Address","namespace":"a","fields":[{"name":"street","type":"string"}]}')
PERSON = '{"type":"record","name":"Person","namespace":"a","fields":[{"name":"home","type":"a.Address"},{"name":"work","type":"Address"}]}'


def parse(text: str, *references: ReferencedSchema, is_new: bool = True) -> AvroSchema:
    return AvroSchema(text, references, is_new=is_new)


def differences(reader: Any, writer: Any) -> list[tuple[str, str, str]]:
    """Kind, path and message of each difference."""
    found = parse(json.dumps(reader)).differences(parse(json.dumps(writer)))
    pattern = re.compile(r"{errorType:'(\w+)'.*[( ](?:at )?path '([^']*)'.*additionalInfo:'(.*)'}")
    return sorted(match.groups() for match in map(pattern.fullmatch, found) if match)  # type: ignore[misc]


def check_text(case: list[Any]) -> None:
    schema, answer = case
    try:
        printed = f"ok\t{parse(schema if isinstance(schema, str) else json.dumps(schema)).text}"
    except RegistryError as error:
        printed = "error" if error.error_code == 42201 else repr(error)
    assert printed == answer


def check_comparison(case: list[Any]) -> None:
    _, reader, writer, answer = case
    parts = answer.split("\t")[1:]
    found = differences(reader, writer)
    assert found == sorted(zip(parts[0::3], parts[1::3], parts[2::3], strict=True)) if parts[0] else found == []


def test_texts_are_those_of_the_java_library() -> None:
    assert failing(JAVA["texts"], check_text, lambda case: json.dumps(case[0])) == {}


def test_readers_can_read_what_the_java_library_lets_them_read() -> None:
    assert failing(JAVA["comparisons"], check_comparison, lambda case: case[0]) == {}


def test_a_normal_text_is_the_same_for_all_spellings() -> None:
    one = parse(
        '{"type":"record","name":"R","namespace":"a","zed":1,"able":2,"aliases":["Q","a.P"],"fields":[{"name":"x","type":{"type":"int"}}]}'
    )
    other = parse('{"fields":[{"type":"int","name":"x"}],"able":2,"aliases":["P","a.Q"],"name":"a.R","zed":1,"type":"record"}')
    assert one.text != other.text
    assert one.normal_text == other.normal_text
    assert parse(one.normal_text).normal_text == one.normal_text


def test_references_are_names_in_the_text_and_declarations_in_the_resolved_text() -> None:
    person = parse(PERSON, ADDRESS)
    assert json.loads(person.text)["fields"][0]["type"] == "Address"
    resolved = json.loads(person.formatted("resolved"))
    assert resolved["fields"][0]["type"]["fields"] == [{"name": "street", "type": "string"}]
    assert resolved["fields"][1]["type"] == "Address"
    assert parse(person.formatted("resolved")).resolved_text == person.resolved_text


def test_a_missing_reference_is_an_error() -> None:
    with pytest.raises(RegistryError, match=r"a\.Address"):
        parse(PERSON)


def test_a_change_of_a_referenced_schema_is_a_difference() -> None:
    changed = ReferencedSchema("Address", ADDRESS.text.replace('"string"', '"int"'))
    assert len(parse(PERSON, changed).differences(parse(PERSON, ADDRESS))) == 2  # one for each field


def test_deeply_nested_schemas_are_refused() -> None:
    with pytest.raises(RegistryError, match="nested"):
        parse('{"type":"array","items":' * 5_000 + '"int"' + "}" * 5_000)


PRIMITIVES = st.sampled_from(["int", "long", "float", "double", "string", "bytes", "boolean", "null"])
DEFAULTS = {"int": 1, "long": 2, "float": 1.5, "double": 2.5, "string": "x", "bytes": "y", "boolean": True, "null": None}


@st.composite
def types(draw: st.DrawFn, path: str, depth: int = 2) -> Any:
    match draw(st.integers(0, 5 if depth else 1)):
        case 2:
            return {"type": "array", "items": draw(types(f"{path}_", depth - 1))}
        case 3:
            return {"type": "map", "values": draw(types(f"{path}_", depth - 1))}
        case 4:
            return draw(st.lists(PRIMITIVES, min_size=1, max_size=3, unique=True))
        case 5:
            symbols = draw(st.lists(st.sampled_from("ABC"), min_size=1, unique=True))
            return {"type": "enum", "name": f"E_{path}", "symbols": symbols}
    return draw(PRIMITIVES)


@st.composite
def records(draw: st.DrawFn) -> Any:
    fields = []
    for name in draw(st.lists(st.sampled_from("abcde"), unique=True, max_size=4)):
        kind = draw(types(name))
        field = {"name": name, "type": kind}
        if isinstance(kind, str) and draw(st.booleans()):
            field["default"] = DEFAULTS[kind]
        fields.append(field)
    return {"type": "record", "name": "R", "fields": fields}


@st.composite
def values(draw: st.DrawFn, schema: Any) -> Any:
    if isinstance(schema, list):
        return draw(values(draw(st.sampled_from(schema))))
    kind = schema if isinstance(schema, str) else schema["type"]
    match kind:
        case "record":
            return {each["name"]: draw(values(each["type"])) for each in schema["fields"]}
        case "array":
            return draw(st.lists(values(schema["items"]), max_size=2))
        case "map":
            return draw(st.dictionaries(st.sampled_from("xy"), values(schema["values"]), max_size=2))
        case "enum":
            return draw(st.sampled_from(schema["symbols"]))
        case "bytes":
            return draw(st.sampled_from([b"", b"ab"]))
        case "string":
            return draw(st.sampled_from(["", "text"]))
        case "boolean":
            return draw(st.booleans())
        case "null":
            return None
        case "int" | "long":
            return draw(st.integers(-1000, 1000))
    return draw(st.floats(-8, 8, width=16))


@given(data=st.data())
@examples(200)
def test_what_is_called_compatible_can_be_read(data: st.DataObject) -> None:
    """fastavro decodes with the reader's schema whatever the writer's schema allows."""
    writer, reader = data.draw(records()), data.draw(records())
    assume(not differences(reader, writer))
    value = data.draw(values(writer))
    written = io.BytesIO()
    fastavro.schemaless_writer(written, fastavro.parse_schema(writer), value)
    written.seek(0)
    fastavro.schemaless_reader(written, fastavro.parse_schema(writer), fastavro.parse_schema(reader))


def test_a_default_that_every_branch_of_each_union_has_to_be_tried_for_is_refused_at_once() -> None:
    value: Any = 5
    for _ in range(60):
        value = {"next": value}
    fields = [{"name": "next", "type": ["string", "A", "B"]}]
    second = {"type": "record", "name": "B", "fields": fields}
    first = {"type": "record", "name": "A", "fields": [{"name": "next", "type": ["string", "A", second], "default": value}]}
    with pytest.raises(RegistryError, match="Invalid default for field next"):
        parse(json.dumps(first))
    assert parse(json.dumps(first).replace(": 5}", ': "end"}')).text
