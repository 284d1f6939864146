"""Kafka's field tables: the message definitions inside Kafka's jars, cut down to what a schema says.

`kafka_4_3_1_fields.json` holds them, one row a field; columns: path, type, versions, nullable versions, tag, default.
`kafka_3_9_1_fields.json` holds those of the APIs whose oldest versions we serve and Kafka 4 does not know any more (KIP-896).
Write them anew with  python -m tests.schemas.kafka_fields FOLDER_WITH_KAFKA_JARS FOLDER_WITH_KAFKA_3.9.1_JARS
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

TABLES = Path(__file__).with_name("kafka_4_3_1_fields.json")
VERSION = "4.3.1"
JARS = ("kafka-clients", "kafka-metadata", "kafka-group-coordinator", "kafka-transaction-coordinator", "kafka-share-coordinator")
OLD_TABLES = Path(__file__).with_name("kafka_3_9_1_fields.json")
OLD_VERSION = "3.9.1"
OLD_JARS = ("kafka-clients",)
OLD_MESSAGES = frozenset(
    f"{name}{side}"
    for name in ("Produce", "Fetch", "ListOffsets", "DescribeConfigs", "DescribeLogDirs")
    for side in ("Request", "Response")
)
DEFINITION = re.compile(r"common/(message|metadata)/\w+\.json")
LAST_VERSION = 32767


class Range(NamedTuple):
    """Versions from `first` to `last`, both inclusive."""

    first: int
    last: int

    @classmethod
    def parse(cls, text: str | None) -> Range | None:
        """Kafka's notations: "3", "0-12", "5+", "none"."""
        if text in (None, "none", ""):
            return None
        first, _, last = text.partition("-")
        return cls(int(first[:-1]), LAST_VERSION) if text.endswith("+") else cls(int(first), int(last or first))

    def within(self, other: Range | None) -> Range | None:
        """What both have in common."""
        if other is None:
            return None
        both = Range(max(self.first, other.first), min(self.last, other.last))
        return both if both.first <= both.last else None


class KafkaField(NamedTuple):
    """One row of a table; `path` in Kafka's names with dots, `type` in Kafka's words, "struct" for any struct."""

    path: str
    type: str
    versions: Range
    nullable: Range | None
    tag: int | None
    default: str | None  #: as text, None when Kafka states none


class KafkaMessage(NamedTuple):
    """One table."""

    name: str
    key: int | None  #: API key or record id
    kind: str  #: request, response, metadata, data, coordinator-key, coordinator-value, header
    versions: Range  #: from the oldest that a Kafka of ours knows
    unstable: bool  #: the last version is not served
    flexible: Range | None
    fields: list[KafkaField]
    current_since: int  #: first version that Kafka 4.3.1 knows


def read_tables() -> dict[str, KafkaMessage]:
    """The committed tables by the name of the message, the older ones merged in."""
    tables = _read(TABLES)
    return tables | {name: _merged(tables[name], older) for name, older in _read(OLD_TABLES).items()}


def _merged(newer: KafkaMessage, older: KafkaMessage) -> KafkaMessage:
    """The newer table with the versions and fields that only the older one has; what both have must be alike."""
    fields = list(newer.fields)
    known = {field.path: field for field in newer.fields}
    for before, field in zip((None, *older.fields), older.fields, strict=False):
        if field.path not in known:
            place = next(place for place, each in enumerate(fields, 1) if before is None or each.path == before.path)
            fields.insert(place, field)
        else:
            assert (field.type, field.nullable, field.tag) == (known[field.path].type, known[field.path].nullable, known[field.path].tag)
    return newer._replace(versions=Range(older.versions.first, newer.versions.last), fields=fields)


def _read(file: Path) -> dict[str, KafkaMessage]:
    tables = {}
    for name, table in json.loads(file.read_text())["messages"].items():
        versions = Range.parse(table["versions"])
        if versions is None:
            continue
        fields = [
            KafkaField(path, kind, Range.parse(where) or Range(0, -1), Range.parse(nullable), tag, default)
            for path, kind, where, nullable, tag, default in table["fields"]
        ]
        flexible = Range.parse(table["flexible"])
        tables[name] = KafkaMessage(name, table["key"], table["kind"], versions, table["unstable"], flexible, fields, versions.first)
    return tables


def extract(jars: Path) -> dict[str, Any]:
    """The tables of all messages in the jars of Kafka 4.3.1, as they are committed."""
    return _extract(jars, JARS, VERSION)


def extract_old(jars: Path) -> dict[str, Any]:
    """The tables of OLD_MESSAGES in the jars of Kafka 3.9.1, as they are committed."""
    tables = _extract(jars, OLD_JARS, OLD_VERSION)
    return tables | {"messages": {name: table for name, table in tables["messages"].items() if name in OLD_MESSAGES}}


def _extract(jars: Path, names: tuple[str, ...], version: str) -> dict[str, Any]:
    messages, provenance = {}, {}
    for jar in (jars / f"{name}-{version}.jar" for name in names):
        provenance[jar.name] = "sha256:" + hashlib.sha256(jar.read_bytes()).hexdigest()
        with zipfile.ZipFile(jar) as archive:
            for entry in sorted(filter(DEFINITION.fullmatch, archive.namelist())):
                definition = json.loads(re.sub(r"(?m)^\s*//.*$", "", archive.read(entry).decode()))
                messages[definition["name"]] = _table(definition)
    columns = ["path", "type", "versions", "nullable versions", "tag", "default"]
    return {"kafka": version, "jars": provenance, "columns": columns, "messages": dict(sorted(messages.items()))}


def _table(definition: dict[str, Any]) -> dict[str, Any]:
    common = {struct["name"]: struct["fields"] for struct in definition.get("commonStructs", [])}
    return {
        "key": definition.get("apiKey"),
        "kind": definition["type"],
        "versions": definition["validVersions"],
        "unstable": definition.get("latestVersionUnstable", False),
        "flexible": definition.get("flexibleVersions", "none"),
        "fields": list(_rows(definition.get("fields", []), "", common)),
    }


def _rows(fields: list[dict[str, Any]], path: str, common: dict[str, Any]) -> Any:
    for field in fields:
        array, element = ("[]", field["type"][2:]) if field["type"].startswith("[]") else ("", field["type"])
        nested = field.get("fields") or common.get(element)
        versions = field.get("versions") or field["taggedVersions"]
        if "tag" in field and field["taggedVersions"] != versions:
            raise ValueError(f"{path}{field['name']} is tagged in some of its versions only: the table cannot say that")
        stated = field.get("default")  # Kafka's generator takes a null without quotation marks for no default at all
        default = stated if stated is None or isinstance(stated, str) else json.dumps(stated)
        kind = array + ("struct" if nested else element)
        yield [
            path + field["name"],
            kind,
            versions,
            field.get("nullableVersions"),
            field.get("tag"),
            default,
        ]
        yield from _rows(nested or [], f"{path}{field['name']}.", common)


def dump(tables: dict[str, Any]) -> str:
    """One field a line, so that a difference can be read."""
    lines = []
    for name, table in tables["messages"].items():
        head = json.dumps({key: value for key, value in table.items() if key != "fields"})[:-1]
        rows = ",\n".join(f"    {json.dumps(row)}" for row in table["fields"])
        lines.append(f'  {json.dumps(name)}: {head}, "fields": [' + (f"\n{rows}\n  ]}}" if rows else "]}"))
    head = ",\n".join(f'"{key}": {json.dumps(tables[key])}' for key in ("kafka", "jars", "columns"))
    return f'{{{head},\n"messages": {{\n' + ",\n".join(lines) + "\n}}\n"


if __name__ == "__main__":
    TABLES.write_text(dump(extract(Path(sys.argv[1]))))
    OLD_TABLES.write_text(dump(extract_old(Path(sys.argv[2]))))
