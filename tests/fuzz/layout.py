"""Where the fields of an encoded request are: found by walking its schema over its bytes."""

from __future__ import annotations

from typing import Any, NamedTuple

from minibroker.wire.codec import is_marked, sent_fields, tagged_fields
from minibroker.wire.primitives import NUMBER_STRUCTS, UUID_SIZE, Reader
from minibroker.wire.schema import Field


class Span(NamedTuple):
    """One value in the bytes of a request, its length or count included where it has one."""

    start: int
    end: int
    kind: str  #: of `minibroker.wire.schema`, or "array", "tags", "mark"
    name: str  #: of the field
    path: str  #: names of the structs above it and its own, joined by dots
    nullable: bool = False
    elements: tuple[tuple[int, int], ...] = ()  #: of an array: where each element is
    count_end: int = 0  #: of an array: where its count ends


class Layout(NamedTuple):
    """The spans of a request, in the order of the bytes; arrays come before their elements."""

    spans: tuple[Span, ...]
    flexible: bool


def layout_of(struct_type: type[Any], data: bytes, position: int, version: int, *, flexible: bool) -> Layout:
    """Find the fields of a valid request.

    Args:
        struct_type: the schema of the request.
        data: a whole frame without its size.
        position: where the body starts.
        version: the request's.
        flexible: whether that version is flexible.
    """
    walk = _Walk(Reader(data, position), version, flexible)
    walk.struct(struct_type, "")
    return Layout(tuple(sorted(walk.spans, key=lambda span: (span.start, -span.end))), flexible)


class _Walk:
    def __init__(self, reader: Reader, version: int, flexible: bool) -> None:
        self._reader = reader
        self._version = version
        self._flexible = flexible
        self.spans: list[Span] = []

    def struct(self, struct_type: type[Any], path: str) -> None:
        for field in sent_fields(struct_type, self._version):
            self._field(self._reader, field, path + field.name)
        if self._flexible:
            self._tags(struct_type, path)

    def _tags(self, struct_type: type[Any], path: str) -> None:
        start = self._reader.position
        known = tagged_fields(struct_type, self._version)
        for _ in range(self._reader.unsigned_varint()):
            tag, size = self._reader.unsigned_varint(), self._reader.unsigned_varint()
            end = self._reader.position + size
            if tag in known and not is_marked(known[tag], self._version):
                self._field(self._reader, known[tag], path + known[tag].name)
            self._reader.position = end
        self.spans.append(Span(start, self._reader.position, "tags", "tags", path + "tags"))

    def _field(self, reader: Reader, field: Field, path: str) -> None:
        start, nullable = reader.position, field.null_in(self._version)
        if field.is_array:
            count = reader.length(compact=self._flexible, wide=True)
            count_end, elements = reader.position, []
            for _ in range(count or 0):
                first = reader.position
                self._element(field, path, nullable=False)
                elements.append((first, reader.position))
            self.spans.append(Span(start, reader.position, "array", field.name, path, nullable, tuple(elements), count_end))
        elif is_marked(field, self._version):
            self.spans.append(Span(start, start + 1, "mark", field.name, path))
            if reader.number("int8") == 1:
                self._element(field, path, nullable=False)
        else:
            self._element(field, path, nullable=nullable)

    def _element(self, field: Field, path: str, *, nullable: bool) -> None:
        reader, start = self._reader, self._reader.position
        if field.struct is not None:
            self.struct(field.struct, path + ".")
            return
        if field.kind in NUMBER_STRUCTS:
            reader.position += NUMBER_STRUCTS[field.kind].size
        elif field.kind == "uuid":
            reader.position += UUID_SIZE
        else:
            reader.take(reader.length(compact=self._flexible, wide=field.kind != "string") or 0)
        self.spans.append(Span(start, reader.position, field.kind, field.name, path, nullable))
