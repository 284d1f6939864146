"""Avro schemas. Avro's Python library checks them; texts and comparisons are as those of its Java library."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Final

from avro.errors import AvroException
from avro.name import Names
from avro.schema import make_avsc_object

from minibroker.registry.avro_compatibility import AvroComparison, Difference
from minibroker.registry.avro_text import NAMED, AvroWriter, Node, declared_types
from minibroker.registry.avro_validity import NAME, is_plainly_valid
from minibroker.registry.errors import invalid_schema
from minibroker.registry.json_text import read_json, write_json
from minibroker.registry.parsed_schema import ParsedSchema, ReferencedSchema

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
            self._known, known_types, referenced = _read_references(references)
            self._normal = AvroWriter(self._known, is_normal=True).write(self._node)
            _check([*referenced, self._normal])
            self._types = declared_types(self._normal) | known_types
            if is_new:
                _check_new(self._normal, "", _Defaults(self._types))
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


def _read_references(references: Sequence[ReferencedSchema]) -> tuple[dict[str, Any], dict[str, Any], list[Node]]:
    """The types that referenced schemas declare, as they are written and in normal form, and the schemas in normal form."""
    known: dict[str, Any] = {}
    types: dict[str, Any] = {}
    normals: list[Node] = []
    for reference in references:
        node = read_json(reference.text)
        normals.append(AvroWriter(known, is_normal=True).write(node))
        known |= declared_types(node)
        types |= declared_types(normals[-1])
    return known, types, normals


def _check(schemas: Sequence[Node]) -> None:
    """Check schemas in normal form, each after those whose types it uses. Raises what Avro's library does.

    The library takes longer than the rest of a registration. It is asked about schemas that are not plainly valid.
    """
    known: set[str] = set()
    if all(is_plainly_valid(each, known) for each in schemas):
        return
    names = Names()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # logical types that the library does not know are kept as attributes
        for each in schemas:
            make_avsc_object(each, names)


def _check_new(node: Node, path: str, defaults: _Defaults) -> None:
    """Raise ValueError for what the library lets pass: a field with an impossible name, or with a default of another type."""
    if isinstance(node, list):
        for branch in node:
            _check_new(branch, path, defaults)
    if not isinstance(node, dict):
        return
    for field in node.get("fields") or () if node["type"] in NAMED else ():
        name = field["name"]
        where = f"{path}.{name}" if path else name
        if not NAME.fullmatch(name):
            raise ValueError(f"Illegal character in: {name}")
        if "default" in field and not defaults.are_valid(field["type"], field["default"]):
            raise ValueError(f"Invalid default for field {where}: {write_json(field['default'])} not a {write_json(field['type'])}")
        _check_new(field["type"], where, defaults)
    if node["type"] in {"array", "map"}:
        _check_new(node["items" if node["type"] == "array" else "values"], path, defaults)


class _Defaults:
    """Tests whether a JSON value is one of a type. Each pair is tested once: unions would double the work with each level of a value."""

    def __init__(self, types: Mapping[str, Node]) -> None:
        self._types = types
        self._known: dict[tuple[int, int], bool] = {}  #: by the ids of a declared type and a value, which live as long as this object

    def are_valid(self, node: Node, value: object) -> bool:
        """Return whether a value is one of a type. Bytes are texts in JSON; a union takes a value of any of its types."""
        if isinstance(node, list):
            return any(self.are_valid(each, value) for each in node)
        declared = self._types.get(node, node) if isinstance(node, str) else node
        if not isinstance(declared, dict) or not isinstance(value, dict | list):
            return self._test(declared, value)
        key = id(declared), id(value)
        if key not in self._known:
            self._known[key] = self._test(declared, value)
        return self._known[key]

    def _test(self, declared: Node, value: object) -> bool:
        kind = declared if isinstance(declared, str) else declared["type"]
        match kind:
            case "null":
                return value is None
            case "boolean":
                return isinstance(value, bool)
            case "int" | "long":
                bits = 31 if kind == "int" else 63
                return isinstance(value, int) and not isinstance(value, bool) and -(1 << bits) <= value < 1 << bits
            case "float" | "double":
                return (isinstance(value, int | float) and not isinstance(value, bool)) or value in ("NaN", "Infinity", "-Infinity")
            case "string" | "bytes" | "enum":
                return isinstance(value, str)  # the Java library does not look for it in the symbols of an enum
            case "fixed":
                return isinstance(value, str) and len(value) == declared["size"]
            case "array":
                return isinstance(value, list) and all(self.are_valid(declared["items"], each) for each in value)
            case "map":
                return isinstance(value, dict) and all(self.are_valid(declared["values"], each) for each in value.values())
        return isinstance(value, dict) and all(
            self.are_valid(field["type"], value[field["name"]]) if field["name"] in value else "default" in field
            for field in declared["fields"]
        )


def _text(difference: Difference) -> str:
    # The texts are formatted once more, with the names of the two sides.
    path, message = difference.path.replace("%", "%%"), difference.message.replace("%", "%%")
    description = _DESCRIPTIONS[difference.kind].format(path=path, message=message)
    return f"{{errorType:'{difference.kind}', description:'{description}', additionalInfo:'{message}'}}"
