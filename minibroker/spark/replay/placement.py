"""Numbers that Spark's hash partitioning sends to different tasks: `repartition(n, number)` gives each target partition a task of its own.

Spark's hash of an int is Murmur3 (x86, 32 bits) with the seed 42, and a row goes to the task pmod(hash, n).
Source: org.apache.spark.unsafe.hash.Murmur3_x86_32, org.apache.spark.sql.catalyst.plans.physical.HashPartitioning.
"""

from __future__ import annotations

from itertools import count

MASK = 0xFFFFFFFF
SEED = 42


def hash_int(number: int) -> int:
    """Spark's `hash(number)` of an int, signed."""
    word = _rotated(number * 0xCC9E2D51 & MASK, 15) * 0x1B873593 & MASK
    hashed = (_rotated(SEED ^ word, 13) * 5 + 0xE6546B64) & MASK
    hashed ^= 4  # bytes of an int
    hashed = (hashed ^ hashed >> 16) * 0x85EBCA6B & MASK
    hashed = (hashed ^ hashed >> 13) * 0xC2B2AE35 & MASK
    hashed ^= hashed >> 16
    return hashed - (1 << 32) if hashed >> 31 else hashed


def spread_numbers(tasks: int) -> list[int]:
    """A number for each of so many tasks, each of another task; the smallest there are."""
    found: dict[int, int] = {}
    for number in count():
        found.setdefault(hash_int(number) % tasks, number)
        if len(found) == tasks:
            return sorted(found.values())
    raise AssertionError  # count() has no end


def _rotated(word: int, bits: int) -> int:
    return (word << bits | word >> (32 - bits)) & MASK
