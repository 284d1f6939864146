"""Placement: Java's hash of a string. test_records.py holds it against where Apache Kafka put ids."""

from __future__ import annotations

import pytest

from minibroker.coordinator.placement import java_hash, partition_of


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99_162_322),
        ("polygenelubricants", -(1 << 31)),
        ("Überweisung", -2_092_342_301),
        ("\U0001f600", 1_772_899),
    ],
)
def test_java_hash(text: str, value: int) -> None:
    assert java_hash(text) == value


def test_partition_of() -> None:
    assert partition_of("polygenelubricants") == 0  # Math.abs of that one is negative
    assert partition_of("hello") == 99_162_322 % 50
    assert partition_of("hello", 3) == 99_162_322 % 3
