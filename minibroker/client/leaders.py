"""Send requests to the leaders of partitions, until each partition has a final answer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar

from minibroker.client.client import Client
from minibroker.client.connection import Connection
from minibroker.client.errors import BrokerUnreachable, refusal
from minibroker.client.transport import Deadline
from minibroker.errors import KafkaError, LeaderNotAvailable, UnknownTopicOrPartition

T = TypeVar("T")

TopicPartition = tuple[str, int]

NO_LEADER: Final = -1
ELECTION_MS: Final = 3_000  #: after so long without a leader, a partition has lost its replicas as far as a user can see


def ask_leaders(
    client: Client,
    requested: Iterable[TopicPartition],
    ask: Callable[[Connection, list[TopicPartition]], Mapping[TopicPartition, T | KafkaError]],
    deadline: Deadline,
    *,
    leader_wait_ms: int | None = None,
) -> dict[TopicPartition, T | KafkaError]:
    """Return the answer or the final error for each partition; retriable errors are retried until the deadline.

    Args:
        client: finds the leaders.
        requested: the partitions.
        ask: asks one leader about partitions that it leads.
        deadline: the limit, after which TimedOut is raised.
        leader_wait_ms: a partition without a leader for so long gets LeaderNotAvailable; None waits until the deadline.
    """
    found: dict[TopicPartition, T | KafkaError] = {}
    election = Deadline(leader_wait_ms)
    left = list(dict.fromkeys(requested))
    while left:
        reason: Exception | None = None
        leaders = _by_leader(client, left, deadline, found)
        for name, index in leaders.pop(NO_LEADER, []):
            reason = LeaderNotAvailable(f"topic {name} partition {index} has no leader")
            if election.over:
                found[name, index] = reason
        for leader_id, partitions in leaders.items():
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
            deadline.pause(reason or LeaderNotAvailable(f"topic {left[0][0]} is not available yet"))
    return found


def _by_leader(
    client: Client, requested: Iterable[TopicPartition], deadline: Deadline, found: dict[TopicPartition, T | KafkaError]
) -> dict[int, list[TopicPartition]]:
    """Group partitions by their leader, or by NO_LEADER. The error of a partition that does not exist is entered in `found`."""
    keys = list(requested)
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
        else:
            leaders[max(leader_ids[0], NO_LEADER)].append((name, index))
    return leaders
