"""JSON to Avro's binary encoding.

The JSON is that of `avro_reading.py`. A value of a union may also be written without the name of its
branch; it then has the first branch that it fits. A field with a default may be left out.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn

from minibroker.registry.serdes.avro_types import AvroField, AvroType
from minibroker.registry.serdes.budget import Budget
from minibroker.registry.serdes.errors import LimitError, SerdesError

_BITS: Final = {"int": 31, "long": 63}
_NAMED_NUMBERS: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_SHOWN: Final = 40  #: letters of a wrong value in a message


def write_avro(value: Any, schema: AvroType, budget: Budget) -> bytes:
    """The bytes of a JSON value. Raises SerdesError."""
    try:
        return _Writer(budget).write(schema, value)
    except RecursionError:
        raise LimitError("too many nested values") from None


class _Writer:
    def __init__(self, budget: Budget) -> None:
        self._budget = budget

    def write(self, schema: AvroType, value: Any, *, is_default: bool = False) -> bytes:
        self._budget.enter()
        try:
            return self._write(schema, value, is_default=is_default)
        finally:
            self._budget.leave()

    def _write(self, schema: AvroType, value: Any, *, is_default: bool) -> bytes:
        simple = _SIMPLE.get(schema.kind)
        if simple is not None:
            return simple(schema, value)
        match schema.kind:
            case "record":
                return self._record(schema, value, is_default=is_default)
            case "array":
                return self._array(schema, value, is_default=is_default)
            case "map":
                return self._map(schema, value, is_default=is_default)
        if is_default:
            return _long(0) + self.write(schema.branches[0], value, is_default=True)
        return self._union(schema, value)

    def _record(self, schema: AvroType, value: Any, *, is_default: bool) -> bytes:
        if not isinstance(value, Mapping):
            _fail(f"an object, record {schema.name}", value)
        unknown = value.keys() - {each.name for each in schema.fields}
        if unknown:
            raise SerdesError(f"record {schema.name} has no field {min(unknown)}; it has {', '.join(each.name for each in schema.fields)}")
        return b"".join(self._field(each, value, is_default=is_default) for each in schema.fields)

    def _field(self, field: AvroField, record: Mapping[str, Any], *, is_default: bool) -> bytes:
        try:
            if field.name in record:
                return self.write(field.type, record[field.name], is_default=is_default)
            if field.has_default:
                return self.write(field.type, field.default, is_default=True)
        except SerdesError as error:
            raise error.within(field.name) from None
        raise SerdesError("it is missing, and has no default").within(field.name)

    def _array(self, schema: AvroType, value: Any, *, is_default: bool) -> bytes:
        if not isinstance(value, list):
            _fail("a list", value)
        parts = [_long(len(value))] if value else []
        for index, each in enumerate(value):
            try:
                parts.append(self.write(schema.element, each, is_default=is_default))
            except SerdesError as error:
                raise error.within(f"[{index}]") from None
        return b"".join([*parts, b"\0"])

    def _map(self, schema: AvroType, value: Any, *, is_default: bool) -> bytes:
        if not isinstance(value, Mapping):
            _fail("an object", value)
        parts = [_long(len(value))] if value else []
        for key, each in value.items():
            try:
                parts += [_sized(_encoded(key, "utf-8")), self.write(schema.element, each, is_default=is_default)]
            except SerdesError as error:
                raise error.within(f"[{key!r}]") from None
        return b"".join([*parts, b"\0"])

    def _union(self, schema: AvroType, value: Any) -> bytes:
        names = [each.branch_name for each in schema.branches]
        if isinstance(value, Mapping) and len(value) == 1:
            ((name, content),) = value.items()
            index = _branch_of(name, names)
            if index is not None:
                return _long(index) + self.write(schema.branches[index], content)
        reason: SerdesError | None = None
        for index, branch in enumerate(schema.branches):
            if (branch.kind == "null") != (value is None):
                continue
            try:
                return _long(index) + self.write(branch, value)
            except LimitError:
                raise
            except SerdesError as error:
                reason = error
        if reason is not None and len(names) - ("null" in names) == 1:
            raise reason  # there was one choice: it says best what is wrong
        return _fail(f"one of {', '.join(names)}", value)


def _branch_of(name: str, names: list[str]) -> int | None:
    """The branch of a name, which may lack its namespace if that is clear."""
    if name in names:
        return names.index(name)
    found = [index for index, each in enumerate(names) if each.rpartition(".")[2] == name]
    return found[0] if len(found) == 1 else None


def _null(_schema: AvroType, value: Any) -> bytes:
    return b"" if value is None else _fail("null", value)


def _boolean(_schema: AvroType, value: Any) -> bytes:
    return bytes([value]) if isinstance(value, bool) else _fail("true or false", value)


def _whole_number(schema: AvroType, value: Any) -> bytes:
    bits = _BITS[schema.kind]
    if not isinstance(value, int) or isinstance(value, bool):
        return _fail(f"a whole number ({schema.kind})", value)
    if not -(1 << bits) <= value < 1 << bits:
        return _fail(f"a number of {bits + 1} bits", value)
    return _long(value)


def _number(schema: AvroType, value: Any) -> bytes:
    if isinstance(value, str):
        value = _NAMED_NUMBERS.get(value, value)
    if not isinstance(value, int | float) or isinstance(value, bool):
        return _fail("a number", value)
    try:
        return struct.pack("<f" if schema.kind == "float" else "<d", value)
    except (OverflowError, struct.error):
        return _fail(f"a number that {schema.kind} can hold", value)


def _string(_schema: AvroType, value: Any) -> bytes:
    return _sized(_encoded(value, "utf-8"))


def _bytes(_schema: AvroType, value: Any) -> bytes:
    return _sized(_encoded(value, "latin-1"))


def _fixed(schema: AvroType, value: Any) -> bytes:
    content = _encoded(value, "latin-1")
    return content if len(content) == schema.size else _fail(f"a text of {schema.size} bytes", value)


def _enum(schema: AvroType, value: Any) -> bytes:
    if value not in schema.symbols:
        _fail(f"one of {', '.join(schema.symbols[:20])}", value)
    return _long(schema.symbols.index(value))


def _encoded(value: Any, encoding: str) -> bytes:
    if not isinstance(value, str):
        _fail("a string", value)
    try:
        return str(value).encode(encoding)
    except UnicodeEncodeError:
        return _fail("text in UTF-8" if encoding == "utf-8" else "bytes as characters from U+0000 to U+00FF", value)


def _sized(content: bytes) -> bytes:
    return _long(len(content)) + content


def _long(number: int) -> bytes:
    number = (number << 1) ^ (number >> 63)
    content = bytearray()
    while number >= 0x80:
        content.append(number & 0x7F | 0x80)
        number >>= 7
    content.append(number)
    return bytes(content)


def _fail(wanted: str, value: Any) -> NoReturn:
    """Raise SerdesError."""
    shown = repr(value)[:_SHOWN] if isinstance(value, str | int | float | None) else "a list" if isinstance(value, list) else "an object"
    shown = {"None": "null", "True": "true", "False": "false"}.get(shown, shown)
    raise SerdesError(f"it must be {wanted}, got {shown}")


_SIMPLE: Final[Mapping[str, Callable[[AvroType, Any], bytes]]] = {
    "null": _null,
    "boolean": _boolean,
    "int": _whole_number,
    "long": _whole_number,
    "float": _number,
    "double": _number,
    "string": _string,
    "bytes": _bytes,
    "fixed": _fixed,
    "enum": _enum,
}
