"""One schema of a registry, ready to decode and to encode. The libraries of Protobuf and JSON Schema are imported when needed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, Protocol

from minibroker.registry.parsed_schema import ReferencedSchema
from minibroker.registry.serdes.avro_reading import read_avro
from minibroker.registry.serdes.avro_types import parse_types
from minibroker.registry.serdes.avro_writing import write_avro
from minibroker.registry.serdes.budget import Budget
from minibroker.registry.serdes.errors import SerdesError
from minibroker.registry.serdes.framing import Framed, FramingError, join
from minibroker.registry.stored_schema import AVRO, JSON, PROTOBUF

PREVIEWED_MAX: Final = 64 * 1024  #: bytes of a Protobuf message of which there is a preview: it is decoded as a whole


Versions = tuple[tuple[str, int], ...]  #: subjects, and a version of each


class RegisteredSchema(NamedTuple):
    """A schema as a registry returns it."""

    schema_id: int
    schema_type: str
    text: str  #: of Protobuf: the encoded descriptor, in base64
    references: tuple[ReferencedSchema, ...] = ()  #: each after those that it references itself
    registered_as: Versions = ()  #: some of them; may be unknown


class Decoded(NamedTuple):
    """A key or value as JSON."""

    value: Any
    is_cut: bool = False  #: a preview that does not have all of it


class Codec(Protocol):
    """Decodes and encodes by one schema."""

    schema: RegisteredSchema

    def decode(self, framed: Framed, preview_bytes: int | None = None) -> Decoded:
        """The JSON of a key or value, or a preview of about `preview_bytes`. Raises SerdesError."""

    def encode(self, value: Any) -> bytes:
        """The key or value with the schema's id before it. Raises SerdesError."""


def codec_of(schema: RegisteredSchema, message: str | None = None) -> Codec:
    """The codec of a schema. `message` names a message of a Protobuf schema to encode, None for the first. Raises SerdesError."""
    if schema.schema_type == AVRO:
        return _AvroCodec(schema)
    if schema.schema_type == JSON:
        return _JsonCodec(schema)
    if schema.schema_type == PROTOBUF:
        return _ProtobufCodec(schema, message)
    raise SerdesError(f"schemas of type {schema.schema_type} are not known")


class _AvroCodec:
    def __init__(self, schema: RegisteredSchema) -> None:
        self.schema = schema
        self._type = parse_types(schema.text, schema.references)

    def decode(self, framed: Framed, preview_bytes: int | None = None) -> Decoded:
        payload = framed.of_others()
        budget = Budget(len(payload), preview_bytes)
        return Decoded(read_avro(payload, self._type, budget), budget.is_cut)

    def encode(self, value: Any) -> bytes:
        return join(self.schema.schema_id, write_avro(value, self._type, Budget(_size_of(value))))


class _JsonCodec:
    def __init__(self, schema: RegisteredSchema) -> None:
        self.schema = schema
        self._validator: Any = None

    def decode(self, framed: Framed, preview_bytes: int | None = None) -> Decoded:
        payload = framed.of_others()
        if preview_bytes is not None and len(payload) > PREVIEWED_MAX:
            raise _too_large(payload)
        return Decoded(_read_json(payload))

    def encode(self, value: Any) -> bytes:
        from minibroker.registry.serdes.json_validator import JsonValidator  # noqa: PLC0415  only encoding needs its libraries

        if self._validator is None:
            self._validator = JsonValidator(self.schema.text, self.schema.references)
        self._validator.check(value)
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        try:
            return join(self.schema.schema_id, text.encode())
        except UnicodeEncodeError:
            raise SerdesError("a string has an unpaired surrogate") from None


class _ProtobufCodec:
    def __init__(self, schema: RegisteredSchema, message: str | None) -> None:
        from minibroker.registry.serdes.protobuf_codec import ProtobufCodec  # noqa: PLC0415  needs a library that others do not

        self.schema = schema
        self._messages = ProtobufCodec(schema.text, schema.references)
        self._indexes: Sequence[int] | None = None if message is None else self._messages.indexes_of(message)

    def decode(self, framed: Framed, preview_bytes: int | None = None) -> Decoded:
        try:
            indexes, payload = framed.of_protobuf()
        except FramingError as error:
            raise SerdesError(str(error)) from error
        if preview_bytes is not None and len(payload) > PREVIEWED_MAX:
            raise _too_large(payload)
        return Decoded(self._messages.decode(payload, indexes))

    def encode(self, value: Any) -> bytes:
        if self._indexes is None:
            self._indexes = self._messages.indexes_of(None)
        return join(self.schema.schema_id, self._messages.encode(value, self._indexes), self._indexes)


def _read_json(payload: bytes) -> Any:
    try:
        return json.loads(payload)
    except (ValueError, RecursionError) as error:
        raise SerdesError(f"it is not JSON: {error}") from error


def _too_large(payload: bytes) -> SerdesError:
    return SerdesError(f"it has {len(payload)} bytes, and a preview has at most {PREVIEWED_MAX}")


def _size_of(value: Any) -> int:
    try:
        return len(json.dumps(value))
    except RecursionError:
        raise SerdesError("too many nested values") from None
