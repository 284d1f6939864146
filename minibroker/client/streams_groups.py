"""Streams groups (KIP-1071) as their coordinator knows them: members of a Kafka Streams application, and their tasks.

A task is a subtopology at one partition: who is active at it reads that partition of every topic of the subtopology that has so many.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from minibroker.client.client import Client
from minibroker.client.deadline import Deadline
from minibroker.client.leaders import TopicPartition
from minibroker.schemas import k89_streams_group_describe as k89

STREAMS: Final = "streams"  #: the type and the protocol type of these groups


def topics_read(group: k89.Group) -> dict[str, list[str]]:
    """Of each subtopology the topics that it reads: from outside, and from other subtopologies."""
    subtopologies = group.topology.subtopologies if group.topology is not None else None
    return {
        each.subtopology_id: [*each.source_topics, *(topic.name for topic in each.repartition_source_topics)]
        for each in subtopologies or ()
    }


def partition_counts(client: Client, topics: Mapping[str, list[str]], deadline: Deadline) -> dict[str, int]:
    """Of the topics that are there."""
    names = sorted({name for each in topics.values() for name in each})
    found = client.metadata(names, deadline).topics if names else []
    return {topic.name: len(topic.partitions) for topic in found if topic.name is not None and topic.error_code == 0}


def partitions_read(assignment: k89.Assignment, topics: Mapping[str, list[str]], counts: Mapping[str, int]) -> tuple[TopicPartition, ...]:
    """What is read by who is active at these tasks."""
    return tuple(
        sorted(
            (name, partition)
            for task in assignment.active_tasks
            for name in topics.get(task.subtopology_id, ())
            for partition in task.partitions
            if partition < counts.get(name, 0)
        )
    )
