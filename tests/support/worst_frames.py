"""The frames that cost a broker the most for their size, for each API and version, from the schemas alone.

An array is filled with the smallest elements that the format allows, because each of them becomes objects. A request has several arrays:
`worst_bodies` gives one body for each array that is filled, at each level.

    for body in worst_bodies(k03_metadata, 12, size=1_000_000): ...
    frame = worst_frames(k03_metadata, 12, size=1_000_000)[0]           with the header of a request
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any

from minibroker import schemas as package
from minibroker.wire.api import api_of
from minibroker.wire.header import RequestHeader, encode_request_header, request_header_version
from minibroker.wire.primitives import NUMBER_STRUCTS, UUID_SIZE, length_of
from minibroker.wire.schema import Field, fields_of

_INDEXES = {"partition", "partition_index", "index", "partition_indexes", "producer_id"}

Text = Callable[[], bytes]  #: the content of the next string


def _all_schemas() -> dict[int, ModuleType]:
    stems = sorted(file.stem for folder in package.__path__ for file in Path(folder).glob("k*.py"))
    modules = [import_module(f"{package.__name__}.{stem}") for stem in stems]
    return {module.API_KEY: module for module in modules}


schemas = _all_schemas()


def empty() -> bytes:
    """Every string is empty, so that elements are as small as can be, and all alike."""
    return b""


def distinct() -> Text:
    """Every string is another short one, and every partition's index another: nothing is asked for twice."""
    numbers = count()
    return lambda: b"%x" % next(numbers)


def worst_bodies(schema: ModuleType, version: int, size: int, text: Text = empty) -> Iterator[bytes]:
    """Bodies of about `size` bytes, one for each array of the request that can be filled; none where it has no array."""
    flexible = schema.FLEXIBLE_SINCE is not None and version >= schema.FLEXIBLE_SINCE
    writer = _Writer(version, flexible, text)
    for path in _array_paths(schema.Request, version):
        yield writer.struct(schema.Request, path, size)


def worst_frames(schema: ModuleType, version: int, size: int, text: Text = empty, client_id: str = "worst") -> list[bytes]:
    """The same with the header of a request, without the size in front of it."""
    api = api_of(schema)
    header = RequestHeader(api_key=api.key, api_version=version, correlation_id=7, client_id=client_id)
    encoded = encode_request_header(header, request_header_version(api, version))
    return [encoded + body for body in worst_bodies(schema, version, size, text)]


def _array_paths(struct: type[Any], version: int) -> Iterator[tuple[str, ...]]:
    """The arrays that can be filled: names of the fields that lead to each."""
    for field in _sent(struct, version):
        if field.is_array:
            yield (field.name,)
        if field.struct is not None:
            for path in _array_paths(field.struct, version):
                yield (field.name, *path)


def _sent(struct: type[Any], version: int) -> list[Field]:
    return [field for field in fields_of(struct) if field.tag is None and field.in_version(version)]


class _Writer:
    def __init__(self, version: int, flexible: bool, text: Text) -> None:
        self.version = version
        self.flexible = flexible
        self.text = text
        self.indexes = count()

    def struct(self, struct: type[Any], path: tuple[str, ...] = (), size: int = 0) -> bytes:
        """A struct whose array at `path` takes about `size` bytes; all else is as small as can be."""
        parts = [self.field(field, path[1:] if path and field.name == path[0] else None, size) for field in _sent(struct, self.version)]
        return b"".join(parts) + (b"\0" if self.flexible else b"")

    def field(self, field: Field, path: tuple[str, ...] | None, size: int) -> bytes:
        """`path` is None for a field that is not filled, else what leads on from it."""
        if field.is_array:
            if path is None:
                return length_of(0, compact=self.flexible, wide=True)
            if path:  # one element, which is large
                return length_of(1, compact=self.flexible, wide=True) + self.element(field, path, size)
            elements, total = [], 0
            if self.text is empty:
                element = self.element(field)
                number = size // max(len(element), 1) + 1
                return length_of(number, compact=self.flexible, wide=True) + element * number
            while total < size:
                elements.append(self.element(field))
                total += max(len(elements[-1]), 1)
            return length_of(len(elements), compact=self.flexible, wide=True) + b"".join(elements)
        if field.struct is not None and field.null_in(self.version):
            return b"\xff" if path is None else b"\1" + self.struct(field.struct, path, size)
        if field.name == "acks":
            return NUMBER_STRUCTS[field.kind].pack(1)  # so that there is an answer
        return self.element(field, path or (), size)

    def element(self, field: Field, path: tuple[str, ...] = (), size: int = 0) -> bytes:
        if field.struct is not None:
            return self.struct(field.struct, path, size)
        if (field.name in _INDEXES or (field.name == "partitions" and field.kind == "int32")) and self.text is not empty:
            return NUMBER_STRUCTS[field.kind].pack(next(self.indexes))
        if field.kind in NUMBER_STRUCTS:
            return bytes(NUMBER_STRUCTS[field.kind].size)
        if field.kind == "uuid":
            return bytes(UUID_SIZE)
        content = self.text() if field.kind == "string" else b""
        return length_of(len(content), compact=self.flexible, wide=field.kind != "string") + content
