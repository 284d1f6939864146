"""The text of an Avro schema as Avro's Java library writes it, and its normal form.

The canonical text keeps everything, in the library's order of attributes. The normal form gives each
type its full name and sorts what has no order, so that schemas that mean the same are equal.

    canonical: {"type":"record","name":N,"namespace":S,"doc":..,"fields":[..],<other attributes>,"aliases":[..]}
    normal:    {"name":"S.N","type":"record","fields":[..],<logical type>,"aliases":[..],"doc":..,<other attributes, sorted>}

Source: Schema.toString and SchemaNormalization of Avro 1.12.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

PRIMITIVES: Final = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
NAMED: Final = frozenset({"record", "error", "enum", "fixed"})
_RESERVED: Final = frozenset({"type", "name", "namespace", "doc", "fields", "items", "values", "symbols", "size", "aliases"})
_FIELD_RESERVED: Final = frozenset({"name", "type", "doc", "default", "order", "aliases"})

Node = Any  #: a schema in JSON


class AvroWriter:
    """Writes one schema.

    `known` are full names whose types are written elsewhere: in a referenced schema. Types in `inline`, by
    full name, are written where they are used first.
    """

    def __init__(self, known: Iterable[str] = (), *, is_normal: bool = False, inline: Mapping[str, Node] | None = None) -> None:
        self._known = set(known)
        self._is_normal = is_normal
        self._inline = inline or {}

    def write(self, node: Node, namespace: str | None = None) -> Node:
        """The schema in JSON with its attributes in order. `namespace` is that of the enclosing type."""
        if isinstance(node, list):
            return [self.write(each, namespace) for each in node]
        if isinstance(node, str):
            return node if node in PRIMITIVES else self._name_in(full_name(node, namespace), namespace)
        kind = node["type"]
        if not isinstance(kind, str):
            raise TypeError(f"No type: {kind!r} is not the name of one")
        if kind in NAMED:
            return self._named(node, kind, namespace)
        others = self._others(node, _RESERVED)
        if kind in {"array", "map"}:
            child = "items" if kind == "array" else "values"
            return {"type": kind, child: self.write(node[child], namespace)} | others
        if kind not in PRIMITIVES:
            return self._name_in(full_name(kind, namespace), namespace)
        return {"type": kind} | others if others else kind

    def _named(self, node: Mapping[str, Any], kind: str, namespace: str | None) -> Node:
        name = full_name(node["name"], node.get("namespace", namespace))
        if name in self._known:
            raise ValueError(f"Can't redefine: {name}")
        self._known.add(name)
        space, _, simple = name.rpartition(".")
        written: dict[str, Any] = {}
        if self._is_normal:
            written |= {"name": name, "type": kind}
        else:
            written |= {"type": kind, "name": simple}
            if space != (namespace or ""):
                written["namespace"] = space
            if "doc" in node:
                written["doc"] = node["doc"]
        reserved = _RESERVED
        if kind == "enum":
            written["symbols"] = node["symbols"]
            if "default" in node and not self._is_normal:
                written["default"] = node["default"]
            reserved |= {"default"}
        elif kind == "fixed":
            written["size"] = node["size"]
        else:
            written["fields"] = [self._field(each, space) for each in node["fields"]]
        return written | self._tail(node, reserved, space)

    def _tail(self, node: Mapping[str, Any], reserved: frozenset[str], space: str) -> dict[str, Any]:
        aliases = node.get("aliases")
        others = self._others(node, reserved)
        if not self._is_normal:
            return others | ({"aliases": aliases} if aliases else {})
        tail: dict[str, Any] = {}
        if aliases:
            tail["aliases"] = sorted(full_name(each, space) for each in aliases)
        if "default" in reserved and "default" in node:
            tail["default"] = node["default"]
        if node.get("doc"):
            tail["doc"] = node["doc"]
        return tail | others

    def _field(self, field: Mapping[str, Any], namespace: str) -> Node:
        written = {"name": field["name"], "type": self.write(field["type"], namespace)}
        if "doc" in field and not self._is_normal:
            written["doc"] = field["doc"]
        if "default" in field:
            written["default"] = field["default"]
        order = field.get("order", "ascending")
        if order != "ascending":
            written["order"] = order
        if field.get("aliases"):
            written["aliases"] = sorted(field["aliases"]) if self._is_normal else field["aliases"]
        if self._is_normal and field.get("doc"):
            written["doc"] = field["doc"]
        return written if field.keys() <= _FIELD_RESERVED else written | self._others(field, _FIELD_RESERVED)

    def _others(self, node: Mapping[str, Any], reserved: frozenset[str]) -> dict[str, Any]:
        if node.keys() <= reserved:
            return {}
        others = {key: value for key, value in node.items() if key not in reserved}
        return dict(sorted(others.items())) if self._is_normal else others

    def _name_in(self, name: str, namespace: str | None) -> Node:
        if name in self._inline and name not in self._known:
            return self.write(self._inline[name], namespace)
        space, _, simple = name.rpartition(".")
        if self._is_normal or space != (namespace or "") or simple in PRIMITIVES:
            return name
        return simple


def full_name(name: str, namespace: str | None) -> str:
    """The name with its namespace. A name with dots has one already."""
    return name if "." in name or not namespace else f"{namespace}.{name}"


def declared_types(node: Node, namespace: str | None = None) -> dict[str, Node]:
    """All types that a schema declares, by full name, each with its name written in full."""
    types: dict[str, Node] = {}
    if isinstance(node, list):
        for each in node:
            types |= declared_types(each, namespace)
    if not isinstance(node, dict):
        return types
    if node.get("type") in NAMED and isinstance(node.get("name"), str):
        name = full_name(node["name"], node.get("namespace", namespace))
        types[name] = {**node, "name": name}
        namespace = name.rpartition(".")[0]
    for child in (node.get("type"), node.get("items"), node.get("values")):
        types |= declared_types(child, namespace)
    for field in node.get("fields") or ():
        types |= declared_types(field.get("type"), namespace) if isinstance(field, dict) else {}
    return types
