"""Protobuf messages to JSON and back, by the descriptors that the registry returns.

No generated code is needed, and no compiler, except for Confluent's own files.
JSON is that of Protobuf's own mapping, with the names of fields as the schema spells them.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final

from minibroker.extras import install_command
from minibroker.registry.parsed_schema import ReferencedSchema
from minibroker.registry.protoc import ProtocError, compile_proto, known_files
from minibroker.registry.serdes.errors import SerdesError

try:
    from google.protobuf import json_format
    from google.protobuf.descriptor import Descriptor, FileDescriptor
    from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.message import DecodeError, EncodeError
    from google.protobuf.message_factory import GetMessageClass
except ImportError as error:
    raise SerdesError(f"Protobuf needs {error.name}: {install_command('registry')}") from error

_OWN_FILE: Final = "minibroker_schema.proto"  #: the name of a schema that nothing imports
_WELL_KNOWN: Final = "google/protobuf/"
_MESSAGES_MAX: Final = 10_000


class ProtobufCodec:
    """The messages of one schema."""

    def __init__(self, descriptor: str, references: Sequence[ReferencedSchema]) -> None:
        """Texts are encoded FileDescriptorProtos in base64. Raises SerdesError."""
        self._pool = DescriptorPool()
        self._names: set[str] = set()
        try:
            for reference in references:
                self._add(reference.text, reference.name)
            self._file: FileDescriptor = self._add(descriptor, _OWN_FILE)
        except (TypeError, KeyError, DecodeError) as error:
            raise SerdesError(f"its schema cannot be used: {error}") from error

    def _add(self, text: str, name: str) -> FileDescriptor:
        try:
            file = FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
        except (binascii.Error, ValueError, DecodeError) as error:
            raise SerdesError("the registry does not return Protobuf schemas as descriptors (format=serialized)") from error
        file.name = name
        for imported in file.dependency:
            self._add_known(imported)
        if name not in self._names:
            self._names.add(name)
            self._pool.Add(file)
        return self._pool.FindFileByName(name)

    def _add_known(self, name: str) -> None:
        """Add a file that schemas import without a reference: one of Google's, or of Confluent's, and what it imports."""
        own = known_files([name])
        if name not in own or name in self._names:
            self._add_well_known(name)
            return
        try:
            compiled = FileDescriptorSet.FromString(compile_proto(own, name))
        except ProtocError as error:
            raise SerdesError(f"its schema imports {name}: {error}") from error
        for file in compiled.file:
            if file.name.startswith(_WELL_KNOWN):
                self._add_well_known(file.name)
            elif file.name not in self._names:
                self._names.add(file.name)
                self._pool.Add(file)

    def _add_well_known(self, name: str) -> None:
        """Add one of Google's files that come with the library, and what it imports."""
        word = name.removeprefix(_WELL_KNOWN).removesuffix(".proto")
        if not name.startswith(_WELL_KNOWN) or name in self._names or not word.replace("_", "").isalpha():
            return
        try:
            module = import_module(f"google.protobuf.{word}_pb2")
        except ImportError:
            return  # the pool says what is missing
        file = FileDescriptorProto()
        module.DESCRIPTOR.CopyToProto(file)
        for imported in file.dependency:
            self._add_well_known(imported)
        self._names.add(name)
        self._pool.Add(file)

    def message(self, indexes: Sequence[int]) -> Descriptor:
        """The message at message indexes. Raises SerdesError."""
        found: Any = None
        messages: Any = list(self._file.message_types_by_name.values())
        for index in indexes:
            if not 0 <= index < len(messages):
                raise SerdesError(f"its schema has no message at the indexes {list(indexes)}")
            found = messages[index]
            messages = list(found.nested_types)
        descriptor: Descriptor = found
        return descriptor

    def indexes_of(self, name: str | None) -> tuple[int, ...]:
        """The message indexes of a message by its name, with or without its package; None: the first one. Raises SerdesError."""
        if name is None:
            self.message((0,))
            return (0,)
        todo: list[tuple[tuple[int, ...], Any]] = [((i,), each) for i, each in enumerate(self._file.message_types_by_name.values())]
        names: list[str] = []
        while todo and len(names) < _MESSAGES_MAX:
            indexes, message = todo.pop(0)
            local = message.full_name.removeprefix(f"{self._file.package}.") if self._file.package else message.full_name
            if name in {message.full_name, local}:
                return indexes
            names.append(local)
            todo += [((*indexes, i), each) for i, each in enumerate(message.nested_types)]
        raise SerdesError(f"its schema has no message {name}; it has {', '.join(names[:20]) or 'none'}")

    def decode(self, payload: bytes, indexes: Sequence[int]) -> Any:
        """The JSON of a message. Raises SerdesError."""
        message = GetMessageClass(self.message(indexes))()
        try:
            message.ParseFromString(payload)
            return json_format.MessageToDict(message, preserving_proto_field_name=True, descriptor_pool=self._pool)
        except (DecodeError, json_format.SerializeToJsonError, TypeError, ValueError, RecursionError) as error:
            raise SerdesError(f"it is not a message {message.DESCRIPTOR.full_name}: {error}") from error

    def encode(self, value: Any, indexes: Sequence[int]) -> bytes:
        """The bytes of a message in JSON. Raises SerdesError."""
        message = GetMessageClass(self.message(indexes))()
        if not isinstance(value, dict):
            raise SerdesError(f"it must be an object, message {message.DESCRIPTOR.full_name}")
        try:
            json_format.ParseDict(value, message, descriptor_pool=self._pool)
            return bytes(message.SerializeToString())
        except (json_format.ParseError, EncodeError, TypeError, ValueError, RecursionError) as error:
            raise SerdesError(f"it is not a message {message.DESCRIPTOR.full_name}: {error}") from error
