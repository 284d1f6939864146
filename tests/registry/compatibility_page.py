"""docs/compatibility.md: `python -m tests.registry.compatibility_page` writes it, test_compatibility_levels.py compares.

Each row of the tables of changes gets its source, and the levels under which a registry accepts the change.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from tests.registry.avro_changes import AVRO
from tests.registry.test_json_schema import TABLE as JSON
from tests.registry.test_protobuf import PROTO2, PROTO3

PAGE: Final = Path(__file__).parents[2] / "docs" / "compatibility.md"
_CONFLUENT: Final = "https://docs.confluent.io/platform/current/schema-registry/fundamentals"
_JSON_RULES: Final = ("Confluent", f"{_CONFLUENT}/serdes-develop/serdes-json.html#json-schema-compatibility-rules")
_PROTOBUF_RULES: Final = ("Confluent", f"{_CONFLUENT}/serdes-develop/serdes-protobuf.html#protobuf-schema-compatibility-rules")
_PROTO3_GUIDE: Final = ("Protobuf, updating a message type", "https://protobuf.dev/programming-guides/proto3/#updating")
_PROTO2_GUIDE: Final = ("Protobuf, updating a message type", "https://protobuf.dev/programming-guides/proto2/#updating")
_AVRO: Final = "https://avro.apache.org/docs/1.12.0/specification"
_RESOLUTION: Final = ("Avro, schema resolution", f"{_AVRO}/#schema-resolution")

Source = tuple[str, str]  #: its name and address


def _validation(section: str) -> Source:
    return f"JSON Schema, validation {section}", f"https://json-schema.org/draft/2020-12/json-schema-validation#section-{section}"


def _core(section: str) -> Source:
    return f"JSON Schema, core {section}", f"https://json-schema.org/draft/2020-12/json-schema-core#section-{section}"


#: Patterns of the names of changes, and what says that these are compatible or not. The first one that matches counts.
_JSON_SOURCES: Final[dict[str, Source]] = {
    "nothing|.*(open|closed) (object|array)|.*schema of others|.*by a pattern|(object|array) closed": _JSON_RULES,
    "schema of other properties": _core("10.3.2.3"),
    "title": _validation("9.1"),
    "default": _validation("9.2"),
    "id": _core("8.2.1"),
    "minLength": _validation("6.3.2"),
    "maxLength": _validation("6.3.1"),
    "pattern": _validation("6.3.3"),
    "maximum": _validation("6.2.2"),
    "minimum": _validation("6.2.4"),
    "exclusiveMaximum": _validation("6.2.3"),
    "exclusiveMinimum": _validation("6.2.5"),
    "multipleOf": _validation("6.2.1"),
    "enum": _validation("6.1.2"),
    "const": _validation("6.1.3"),
    "maxProperties": _validation("6.5.1"),
    "minProperties": _validation("6.5.2"),
    "property.* required": _validation("6.5.3"),
    "property": _core("10.3.2.1"),
    "dependent schema": _core("10.2.2.4"),
    "dependency|dependentRequired": _validation("6.5.4"),
    "schema of items|type of items": _core("10.3.1.2"),
    "maxItems": _validation("6.4.1"),
    "minItems": _validation("6.4.2"),
    "uniqueItems": _validation("6.4.3"),
    "prefixItems": _core("10.3.1.1"),
    "unevaluatedProperties": _core("11.3"),
    "oneOf": _core("10.2.1.3"),
    "allOf|part of an allOf": _core("10.2.1.1"),
    "not": _core("10.2.1.4"),
    "recursive": _core("8.2.3.1"),
    "any type|no type|type|integer|one type|two types": _validation("6.1.1"),
}
_PROTO3_SOURCES: Final[dict[str, Source]] = {
    "nothing|.*message removed|another message|.*a map|map to|field of an inner|enum|oneof removed|oneof renamed|member": _PROTOBUF_RULES,
    "": _PROTO3_GUIDE,
}
_AVRO_SOURCES: Final[dict[str, Source]] = {
    ".*with an alias": ("Avro, aliases", f"{_AVRO}/#aliases"),
    "doc|other attributes|order of sorting|record that": ("Avro, records", f"{_AVRO}/#schema-record"),
    "logical": ("Avro, logical types", f"{_AVRO}/#logical-types"),
    "": _RESOLUTION,
}
TABLES: Final[dict[str, tuple[Mapping[str, Any], Mapping[str, Source]]]] = {
    "Avro": (AVRO, _AVRO_SOURCES),
    "JSON Schema": (JSON, _JSON_SOURCES),
    "Protobuf, proto3": (PROTO3, _PROTO3_SOURCES),
    "Protobuf, proto2": (PROTO2, {"": _PROTO2_GUIDE}),
}  #: by the headings of the page

BOTH: Final = frozenset({"NONE", "BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE", "FULL", "FULL_TRANSITIVE"})
LEVELS_OF: Final[dict[tuple[bool, bool], frozenset[str]]] = {
    (True, True): BOTH,
    (True, False): frozenset({"NONE", "BACKWARD", "BACKWARD_TRANSITIVE"}),
    (False, True): frozenset({"NONE", "FORWARD", "FORWARD_TRANSITIVE"}),
    (False, False): frozenset({"NONE"}),
}  #: of a change: whether the new schema reads old data, and the old one new data

_HEAD = """# Compatible changes of schemas

These tables show under which compatibility levels the [schema registry](registry.md) accepts a
change of a schema. Tests check each row under each level. The sources are Confluent's documentation
and the specifications of the three languages.

| the change is accepted under | meaning |
| --- | --- |
| all levels | old and new data can be read with either schema |
| BACKWARD | the new schema reads old data; also under BACKWARD_TRANSITIVE and NONE |
| FORWARD | the old schema reads new data; also under FORWARD_TRANSITIVE and NONE |
| NONE | neither schema reads data of the other; the registry accepts the change only without checks |

The levels with `_TRANSITIVE` compare the schema with all versions of the subject, the others with
the latest one. The registry's messages contain the names in the column *differences*.
"""


def source_of(name: str, sources: Mapping[str, Source]) -> Source:
    """The source of a change. Raises LookupError."""
    return next(source for pattern, source in sources.items() if re.match(pattern, name))


def _accepted(row: tuple[Any, Any, list[str], list[str]]) -> str:
    levels = LEVELS_OF[not row[2], not row[3]]
    return "all levels" if levels == BOTH else min(levels, key=lambda level: (level == "NONE", len(level)))


def _differences(row: tuple[Any, Any, list[str], list[str]]) -> str:
    names = dict.fromkeys(each.split(" ")[0] for each in (*row[2], *row[3]))
    return ", ".join(f"`{each}`" for each in names)


def _lines() -> Iterable[str]:
    yield _HEAD
    for heading, (table, sources) in TABLES.items():
        yield f"## {heading}\n\n| change | accepted under | differences | source |\n| --- | --- | --- | --- |\n"
        for name, row in table.items():
            title, address = source_of(name, sources)
            yield f"| {name} | {_accepted(row)} | {_differences(row)} | [{title}]({address}) |\n"


def page() -> str:
    """The page."""
    return "".join(each if each.startswith("|") else f"{each}" if each.startswith("# ") else f"\n{each}" for each in _lines())


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
