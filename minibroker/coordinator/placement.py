"""Which partition of a coordinator's topic has an id: Kafka's hash of it, so that Kafka finds the records.

Source: TransactionStateManager.partitionFor, GroupCoordinatorService.partitionFor, Utils.abs and
java.lang.String.hashCode of Apache Kafka.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

_CACHED_IDS: Final = 4_096  #: an id is used repeatedly, and its hash takes as long as the rest of a heartbeat
_LONG: Final = 300  #: ids with this length are hashed in halves, and few are cached: 4,096 would take 100 MB and more
_CACHED_LONG_IDS: Final = 16  #: one request hashes its id several times
_INT32_RANGE = 1 << 32
_INT32_MIN = -(1 << 31)


@lru_cache(_CACHED_IDS)
def _short_hash(text: str) -> int:
    """Return Utils.abs of String.hashCode, which is over UTF-16 code units and a signed int32."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for index in range(0, len(units), 2):
        value = (31 * value + (units[index] << 8 | units[index + 1])) % _INT32_RANGE
    return _absolute(value)


@lru_cache(_CACHED_LONG_IDS)
def _long_hash(text: str) -> int:
    """Return the same at a quarter of the cost of a loop over the units.

    The units are 64-bit numbers in one large integer, the first one highest. The upper half times a
    power of 31, plus the lower half, has half as many numbers and the same hash. This is repeated
    until one number is left. No number overflows: each is below 2^32 before it is multiplied.
    """
    units = text.encode("utf-16-le", "surrogatepass")
    count = 1 << (len(units) // 2 - 1).bit_length()
    lanes = bytearray(8 * count)
    used = 8 * (count - len(units) // 2)  # leading zeros change nothing
    lanes[used + 7 :: 8], lanes[used + 6 :: 8] = units[::2], units[1::2]
    folded = int.from_bytes(lanes)
    below_32_bits = int.from_bytes(b"\0\0\0\0\xff\xff\xff\xff" * count)
    while count > 1:
        count //= 2
        width = 64 * count
        below_32_bits >>= width
        upper, lower = folded >> width, folded & ((1 << width) - 1)
        folded = (upper * pow(31, count, _INT32_RANGE) + lower) & below_32_bits
    return _absolute(folded)


def _absolute(value: int) -> int:
    """Return Utils.abs of the signed int32 with these bits: 0 for the smallest one, which has no positive counterpart."""
    if value == -_INT32_MIN:
        return 0
    return _INT32_RANGE - value if value > -_INT32_MIN else value


def partition_of(key: str, partition_count: int = 50) -> int:
    """Return the partition of an id. `partition_count` is that of the topic."""
    return (_short_hash(key) if len(key) < _LONG else _long_hash(key)) % partition_count
