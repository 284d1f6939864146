"""Placement: Java's hash of a string. test_records.py holds it against where Apache Kafka put ids."""

from __future__ import annotations

import pytest

from minibroker.coordinator.stored_topic import _long_hash, _short_hash, partition_of
from tests.support.opcodes import count_opcodes


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99_162_322),
        ("polygenelubricants", 0),  # -2**31, of which Math.abs is negative
        ("Überweisung", 2_092_342_301),  # negative
        ("\U0001f600", 1_772_899),
    ],
)
def test_absolute_hash_matches_java(text: str, value: int) -> None:
    assert partition_of(text, 1 << 32) == value


def hashed_one_by_one(text: str) -> int:
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for index in range(0, len(units), 2):
        value = (31 * value + int.from_bytes(units[index : index + 2])) & 0xFFFFFFFF
    return 0 if value == 1 << 31 else abs(value - (1 << 32) if value >> 31 else value)


@pytest.mark.parametrize("letters", ["a", "polygenelubricants", "\uffff", "\U0001f600x", "Ü\0"])
@pytest.mark.parametrize("size", [298, 299, 300, 301, 511, 512, 513, 1023, 4097, 10_923])
def test_long_names_have_the_same_hash(letters: str, size: int) -> None:
    text = (letters * size)[:size]
    assert partition_of(text, 1 << 32) == hashed_one_by_one(text)


def test_hash_of_a_long_name_is_cheap_and_rarely_cached() -> None:
    partition_of("y" * 32_767)
    text = "x" * 32_767
    assert count_opcodes(lambda: partition_of(text)) < 1000
    before = _short_hash.cache_info()
    for number in range(100):
        partition_of(f"{number}{text}")
    assert _short_hash.cache_info() == before
    assert _long_hash.cache_info().currsize <= 16


def test_partition_of() -> None:
    assert partition_of("polygenelubricants") == 0  # Math.abs of that one is negative
    assert partition_of("hello") == 99_162_322 % 50
    assert partition_of("hello", 3) == 99_162_322 % 3
