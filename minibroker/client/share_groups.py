"""Describe and change the start offsets of share groups (KIP-932). Several members may read one partition.

Start offsets are Committed, like committed offsets, with the lag: it does not count records that were acknowledged after the start.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from minibroker.client.client import Client
from minibroker.client.connection import Connection
from minibroker.client.coordinators import ask_coordinators
from minibroker.client.errors import refusal
from minibroker.client.group_offsets import Committed, Offsets, Results, by_topic, of_group
from minibroker.client.leaders import TopicPartition
from minibroker.client.transport import Deadline
from minibroker.errors import KafkaError
from minibroker.schemas import (
    k90_describe_share_group_offsets,
    k91_alter_share_group_offsets,
    k92_delete_share_group_offsets,
)
from minibroker.schemas.k10_find_coordinator import GROUP

SHARE: Final = "share"  #: the type and the protocol type of these groups


def share_offsets(client: Client, groups: Iterable[str]) -> dict[str, Offsets | KafkaError]:
    """Return the start offsets of each group, by partition in order, without partitions that still start by share.auto.offset.reset."""
    deadline = client.deadline()

    def ask(connection: Connection, keys: list[str]) -> Mapping[str, Offsets | KafkaError]:
        requested = [k90_describe_share_group_offsets.Group(group_id=key, topics=None) for key in keys]
        request = k90_describe_share_group_offsets.Request(groups=requested)
        response: k90_describe_share_group_offsets.Response = connection.ask(k90_describe_share_group_offsets, request, deadline)
        return {
            each.group_id: refusal(each.error_code, f"group {each.group_id}", each.error_message) or _offsets(each)
            for each in response.groups
        }

    return ask_coordinators(client, GROUP, groups, ask, deadline)


def _offsets(group: k90_describe_share_group_offsets.GroupResult) -> Offsets:
    found: Offsets = {}
    for topic in group.topics:
        for each in topic.partitions:
            error = refusal(each.error_code, f"start offset of {topic.topic_name}-{each.partition_index}", each.error_message)
            if error is not None or each.start_offset >= 0:
                committed = Committed(each.start_offset, each.leader_epoch, "", lag=None if each.lag < 0 else each.lag)
                found[topic.topic_name, each.partition_index] = error or committed
    return dict(sorted(found.items()))


def alter_share_offsets(client: Client, group: str, offsets: Mapping[TopicPartition, int]) -> Results:
    """Set the start offsets of a group without members. Returns the error of each partition, or None; KafkaError if all is rejected."""
    topics = [
        k91_alter_share_group_offsets.Topic(
            topic_name=topic,
            partitions=[
                k91_alter_share_group_offsets.Partition(partition_index=index, start_offset=offset) for index, offset in partitions.items()
            ],
        )
        for topic, partitions in by_topic(offsets).items()
    ]
    request = k91_alter_share_group_offsets.Request(group_id=group, topics=topics)

    def ask(connection: Connection, deadline: Deadline) -> Results | KafkaError:
        response: k91_alter_share_group_offsets.Response = connection.ask(k91_alter_share_group_offsets, request, deadline)
        return refusal(response.error_code, f"group {group}", response.error_message) or {
            (topic.topic_name, each.partition_index): refusal(
                each.error_code, f"group {group}: {topic.topic_name}-{each.partition_index}", each.error_message
            )
            for topic in response.responses
            for each in topic.partitions
        }

    return of_group(client, group, ask)


def delete_share_offsets(client: Client, group: str, topics: Iterable[str]) -> dict[str, KafkaError | None]:
    """Delete the start offsets of a group without members for topics. Returns the error of each, or None; KafkaError if all is rejected."""
    requested = [k92_delete_share_group_offsets.Topic(topic_name=topic) for topic in topics]
    request = k92_delete_share_group_offsets.Request(group_id=group, topics=requested)

    def ask(connection: Connection, deadline: Deadline) -> dict[str, KafkaError | None] | KafkaError:
        response: k92_delete_share_group_offsets.Response = connection.ask(k92_delete_share_group_offsets, request, deadline)
        return refusal(response.error_code, f"group {group}", response.error_message) or {
            each.topic_name: refusal(each.error_code, f"group {group}: topic {each.topic_name}", each.error_message)
            for each in response.responses
        }

    return of_group(client, group, ask)
