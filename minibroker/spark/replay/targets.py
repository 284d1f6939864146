"""The targets of a replay: look up, create and check the topics before anything is written; choose partitions by key.

Records without a partition go to the one that Kafka's Java client chooses, by murmur2 of the key (client/producer.py). Records
without a key go to the partitions in turn by their offset, so that each run of a replay chooses the same partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from minibroker.client.client import Client
from minibroker.client.errors import check
from minibroker.client.producer import MULTIPLIER, SEED
from minibroker.client.topics import create_topics, describe_configs, topic_id_of
from minibroker.errors import KafkaError, TopicAlreadyExists, UnknownTopicOrPartition
from minibroker.spark.failures import ReplayError
from minibroker.spark.replay.encode import narrow

_MULTIPLIER = np.uint32(MULTIPLIER)


@dataclass(frozen=True, slots=True)
class Creation:
    """How to create missing topics.

    Attributes:
        is_allowed: if False, a missing topic is an error.
        partitions: per topic; None for as many as the source has records in.
        configs: of each topic. If timestamps are kept, retention.ms defaults to -1, since old records would be deleted
            immediately.
    """

    is_allowed: bool = True
    partitions: int | None = None
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TargetTopic:
    """A topic that exists."""

    name: str
    id: str  #: as text; "" if the broker has no topic ids
    partition_count: int
    max_message_bytes: int


def prepare_topics(client: Client, partitions: Mapping[str, int], creation: Creation, *, keeps_timestamps: bool) -> dict[str, TargetTopic]:
    """Return the target topics by name; create missing ones.

    Args:
        client: of the target cluster.
        partitions: the least partitions of each topic; 0 if unknown.
        creation: how to create missing topics.
        keeps_timestamps: whether records keep their timestamps.

    Raises:
        ReplayError: a topic is missing and must not be created, has too few partitions, or overwrites timestamps.
    """
    configs = dict(creation.configs)
    if keeps_timestamps:
        configs.setdefault("retention.ms", "-1")
    for name in sorted(_missing(client, partitions)):
        if not creation.is_allowed:
            raise ReplayError(f"topic {name} does not exist: create it first, or let replay create it")
        ensure_topic(client, name, creation.partitions or partitions[name] or -1, configs)
    found = {}
    for name, values in _configs(client, list(partitions)).items():
        topic = client.topic(name)
        count = len(topic.partitions)
        if count < partitions[name]:
            raise ReplayError(
                f"topic {name} has {count} partitions, and the source has records of partition {partitions[name] - 1}:"
                f" 'minibroker topics alter {name} --partitions {partitions[name]}' adds the missing ones"
            )
        if keeps_timestamps and values.get("message.timestamp.type") == "LogAppendTime":
            raise ReplayError(f"topic {name} overwrites timestamps (message.timestamp.type=LogAppendTime): they cannot be kept")
        found[name] = TargetTopic(name, topic_id_of(topic), count, int(values["max.message.bytes"]))
    return found


def ensure_topic(client: Client, name: str, partition_count: int, configs: Mapping[str, str]) -> None:
    """Create a topic unless it exists, and wait until it has leaders."""
    result = create_topics(client, [name], partition_count=partition_count, configs=configs)[name]
    if isinstance(result, KafkaError) and not isinstance(result, TopicAlreadyExists):
        raise result
    deadline = client.deadline()
    client.retrying(lambda: client.topic(name, deadline), deadline)


def _missing(client: Client, names: Mapping[str, int]) -> list[str]:
    missing = []
    for topic in client.metadata(list(names)).topics:
        try:
            check(topic.error_code, f"topic {topic.name}")
        except UnknownTopicOrPartition:
            missing.append(str(topic.name))
    return missing


def _configs(client: Client, names: list[str]) -> dict[str, dict[str, str]]:
    return {name: {each.name: each.value or "" for each in configs} for name, configs in describe_configs(client, names).items()}


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
