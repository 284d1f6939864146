"""Avro's binary encoding to Avro's JSON encoding.

A value of a union is `{"branch": value}`, or null. Bytes are texts of the characters U+0000 to U+00FF.
NaN and infinities are texts. Logical types are shown as the values that carry them.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from typing import Any, Final

from minibroker.registry.serdes.avro_types import AvroType
from minibroker.registry.serdes.budget import Budget
from minibroker.registry.serdes.errors import SerdesError

_VARINT_MAX: Final = 10  #: bytes of a number of 64 bits


def read_avro(data: bytes, schema: AvroType, budget: Budget) -> Any:
    """The JSON of a value. Bytes after it are ignored, as Avro's own readers do. Raises SerdesError."""
    return _Reader(data, budget).read(schema)


class _Reader:
    def __init__(self, data: bytes, budget: Budget) -> None:
        self._data = data
        self._position = 0
        self._budget = budget

    def read(self, schema: AvroType) -> Any:
        self._budget.enter()
        match schema.kind:
            case "null":
                value: Any = None
                self._budget.spend(4)
            case "boolean":
                value = self._take(1) != b"\0"
                self._budget.spend(5)
            case "int" | "long":
                value = self._long()
                self._budget.spend(len(str(value)))
            case "float":
                value = self._number("<f", 4)
            case "double":
                value = self._number("<d", 8)
            case "bytes" | "string":
                value = self._text(self._long(), is_text=schema.kind == "string")
            case "fixed":
                value = self._text(schema.size, is_text=False)
            case "enum":
                value = self._symbol(schema)
            case "record":
                value = self._record(schema)
            case "array":
                value = self._array(schema)
            case "map":
                value = self._map(schema)
            case _:
                value = self._union(schema)
        self._budget.leave()
        return value

    def _take(self, size: int) -> bytes:
        end = self._position + size
        if size < 0 or end > len(self._data):
            raise SerdesError(f"the bytes end early: {size} are needed, {len(self._data) - self._position} are left")
        content = self._data[self._position : end]
        self._position = end
        return content

    def _long(self) -> int:
        number = shift = 0
        for position in range(self._position, min(len(self._data), self._position + _VARINT_MAX)):
            byte = self._data[position]
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                self._position = position + 1
                return (number >> 1) ^ -(number & 1)
            shift += 7
        raise SerdesError("the bytes end within a number" if len(self._data) - self._position < _VARINT_MAX else "a number is too long")

    def _number(self, form: str, size: int) -> float | str:
        (value,) = struct.unpack(form, self._take(size))
        self._budget.spend(8)
        if math.isfinite(value):
            return float(value)
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"

    def _text(self, size: int, *, is_text: bool) -> str:
        content = self._take(size)
        letters_left = self._budget.letters_left
        if letters_left is not None and size > letters_left:
            content = content[: max(letters_left, 0)]
        self._budget.spend(size + 2)
        if not is_text:
            return content.decode("latin-1")
        try:
            return content.decode(errors="ignore" if len(content) < size else "strict")
        except UnicodeDecodeError:
            raise SerdesError("a string is not UTF-8") from None

    def _symbol(self, schema: AvroType) -> str:
        index = self._long()
        if not 0 <= index < len(schema.symbols):
            raise SerdesError(f"enum {schema.name} has {len(schema.symbols)} symbols, but the value has index {index}")
        self._budget.spend(len(schema.symbols[index]) + 2)
        return schema.symbols[index]

    def _record(self, schema: AvroType) -> dict[str, Any]:
        value: dict[str, Any] = {}
        for field in schema.fields:
            if self._budget.is_cut:
                break
            self._budget.spend(len(field.name) + 6)
            try:
                value[field.name] = self.read(field.type)
            except SerdesError as error:
                raise error.within(field.name) from None
        return value

    def _elements(self) -> Iterator[None]:
        """Read the counts of blocks, and stop at each element; the caller reads it."""
        while count := self._long():
            if count < 0:
                count = -count
                self._long()  # the size of the block in bytes
            for _ in range(count):
                if self._budget.is_cut:
                    return
                yield

    def _array(self, schema: AvroType) -> list[Any]:
        value: list[Any] = []
        for _ in self._elements():
            try:
                value.append(self.read(schema.element))
            except SerdesError as error:
                raise error.within(f"[{len(value)}]") from None
            self._budget.spend(2)
        return value

    def _map(self, schema: AvroType) -> dict[str, Any]:
        value: dict[str, Any] = {}
        for _ in self._elements():
            key = self._text(self._long(), is_text=True)
            try:
                value[key] = self.read(schema.element)
            except SerdesError as error:
                raise error.within(f"[{key!r}]") from None
            self._budget.spend(4)
        return value

    def _union(self, schema: AvroType) -> Any:
        index = self._long()
        if not 0 <= index < len(schema.branches):
            raise SerdesError(f"a union has {len(schema.branches)} branches, but the value has index {index}")
        branch = schema.branches[index]
        value = self.read(branch)
        if branch.kind == "null":
            return None
        self._budget.spend(len(branch.branch_name) + 6)
        return {branch.branch_name: value}
