"""Each change of the tables under each compatibility level, with one earlier version and with two."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from minibroker.registry.avro_schema import AvroSchema
from minibroker.registry.compatibility import LEVELS, compared_versions, incompatibilities
from minibroker.registry.json_schema import JsonSchema
from minibroker.registry.parsed_schema import ParsedSchema
from minibroker.registry.protobuf_schema import ProtobufSchema
from minibroker.registry.stored_schema import SchemaContent, StoredSchema
from tests.registry.avro_changes import AVRO
from tests.registry.compatibility_page import BOTH, LEVELS_OF, PAGE, TABLES, page, source_of
from tests.registry.test_avro import differences
from tests.registry.test_json_schema import TABLE as JSON
from tests.registry.test_protobuf import PROTO2, PROTO3
from tests.support.failing import failing

NOT_TRANSITIVE = frozenset({"NONE", "BACKWARD", "FORWARD", "FULL"})


def messages(level: str, new: ParsedSchema, history: Sequence[ParsedSchema]) -> list[str]:
    """Why a schema is refused after these versions."""
    stored = [StoredSchema("s", number, number, SchemaContent("T", "")) for number in range(1, len(history) + 1)]
    compared = compared_versions(level, stored)
    return incompatibilities(level, new, [(each, history[each.version - 1]) for each in compared])


def check_levels(row: Any, accepts: Callable[[str, bool], bool]) -> None:
    """`accepts` says whether a level accepts the change; True: the last version is the new schema already, the old one is before it."""
    expected = LEVELS_OF[not row[2], not row[3]]
    assert {level for level in LEVELS if accepts(level, False)} == expected
    assert {level for level in LEVELS if accepts(level, True)} == expected | NOT_TRANSITIVE


def parse_avro(schema: Any) -> ParsedSchema:
    return AvroSchema(json.dumps(schema), (), is_new=True)


def parse_json(schema: Any) -> ParsedSchema:
    return JsonSchema(schema if isinstance(schema, str) else json.dumps(schema), (), is_new=True)


@pytest.mark.parametrize(("table", "parse"), [(AVRO, parse_avro), (JSON, parse_json)], ids=["Avro", "JSON Schema"])
def test_each_change_has_its_verdict_under_each_level(table: dict[str, Any], parse: Callable[[Any], ParsedSchema]) -> None:
    def check(name: str) -> None:
        old, new = (parse(each) for each in table[name][:2])
        check_levels(table[name], lambda level, with_new: not messages(level, new, [old, new] if with_new else [old]))

    assert failing(table, check) == {}


@pytest.mark.parametrize(("syntax", "table"), [("proto3", PROTO3), ("proto2", PROTO2)])
def test_each_change_of_protobuf_has_its_verdict_under_each_level(syntax: str, table: dict[str, Any]) -> None:
    """All rows are messages of one file, so that protoc runs twice. A message of the registry names the message of its row."""
    texts = [
        f'syntax = "{syntax}"; package t; ' + " ".join(f"message M{index} {{ {row[side]} }}" for index, row in enumerate(table.values()))
        for side in (0, 1)
    ]
    old, new = (ProtobufSchema(each, (), is_new=True) for each in texts)
    refused = {
        (level, with_new): {int(each) for each in re.findall(r"'#/M(\d+)\b", "".join(messages(level, new, history)))}
        for level in LEVELS
        for with_new, history in ((False, [old]), (True, [old, new]))
    }

    def check(name: str) -> None:
        index = [*table].index(name)
        check_levels(table[name], lambda level, with_new: index not in refused[level, with_new])

    assert failing(table, check) == {}


def check_avro_row(name: str) -> None:
    old, new, backward, forward = AVRO[name]
    found = [sorted(f"{kind} {path}" for kind, path, _ in differences(*sides)) for sides in ((new, old), (old, new))]
    assert found == [sorted(backward), sorted(forward)]


def test_each_change_of_avro_has_its_differences_in_both_directions() -> None:
    assert failing(AVRO, check_avro_row) == {}


def test_each_change_has_a_source_and_the_page_is_up_to_date() -> None:
    missing = [name for table, sources in TABLES.values() for name in table if not source_of(name, sources)[1].startswith("https://")]
    assert missing == []
    assert [len(table) for table, _ in TABLES.values()] >= [50, 60, 25, 4]
    assert PAGE.read_text(encoding="utf-8") == page(), "run: python -m tests.registry.compatibility_page"


def test_the_table_of_levels_has_all_of_them() -> None:
    assert {*LEVELS} == BOTH
