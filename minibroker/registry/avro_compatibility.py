"""Whether a reader with one Avro schema can read what was written with another one, by the rules of schema resolution.

Written after Avro's Java library, which Confluent's registry asks, so that kinds, paths and messages are
the same. The Python library answers yes or no, but not for `error` types, and mixes up the paths.

    reader     can read what was written as
    long       int
    float      int, long
    double     int, long, float
    string     bytes, and the other way round
    union      each type that one of its types can read; a written union only if this holds for all its types

Source: SchemaCompatibility of Avro 1.12.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

_PROMOTIONS: Final = {
    "long": {"int"},
    "float": {"int", "long"},
    "double": {"int", "long", "float"},
    "bytes": {"string"},
    "string": {"bytes"},
}

Node = Any  #: a schema in normal form: names are full names
Path = tuple[str, ...]


class Difference(NamedTuple):
    """One reason why it cannot be read."""

    kind: str
    path: str
    message: str


class AvroComparison:
    """Compares one reader with one writer. `types` are their named types by full name."""

    def __init__(self, reader_types: Mapping[str, Node], writer_types: Mapping[str, Node]) -> None:
        self._reader_types = reader_types
        self._writer_types = writer_types
        self._known: dict[tuple[str, str], list[Difference]] = {}  #: of pairs of named types; empty while they are compared

    def differences(self, reader: Node, writer: Node, path: Path = ()) -> list[Difference]:
        """All reasons, in the order of the reader's fields."""
        reader, writer = _resolved(reader, self._reader_types), _resolved(writer, self._writer_types)
        if not (_is_named(reader) and _is_named(writer)):
            return [*self._compare(reader, writer, path)]
        pair = (reader["name"], writer["name"])
        if pair not in self._known:
            self._known[pair] = []  # a type that contains itself is compared once
            self._known[pair] = [*self._compare(reader, writer, path)]
        return self._known[pair]

    def _compare(self, reader: Node, writer: Node, path: Path) -> Iterator[Difference]:
        reader_kind, writer_kind = _kind_of(reader), _kind_of(writer)
        if reader_kind != writer_kind and writer_kind == "union":
            for index, branch in enumerate(writer):
                yield from self.differences(reader, branch, (*path, str(index)))
        elif reader_kind == "union":
            yield from self._compare_union(reader, writer, path)
        elif reader_kind != writer_kind:
            if writer_kind not in _PROMOTIONS.get(reader_kind, ()):
                message = f"reader type: {reader_kind.upper()} not compatible with writer type: {writer_kind.upper()}"
                yield _difference("TYPE_MISMATCH", path, message)
        elif reader_kind in {"array", "map"}:
            child = "items" if reader_kind == "array" else "values"
            yield from self.differences(reader[child], writer[child], (*path, child))
        elif _is_named(reader):
            yield from self._compare_named(reader, writer, path)

    def _compare_union(self, reader: Sequence[Node], writer: Node, path: Path) -> Iterator[Difference]:
        is_union = isinstance(writer, list)
        for index, branch in enumerate(writer if is_union else [writer]):
            resolved = _resolved(branch, self._writer_types)
            if all(self.differences(each, resolved, path) for each in reader):
                where = (*path, str(index)) if is_union else path
                yield _difference("MISSING_UNION_BRANCH", where, f"reader union lacking writer type: {_kind_of(resolved).upper()}")

    def _compare_named(self, reader: Node, writer: Node, path: Path) -> Iterator[Difference]:
        if _simple(reader["name"]) != _simple(writer["name"]) and writer["name"] not in reader.get("aliases", ()):
            yield _difference("NAME_MISMATCH", (*path, "name"), f"expected: {writer['name']}")
        match reader["type"]:
            case "fixed":
                if reader["size"] != writer["size"]:
                    yield _difference("FIXED_SIZE_MISMATCH", (*path, "size"), f"expected: {writer['size']}, found: {reader['size']}")
            case "enum":
                yield from _missing_symbols(reader, writer, path)
            case _:
                for index, field in enumerate(reader["fields"]):
                    yield from self._compare_field(field, writer, (*path, "fields", str(index)))

    def _compare_field(self, field: Node, writer: Node, path: Path) -> Iterator[Difference]:
        names = [field["name"], *field.get("aliases", ())]
        written = next((each for name in names for each in writer["fields"] if each["name"] == name), None)
        if written is not None:
            yield from self.differences(field["type"], written["type"], (*path, "type"))
        elif "default" not in field:
            resolved = _resolved(field["type"], self._reader_types)
            if _kind_of(resolved) == "enum" and "default" in resolved:
                yield from self.differences(resolved, writer, (*path, "type"))
            else:
                yield _difference("READER_FIELD_MISSING_DEFAULT_VALUE", path, field["name"])


def _missing_symbols(reader: Node, writer: Node, path: Path) -> Iterator[Difference]:
    missing = sorted(set(writer["symbols"]) - set(reader["symbols"]))
    if missing and reader.get("default") not in reader["symbols"]:
        yield _difference("MISSING_ENUM_SYMBOLS", (*path, "symbols"), f"[{', '.join(missing)}]")


def _difference(kind: str, path: Path, message: str) -> Difference:
    return Difference(kind, "/" + "/".join(path), message)


def _resolved(node: Node, types: Mapping[str, Node]) -> Node:
    """The declaration of a name, or the schema itself."""
    return types.get(node, node) if isinstance(node, str) else node


def _kind_of(node: Node) -> str:
    if isinstance(node, list):
        return "union"
    kind: str = node if isinstance(node, str) else node["type"]
    return "record" if kind == "error" else kind


def _is_named(node: Node) -> bool:
    return isinstance(node, dict) and "name" in node


def _simple(name: str) -> str:
    return name.rpartition(".")[2]
