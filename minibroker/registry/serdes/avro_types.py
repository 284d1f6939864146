"""Avro schemas as trees of types, with names resolved. Attributes that do not change the bytes, such as logical types, are dropped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from minibroker.registry.json_text import read_json
from minibroker.registry.parsed_schema import ReferencedSchema
from minibroker.registry.serdes.errors import SerdesError

PRIMITIVES: Final = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
_NO_DEFAULT: Final = object()


@dataclass(slots=True, eq=False)
class AvroField:
    """A field of a record."""

    name: str
    type: AvroType
    default: Any  #: JSON, as a schema spells it

    @property
    def has_default(self) -> bool:
        """Whether it may be left out."""
        return self.default is not _NO_DEFAULT


@dataclass(slots=True, eq=False)
class AvroType:
    """One type. Which attributes it has depends on its kind."""

    kind: str  #: a primitive, record, enum, fixed, array, map or union
    name: str = ""  #: the full name of a record, an enum or a fixed
    fields: list[AvroField] = field(default_factory=list)
    symbols: list[str] = field(default_factory=list)
    size: int = 0  #: of a fixed
    branches: list[AvroType] = field(default_factory=list)  #: of a union; the only one of an array or map: its elements

    @property
    def element(self) -> AvroType:
        """The type of the elements of an array or map."""
        return self.branches[0]

    @property
    def branch_name(self) -> str:
        """The name that JSON has for it in a union."""
        return self.name or self.kind


def parse_types(text: str, references: Sequence[ReferencedSchema] = ()) -> AvroType:
    """Parse a schema after those that it references. Raises SerdesError."""
    parser = _Parser()
    try:
        for reference in references:
            parser.parse(read_json(reference.text), "")
        return parser.parse(read_json(text), "")
    except SerdesError:
        raise
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise SerdesError(f"its schema is not Avro: {error!r}") from error


class _Parser:
    def __init__(self) -> None:
        self._named: dict[str, AvroType] = {}

    def parse(self, node: Any, namespace: str) -> AvroType:
        if isinstance(node, list):
            return AvroType("union", branches=[self.parse(each, namespace) for each in node])
        if isinstance(node, str):
            return self._find(node, namespace)
        kind = node["type"]
        if not isinstance(kind, str):
            return self.parse(kind, namespace)
        if kind in {"record", "error", "enum", "fixed"}:
            return self._declare(node, kind, namespace)
        if kind == "array":
            return AvroType(kind, branches=[self.parse(node["items"], namespace)])
        if kind == "map":
            return AvroType(kind, branches=[self.parse(node["values"], namespace)])
        return self._find(kind, namespace)

    def _find(self, name: str, namespace: str) -> AvroType:
        if name in PRIMITIVES:
            return AvroType(name)
        for full_name in (name if "." in name or not namespace else f"{namespace}.{name}", name):
            if full_name in self._named:
                return self._named[full_name]
        raise SerdesError(f"its schema does not declare the type {name}")

    def _declare(self, node: dict[str, Any], kind: str, namespace: str) -> AvroType:
        name: str = node["name"]
        if "." in name:
            namespace, _, name = name.rpartition(".")
        elif "namespace" in node:
            namespace = node["namespace"] or ""
        declared = AvroType("record" if kind == "error" else kind, f"{namespace}.{name}" if namespace else name)
        self._named[declared.name] = declared  # before its fields: a type may contain itself
        if kind == "enum":
            declared.symbols = [str(each) for each in node["symbols"]]
        elif kind == "fixed":
            declared.size = int(node["size"])
        else:
            declared.fields = [
                AvroField(str(each["name"]), self.parse(each["type"], namespace), each.get("default", _NO_DEFAULT))
                for each in node["fields"]
            ]
        return declared
