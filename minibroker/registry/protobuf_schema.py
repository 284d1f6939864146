"""Protobuf schemas: texts of .proto files, or encoded FileDescriptorProtos in base64 as some clients send them."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Final

from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError

from minibroker.registry.errors import invalid_schema
from minibroker.registry.parsed_schema import ParsedSchema, ReferencedSchema
from minibroker.registry.protobuf_compatibility import Change, ProtoFile, changes
from minibroker.registry.protobuf_text import proto_text, with_options
from minibroker.registry.protoc import ProtocError, compile_proto, known_files

_MAIN: Final = "minibroker_schema.proto"  #: the name of a schema that nothing imports
_NEW, _OLD = "%(reader)s", "%(writer)s"  #: names of the two sides, which `compatibility.py` fills in
_DESCRIPTIONS: Final = {
    "PACKAGE_CHANGED": f"The package at '{{path}}' in the {_NEW} schema does not match the package in the {_OLD} schema",
    "MESSAGE_REMOVED": f"The {_NEW} schema is missing a MESSAGE type at path '{{path}}' in the {_OLD} schema",
    "FIELD_KIND_CHANGED": f"The type of a field at path '{{path}}' in the {_NEW} schema does not match the {_OLD} schema",
    "FIELD_SCALAR_KIND_CHANGED": (
        f"The kind of a SCALAR field at path '{{path}}' in the {_NEW} schema does not match its kind in the {_OLD} schema"
    ),
    "FIELD_NAMED_TYPE_CHANGED": (
        f"The type of a MESSAGE field at path '{{path}}' in the {_NEW} schema does not match its type in the {_OLD} schema"
    ),
    "FIELD_NUMERIC_LABEL_CHANGED": (
        f"The label for a NUMERIC field at path '{{path}}' in the {_NEW} schema does not match its label in the {_OLD} schema"
    ),
    "REQUIRED_FIELD_ADDED": f"A required field at path '{{path}}' in the {_NEW} schema is missing in the {_OLD} schema",
    "REQUIRED_FIELD_REMOVED": f"The {_NEW} schema is missing a required field at path: '{{path}}' in the {_OLD} schema",
    "ONEOF_FIELD_REMOVED": f"The {_NEW} schema is missing a oneof field at path '{{path}}' in the {_OLD} schema",
    "MULTIPLE_FIELDS_MOVED_TO_ONEOF": (
        f"Multiple fields in the oneof at path '{{path}}' in the {_NEW} schema are outside a oneof in the {_OLD} schema"
    ),
    "FIELD_MOVED_TO_EXISTING_ONEOF": (
        f"A field in the oneof at path '{{path}}' in the {_NEW} schema is outside an existing oneof in the {_OLD} schema"
    ),
}  #: Confluent's words


class ProtobufSchema:
    """A parsed schema."""

    def __init__(self, text: str, references: Sequence[ReferencedSchema], *, is_new: bool) -> None:
        """Parse it. Raises RegistryError (42201)."""
        del is_new  # old schemas were as valid as new ones
        try:
            files = _compile(text, references)
        except (ProtocError, DecodeError, TypeError, KeyError, ValueError) as error:
            raise invalid_schema(f"Invalid schema of type PROTOBUF, details: {error}") from error
        self._file = ProtoFile.of(files, files.file[-1].name)
        self.text = self.normal_text = proto_text(with_options(self._file.file, files))
        self.resolved_text = "\n".join(proto_text(with_options(each, files)) for each in files.file)

    def formatted(self, form: str) -> str:
        """The text; its descriptor in base64 for `serialized`."""
        if form != "serialized":
            return self.text
        return base64.b64encode(self._file.file.SerializeToString(deterministic=True)).decode()

    def equals(self, stored: ParsedSchema) -> bool:
        """Whether it is the same schema: other registries write names of types as they are in the request, and keep comments."""
        return self.text == stored.normal_text

    def differences(self, writer: ParsedSchema) -> list[str]:
        """Why code of this schema cannot read what `writer` wrote, in Confluent's words."""
        if not isinstance(writer, ProtobufSchema):
            raise TypeError("schemas of different types are not compared")
        return [_text(each) for each in changes(writer._file, self._file)]  # noqa: SLF001  of the same class


def _compile(text: str, references: Sequence[ReferencedSchema]) -> FileDescriptorSet:
    """The descriptors of a schema and all that it imports; its own is the last one."""
    imported = {each.name: each.text for each in references}
    file = _decoded(text)
    if file is None:
        return _compile_text(imported, text)
    # protoc checks a descriptor as it checks a text: by the text that is written from it.
    plain = proto_text(file)
    compiled = _compile_text(imported, plain)
    whole = proto_text(with_options(file, compiled))  # now that the files are known that declare the options
    if whole != plain:
        compiled = _compile_text(imported, whole)
    pool = DescriptorPool()
    for each in compiled.file:
        pool.Add(each)
    return compiled


def _compile_text(imported: Mapping[str, str], text: str) -> FileDescriptorSet:
    known = known_files((text, *imported.values()))
    return FileDescriptorSet.FromString(compile_proto({**known, **imported, _MAIN: text}, _MAIN))


def _decoded(text: str) -> FileDescriptorProto | None:
    """The descriptor in a text; None if it is the text of a .proto file, which has characters that base64 has not."""
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    return FileDescriptorProto.FromString(data)


def _text(change: Change) -> str:
    path = change.path.replace("%", "%%")  # the texts are formatted once more, with the names of the two sides
    return f'{{errorType:"{change.kind}", description:"{_DESCRIPTIONS[change.kind].format(path=path)}\'}}'
