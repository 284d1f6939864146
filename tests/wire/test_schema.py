"""Declarations: lazily resolved, value semantics, one constructor for all versions."""

from __future__ import annotations

import uuid

import pytest

from minibroker.wire import schema
from minibroker.wire.schema import NIL_UUID, Int32, Records, String, Uuid, constructor, field, fields_of, replace, struct


@struct
class Partition:
    index: Int32
    records: Records | None = field(nullable=2, default=None)


@struct
class Cursor:
    topic: String = field(default="")
    partition: Int32 = field(default=-1)


@struct
class Topic:
    """A topic."""

    name: String
    topic_id: Uuid = field(since=3, default=NIL_UUID)
    partitions: list[Partition]
    replicas: list[Int32] | None = field(since=1, until=4, default=())
    cursor: Cursor = field(since=5, tag=0, default=Cursor)
    secret: schema.Bytes | None = field(default=None)


def test_fields_are_resolved_in_wire_order() -> None:
    name, topic_id, partitions, replicas, cursor, secret = fields_of(Topic)
    assert [(each.name, each.kind) for each in fields_of(Topic)] == [
        ("name", "string"),
        ("topic_id", "uuid"),
        ("partitions", "struct"),
        ("replicas", "int32"),
        ("cursor", "struct"),
        ("secret", "bytes"),
    ]
    assert (name.nullable, name.in_version(0), name.is_array) == (None, True, False)
    assert (topic_id.in_version(2), topic_id.in_version(3)) == (False, True)
    assert (partitions.struct, partitions.is_array) == (Partition, True)
    assert (replicas.nullable, replicas.in_version(4), replicas.in_version(5)) == (0, True, False)
    assert (cursor.struct, cursor.tag) == (Cursor, 0)
    assert secret.null_in(0)


def test_nullable_since_version() -> None:
    records = fields_of(Partition)[1]
    assert (records.null_in(1), records.null_in(2)) == (False, True)


def test_constructor_fills_in_defaults() -> None:
    topic = Topic(name="orders", partitions=[])
    assert (topic.topic_id, topic.replicas, topic.cursor, topic.secret) == (uuid.UUID(int=0), [], Cursor(), None)


def test_instances_do_not_share_default_lists() -> None:
    first, second = Topic(name="a", partitions=[]), Topic(name="b", partitions=[])
    assert first.replicas is not second.replicas
    first.replicas.append(1)  # type: ignore[union-attr]
    assert Topic(name="c", partitions=[]).replicas == []


@pytest.mark.parametrize("values", [{}, {"name": "a"}, {"name": "a", "partitions": [], "topic": 1}], ids=["none", "one missing", "unknown"])
def test_constructor_rejects_missing_and_unknown_fields(values: dict[str, object]) -> None:
    with pytest.raises(TypeError):
        Topic(**values)  # type: ignore[arg-type]


def test_constructor_takes_keywords_only() -> None:
    with pytest.raises(TypeError):
        Cursor("orders")  # type: ignore[call-arg]


def test_constructor_function_matches_the_constructor() -> None:
    topic, cursor = constructor(Topic), constructor(Cursor)
    assert topic(name="orders", partitions=[]) == Topic(name="orders", partitions=[])
    assert type(cursor(topic="a")) is Cursor
    assert cursor(topic="a") == Cursor(topic="a")
    assert topic(name="a", partitions=[]).replicas is not topic(name="b", partitions=[]).replicas
    with pytest.raises(TypeError):
        topic(name="a")  # type: ignore[call-arg]


def test_misspelled_attribute_is_rejected() -> None:
    with pytest.raises(AttributeError):
        Cursor().partitions = 1  # type: ignore[attr-defined]


def test_equality_ignores_the_sequence_type() -> None:
    one = Topic(name="orders", partitions=[Partition(index=1, records=b"x")])
    same = Topic(name="orders", partitions=(Partition(index=1, records=memoryview(b"x")),))  # type: ignore[arg-type]
    assert one == same
    assert hash(one) == hash(same)
    assert one != replace(one, name="other")
    assert one != Cursor()  # type: ignore[comparison-overlap]  # other types are other values


def test_repr_round_trip() -> None:
    cursor = Cursor(topic="orders")
    assert repr(cursor) == "Cursor(topic='orders', partition=-1)"
    assert eval(repr(cursor)) == cursor  # noqa: S307


def test_replace_changes_a_copy() -> None:
    cursor = Cursor(topic="orders", partition=3)
    assert replace(cursor, partition=4) == Cursor(topic="orders", partition=4)
    assert cursor.partition == 3


def test_struct_keeps_docstring_module_and_name() -> None:
    assert (Topic.__doc__, Topic.__module__, Topic.__name__) == ("A topic.", __name__, "Topic")


@pytest.mark.parametrize("more", [{"since": 1}, {"until": 3}, {"tag": 0}])
def test_versioned_field_needs_a_default(more: dict[str, int]) -> None:
    with pytest.raises(TypeError, match="default"):
        field(**more)


@struct
class Impossible:
    count: Int32 | None


def test_numbers_are_not_nullable() -> None:
    with pytest.raises(TypeError, match="no null for Int32"):
        fields_of(Impossible)
