"""Positions as users write them."""

from __future__ import annotations

import pytest

from minibroker.spark.failures import SourceError
from minibroker.spark.sources.positions import EARLIEST, LATEST, Position, as_position, parse_position


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("earliest", EARLIEST),
        (" Latest ", LATEST),
        ('{"flights": {"0": 23, "1": -2}, "other": {"7": -1}}', {("flights", 0): 23, ("flights", 1): -2, ("other", 7): -1}),
        ("@1700000000000", 1_700_000_000_000),
        ("@2026-11-22T10:00:00Z", 1_795_341_600_000),
        ("@2026-11-22T11:00:00+01:00", 1_795_341_600_000),
        ("@2026-11-22T10:00:00.123456", 1_795_341_600_123),
        ("@2026-11-22", 1_795_305_600_000),
    ],
)
def test_what_is_understood(text: str, expected: Position | dict[tuple[str, int], int] | int) -> None:
    found = parse_position(text)
    assert expected in (found, found.by_partition, found.timestamp_ms)
    assert parse_position(str(found)) == found == as_position(text) == as_position(found)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("yesterday", "not a position"),
        ("", "not a position"),
        ("23", "not a position"),
        ("@noon", "is not a time"),
        ("@", "is not a time"),
        ("@1969-12-31", "before 1970"),
        ("{", "not JSON"),
        ('{"flights": 23}', "no offsets for flights"),
        ('{"flights": {}}', "no offsets for flights"),
        ('{"flights": {"x": 23}}', "not a partition number"),
        ('{"flights": {"0": "23"}}', "give an offset"),
        ('{"flights": {"0": true}}', "give an offset"),
        ('{"flights": {"0": -3}}', "give an offset"),
    ],
)
def test_what_is_not(text: str, says: str) -> None:
    with pytest.raises(SourceError, match=says) as caught:
        parse_position(text)
    assert "\n" not in str(caught.value)
