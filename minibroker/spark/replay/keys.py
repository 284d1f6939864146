"""Choose partitions like Kafka's Java client, by murmur2 of the key, for many keys at once.

client/producer.py describes murmur2. Records without a key go to the partitions in turn by their offset, so
that each run of a replay chooses the same partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from minibroker.client.producer import MULTIPLIER, SEED
from minibroker.spark.replay.encode import narrow

_MULTIPLIER = np.uint32(MULTIPLIER)


def murmur2(keys: pa.BinaryArray) -> np.ndarray:
    """Return Kafka's 32-bit murmur2 of each key, unsigned; a null counts as an empty key."""
    offsets = np.frombuffer(keys.buffers()[1], np.int32)[keys.offset : keys.offset + len(keys) + 1].astype(np.int64)
    data = np.frombuffer(keys.buffers()[2] or b"", np.uint8)
    data = np.concatenate([data[: int(offsets[-1])] if len(offsets) else data, np.zeros(4, np.uint8)])
    starts, sizes = offsets[:-1], np.diff(offsets)
    hashed = np.uint32(SEED) ^ sizes.astype(np.uint32)
    for index in range(int(sizes.max(initial=0)) // 4):  # one word of all keys that are long enough
        rows = np.flatnonzero(sizes >= 4 * index + 4)
        hashed[rows] = hashed[rows] * _MULTIPLIER ^ _mixed(_words(data, starts[rows] + 4 * index))
    rest = sizes % 4
    rows = np.flatnonzero(rest)
    if rows.size:
        kept = (np.uint32(1) << (8 * rest[rows]).astype(np.uint32)) - np.uint32(1)
        hashed[rows] = (hashed[rows] ^ _words(data, starts[rows] + sizes[rows] - rest[rows]) & kept) * _MULTIPLIER
    hashed ^= hashed >> np.uint32(13)
    hashed *= _MULTIPLIER
    result: np.ndarray = hashed ^ (hashed >> np.uint32(15))
    return result


def _words(data: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """Return the little-endian words at positions."""
    word: np.ndarray = data[positions].astype(np.uint32)
    for index in range(1, 4):
        word |= data[positions + index].astype(np.uint32) << np.uint32(8 * index)
    return word


def _mixed(words: np.ndarray) -> np.ndarray:
    words = words * _MULTIPLIER
    mixed: np.ndarray = (words ^ words >> np.uint32(24)) * _MULTIPLIER
    return mixed


@dataclass(frozen=True, slots=True)
class KeyPartitioner:
    """Fills the column `partition`, for DataFrame.mapInArrow; `counts` has the partition count of each target topic."""

    counts: Mapping[str, int]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the batches with partitions."""
        for batch in batches:
            keys = narrow(batch.column("key"))
            topics = batch.column("topic").dictionary_encode()
            counts = np.array([self.counts[name] for name in topics.dictionary.to_pylist()], np.int64)[topics.indices.to_numpy()]
            by_key = (murmur2(keys) & np.uint32(0x7FFFFFFF)).astype(np.int64) % counts
            in_turn = batch.column("offset").to_numpy() % counts
            partitions = np.where(keys.is_null().to_numpy(zero_copy_only=False), in_turn, by_key).astype(np.int32)
            yield batch.set_column(batch.schema.get_field_index("partition"), "partition", pa.array(partitions))
