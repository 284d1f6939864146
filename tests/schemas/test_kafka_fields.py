"""Our declarations against Kafka's own tables, field for field."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from minibroker.schemas.internal import control_records, coordinator_records, metadata_records
from minibroker.wire.schema import LAST_VERSION, MISSING, NIL_UUID, Field, default_of, fields_of
from tests.schemas.declared import Message, messages, our_name, schema_modules
from tests.schemas.kafka_fields import (
    JARS,
    OLD_JARS,
    OLD_TABLES,
    OLD_VERSION,
    TABLES,
    VERSION,
    KafkaField,
    Range,
    extract,
    extract_old,
    read_tables,
)
from tests.support.failing import failing
from tests.support.java import cache_folder

ZEROES: dict[str, Any] = {"string": "", "bool": False, "float64": 0.0, "bytes": b"", "uuid": NIL_UUID, "records": None}


class Row(NamedTuple):
    """What a declaration says of one field: for both sides in the same words."""

    path: str
    type: str
    versions: Range
    nullable: Range | None
    tag: int | None


def our_rows(struct: type[Any], path: str, around: Range) -> Iterator[tuple[Row, Field]]:
    for field in fields_of(struct):
        versions = Range(field.since, field.until).within(around)
        assert versions is not None, f"{path}{field.name} is in no version"
        nullable = None if field.nullable is None else Range(field.nullable, LAST_VERSION).within(versions)
        yield Row(path + field.name, ("[]" if field.is_array else "") + field.kind, versions, nullable, field.tag), field
        if field.struct is not None:
            yield from our_rows(field.struct, f"{path}{field.name}.", versions)


def kafka_rows(message: Message) -> Iterator[tuple[Row, KafkaField]]:
    around = {"": message.kafka.versions}
    for field in message.kafka.fields:
        path = ".".join(our_name(part) for part in field.path.split("."))
        parent = around.get(path.rpartition(".")[0])
        versions = field.versions.within(parent)
        if versions is not None:  # a field of versions that Kafka 4 no longer knows
            around[path] = versions
            nullable = None if field.nullable is None else field.nullable.within(versions)
            yield Row(path, field.type, versions, nullable, field.tag), field


def kafka_default(field: KafkaField) -> Any:
    """The value of a field that is left out: Kafka's stated one, else the zero of its type."""
    if field.default == "null":
        return None
    if field.type.startswith("[]"):
        return []
    if field.default is None:
        return ZEROES.get(field.type, 0)
    convert = {"string": str, "bool": "true".__eq__, "float64": float, "uuid": uuid.UUID}
    return convert.get(field.type, lambda text: int(text, 0))(field.default)  # type: ignore[operator]  # all take a text


def test_fields_match_kafka() -> None:
    def check(name: str) -> None:
        message = messages()[name]
        ours = [row for row, _ in our_rows(message.struct, "", message.kafka.versions)]
        assert ours == [row for row, _ in kafka_rows(message)]

    assert failing(messages(), check) == {}


def test_defaults_match_kafka() -> None:
    def check(name: str) -> None:
        message = messages()[name]
        for (row, ours), (_, theirs) in zip(our_rows(message.struct, "", message.kafka.versions), kafka_rows(message), strict=True):
            default = default_of(ours)
            if theirs.type == "struct" and theirs.default is None:
                assert default in (MISSING, ours.struct and ours.default is not MISSING and ours.struct()), row.path
            elif default is MISSING:
                assert theirs.default is None, f"Kafka states a default of {row.path}: {theirs.default}"
            else:
                assert (type(default), default) == (type(kafka_default(theirs)), kafka_default(theirs)), row.path

    assert failing(messages(), check) == {}


def test_every_version_bound_has_an_effect() -> None:
    """`since`, `until` and `nullable` are declared only where they have an effect."""

    def check(name: str) -> None:
        message = messages()[name]
        first, last = message.kafka.versions
        for row, field in our_rows(message.struct, "", message.kafka.versions):
            assert field.since == 0 or field.since > first, row.path
            assert field.until == LAST_VERSION or field.until < last, row.path
            assert field.nullable in (None, 0) or field.nullable > max(first, field.since), row.path

    assert failing(messages(), check) == {}


def test_flexible_since_matches_kafka() -> None:
    def check(name: str) -> None:
        message = messages()[name]
        for version in message.versions:
            assert message.flexible(version) == (message.kafka.flexible is not None and version >= message.kafka.flexible.first)

    assert failing(messages(), check) == {}


@pytest.mark.parametrize("module", schema_modules(), ids=lambda module: module.__name__.rpartition(".")[2])
def test_key_and_served_versions(module: Any) -> None:
    tables = {(table.kind, table.key): table for table in read_tables().values()}
    stem = module.__name__.rpartition(".")[2]
    assert int(stem[1:3]) == module.API_KEY
    for kind in ("request", "response"):
        table = tables[kind, module.API_KEY]
        assert table.name in messages()
        unstable = tables["request", module.API_KEY].unstable
        assert (table.versions.first, table.versions.last - unstable) == module.VERSIONS


def test_all_kafka_metadata_records_are_declared() -> None:
    theirs = {(table.key, table.name, table.versions.last) for table in read_tables().values() if table.kind == "metadata"}
    assert {(each.record_id, each.struct.__name__, each.max_version) for each in metadata_records.RECORD_TYPES} == theirs


def test_control_record_versions_match_kafka() -> None:
    tables = read_tables()
    assert [each.type_id for each in control_records.CONTROL_TYPES] == list(range(7))
    for each in control_records.CONTROL_TYPES:
        assert tables[each.struct.__name__].versions == (0, each.max_version)


def test_coordinator_record_types_and_versions_match_kafka() -> None:
    theirs = {
        (table.key, table.kind, name, table.versions.last)
        for name, table in read_tables().items()
        if table.kind in ("coordinator-key", "coordinator-value")
    }
    ours = coordinator_records.ALL_RECORD_TYPES
    keys = {(each.type_id, "coordinator-key", each.key.__name__, 0) for each in ours}
    values = {(each.type_id, "coordinator-value", each.value.__name__, each.max_version) for each in ours}
    assert keys | values == theirs


@pytest.mark.parametrize("version", [VERSION, OLD_VERSION])
def test_tables_match_the_jars(version: str) -> None:
    is_old = version == OLD_VERSION
    jars = cache_folder() / (f"kafka-clients-{version}" if is_old else f"kafka-{version}")
    if not all((jars / f"{jar}-{version}.jar").exists() for jar in (OLD_JARS if is_old else JARS)):
        pytest.skip(f"no jars of Kafka {version} in {jars}; tests of Kafka's tools and of old clients put them there")
    extracted = extract_old(jars) if is_old else extract(jars)
    committed = json.loads((OLD_TABLES if is_old else TABLES).read_text())
    assert committed["messages"] == extracted["messages"]
    assert committed["jars"] == extracted["jars"]
