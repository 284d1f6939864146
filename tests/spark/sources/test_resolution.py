"""Positions against what there is."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from minibroker.client.routing import TopicPartition
from minibroker.spark.failures import SourceError
from minibroker.spark.sources.positions import EARLIEST, LATEST, Bounds, Position, parse_position, resolve_ranges, topics_matching
from minibroker.spark.sources.ranges import PartitionRange

THERE = {("b", 0): Bounds(0, 7), ("a", 1): Bounds(5, 5), ("a", 0): Bounds(10, 20)}


def found(starting: Position = EARLIEST, ending: Position = LATEST) -> list[tuple[int, int]]:
    def find(keys: Collection[TopicPartition], time_ms: int) -> dict[TopicPartition, int]:
        return {key: time_ms for key in keys if key != ("b", 0)}

    ranges = resolve_ranges(THERE, starting, ending, find)
    assert [each[:2] for each in ranges] == [("a", 0), ("a", 1), ("b", 0)]
    return [each[2:] for each in ranges]


def test_everything() -> None:
    assert found() == [(10, 20), (5, 5), (0, 7)]


def test_offsets_and_names_within_them() -> None:
    given = parse_position('{"a": {"0": 13, "1": -2}, "b": {"0": -1}}')
    assert found(starting=given) == [(13, 20), (5, 5), (7, 7)]
    assert found(ending=parse_position('{"a": {"0": 13, "1": -1}, "b": {"0": 0}}')) == [(10, 13), (5, 5), (0, 0)]


def test_times_end_where_the_partition_ends() -> None:
    with pytest.raises(SourceError, match="before its start"):
        found(Position(timestamp_ms=15), Position(timestamp_ms=12))
    assert resolve_ranges({("a", 0): Bounds(10, 20)}, Position(timestamp_ms=12), Position(timestamp_ms=99), dict.fromkeys) == (
        PartitionRange("a", 0, 12, 20),
    )
    found_none = resolve_ranges({("a", 0): Bounds(10, 20)}, Position(timestamp_ms=12), LATEST, lambda _, __: {})
    assert found_none == (PartitionRange("a", 0, 20, 20),)


@pytest.mark.parametrize(
    ("starting", "says"),
    [
        ('{"a": {"0": 9, "1": -2}, "b": {"0": -2}}', r"a-0 has no offset 9: it has 10 up to, but not including, 20 \(older"),
        ('{"a": {"0": 21, "1": -2}, "b": {"0": -2}}', "a-0 has no offset 21.*open transaction"),
        ('{"a": {"0": 11, "1": 6}, "b": {"0": -2}}', "a-1 has no offset 6: it has no record, and its next offset is 5"),
        ('{"a": {"0": 11, "1": 5}}', "has no offset for b-0"),
        ('{"a": {"0": 11, "1": 5, "2": 0}, "b": {"0": 0}}', "names a-2, which is not read"),
    ],
)
def test_what_is_not_there(starting: str, says: str) -> None:
    with pytest.raises(SourceError, match=says):
        found(starting=parse_position(starting))


def test_patterns() -> None:
    assert topics_matching("f.*", ["flights", "orders", "faults"]) == ["faults", "flights"]
    with pytest.raises(SourceError, match="none of 1 topics"):
        topics_matching("light", ["flights"])
    with pytest.raises(SourceError, match="not a regular expression"):
        topics_matching("(", ["flights"])
