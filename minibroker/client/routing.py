"""Send requests to the leaders of partitions, and to the coordinators of groups and transactional ids.

Each function retries until every partition or key has a final answer, or the deadline has passed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar

from minibroker.client.client import Client
from minibroker.client.connection import Connection
from minibroker.client.errors import BrokerUnreachable, refusal
from minibroker.client.transport import Deadline
from minibroker.errors import CoordinatorNotAvailable, KafkaError, LeaderNotAvailable, UnknownTopicOrPartition
from minibroker.schemas import k10_find_coordinator
from minibroker.schemas.k10_find_coordinator import GROUP, TRANSACTION

T = TypeVar("T")

TopicPartition = tuple[str, int]

NO_LEADER: Final = -1
ELECTION_MS: Final = 3_000  #: a partition that has no leader for this long has probably lost its replicas


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
        leader_wait_ms: a partition that has no leader for this long gets LeaderNotAvailable; None waits until the deadline.
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
            found[name, index] = UnknownTopicOrPartition(f"topic {name} has no partition {index} (it has {len(topic.partitions)})")
        else:
            leaders[max(leader_ids[0], NO_LEADER)].append((name, index))
    return leaders


SEVERAL_KEYS_SINCE = 4
KEY_NAMES = {GROUP: "group", TRANSACTION: "transactional id"}


def ask_coordinators(
    client: Client,
    key_type: int,
    keys: Iterable[str],
    ask: Callable[[Connection, list[str]], Mapping[str, T | KafkaError]],
    deadline: Deadline,
) -> dict[str, T | KafkaError]:
    """Return the answer or the final error for each key; retriable errors are retried until the deadline.

    `ask` asks one coordinator about its keys. If the topic of the coordinators' state does not exist yet, the broker creates it.
    """
    found: dict[str, T | KafkaError] = {}
    left = list(dict.fromkeys(keys))
    while left:
        reason: Exception | None = None
        nodes: dict[int, list[str]] = defaultdict(list)
        for key, answer in find_coordinators(client, key_type, left, deadline).items():
            if isinstance(answer, int):
                nodes[answer].append(key)
            elif answer.retriable:
                reason = answer
            else:
                found[key] = answer
        for node_id, node_keys in nodes.items():
            try:
                answers = ask(client.to_node(node_id, deadline), node_keys)
            except BrokerUnreachable as error:
                reason = error
                continue
            for key, result in answers.items():
                if isinstance(result, KafkaError) and result.retriable:
                    reason = result
                else:
                    found[key] = result
        left = [key for key in left if key not in found]
        if left:
            deadline.pause(reason or CoordinatorNotAvailable(f"no coordinator answers for {KEY_NAMES[key_type]} {left[0]}"))
    return found


def find_coordinators(client: Client, key_type: int, keys: list[str], deadline: Deadline) -> dict[str, int | KafkaError]:
    """Return the node id of each key's coordinator, or the error. Sends one request."""
    found: dict[str, int | KafkaError] = {}
    connection = client.retrying(lambda: client.to_any(deadline), deadline)
    if connection.version_for(k10_find_coordinator) >= SEVERAL_KEYS_SINCE:
        request = k10_find_coordinator.Request(key_type=key_type, coordinator_keys=keys)
        response: k10_find_coordinator.Response = client.ask(k10_find_coordinator, request, deadline)
        for each in response.coordinators:
            error = refusal(each.error_code, f"coordinator of {KEY_NAMES[key_type]} {each.key}", each.error_message)
            found[each.key] = each.node_id if error is None else error
        return found
    for key in keys:
        answer: k10_find_coordinator.Response = client.ask(
            k10_find_coordinator, k10_find_coordinator.Request(key=key, key_type=key_type), deadline
        )
        error = refusal(answer.error_code, f"coordinator of {KEY_NAMES[key_type]} {key}", answer.error_message)
        found[key] = answer.node_id if error is None else error
    return found
