"""Which changes of a Protobuf schema let new code read old data.

Fields are compared by number, types by name. Only changes that are not compatible are returned:

    package              changed
    message              removed
    field                another kind (scalar, message, map), another group of scalars, another message;
                         a numeric one with another label; a required one added or removed
    member of a oneof    removed, unless the whole oneof is
    oneof                fields that could be set together before are in one oneof now

Scalars of one group have the same bytes: int32, int64, uint32, uint64, bool and enums; sint32 and
sint64; string and bytes; fixed32 and sfixed32; fixed64 and sfixed64.

Source: Schema Registry's documentation, "Protobuf compatibility rules", and the language guide,
"Updating a message type".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet

_MESSAGE: Final = FieldDescriptorProto.TYPE_MESSAGE
_GROUP: Final = FieldDescriptorProto.TYPE_GROUP
_SCALAR_GROUPS: Final = {
    FieldDescriptorProto.Type.Value(f"TYPE_{name.upper()}"): group
    for group, names in {
        "number": ("int32", "int64", "uint32", "uint64", "bool", "enum"),
        "signed": ("sint32", "sint64"),
        "text": ("string", "bytes"),
        "fixed32": ("fixed32", "sfixed32"),
        "fixed64": ("fixed64", "sfixed64"),
        "float": ("float",),
        "double": ("double",),
    }.items()
    for name in names
}


class Change(NamedTuple):
    """A change that is not compatible."""

    kind: str
    path: str


class ProtoFile(NamedTuple):
    """A file with the messages that it declares and imports, by full name."""

    file: FileDescriptorProto
    messages: Mapping[str, DescriptorProto]
    packages: Mapping[str, str]  #: of the file that declares each message
    own: frozenset[str]  #: the names of messages in the file itself

    @classmethod
    def of(cls, files: FileDescriptorSet, main: str) -> ProtoFile:
        """The file of this name, with all others."""
        messages: dict[str, DescriptorProto] = {}
        packages: dict[str, str] = {}
        for file in files.file:
            for name, message in _messages_in(f".{file.package}" if file.package else "", file.message_type):
                messages[name] = message
                packages[name] = file.package
        own = next(each for each in files.file if each.name == main)
        names = frozenset(name for name, _ in _messages_in(f".{own.package}" if own.package else "", own.message_type))
        return cls(own, messages, packages, names)

    def local(self, full_name: str) -> str:
        """A name without the package of the file that declares it."""
        package = self.packages[full_name]
        return full_name.removeprefix(f".{package}." if package else ".")


def _messages_in(scope: str, messages: Iterable[DescriptorProto]) -> Iterator[tuple[str, DescriptorProto]]:
    for message in messages:
        name = f"{scope}.{message.name}"
        yield name, message
        yield from _messages_in(name, message.nested_type)


def changes(old: ProtoFile, new: ProtoFile) -> list[Change]:
    """All changes that are not compatible."""
    return [Change(each.kind, f"#/{each.path}") for each in _Comparison(old, new).all()]


class _Comparison:
    def __init__(self, old: ProtoFile, new: ProtoFile) -> None:
        self._old = old
        self._new = new
        self._compared: set[tuple[str, str]] = set()  #: imported messages, which may contain themselves

    def all(self) -> Iterator[Change]:
        if self._old.file.package != self._new.file.package:
            yield Change("PACKAGE_CHANGED", "")
        new_names = {self._new.local(name): name for name in self._new.own}
        for name in sorted(self._old.own):
            message, local = self._old.messages[name], self._old.local(name)
            if message.options.map_entry:
                continue
            if local not in new_names:
                yield Change("MESSAGE_REMOVED", local)
            else:
                yield from self._messages(message, self._new.messages[new_names[local]], local)

    def _messages(self, old: DescriptorProto, new: DescriptorProto, path: str) -> Iterator[Change]:
        old_fields, new_fields = {each.number: each for each in old.field}, {each.number: each for each in new.field}
        old_oneofs, new_oneofs = _oneofs(old), _oneofs(new)
        yield from _joined_fields(old_fields, old_oneofs, new, new_oneofs, path)
        surviving = {oneof for number, oneof in old_oneofs.items() if number in new_fields} | set(new_oneofs.values())
        for number in sorted(old_fields.keys() | new_fields.keys()):
            before, after = old_fields.get(number), new_fields.get(number)
            oneof = new_oneofs.get(number) or old_oneofs.get(number)
            where = f"{path}/{oneof}/{number}" if oneof else f"{path}/{number}"
            if before is None:
                if after is not None and after.label == FieldDescriptorProto.LABEL_REQUIRED:
                    yield Change("REQUIRED_FIELD_ADDED", where)
            elif after is None:
                if number in old_oneofs:
                    if old_oneofs[number] in surviving:
                        yield Change("ONEOF_FIELD_REMOVED", where)
                elif before.label == FieldDescriptorProto.LABEL_REQUIRED:
                    yield Change("REQUIRED_FIELD_REMOVED", where)
            else:
                yield from self._fields(before, after, where)

    def _fields(self, old: FieldDescriptorProto, new: FieldDescriptorProto, path: str, *, has_labels: bool = True) -> Iterator[Change]:
        kinds = [self._kind(self._old, old), self._kind(self._new, new)]
        if kinds[0] != kinds[1]:
            yield Change("FIELD_KIND_CHANGED", path)
        elif kinds[0] == "scalar":
            groups = _SCALAR_GROUPS[old.type], _SCALAR_GROUPS[new.type]
            if groups[0] != groups[1]:
                yield Change("FIELD_SCALAR_KIND_CHANGED", path)
            elif has_labels and groups[0] != "text":
                labels = _label(old, self._old.file), _label(new, self._new.file)
                if None not in labels and labels[0] != labels[1]:
                    yield Change("FIELD_NUMERIC_LABEL_CHANGED", path)
        elif kinds[0] == "map":
            for before, after in zip(self._old.messages[old.type_name].field, self._new.messages[new.type_name].field, strict=True):
                yield from self._fields(before, after, path, has_labels=False)
        elif self._old.local(old.type_name) != self._new.local(new.type_name):
            yield Change("FIELD_NAMED_TYPE_CHANGED", path)
        else:
            yield from self._imported(old.type_name, new.type_name, path)

    def _imported(self, old: str, new: str, path: str) -> Iterator[Change]:
        """Compare messages of other files; those of the files themselves are compared anyway."""
        if (old in self._old.own and new in self._new.own) or (old, new) in self._compared:
            return
        self._compared.add((old, new))
        found = [*self._messages(self._old.messages[old], self._new.messages[new], path)]
        if found:
            yield from found
            yield Change("FIELD_NAMED_TYPE_CHANGED", path)

    @staticmethod
    def _kind(side: ProtoFile, field: FieldDescriptorProto) -> str:
        if field.type not in {_MESSAGE, _GROUP}:
            return "scalar"
        return "map" if side.messages[field.type_name].options.map_entry else "message"


def _oneofs(message: DescriptorProto) -> dict[int, str]:
    """The oneof of each field that is in one; `optional` of proto3 is not one."""
    return {
        each.number: message.oneof_decl[each.oneof_index].name
        for each in message.field
        if each.HasField("oneof_index") and not each.proto3_optional
    }


def _joined_fields(
    old_fields: Mapping[int, FieldDescriptorProto],
    old_oneofs: Mapping[int, str],
    new: DescriptorProto,
    new_oneofs: Mapping[int, str],
    path: str,
) -> Iterator[Change]:
    """Oneofs with fields that could be set together before."""
    for oneof in dict.fromkeys(new_oneofs.values()):
        known = [each.number for each in new.field if new_oneofs.get(each.number) == oneof and each.number in old_fields]
        origins = {old_oneofs.get(number, number) for number in known}
        moved_in = sum(number not in old_oneofs for number in known)
        if len(origins) > 1:
            yield Change("MULTIPLE_FIELDS_MOVED_TO_ONEOF" if moved_in > 1 else "FIELD_MOVED_TO_EXISTING_ONEOF", f"{path}/{oneof}")


def _label(field: FieldDescriptorProto, file: FileDescriptorProto) -> int | None:
    """The label as it is written; None if it is left out."""
    is_left_out = file.syntax == "proto3" and field.label == FieldDescriptorProto.LABEL_OPTIONAL and not field.proto3_optional
    return None if is_left_out else field.label
