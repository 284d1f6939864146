"""Look up, create and check the topics that a replay writes to, before anything is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from minibroker.client.client import Client
from minibroker.client.errors import check
from minibroker.client.topics import create_topics, describe_configs, topic_id_of
from minibroker.errors import KafkaError, TopicAlreadyExists, UnknownTopicOrPartition
from minibroker.spark.failures import ReplayError


@dataclass(frozen=True, slots=True)
class Creation:
    """How to create missing topics.

    Attributes:
        is_allowed: if not, a missing topic is an error.
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
