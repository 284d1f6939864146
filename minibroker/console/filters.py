"""What a visitor looks for in records: substrings, the value at a JSON path, and a range of time. There is no code and no pattern.

text        in the key, the value or a header, as bytes of UTF-8
key         the whole key
json        $.user.id            the path exists
            $.user.id = 5        also !=, <, >, and ~ for "contains"; the value is JSON, or else a text
            $.items[0].name = tea
            The value may name a schema before its JSON, as those of JSON Schema do. Values of Avro and Protobuf are decoded, if the
            filter has their schema.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from minibroker.records.record import Record
from minibroker.registry.serdes.framing import Framed, FramingError, Header, split

if TYPE_CHECKING:
    from minibroker.registry.serdes.codecs import Codec, RegisteredSchema

TEXT_MAX: Final = 1_000  #: letters of a filter
_STEPS_MAX: Final = 20  #: of a path
_MISSING: Final = object()
SCHEMAS_MAX: Final = 20  #: of the values that one search decodes; it takes those of further schemas for JSON
SCHEMA_LETTERS_MAX: Final = 1_000_000  #: of their texts together: each turn of a search sends them to its process
DECODED_MAX: Final = 64 * 1024  #: bytes of a value of Avro or Protobuf that is decoded to be compared
#: bytes that name the schema of a value, by the first of them: an id of 4 bytes, or a GUID. JSON starts with neither
_SCHEMA_SIZES: Final = {b"\0": 5, b"\1": 17}
_OPERATORS: Final = ("!=", "=", "<", ">", "~")


class FilterError(ValueError):
    """A filter that cannot be understood. The message is for the visitor."""


class UnknownSchemaError(LookupError):
    """A value names a schema that the filter has not been asked about."""

    def __init__(self, schema_id: int | str) -> None:
        super().__init__(f"schema {schema_id}")
        self.schema_id = schema_id


class JsonPath(NamedTuple):
    """A path, and what the value there must be."""

    steps: tuple[str | int, ...]
    operator: str = ""  #: empty: the path has to exist
    wanted: Any = None
    #: of Avro and Protobuf by id or GUID; an id with None: its values are not decoded. None as a whole: there is no registry
    schemas: Mapping[int | str, RegisteredSchema | None] | None = None

    def matches(self, content: bytes | None, headers: Iterable[Header] = ()) -> bool:
        """Return whether a value has such a value at the path. Raises UnknownSchemaError."""
        if content is None:
            return False
        try:
            found = self._value_of(content, headers)
        except (ValueError, RecursionError):
            return False
        for step in self.steps:
            found = _step(found, step)
            if found is _MISSING:
                return False
        return not self.operator or _COMPARE[self.operator](found, self.wanted)

    def _value_of(self, content: bytes, headers: Iterable[Header]) -> Any:
        """Return a value as JSON. Raises ValueError, UnknownSchemaError."""
        framed = None if self.schemas is None else _framed(content, headers)
        if framed is not None and self.schemas is not None:
            if framed.schema_id not in self.schemas and len(self.schemas) < SCHEMAS_MAX:
                raise UnknownSchemaError(framed.schema_id)
            schema = self.schemas.get(framed.schema_id)
            if schema is not None:
                if len(content) > DECODED_MAX:
                    raise ValueError(f"a value of {len(content)} bytes is not decoded")
                return _codec_of(schema).decode(framed).value
        return json.loads(content[_SCHEMA_SIZES.get(content[:1], 0) :])


def _framed(content: bytes, headers: Iterable[Header]) -> Framed | None:
    try:
        return split(content, headers)
    except FramingError:
        return None


@lru_cache(maxsize=SCHEMAS_MAX)
def _codec_of(schema: RegisteredSchema) -> Codec:
    from minibroker.registry.serdes.codecs import codec_of  # noqa: PLC0415  a search for JSON does not wait for its import

    return codec_of(schema)


def _step(value: Any, step: str | int) -> Any:
    if isinstance(step, str):
        return value.get(step, _MISSING) if isinstance(value, dict) else _MISSING
    return value[step] if isinstance(value, list) and step < len(value) else _MISSING


def _ordered(one: Any, other: Any, compare: Callable[[Any, Any], bool]) -> bool:
    numbers = isinstance(one, int | float) and isinstance(other, int | float)
    return (numbers or (isinstance(one, str) and isinstance(other, str))) and compare(one, other)


_PIECE_BYTES: Final = 32 * 1024  #: 10 us

_COMPARE: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "=": lambda found, wanted: found == wanted or (isinstance(found, str) and found == str(wanted)),
    "!=": lambda found, wanted: found != wanted and not (isinstance(found, str) and found == str(wanted)),
    "<": lambda found, wanted: _ordered(found, wanted, lambda one, other: one < other),
    ">": lambda found, wanted: _ordered(found, wanted, lambda one, other: one > other),
    "~": lambda found, wanted: str(wanted) in (found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)),
}


def parse_json_path(text: str) -> JsonPath:
    """Parse `$.a.b[0] = 5`. Raises FilterError."""
    if len(text) > TEXT_MAX:
        raise FilterError(f"a JSON path must have at most {TEXT_MAX} characters, got {len(text)}")
    path, operator, wanted = _divide(text.strip())
    if not path.startswith("$"):
        raise FilterError(f"a JSON path starts with $, such as $.user.id = 5, got {path[:50]!r}")
    steps = tuple(_steps(path[1:]))
    if len(steps) > _STEPS_MAX:
        raise FilterError(f"a JSON path must have at most {_STEPS_MAX} steps, got {len(steps)}")
    return JsonPath(steps, operator, _value(wanted) if operator else None)


def _divide(text: str) -> tuple[str, str, str]:
    """Return path, operator and value. An operator inside brackets is a part of a name."""
    depth = 0
    for position, letter in enumerate(text):
        depth += (letter == "[") - (letter == "]")
        if depth == 0:
            for operator in _OPERATORS:
                if text.startswith(operator, position):
                    return text[:position].strip(), operator, text[position + len(operator) :].strip()
    return text, "", ""


def _steps(path: str) -> list[str | int]:
    steps: list[str | int] = []
    rest = path
    while rest:
        if rest.startswith("."):
            end = min((found for mark in ".[" if (found := rest.find(mark, 1)) > 0), default=len(rest))
            name, rest = rest[1:end], rest[end:]
            if not name:
                raise FilterError("a name is missing after a dot of the JSON path")
            steps.append(name)
        elif rest.startswith("[") and "]" in rest:
            inner, _, rest = rest[1:].partition("]")
            quoted = inner[:1] in {"'", '"'} and inner[-1:] == inner[:1] and len(inner) > 1
            if not quoted and not inner.isdecimal():
                raise FilterError(f"[{inner[:50]}] must be a number of at least 0, or a name in quotes")
            steps.append(inner[1:-1] if quoted else int(inner[:9]))
        else:
            raise FilterError(f"a JSON path continues with a dot or a bracket, got {rest[:50]!r}")
    return steps


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text.strip("'")


def _is_in(wanted: bytes, payload: memoryview) -> bool:
    """Search piece by piece: the search of one piece keeps the interpreter's lock from the loop."""
    step = _PIECE_BYTES
    return any(wanted in bytes(payload[start : start + step + len(wanted) - 1]) for start in range(0, len(payload), step))


class Filter(NamedTuple):
    """What records must have; an empty field allows everything."""

    text: str = ""
    key: str | None = None  #: the whole key
    json_path: JsonPath | None = None
    from_ms: int | None = None  #: timestamp, inclusive
    until_ms: int | None = None  #: timestamp, exclusive

    @property
    def is_empty(self) -> bool:
        """Whether every record matches."""
        return self == Filter()

    def may_be_in(self, payload: memoryview) -> bool:
        """Return whether the uncompressed records of a batch may have a match. Fast, and True in some cases without one."""
        return all(not wanted or _is_in(wanted.encode(), payload) for wanted in (self.text, self.key))

    def matches(self, record: Record) -> bool:
        """Return whether a record matches. Raises UnknownSchemaError."""
        if self.from_ms is not None and record.timestamp < self.from_ms:
            return False
        if self.until_ms is not None and record.timestamp >= self.until_ms:
            return False
        if self.key is not None and record.key != self.key.encode():
            return False
        if self.text:
            wanted = self.text.encode()
            parts = (record.key, record.value, *(part for name, content in record.headers for part in (name.encode(), content)))
            if not any(part is not None and wanted in part for part in parts):
                return False
        return self.json_path is None or self.json_path.matches(record.value, record.headers)

    def with_schema(self, schema_id: int | str, schema: RegisteredSchema | None) -> Filter:
        """Return a filter that knows one more schema; None: its values are not decoded."""
        path = self.json_path
        if path is None:
            return self
        known = path.schemas or {}
        letters = sum(_letters(each) for each in (*known.values(), schema))
        return self._replace(json_path=path._replace(schemas={**known, schema_id: schema if letters <= SCHEMA_LETTERS_MAX else None}))


def _letters(schema: RegisteredSchema | None) -> int:
    return 0 if schema is None else len(schema.text) + sum(len(each.text) for each in schema.references)
