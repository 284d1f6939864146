"""Protobuf schemas that are called compatible are read with protobuf's library. The descriptors are made without protoc."""

from __future__ import annotations

from typing import Any

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from hypothesis import assume, given
from hypothesis import strategies as st

from minibroker.registry.protobuf_compatibility import ProtoFile, changes
from tests.support.soak import examples

SCALARS = ["int32", "int64", "uint32", "uint64", "bool", "sint32", "sint64", "string", "bytes", "fixed32", "sfixed64", "double"]
VALUES = {"bool": True, "string": "text", "bytes": b"text", "double": 1.5}  #: of other types: 1


def proto_file(fields: list[tuple[int, str, bool]]) -> FileDescriptorProto:
    """A file with one message M of these fields: number, type, and whether it is repeated."""
    label = {False: FieldDescriptorProto.LABEL_OPTIONAL, True: FieldDescriptorProto.LABEL_REPEATED}
    listed = [
        FieldDescriptorProto(
            name=f"f{number}", number=number, type=FieldDescriptorProto.Type.Value(f"TYPE_{kind.upper()}"), label=label[many]
        )
        for number, kind, many in fields
    ]
    message = DescriptorProto(name="M", field=listed)
    return FileDescriptorProto(name="m.proto", syntax="proto3", message_type=[message])


def message_class(file: FileDescriptorProto) -> Any:
    pool = DescriptorPool()
    pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName("M"))


FIELDS = st.lists(st.tuples(st.integers(1, 4), st.sampled_from(SCALARS), st.booleans()), unique_by=lambda each: each[0], max_size=4)


@given(old=FIELDS, new=FIELDS)
@examples(200)
def test_what_is_called_compatible_can_be_read(old: list[tuple[int, str, bool]], new: list[tuple[int, str, bool]]) -> None:
    """Each field that both have is read with its value, whatever the types that the change allows.

    An exception is a number that was repeated and is not any more: it was packed, and is lost. As in Confluent's registry, labels that are
    left out are not compared.
    """
    before, after = proto_file(old), proto_file(new)
    assume(not changes(*(ProtoFile.of(FileDescriptorSet(file=[each]), "m.proto") for each in (before, after))))
    written = message_class(before)()
    for number, kind, is_repeated in old:
        value = VALUES.get(kind, 1)
        getattr(written, f"f{number}").append(value) if is_repeated else setattr(written, f"f{number}", value)
    read = message_class(after).FromString(written.SerializeToString())
    was_repeated = {number: is_repeated for number, _, is_repeated in old}
    for number, kind, is_repeated in new:
        is_lost = was_repeated.get(number) and not is_repeated and kind not in {"string", "bytes"}
        if number in was_repeated and not is_lost:
            found, value = getattr(read, f"f{number}"), VALUES.get(kind, 1)
            assert (list(found) if is_repeated else found) == ([value] if is_repeated else value)
