"""Asks the leaders of partitions, each for those that it leads, until there is a final answer for every partition."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from minibroker.client.client import Client
from minibroker.client.connection import Connection
from minibroker.client.deadline import Deadline
from minibroker.client.errors import BrokerUnreachable, refusal
from minibroker.errors import KafkaError, UnknownTopicOrPartition

T = TypeVar("T")

TopicPartition = tuple[str, int]


def ask_leaders(
    client: Client,
    wanted: Iterable[TopicPartition],
    ask: Callable[[Connection, list[TopicPartition]], Mapping[TopicPartition, T | KafkaError]],
    deadline: Deadline,
) -> dict[TopicPartition, T | KafkaError]:
    """The answer for each partition, or the error that is final; retriable errors are tried again until the deadline.

    `ask` asks one leader about partitions of its own.
    """
    found: dict[TopicPartition, T | KafkaError] = {}
    left = list(dict.fromkeys(wanted))
    while left:
        reason: Exception | None = None
        for leader_id, partitions in _by_leader(client, left, deadline, found).items():
            try:
                answers = ask(client.to_node(leader_id, deadline), partitions)
            except BrokerUnreachable as error:
                reason = error
                continue
            for key, answer in answers.items():
                if isinstance(answer, KafkaError) and answer.retriable and not isinstance(answer, UnknownTopicOrPartition):
                    reason = answer
                else:
                    found[key] = answer
        left = [key for key in left if key not in found]
        if left:
            deadline.pause(reason or UnknownTopicOrPartition("partitions without a leader"))
    return found


def _by_leader(
    client: Client, wanted: Iterable[TopicPartition], deadline: Deadline, found: dict[TopicPartition, T | KafkaError]
) -> dict[int, list[TopicPartition]]:
    """Group partitions by their leader; what does not exist is entered in `found` as its error."""
    keys = list(wanted)
    answer = client.metadata(sorted({topic for topic, _ in keys}), deadline)
    topics = {topic.name: topic for topic in answer.topics}
    leaders: dict[int, list[TopicPartition]] = defaultdict(list)
    for name, index in keys:
        topic = topics[name]
        error = refusal(topic.error_code, f"topic {name}")
        if error is not None:
            if not error.retriable or isinstance(error, UnknownTopicOrPartition):
                found[name, index] = error
            continue
        leader_ids = [partition.leader_id for partition in topic.partitions if partition.partition_index == index]
        if not leader_ids:
            found[name, index] = UnknownTopicOrPartition(f"topic {name}: there is no partition {index}, it has {len(topic.partitions)}")
        elif leader_ids[0] >= 0:
            leaders[leader_ids[0]].append((name, index))
    return leaders
