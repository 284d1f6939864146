"""Which partition of `__transaction_state` or `__consumer_offsets` keeps an id: Kafka's hash of it, so that Kafka finds what we wrote.

Source: TransactionStateManager.partitionFor, GroupCoordinatorService.partitionFor, Utils.abs and java.lang.String.hashCode of Apache Kafka.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

_CACHED_IDS: Final = 4_096  #: an id is asked for again and again, and the hash of a long one takes as long as the rest of a heartbeat
_INT32_RANGE = 1 << 32
_INT32_MIN = -(1 << 31)


@lru_cache(_CACHED_IDS)
def java_hash(text: str) -> int:
    """String.hashCode: over UTF-16 code units, as a signed int32."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for index in range(0, len(units), 2):
        value = (31 * value + (units[index] << 8 | units[index + 1])) % _INT32_RANGE
    return value - _INT32_RANGE if value >= -_INT32_MIN else value


def partition_of(key: str, partition_count: int = 50) -> int:
    """The partition; `key` is a transactional id or a group id, `partition_count` how many the topic was made with."""
    value = java_hash(key)
    return (0 if value == _INT32_MIN else abs(value)) % partition_count
