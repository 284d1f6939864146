"""Protobuf texts to descriptors, by protoc in a child process."""

from __future__ import annotations

import sys

import pytest
from confluent_kafka.schema_registry.common.serde import SchemaId

pytest.importorskip("pyspark")
pytest.importorskip("grpc_tools")

from minibroker.spark.decoding.framing import encoded_indexes
from minibroker.spark.decoding.protobuf import compile_file
from minibroker.spark.failures import SourceError

TEXT = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "lib/money.proto";
message Item { string name = 1; message Part { int32 size = 1; } }
message Order { Item item = 1; google.protobuf.Timestamp at = 2; Money price = 3; message Line { message Note {} } }
"""
MONEY = 'syntax = "proto3"; package shop; message Money { int64 cents = 1; }'


def test_places_of_messages() -> None:
    one, other = compile_file(TEXT, {"lib/money.proto": MONEY}), compile_file(MONEY, {})
    assert one.messages == {
        "shop.Item": (0,),
        "shop.Item.Part": (0, 0),
        "shop.Order": (1,),
        "shop.Order.Line": (1, 0),
        "shop.Order.Line.Note": (1, 0, 0),
    }
    assert list(other.messages) == ["shop.Money"]
    assert b"google/protobuf/timestamp.proto" in one.descriptors
    assert b"google/protobuf/timestamp.proto" not in other.descriptors


def test_confluents_own_files_need_no_reference() -> None:
    text = 'syntax = "proto3"; import "confluent/type/decimal.proto"; message Price { confluent.type.Decimal price = 1; }'
    assert b"confluent/type/decimal.proto" in compile_file(text, {}).descriptors


def test_indexes_are_those_of_confluents_serializer() -> None:
    for path in ([0], [1], [1, 0, 0], [63, 64], [0, 0], [200]):
        assert encoded_indexes(path)[0] == SchemaId("PROTOBUF", 7, None, path).id_to_bytes()[5:]
    assert encoded_indexes([0]) == [b"\0", b"\2\0"]
    assert encoded_indexes([1, 64]) == [b"\4\2\x80\1"]


def test_texts_that_protoc_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SourceError, match=r"protoc cannot compile a Protobuf schema of the registry: .*lib/money\.proto: File not found"):
        compile_file(TEXT, {})
    for name in ("../money.proto", "/etc/money.proto", "a/../../money.proto"):
        with pytest.raises(SourceError, match="is not a name of a file that can be imported"):
            compile_file(MONEY, {name: MONEY})
    monkeypatch.setitem(sys.modules, "grpc_tools", None)
    with pytest.raises(SourceError, match=r"Protobuf schemas need grpcio-tools: pip install .*\[registry\]"):
        compile_file(MONEY, {})
