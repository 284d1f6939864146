"""Avro schemas. Avro's Python library checks them; texts and comparisons are as those of its Java library."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from typing import Any, Final

from avro.errors import AvroException
from avro.name import Names
from avro.schema import Schema, make_avsc_object

from minibroker.registry.avro_compatibility import AvroComparison, Difference
from minibroker.registry.avro_text import AvroWriter, declared_types
from minibroker.registry.errors import invalid_schema
from minibroker.registry.json_text import read_json, write_json
from minibroker.registry.parsed_schema import ParsedSchema, ReferencedSchema

_NAME: Final = re.compile("[A-Za-z_][A-Za-z0-9_]*")
_DESCRIPTIONS: Final = {
    "FIXED_SIZE_MISMATCH": (
        "The size of FIXED type field at path '{path}' in the %(reader)s schema does not match with the %(writer)s schema"
    ),
    "TYPE_MISMATCH": "The type (path '{path}') of a field in the %(reader)s schema does not match with the %(writer)s schema",
    "NAME_MISMATCH": "The name of the schema has changed (path '{path}')",
    "MISSING_ENUM_SYMBOLS": "The %(reader)s schema is missing enum symbols '{message}' at path '{path}' in the %(writer)s schema",
    "MISSING_UNION_BRANCH": "The %(reader)s schema is missing a type inside a union field at path '{path}' in the %(writer)s schema",
    "READER_FIELD_MISSING_DEFAULT_VALUE": (
        "The field '{message}' at path '{path}' in the %(reader)s schema has no default value and is missing in the %(writer)s schema"
    ),
}  #: Confluent's words


class AvroSchema:
    """A parsed schema."""

    def __init__(self, text: str, references: Sequence[ReferencedSchema], *, is_new: bool) -> None:
        """Parse it. Raises RegistryError (42201)."""
        try:
            self._node: Any = read_json(text)
            self._known, known_types, names = _read_references(references)
            self._normal = AvroWriter(self._known, is_normal=True).write(self._node)
            schema = _make(self._normal, names)
            self._types = declared_types(self._normal) | known_types
            if is_new:
                _check_new(schema, "", set())
            self.text = write_json(AvroWriter(self._known).write(self._node))  #: canonical, as Avro's Java library prints the schema
        except (AvroException, AttributeError, KeyError, TypeError, ValueError) as error:
            raise invalid_schema(f"Invalid schema of type AVRO, details: {_reason(error)}") from error
        except RecursionError:
            raise invalid_schema("Invalid schema of type AVRO, details: too many nested types") from None
        self.normal_text = write_json(self._normal)
        self.resolved_text = self.normal_text
        if self._known:
            self.resolved_text = write_json(AvroWriter(is_normal=True, inline=self._known).write(self._node))

    def formatted(self, form: str) -> str:
        """The text, with referenced types in it where they are used first for `resolved`."""
        return write_json(AvroWriter(inline=self._known).write(self._node)) if form == "resolved" else self.text

    def equals(self, stored: ParsedSchema) -> bool:
        """Whether it is the same schema: the order of attributes does not count."""
        return self.normal_text == stored.normal_text

    def differences(self, writer: ParsedSchema) -> list[str]:
        """Why a reader with this schema cannot read what `writer` wrote, in Confluent's words."""
        if not isinstance(writer, AvroSchema):
            raise TypeError("schemas of different types are not compared")
        comparison = AvroComparison(self._types, writer._types)  # noqa: SLF001  of the same class
        return [_text(each) for each in comparison.differences(self._normal, writer._normal)]  # noqa: SLF001


def _reason(error: Exception) -> str:
    return f"no {error} attribute" if isinstance(error, KeyError) else str(error)


def _read_references(references: Sequence[ReferencedSchema]) -> tuple[dict[str, Any], dict[str, Any], Names]:
    """The types that referenced schemas declare, as they are written and in normal form, and the library's table of their names."""
    names = Names()
    known: dict[str, Any] = {}
    types: dict[str, Any] = {}
    for reference in references:
        node = read_json(reference.text)
        normal = AvroWriter(known, is_normal=True).write(node)
        _make(normal, names)
        known |= declared_types(node)
        types |= declared_types(normal)
    return known, types, names


def _make(node: Any, names: Names) -> Schema:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # logical types that the library does not know are kept as attributes
        return make_avsc_object(node, names)


def _check_new(schema: Schema, path: str, seen: set[int]) -> None:
    """Raise ValueError for what the library lets pass: a field with an impossible name, or with a default of another type."""
    if id(schema) in seen:
        return
    seen.add(id(schema))
    for field in getattr(schema, "fields", ()):
        where = f"{path}.{field.name}" if path else field.name
        if not _NAME.fullmatch(field.name):
            raise ValueError(f"Illegal character in: {field.name}")
        if field.has_default and not _is_default(field.type, field.default):
            raise ValueError(f"Invalid default for field {where}: {write_json(field.default)} not a {field.type}")
        _check_new(field.type, where, seen)
    for child in (*getattr(schema, "schemas", ()), getattr(schema, "items", None), getattr(schema, "values", None)):
        if isinstance(child, Schema):
            _check_new(child, path, seen)


def _is_default(schema: Schema, value: object) -> bool:
    """Whether a JSON value is one of the type. Bytes are texts in JSON; a union takes a value of its first type."""
    match schema.type:
        case "null":
            return value is None
        case "boolean":
            return isinstance(value, bool)
        case "int" | "long":
            bits = 31 if schema.type == "int" else 63
            return isinstance(value, int) and not isinstance(value, bool) and -(1 << bits) <= value < 1 << bits
        case "float" | "double":
            return (isinstance(value, int | float) and not isinstance(value, bool)) or value in {"NaN", "Infinity", "-Infinity"}
        case "string" | "bytes":
            return isinstance(value, str)
        case "fixed":
            return isinstance(value, str) and len(value) == getattr(schema, "size", 0)
        case "enum":
            return isinstance(value, str)  # the Java library does not look for it in the symbols
        case "array":
            return isinstance(value, list) and all(_is_default(schema.items, each) for each in value)  # type: ignore[attr-defined]
        case "map":
            return isinstance(value, dict) and all(_is_default(schema.values, each) for each in value.values())  # type: ignore[attr-defined]
        case "union":
            return any(_is_default(each, value) for each in schema.schemas)  # type: ignore[attr-defined]
    return isinstance(value, dict) and all(
        _is_default(field.type, value[field.name]) if field.name in value else field.has_default
        for field in schema.fields  # type: ignore[attr-defined]
    )


def _text(difference: Difference) -> str:
    # The texts are formatted once more, with the names of the two sides.
    path, message = difference.path.replace("%", "%%"), difference.message.replace("%", "%%")
    description = _DESCRIPTIONS[difference.kind].format(path=path, message=message)
    return f"{{errorType:'{difference.kind}', description:'{description}', additionalInfo:'{message}'}}"
