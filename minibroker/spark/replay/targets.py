"""The topics that a replay writes to: looked up, created where they are missing, and judged before anything is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from minibroker.client.client import Client
from minibroker.client.errors import check
from minibroker.client.topics import create_topics, describe_configs, topic_id_of
from minibroker.errors import KafkaError, TopicAlreadyExists, UnknownTopicOrPartition
from minibroker.spark.errors import ReplayError


@dataclass(frozen=True, slots=True)
class Creation:
    """How topics that are not there are created.

    Attributes:
        is_allowed: else they are an error.
        partitions: of each; None for as many as the source has records in.
        configs: of each. Where timestamps are kept and nothing else is said, retention.ms is -1: old records would be deleted at once.
    """

    is_allowed: bool = True
    partitions: int | None = None
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TargetTopic:
    """A topic that is there."""

    name: str
    id: str  #: as text; "" of a broker that has none
    partition_count: int
    max_message_bytes: int


def prepare_topics(client: Client, partitions: Mapping[str, int], creation: Creation, *, keeps_timestamps: bool) -> dict[str, TargetTopic]:
    """The target topics by name.

    Args:
        client: of the target cluster.
        partitions: how many partitions each must have at least; 0 where that is not known.
        creation: of those that are missing.
        keeps_timestamps: whether records keep theirs.

    Raises:
        ReplayError: a topic is missing and may not be created, has too few partitions, or would stamp the records itself.
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
                f" 'minibroker topics alter {name} --partitions {partitions[name]}' adds what is missing"
            )
        if keeps_timestamps and values.get("message.timestamp.type") == "LogAppendTime":
            raise ReplayError(f"topic {name} stamps records itself (message.timestamp.type=LogAppendTime): timestamps cannot be kept")
        found[name] = TargetTopic(name, topic_id_of(topic), count, int(values["max.message.bytes"]))
    return found


def ensure_topic(client: Client, name: str, partition_count: int, configs: Mapping[str, str]) -> None:
    """Create a topic unless somebody just did, and wait until it has leaders."""
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
