"""Schemas in files, to register before clients come.

    schemas/orders-value.avsc               the schema of the subject `orders-value`; .avsc, .json or .proto says its type
    schemas/prices-value/1.avsc, 2.avsc     several versions: a folder with the name of the subject, in the order of the numbers
    schemas/orders-value.references.json    what a schema references: [{"name": "Customer", "subject": "customers-value"}]
    schemas/prices-value/2.references.json  the same of one of several versions

A reference without a version is to the newest one. Schemas are registered after those that they reference.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from minibroker.errors import ConfigurationError
from minibroker.registry.errors import RegistryError
from minibroker.registry.requests import SchemaRequest
from minibroker.registry.subjects import check_new_subject, normal_subject

if TYPE_CHECKING:
    from minibroker.registry.registry import Registry

_TYPES: Final = {".avsc": "AVRO", ".json": "JSON", ".proto": "PROTOBUF"}
_REFERENCES: Final = ".references.json"
_SIZE_MAX: Final = 1_000_000  #: bytes of a file; the registry takes schemas of at most 900,000
_FILES_MAX: Final = 10_000

Schemas = Mapping[str, "str | os.PathLike[str]"]


class SchemaFile(NamedTuple):
    """A schema that was read from a file."""

    subject: str
    schema_type: str
    text: str
    references: tuple[dict[str, Any], ...] = ()
    path: str = ""  #: for messages


def read_schema_files(source: Schemas | str | os.PathLike[str]) -> list[SchemaFile]:
    """Read the schemas of a folder, or of files by subject, in the order in which they can be registered.

    Raises:
        ConfigurationError: a file cannot be read, has no known ending, or references a subject that references it.
    """
    if isinstance(source, Mapping):
        return _in_order([_read(subject, Path(path)) for subject, path in source.items()])
    return _in_order(_read_folder(Path(source)))


def _read_folder(folder: Path) -> list[SchemaFile]:
    found: list[SchemaFile] = []
    try:
        entries = sorted(folder.iterdir())
        for entry in entries:
            if entry.is_dir():
                found += [_read(entry.name, path) for path in sorted(_schemas_in(entry.iterdir()), key=_number)]
            elif _is_schema(entry):
                found.append(_read(entry.stem, entry))
            if len(found) > _FILES_MAX:
                raise ConfigurationError(f"schemas: {folder} has more than {_FILES_MAX} files")
    except OSError as error:
        raise ConfigurationError(f"schemas: {folder}: {error.strerror or error}") from error
    if not found:
        raise ConfigurationError(f"schemas: {folder} has no files that end with {', '.join(_TYPES)}")
    return found


def _is_schema(path: Path) -> bool:
    return path.suffix in _TYPES and not path.name.endswith(_REFERENCES) and not path.name.startswith(".")


def _schemas_in(paths: Iterable[Path]) -> list[Path]:
    return [path for path in paths if _is_schema(path)]


def _number(path: Path) -> int:
    if not path.stem.isdecimal():
        raise ConfigurationError(
            f"schemas: {path}: the files of a subject with several versions are numbered: 1{path.suffix}, 2{path.suffix}"
        )
    return int(path.stem)


def _read(subject: str, path: Path) -> SchemaFile:
    schema_type = _TYPES.get(path.suffix)
    if schema_type is None:
        raise ConfigurationError(f"schemas: {path} must end with {', '.join(_TYPES)}")
    text = _text(path)
    beside = path.with_name(path.stem + _REFERENCES)
    references = _references(beside) if beside.exists() else ()
    return SchemaFile(subject, schema_type, text, references, str(path))


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > _SIZE_MAX:
            raise ConfigurationError(f"schemas: {path} is larger than {_SIZE_MAX} bytes")
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"schemas: {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"schemas: {path} is not UTF-8: {error}") from error


def _references(path: Path) -> tuple[dict[str, Any], ...]:
    try:
        found = json.loads(_text(path))
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"schemas: {path} is not JSON: {error}") from error
    if not isinstance(found, list) or not all(_is_reference(each) for each in found):
        raise ConfigurationError(f'schemas: {path} must be a list: [{{"name": NAME, "subject": SUBJECT, "version": NUMBER}}, ...]')
    return tuple(found)


def _is_reference(value: Any) -> bool:
    if not isinstance(value, dict) or not value.keys() <= {"name", "subject", "version"}:
        return False
    return isinstance(value.get("name"), str) and isinstance(value.get("subject"), str) and isinstance(value.get("version", 1), int)


def _in_order(schemas: list[SchemaFile]) -> list[SchemaFile]:
    """Each schema after those that it references, the versions of a subject in their order. Raises ConfigurationError."""
    waiting = schemas
    done: list[SchemaFile] = []
    while waiting:
        later: list[SchemaFile] = []
        blocked = {each.subject for each in waiting}  #: subjects with versions that are not registered yet
        started: set[str] = set()  #: subjects with an earlier version that has to wait
        for schema in waiting:
            others = {each["subject"] for each in schema.references} - {schema.subject}
            if others & blocked or schema.subject in started:
                started.add(schema.subject)
                later.append(schema)
            else:
                done.append(schema)
        if len(later) == len(waiting):
            raise ConfigurationError(f"schemas: these reference each other: {', '.join(each.path for each in later)}")
        waiting = later
    return done


async def register_all(registry: Registry, schemas: Iterable[SchemaFile]) -> None:
    """Register schemas one after the other. Raises ConfigurationError, which names the file."""
    for schema in schemas:
        try:
            await register(registry, schema)
        except RegistryError as error:
            raise ConfigurationError(f"schemas: {schema.path or schema.subject}: {error.message}") from error


async def register(registry: Registry, schema: SchemaFile) -> int:
    """Register one schema, and return its id. Raises RegistryError."""
    check_new_subject(schema.subject)
    references = []
    for each in schema.references:
        if "version" not in each:
            latest = await registry.get_version(each["subject"], None, with_deleted=False, form="")
            each = {**each, "version": latest["version"]}  # noqa: PLW2901  with its version
        references.append(each)
    request = SchemaRequest.read({"schema": schema.text, "schemaType": schema.schema_type, "references": references})
    registered = await registry.register(normal_subject(schema.subject), request, normalize=False, form="")
    schema_id: int = registered["id"]
    return schema_id
