"""Which topic a name means now: one that is deleted and created anew is another topic, though of the same name."""

from __future__ import annotations

from minibroker.client.errors import TopicReplaced
from minibroker.schemas import k03_metadata
from minibroker.storage.partition_metadata import format_uuid


def topic_id_of(topic: k03_metadata.TopicResult) -> str:
    """As Kafka's tools print it, 22 characters; "" of a broker that has no ids."""
    return format_uuid(topic.topic_id) if topic.topic_id.int else ""


def check_topic_id(topic: k03_metadata.TopicResult, expected: str, meanwhile: str) -> None:
    """TopicReplaced for a topic that has not the id it had; "" is any. `meanwhile` tells what went on: "it was read"."""
    found = topic_id_of(topic)
    if expected and found and found != expected:
        raise TopicReplaced(f"topic {topic.name} was deleted and created anew while {meanwhile}")
