"""Two other implementations of the protocol, kio and kafka-python: our values in their types, and their bytes.

Both come from Kafka's message definitions by different hands, and neither shares code with us. What a peer cannot do with
a message that it has is listed in `test_peers.py`.
"""

from __future__ import annotations

import datetime as dt
import importlib
import io
import uuid
from collections.abc import Callable, Iterator
from dataclasses import Field as KioField
from dataclasses import fields as kio_fields
from typing import Any, Protocol

from minibroker.wire.schema import NIL_UUID

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


class Peer(Protocol):
    """What the tests need of another implementation."""

    def has(self, name: str, version: int) -> bool:
        """Whether the peer knows this message at this version."""

    def build(self, name: str, version: int, value: Any) -> Any:
        """Our value as the peer's; fails when the two do not have the same fields."""

    def encode(self, theirs: Any, name: str, version: int) -> bytes:
        """The peer's bytes."""

    def decode(self, data: bytes, name: str, version: int) -> Any:
        """The peer's value; every byte must be used."""


def squashed(name: str) -> str:
    """A field's name in a spelling that all agree on."""
    return name.replace("_", "")


def our_field(value: Any, *names: str) -> Any:
    """Our content of a field of theirs."""
    for ours in value.declared_:
        if squashed(ours) in names:
            return getattr(value, ours)
    raise AssertionError(f"{type(value).__name__} has no field {' or '.join(names)}")


class Kio:
    """kio: a dataclass for each version of each message, read by native code and written by Python."""

    def __init__(self) -> None:
        self._index = importlib.import_module("kio.index")
        self._types = importlib.import_module("kio.schema.index")
        self._serial = importlib.import_module("kio.serial")
        self._introspect = importlib.import_module("kio.serial._introspect")
        self._constants = importlib.import_module("kio.static.constants")
        self._errors = importlib.import_module("kio.schema.errors")
        # kio tells apart "k_raft" and "kraft", and has no word for the kind: names without their underscores will do.
        self._names = {squashed(name): name for name in self._types.schema_name_map}

    def _place(self, name: str) -> tuple[str, Any]:
        kinds = self._constants.EntityType
        for ending, kind in (("Request", kinds.request), ("Response", kinds.response)):
            if name.endswith(ending):
                return self._names.get(name.removesuffix(ending).lower(), ""), kind
        return self._names.get(name.lower(), ""), kinds.data

    def _type(self, name: str, version: int) -> Any:
        stem, kind = self._place(name)
        return self._index.load_entity_schema(stem, version, kind)

    def has(self, name: str, version: int) -> bool:
        stem, kind = self._place(name)
        return kind in self._types.schema_name_map.get(stem, {}).get(version, {})

    def build(self, name: str, version: int, value: Any) -> Any:
        return self._entity(self._type(name, version), value)

    def _entity(self, entity: type[Any], value: Any) -> Any:
        return entity(**{field.name: self._field(field, value) for field in kio_fields(entity)})

    def _field(self, field: KioField[Any], value: Any) -> Any:
        name = squashed(field.name)
        ours = our_field(value, name, name + "ms")  # durations and moments have types of their own
        kind = self._introspect.classify_field(field)
        if hasattr(kind.type_, "__flexible__"):
            convert: Callable[[Any], Any] = lambda each: self._entity(kind.type_, each)  # noqa: E731  one of several conversions
        else:
            convert = lambda each: self._primitive(field.metadata["kafka_type"], each)  # noqa: E731
        if ours is None:
            return None
        return tuple(convert(each) for each in ours) if kind.is_array else convert(ours)

    def _primitive(self, kind: str, value: Any) -> Any:
        if kind == "error_code":
            return self._errors.ErrorCode(value)
        if kind in ("timedelta_i32", "timedelta_i64"):
            return dt.timedelta(milliseconds=value)
        if kind == "datetime_i64":
            return None if value == -1 else EPOCH + dt.timedelta(milliseconds=value)
        return None if value == NIL_UUID else value

    def encode(self, theirs: Any, name: str, version: int) -> bytes:
        buffer = io.BytesIO()
        self._serial.entity_writer(type(theirs))(buffer, theirs)
        return buffer.getvalue()

    def decode(self, data: bytes, name: str, version: int) -> Any:
        theirs, position = self._serial.entity_reader(self._type(name, version))(data, 0)
        assert position == len(data)
        return theirs


class KafkaPython:
    """kafka-python 3: one class a message for all versions, built from Kafka's definitions when it is imported.

    Some classes add comfort to `encode` and `decode`; we call those of their base, which stay with the definition.
    """

    MODULES = ("admin", "consumer", "metadata", "producer", "sasl")

    def __init__(self) -> None:
        self._message = importlib.import_module("kafka.protocol.api_message").ApiMessage
        self._types: dict[str, Any] = {}
        for module in self.MODULES:
            self._types |= vars(importlib.import_module(f"kafka.protocol.{module}"))

    def has(self, name: str, version: int) -> bool:
        message = self._types.get(name)
        return message is not None and message.valid_versions[0] <= version <= message.valid_versions[1]

    def build(self, name: str, version: int, value: Any) -> Any:
        message = self._types[name]
        return self._struct(message._struct, message, version, value)

    def _struct(self, struct: Any, data_class: Any, version: int, value: Any) -> Any:
        fields = dict(self._fields(struct, version, value))
        return data_class(version=version, **fields)

    def _fields(self, struct: Any, version: int, value: Any) -> Iterator[tuple[str, Any]]:
        for name, field in struct.fields.items():
            if not field.for_version_q(version):
                continue
            prefixes = (
                ("", "cluster", "topic") if field.type_str == "bitfield" else ("",)
            )  # authorized operations, renamed by them in places
            ours = our_field(value, *(prefix + squashed(name) for prefix in prefixes))
            if ours is None or (field.tagged_field_q(version) and field.is_struct() and ours == type(ours)()):
                yield name, None  # a tagged struct that is left out is None here, whatever its defaults
            elif field.is_struct():
                yield name, self._struct(field, field.data_class, version, ours)
            elif field.is_struct_array():
                yield name, [self._struct(field, field.data_class, version, each) for each in ours]
            else:
                yield name, self._primitive(field.type_str, ours)

    def _primitive(self, kind: str, value: Any) -> Any:
        if kind == "bitfield":
            bits = {bit for bit in range(32) if value >> bit & 1}
            return None if bits == {31} else bits
        return None if isinstance(value, uuid.UUID) and value == NIL_UUID else value

    def encode(self, theirs: Any, name: str, version: int) -> bytes:
        data: bytes = self._message.encode(theirs)
        return data

    def decode(self, data: bytes, name: str, version: int) -> Any:
        message = self._types[name]
        flexible = message.flexible_version_q(version)
        read = message._struct.compiled_decode_from(version, compact=flexible, tagged=flexible, data_class=message)
        _, position = read(memoryview(data), 0)
        assert position == len(data)  # which their own decode() does not look at
        return self._message.decode.__func__(message, data, version=version)
