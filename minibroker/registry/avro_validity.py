"""A quick look at an Avro schema: is it plainly valid?

Avro's library builds an object for each type and tests names several times, which is a quarter of a
registration. Most schemas are records of plain fields. What this module accepts, the library accepts.
What it does not accept may be valid: the library decides, and says what is wrong.
"""

from __future__ import annotations

import re
from typing import Final

from minibroker.registry.avro_text import NAMED, PRIMITIVES, Node

NAME: Final = re.compile("[A-Za-z_][A-Za-z0-9_]*")  #: of a field or symbol, and between the dots of a full name
_FULL_NAME: Final = re.compile(rf"{NAME.pattern}(?:\.{NAME.pattern})*")
_TYPES: Final = PRIMITIVES | NAMED | {"array", "map", "union", "error_union", "request"}  #: names that no declared type may have
_ORDERS: Final = frozenset({"descending", "ignore"})  #: that a schema in normal form has


def is_plainly_valid(node: Node, known: set[str]) -> bool:
    """Whether a schema in normal form is certainly valid. Adds the full names of its types to `known`, those of earlier schemas."""
    return not (isinstance(node, str) and node not in PRIMITIVES) and _is_valid(node, known)


def _is_valid(node: Node, known: set[str]) -> bool:
    if isinstance(node, str):
        return node in PRIMITIVES or node in known
    if isinstance(node, list):
        return _is_valid_union(node, known)
    kind = node["type"]
    if kind in PRIMITIVES:
        return isinstance(node.get("logicalType", ""), str)
    if "logicalType" in node:
        return False
    if kind in {"array", "map"}:
        return _is_valid(node["items" if kind == "array" else "values"], known)
    return kind in NAMED and _is_new_name(node["name"], known) and _is_valid_named(node, kind, known)


def _is_valid_union(branches: list[Node], known: set[str]) -> bool:
    """Whether a union has each type once, except named ones."""
    kinds: list[str] = []
    for branch in branches:
        kind = branch if isinstance(branch, str) else "union" if isinstance(branch, list) else branch["type"]
        if kind == "union" or kind in kinds or not _is_valid(branch, known):
            return False
        if kind not in NAMED:
            kinds.append(kind)
    return True


def _is_new_name(name: object, known: set[str]) -> bool:
    """Add a name to those that are known. The library reads one without a namespace differently within a namespace."""
    if not isinstance(name, str) or name in known or name in _TYPES or not _FULL_NAME.fullmatch(name):
        return False
    if "." not in name and any("." in each for each in known):
        return False
    known.add(name)
    return True


def _is_valid_named(node: Node, kind: str, known: set[str]) -> bool:
    if kind == "fixed":
        return type(node["size"]) is int and node["size"] > 0
    if kind == "enum":
        symbols = node["symbols"]
        if not isinstance(symbols, list) or not all(isinstance(each, str) and NAME.fullmatch(each) for each in symbols):
            return False
        return len({*symbols}) == len(symbols) and ("default" not in node or node["default"] in symbols)
    names: set[str] = set()
    for field in node["fields"]:
        name = field["name"]
        if not isinstance(name, str) or name in names or not NAME.fullmatch(name) or field.get("order", "ignore") not in _ORDERS:
            return False
        names.add(name)
        if not _is_valid(field["type"], known):
            return False
    return True
