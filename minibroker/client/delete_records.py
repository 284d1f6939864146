"""Records of partitions are deleted below an offset, asked of the partitions' leaders."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from minibroker.client.client import Client
from minibroker.client.connection import Connection
from minibroker.client.errors import refusal
from minibroker.client.leaders import TopicPartition, ask_leaders
from minibroker.errors import KafkaError
from minibroker.schemas import k21_delete_records

HIGH_WATERMARK = -1  #: everything that a reader can see
_TIMEOUT_MS = 60_000


def delete_records(client: Client, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | KafkaError]:
    """Each partition's log start offset behind the deletion, or the error that is final; retriable errors are tried again.

    `before` has the offset of the first record to keep, or HIGH_WATERMARK.
    """
    deadline = client.deadline()

    def ask(connection: Connection, partitions: list[TopicPartition]) -> Mapping[TopicPartition, int | KafkaError]:
        topics: dict[str, list[k21_delete_records.Partition]] = defaultdict(list)
        for name, index in partitions:
            topics[name].append(k21_delete_records.Partition(partition_index=index, offset=before[name, index]))
        request = k21_delete_records.Request(
            topics=[k21_delete_records.Topic(name=name, partitions=each) for name, each in topics.items()],
            timeout_ms=deadline.remaining_ms(_TIMEOUT_MS),
        )
        response: k21_delete_records.Response = connection.ask(k21_delete_records, request, deadline)
        return {
            (topic.name, each.partition_index): refusal(each.error_code, f"records of {topic.name}-{each.partition_index}")
            or each.low_watermark
            for topic in response.topics
            for each in topic.partitions
        }

    return ask_leaders(client, before, ask, deadline)
