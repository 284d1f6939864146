"""Choose the partition of a record as the Java client does, so that equal keys of all producers share a partition.

A key: murmur2(key) with the sign bit cleared, modulo the number of partitions (org.apache.kafka.common.utils.Utils.murmur2,
BuiltInPartitioner.partitionForKey). No key: one partition for a whole batch, then another, at random.
"""

from __future__ import annotations

import random

SEED = 0x9747B28C
MULTIPLIER = 0x5BD1E995
MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """Return Kafka's 32-bit murmur2, unsigned. Java reads the same bits as a signed number."""
    length = len(data)
    hashed = SEED ^ length
    whole = length & ~3
    for position in range(0, whole, 4):
        word = int.from_bytes(data[position : position + 4], "little") * MULTIPLIER & MASK
        word ^= word >> 24
        hashed = (hashed * MULTIPLIER & MASK) ^ (word * MULTIPLIER & MASK)
    if length != whole:
        hashed ^= int.from_bytes(data[whole:], "little")
        hashed = hashed * MULTIPLIER & MASK
    hashed ^= hashed >> 13
    hashed = hashed * MULTIPLIER & MASK
    return hashed ^ (hashed >> 15)


class Partitioner:
    """Chooses among `partition_count` partitions. Records without a key stay together up to `batch_bytes`."""

    __slots__ = ("_batch_bytes", "_partition_count", "_sticky", "_sticky_bytes")

    def __init__(self, partition_count: int, batch_bytes: int) -> None:
        self._partition_count = partition_count
        self._batch_bytes = batch_bytes
        self._sticky = random.randrange(partition_count)
        self._sticky_bytes = 0

    def partition_of(self, key: bytes | None, size: int) -> int:
        """Return the partition for a record with this key and this size in bytes."""
        if key is not None:
            return (murmur2(key) & 0x7FFFFFFF) % self._partition_count
        if self._sticky_bytes >= self._batch_bytes:
            self._sticky = random.randrange(self._partition_count)
            self._sticky_bytes = 0
        self._sticky_bytes += size
        return self._sticky
