"""The text of a Protobuf schema, written from its descriptor: every spelling of a schema has the same text.

Comments are lost. Types have their full names. Custom options, such as `(confluent.field_meta)`, are
written with all that they contain, if `with_options` has found their declarations.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
    ServiceDescriptorProto,
)
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.json_format import MessageToDict
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.text_encoding import CEscape
from google.protobuf.text_format import MessageToString

_SCALARS: Final = {
    FieldDescriptorProto.Type.Value(f"TYPE_{name.upper()}"): name
    for name in (
        "double", "float", "int64", "uint64", "int32", "fixed64", "fixed32", "bool", "string", "bytes", "uint32",
        "sfixed32", "sfixed64", "sint32", "sint64",
    )
}  # fmt: skip
_LABELS: Final = {FieldDescriptorProto.LABEL_REPEATED: "repeated ", FieldDescriptorProto.LABEL_REQUIRED: "required "}
_RANGE_MAX: Final = 536_870_912  #: exclusive end of the range of field numbers
_DESCRIPTOR: Final = "google/protobuf/descriptor.proto"
_ENUM_MAX: Final = (1 << 31) - 1


def proto_text(file: FileDescriptorProto) -> str:
    """The text of a file."""
    return "\n".join(_file_lines(file)) + "\n"


def with_options(file: FileDescriptorProto, files: FileDescriptorSet) -> Any:
    """Return the same file with its custom options, which `files` declare; they are the file and all that it imports."""
    if not any(each.name == _DESCRIPTOR for each in files.file):
        return file  # nothing can extend options without it
    pool = DescriptorPool()
    for each in files.file:
        pool.Add(each)
    kind: Any = GetMessageClass(pool.FindMessageTypeByName("google.protobuf.FileDescriptorProto"))
    return kind.FromString(file.SerializeToString())


def _file_lines(file: FileDescriptorProto) -> Iterator[str]:
    syntax = file.syntax or "proto2"
    yield f'syntax = "{syntax}";' if syntax != "editions" else f'edition = "{file.edition}";'
    if file.package:
        yield f"package {file.package};"
    kinds = dict.fromkeys(file.public_dependency, "public ") | dict.fromkeys(file.weak_dependency, "weak ")
    if file.dependency:
        yield ""
    for index, name in enumerate(file.dependency):
        yield f'import {kinds.get(index, "")}"{name}";'
    options = [*_options(file.options)]
    if options:
        yield ""
    for name, value in options:
        yield f"option {name} = {value};"
    is_proto2 = syntax == "proto2"
    for message in file.message_type:
        yield ""
        yield from _message_lines(message, is_proto2=is_proto2)
    for enum in file.enum_type:
        yield ""
        yield from _enum_lines(enum)
    yield from _extension_lines(file.extension, is_proto2=is_proto2)
    for service in file.service:
        yield ""
        yield from _service_lines(service)


def _message_lines(message: DescriptorProto, *, is_proto2: bool, head: str = "") -> Iterator[str]:
    yield head or f"message {message.name} {{"
    yield from _indented(_message_body(message, is_proto2=is_proto2))
    yield "}"


def _message_body(message: DescriptorProto, *, is_proto2: bool) -> Iterator[str]:
    for name, value in _options(message.options, left_out={"map_entry"}):
        yield f"option {name} = {value};"
    if message.reserved_range or message.reserved_name:
        numbers = [_range(each.start, each.end - 1, _RANGE_MAX - 1) for each in message.reserved_range]
        yield from (f"reserved {text};" for text in (", ".join(numbers), ", ".join(f'"{each}"' for each in message.reserved_name)) if text)
    for extensions in message.extension_range:
        yield f"extensions {_range(extensions.start, extensions.end - 1, _RANGE_MAX - 1)};"
    nested = {each.name: each for each in message.nested_type}
    groups = {each.type_name.rpartition(".")[2] for each in message.field if each.type == FieldDescriptorProto.TYPE_GROUP}
    in_oneofs: dict[int, list[FieldDescriptorProto]] = {}
    for field in message.field:
        if field.HasField("oneof_index") and not field.proto3_optional:
            in_oneofs.setdefault(field.oneof_index, []).append(field)
    for field in message.field:
        members = in_oneofs.get(field.oneof_index, ()) if field.HasField("oneof_index") else ()
        if not members:
            yield from _field_lines(field, nested, is_proto2=is_proto2)
        elif field.number == members[0].number:
            yield f"oneof {message.oneof_decl[field.oneof_index].name} {{"
            yield from _indented(line for each in members for line in _field_lines(each, nested, is_proto2=is_proto2, is_in_oneof=True))
            yield "}"
    yield from _extension_lines(message.extension, is_proto2=is_proto2)
    for inner in message.nested_type:
        if not inner.options.map_entry and inner.name not in groups:
            yield from _message_lines(inner, is_proto2=is_proto2)
    for enum in message.enum_type:
        yield from _enum_lines(enum)


def _field_lines(
    field: FieldDescriptorProto, nested: dict[str, DescriptorProto], *, is_proto2: bool, is_in_oneof: bool = False
) -> Iterator[str]:
    entry = nested.get(field.type_name.rpartition(".")[2])
    if entry is not None and entry.options.map_entry:
        key, value = entry.field
        label, kind = "", f"map<{_type_of(key)}, {_type_of(value)}>"
    else:
        label, kind = _LABELS.get(field.label, "optional " if is_proto2 or field.proto3_optional else ""), _type_of(field)
    label = "" if is_in_oneof else label
    if field.type == FieldDescriptorProto.TYPE_GROUP and entry is not None:
        yield from _message_lines(entry, is_proto2=is_proto2, head=f"{label}group {entry.name} = {field.number} {{")
        return
    options = [*_options(field.options)]
    if field.HasField("default_value"):
        is_text = field.type in {FieldDescriptorProto.TYPE_STRING, FieldDescriptorProto.TYPE_BYTES}
        options.insert(0, ("default", _quoted(field.default_value) if is_text else field.default_value))
    if field.json_name and field.json_name != _json_name(field.name):
        options.append(("json_name", _quoted(field.json_name)))
    shown = f" [{', '.join(f'{name} = {value}' for name, value in options)}]" if options else ""
    yield f"{label}{kind} {field.name} = {field.number}{shown};"


def _extension_lines(fields: Iterable[FieldDescriptorProto], *, is_proto2: bool) -> Iterator[str]:
    for field in fields:
        yield f"extend {field.extendee} {{"
        yield from _indented(_field_lines(field, {}, is_proto2=is_proto2))
        yield "}"


def _enum_lines(enum: EnumDescriptorProto) -> Iterator[str]:
    yield f"enum {enum.name} {{"
    for name, value in _options(enum.options):
        yield f"  option {name} = {value};"
    numbers = [_range(each.start, each.end, _ENUM_MAX) for each in enum.reserved_range]
    for text in (", ".join(numbers), ", ".join(f'"{each}"' for each in enum.reserved_name)):
        if text:
            yield f"  reserved {text};"
    for constant in enum.value:
        options = [*_options(constant.options)]
        shown = f" [{', '.join(f'{name} = {value}' for name, value in options)}]" if options else ""
        yield f"  {constant.name} = {constant.number}{shown};"
    yield "}"


def _service_lines(service: ServiceDescriptorProto) -> Iterator[str]:
    yield f"service {service.name} {{"
    for method in service.method:
        sent = ("stream " if method.client_streaming else "") + method.input_type
        answered = ("stream " if method.server_streaming else "") + method.output_type
        options = [*_options(method.options)]
        body = " {" + " ".join(f"option {name} = {value};" for name, value in options) + "}" if options else ";"
        yield f"  rpc {method.name} ({sent}) returns ({answered}){body}"
    yield "}"


def _options(options: Any, left_out: Iterable[str] = ()) -> Iterator[tuple[str, str]]:
    """Names and values of options, in the order of their numbers."""
    fields = options.ListFields()
    for field, value in fields:
        if field.is_extension:
            for each in value if field.is_repeated else [value]:
                yield f"({field.full_name})", _option_value(field, each)
    known = MessageToDict(options, preserving_proto_field_name=True) if fields else {}
    for field, value in fields:
        if field.name not in left_out and field.message_type is None and not field.is_extension:
            is_bare = field.enum_type is not None or not isinstance(value, str)
            text = str(known[field.name]) if field.name in known else str(value)
            yield field.name, (text.lower() if isinstance(value, bool) else text) if is_bare else _quoted(value)


def _option_value(field: Any, value: Any) -> str:
    if field.message_type is not None:
        return f"{{ {MessageToString(value, as_one_line=True)} }}"
    if field.enum_type is not None:
        return str(field.enum_type.values_by_number[value].name)
    if isinstance(value, bytes):
        return f'"{CEscape(value, as_utf8=False)}"'
    return _quoted(value) if isinstance(value, str) else str(value).lower()


def _type_of(field: FieldDescriptorProto) -> str:
    return _SCALARS.get(field.type) or field.type_name


def _range(first: int, last: int, most: int) -> str:
    return str(first) if first == last else f"{first} to {'max' if last == most else last}"


def _json_name(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(each[:1].upper() + each[1:] for each in others)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _indented(lines: Iterable[str]) -> Iterator[str]:
    return (f"  {line}" for line in lines)
