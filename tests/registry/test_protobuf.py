"""Protobuf schemas: which changes are compatible, by the rules of Schema Registry's documentation and of protobuf's language guide."""

from __future__ import annotations

import base64
import re
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet

from minibroker.registry import protoc
from minibroker.registry.errors import RegistryError
from minibroker.registry.parsed_schema import ReferencedSchema
from minibroker.registry.protobuf_schema import ProtobufSchema
from minibroker.registry.protobuf_text import proto_text

OK: list[str] = []

#: Body of a message before and after, what code with the new one cannot read, and what code with the old one cannot read. Under BACKWARD
#: the first counts, under FORWARD the second, under FULL both. A path is a field number after the name of its oneof.
PROTO3: dict[str, tuple[str, str, list[str], list[str]]] = {
    "nothing": ("int32 a = 1;", "int32 a = 1;", OK, OK),
    "field added": ("int32 a = 1;", "int32 a = 1; int32 b = 2;", OK, OK),
    "field renamed": ("int32 a = 1;", "int32 b = 1;", OK, OK),
    "field with another number": ("int32 a = 1;", "int32 a = 2;", OK, OK),
    "fields in another order": ("int32 a = 1; string b = 2;", "string b = 2; int32 a = 1;", OK, OK),
    "int32 to int64": ("int32 a = 1;", "int64 a = 1;", OK, OK),
    "int32 to bool": ("int32 a = 1;", "bool a = 1;", OK, OK),
    "uint32 to int64": ("uint32 a = 1;", "int64 a = 1;", OK, OK),
    "int32 to sint32": ("int32 a = 1;", "sint32 a = 1;", ["FIELD_SCALAR_KIND_CHANGED 1"], ["FIELD_SCALAR_KIND_CHANGED 1"]),
    "sint32 to sint64": ("sint32 a = 1;", "sint64 a = 1;", OK, OK),
    "int32 to fixed32": ("int32 a = 1;", "fixed32 a = 1;", ["FIELD_SCALAR_KIND_CHANGED 1"], ["FIELD_SCALAR_KIND_CHANGED 1"]),
    "fixed32 to sfixed32": ("fixed32 a = 1;", "sfixed32 a = 1;", OK, OK),
    "fixed32 to fixed64": ("fixed32 a = 1;", "fixed64 a = 1;", ["FIELD_SCALAR_KIND_CHANGED 1"], ["FIELD_SCALAR_KIND_CHANGED 1"]),
    "float to double": ("float a = 1;", "double a = 1;", ["FIELD_SCALAR_KIND_CHANGED 1"], ["FIELD_SCALAR_KIND_CHANGED 1"]),
    "string to bytes": ("string a = 1;", "bytes a = 1;", OK, OK),
    "string to int32": ("string a = 1;", "int32 a = 1;", ["FIELD_SCALAR_KIND_CHANGED 1"], ["FIELD_SCALAR_KIND_CHANGED 1"]),
    "int32 to enum": ("int32 a = 1;", "enum E { X = 0; } E a = 1;", OK, OK),
    "enum constant added": ("enum E { X = 0; } E a = 1;", "enum E { X = 0; Y = 1; } E a = 1;", OK, OK),
    "enum renamed": ("enum E { X = 0; } E a = 1;", "enum F { X = 0; } F a = 1;", OK, OK),
    "scalar to message": (
        "int32 a = 1;", "message N {} N a = 1;", ["FIELD_KIND_CHANGED 1"], ["FIELD_KIND_CHANGED 1", "MESSAGE_REMOVED .N"],
    ),
    "another message": (
        "message N {} message O {} N a = 1;", "message N {} message O {} O a = 1;",
        ["FIELD_NAMED_TYPE_CHANGED 1"], ["FIELD_NAMED_TYPE_CHANGED 1"],
    ),
    "message removed": ("message N {}", "", ["MESSAGE_REMOVED .N"], OK),
    "field of an inner message": (
        "message N { int32 x = 1; } N a = 1;", "message N { string x = 1; } N a = 1;",
        ["FIELD_SCALAR_KIND_CHANGED .N/1"], ["FIELD_SCALAR_KIND_CHANGED .N/1"],
    ),
    "map to message": (
        "map<string, int32> a = 1;", "message N {} N a = 1;", ["FIELD_KIND_CHANGED 1"], ["FIELD_KIND_CHANGED 1", "MESSAGE_REMOVED .N"],
    ),
    "values of a map": (
        "map<string, int32> a = 1;", "map<string, string> a = 1;", ["FIELD_SCALAR_KIND_CHANGED 1"], ["FIELD_SCALAR_KIND_CHANGED 1"],
    ),
    "values of a map widened": ("map<string, int32> a = 1;", "map<string, int64> a = 1;", OK, OK),
    "optional to repeated": (
        "optional int32 a = 1;", "repeated int32 a = 1;", ["FIELD_NUMERIC_LABEL_CHANGED 1"], ["FIELD_NUMERIC_LABEL_CHANGED 1"],
    ),
    "optional text to repeated": ("optional string a = 1;", "repeated string a = 1;", OK, OK),
    "field made optional": ("int32 a = 1;", "optional int32 a = 1;", OK, OK),
    "field moved into a new oneof": ("int32 a = 1;", "oneof o { int32 a = 1; }", OK, OK),
    "two fields moved into a oneof": (
        "int32 a = 1; int32 b = 2;", "oneof o { int32 a = 1; int32 b = 2; }", ["MULTIPLE_FIELDS_MOVED_TO_ONEOF o"], OK,
    ),
    "field moved into an existing oneof": (
        "oneof o { int32 a = 1; } int32 b = 2;", "oneof o { int32 a = 1; int32 b = 2; }", ["FIELD_MOVED_TO_EXISTING_ONEOF o"], OK,
    ),
    "member of a oneof removed": ("oneof o { int32 a = 1; int32 b = 2; }", "oneof o { int32 a = 1; }", ["ONEOF_FIELD_REMOVED o/2"], OK),
    "oneof removed with its members": ("oneof o { int32 a = 1; }", "", OK, OK),
    "oneof renamed": ("oneof o { int32 a = 1; }", "oneof p { int32 a = 1; }", OK, OK),
    "type of a member of a oneof": (
        "oneof o { int32 a = 1; }", "oneof o { string a = 1; }", ["FIELD_SCALAR_KIND_CHANGED o/1"], ["FIELD_SCALAR_KIND_CHANGED o/1"],
    ),
}  # fmt: skip
PROTO2: dict[str, tuple[str, str, list[str], list[str]]] = {
    "required field added": ("", "required int32 a = 1;", ["REQUIRED_FIELD_ADDED 1"], ["REQUIRED_FIELD_REMOVED 1"]),
    "optional field added": ("", "optional int32 a = 1;", OK, OK),
    "required to optional": (
        "required int32 a = 1;", "optional int32 a = 1;", ["FIELD_NUMERIC_LABEL_CHANGED 1"], ["FIELD_NUMERIC_LABEL_CHANGED 1"],
    ),
    "default": ("optional int32 a = 1 [default = 1];", "optional int32 a = 1 [default = 2];", OK, OK),
}  # fmt: skip


def parse(text: str, *references: ReferencedSchema) -> ProtobufSchema:
    return ProtobufSchema(text, references, is_new=True)


def changes(old: ProtobufSchema, new: ProtobufSchema) -> list[str]:
    return [f"{match[1]} {match[2]}" for match in re.finditer(r"errorType:\"(\w+)\".*?'(#[^']*)'", "\n".join(new.differences(old)))]


def by_message(found: list[str]) -> dict[int, list[str]]:
    """The changes of each message M<number>, with paths from there."""
    messages: dict[int, list[str]] = {}
    for each in found:
        match = re.fullmatch(r"(\w+) #/M(\d+)/?(.*)", each)
        assert match is not None, each
        messages.setdefault(int(match[2]), []).append(f"{match[1]} {match[3]}")
    return messages


@pytest.mark.parametrize(("syntax", "table"), [("proto3", PROTO3), ("proto2", PROTO2)])
def test_each_change_has_its_verdict_in_both_directions(syntax: str, table: dict[str, tuple[str, str, list[str], list[str]]]) -> None:
    """All rows are messages of one file, so that protoc runs twice."""
    old, new = (
        parse(
            f'syntax = "{syntax}"; package t; '
            + " ".join(f"message M{index} {{ {row[side]} }}" for index, row in enumerate(table.values()))
        )
        for side in (0, 1)
    )
    backward, forward = by_message(changes(old, new)), by_message(changes(new, old))
    found = {name: (sorted(backward.get(index, [])), sorted(forward.get(index, []))) for index, name in enumerate(table)}
    assert found == {name: (sorted(row[2]), sorted(row[3])) for name, row in table.items()}


def test_another_package_is_a_change() -> None:
    old, new = parse('syntax = "proto3"; package a; message M {}'), parse('syntax = "proto3"; package b; message M {}')
    assert changes(old, new) == ["PACKAGE_CHANGED #/"]


EVERYTHING = """
syntax = "proto2";
package every.thing;
import "google/protobuf/timestamp.proto";
import "address.proto";
option java_package = "com.example";
option optimize_for = SPEED;
message Outer {
  option deprecated = true;
  reserved 100, 200 to 210, 1000 to max;
  reserved "gone", "older";
  required string name = 1 [default = "a \\"quoted\\"\\n\\\\ one"];
  optional Kind kind = 2 [default = SECOND, deprecated = true];
  repeated int32 numbers = 3 [packed = true];
  map<string, .google.protobuf.Timestamp> times = 4;
  oneof choice { addresses.Address home = 5; bytes raw = 6; }
  optional double ratio = 7 [default = inf, json_name = "Ratio"];
  optional group Old = 8 { optional bool flag = 1; }
  extensions 500 to 509;
  message Inner { optional Outer parent = 1; extend Outer { optional int32 more = 500; } }
  enum Kind { option allow_alias = true; FIRST = 0; SECOND = 1; ZWEI = 1 [deprecated = true]; reserved 5; }
}
enum Top { X = 0; }
service Calls { rpc Ask (Outer) returns (stream Outer.Inner) { option deprecated = true; } rpc Tell (stream Outer) returns (Outer); }
"""
ADDRESS = ReferencedSchema("address.proto", 'syntax = "proto3"; package addresses; message Address { optional string street = 1; }')


def test_the_text_has_everything_that_the_schema_had() -> None:
    first = parse(EVERYTHING, ADDRESS)
    second = parse(first.text, ADDRESS)
    assert second.text == first.text
    assert second._file.file == first._file.file
    for word in ("default = inf", 'json_name = "Ratio"', "group Old = 8", "1000 to max", "returns (stream .every.thing.Outer.Inner)"):
        assert word in first.text
    assert not changes(first, second)


def test_a_descriptor_in_base64_is_the_same_schema_as_its_text() -> None:
    schema = parse(EVERYTHING, ADDRESS)
    from_descriptor = parse(schema.formatted("serialized"), ADDRESS)
    assert from_descriptor.text == schema.text


def test_messages_of_references_are_compared() -> None:
    text = 'syntax = "proto3"; import "address.proto"; message P { addresses.Address home = 1; }'
    changed = ReferencedSchema("address.proto", ADDRESS.text.replace("string street", "int32 street"))
    assert changes(parse(text, ADDRESS), parse(text, changed)) == ["FIELD_SCALAR_KIND_CHANGED #/P/1/1", "FIELD_NAMED_TYPE_CHANGED #/P/1"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("message", "Expected"),
        ('syntax = "proto3"; import "missing.proto";', "missing.proto: File not found"),
        ('syntax = "proto3"; import "/etc/passwd";', "File not found"),
        ('syntax = "proto3"; import "../../etc/passwd";', "File not found|Backslashes|not allowed"),
        ('syntax = "proto3"; message M { int32 a = 1; int32 b = 1; }', "already been used"),
        (base64.b64encode(b"\xff\xff\xff").decode(), "Error parsing message"),
    ],
)
def test_texts_that_are_no_schemas(text: str, reason: str) -> None:
    with pytest.raises(RegistryError, match=reason) as refused:
        parse(text)
    assert not re.search("minibroker-protoc|absl", refused.value.message)
    assert refused.value.error_code == 42201


@pytest.mark.parametrize("name", ["../x.proto", "/x.proto", "a/../../x.proto", "", "-I/etc", "a\nb", "x" * 300])
def test_references_cannot_name_files_elsewhere(name: str) -> None:
    with pytest.raises(RegistryError, match="is not a name of a file"):
        parse('syntax = "proto3";', ReferencedSchema(name, 'syntax = "proto3";'))


def test_protoc_may_use_no_more_than_its_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protoc, "_PROGRAM", "import resource, sys; resource.setrlimit(resource.RLIMIT_CPU, (1, 1))\nwhile True: pass")
    with pytest.raises(RegistryError, match="protoc exited with code -"):
        parse('syntax = "proto3";')
    program: Any = "bytearray(1 << 31)"
    monkeypatch.setattr(protoc, "_PROGRAM", f"import resource; resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30)); {program}")
    with pytest.raises(RegistryError, match="MemoryError"):
        parse('syntax = "proto3";')


def test_the_writer_of_texts_needs_no_compiler_for_its_own_descriptors() -> None:
    files = FileDescriptorSet.FromString(protoc.compile_proto({"a.proto": 'syntax = "proto3"; message A { int32 x = 1; }'}, "a.proto"))
    assert proto_text(files.file[-1]) == 'syntax = "proto3";\n\nmessage A {\n  int32 x = 1;\n}\n'


CONFLUENT = """
syntax = "proto3";
package shop;
import "confluent/meta.proto";
import "confluent/type/decimal.proto";
option (confluent.file_meta).doc = "orders";
message Order {
  option (confluent.message_meta) = { doc: "an order", params: [{ key: "owner", value: "me" }] };
  string card = 1 [(confluent.field_meta) = { tags: ["PII", "secret"] }, deprecated = true];
  confluent.type.Decimal price = 2;
}
enum Kind { option (confluent.enum_meta).doc = "kinds"; X = 0 [(confluent.enum_value_meta).tags = "x"]; }
"""


def test_confluents_own_files_are_known_and_options_kept() -> None:
    schema = ProtobufSchema(CONFLUENT, (), is_new=True)
    for line in (
        'option (confluent.file_meta) = { doc: "orders" };',
        '  option (confluent.message_meta) = { doc: "an order" params { key: "owner" value: "me" } };',
        '  string card = 1 [(confluent.field_meta) = { tags: "PII" tags: "secret" }, deprecated = true];',
        "  .confluent.type.Decimal price = 2;",
        '  option (confluent.enum_meta) = { doc: "kinds" };',
        '  X = 0 [(confluent.enum_value_meta) = { tags: "x" }];',
    ):
        assert line in schema.text.splitlines()
    assert ProtobufSchema(schema.text, (), is_new=True).text == schema.text
    assert ProtobufSchema(schema.formatted("serialized"), (), is_new=True).text == schema.text
    older = ProtobufSchema(CONFLUENT.replace("confluent/type/", "confluent/types/"), (), is_new=True)
    assert ".confluent.type.Decimal price = 2;" in older.text
    own = ReferencedSchema(
        "confluent/type/decimal.proto", 'syntax = "proto3"; package confluent.type; message Decimal { string text = 1; }'
    )
    assert "string text = 1;" in ProtobufSchema(CONFLUENT, (own,), is_new=True).resolved_text


def test_custom_options_of_every_type_are_kept() -> None:
    text = """
        syntax = "proto3";
        import "google/protobuf/descriptor.proto";
        enum Level { LOW = 0; HIGH = 1; }
        message Rule { repeated string names = 1; Level level = 2; }
        extend google.protobuf.FieldOptions {
          string note = 50001; bytes raw = 50002; bool flag = 50003; Level level = 50004; repeated int32 numbers = 50005; Rule rule = 50006;
        }
        message A {
          int32 a = 1 [
            (note) = "say \\"hi\\"", (raw) = "\\000\\377", (flag) = true, (level) = HIGH, (numbers) = 1, (numbers) = 2,
            (rule) = { names: ["x"], level: HIGH }
          ];
        }
        """
    schema = ProtobufSchema(text, (), is_new=True)
    options = '(note) = "say \\"hi\\"", (raw) = "\\000\\377", (flag) = true, (level) = HIGH, (numbers) = 1, (numbers) = 2, '
    assert f'int32 a = 1 [{options}(rule) = {{ names: "x" level: HIGH }}];' in schema.text
    assert ProtobufSchema(schema.text, (), is_new=True).text == schema.text
