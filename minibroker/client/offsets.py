"""Offsets of partitions by name or by timestamp, asked of the partitions' leaders."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from minibroker.client.client import Client
from minibroker.client.deadline import Deadline
from minibroker.client.errors import BrokerUnreachable, UnsupportedByBroker, refusal
from minibroker.errors import KafkaError, UnknownTopicOrPartition
from minibroker.schemas import k02_list_offsets

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6

#: the names that Kafka's GetOffsetShell takes for --time
TIMES = {
    "latest": LATEST,
    "earliest": EARLIEST,
    "max-timestamp": MAX_TIMESTAMP,
    "earliest-local": EARLIEST_LOCAL,
    "latest-tiered": LATEST_TIERED,
    "earliest-pending-upload": EARLIEST_PENDING_UPLOAD,
}

#: the version of ListOffsets that first knows a special time; a broker below it would search for that timestamp
NEEDS_VERSION = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}

READ_UNCOMMITTED = 0
READ_COMMITTED = 1
ISOLATION_LEVELS = {"read_uncommitted": READ_UNCOMMITTED, "read_committed": READ_COMMITTED}

TopicPartition = tuple[str, int]


class FoundOffset(NamedTuple):
    """What a leader answered: offset -1 when no record is that late."""

    offset: int
    timestamp: int  #: of the record found by timestamp, else -1
    leader_epoch: int


def list_offsets(
    client: Client, wanted: Mapping[TopicPartition, int], *, isolation: int = READ_UNCOMMITTED, deadline: Deadline | None = None
) -> dict[TopicPartition, FoundOffset | KafkaError]:
    """The offset of each partition for its time, or the error that is final; retriable errors are tried again until the deadline."""
    deadline = deadline or client.deadline()
    found: dict[TopicPartition, FoundOffset | KafkaError] = {}
    left = dict(wanted)
    while left:
        reason: Exception | None = None
        for leader_id, partitions in _by_leader(client, left, deadline, found).items():
            try:
                answers = _ask_leader(client, leader_id, {key: left[key] for key in partitions}, isolation, deadline)
            except BrokerUnreachable as error:
                reason = error
                continue
            for key, answer in answers.items():
                if isinstance(answer, KafkaError) and answer.retriable and not isinstance(answer, UnknownTopicOrPartition):
                    reason = answer
                else:
                    found[key] = answer
        left = {key: time for key, time in left.items() if key not in found}
        if left:
            deadline.pause(reason or UnknownTopicOrPartition("partitions without a leader"))
    return found


def _by_leader(
    client: Client, wanted: Iterable[TopicPartition], deadline: Deadline, found: dict[TopicPartition, FoundOffset | KafkaError]
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
            found[name, index] = UnknownTopicOrPartition(f"topic {name} has no partition {index}: it has {len(topic.partitions)}")
        elif leader_ids[0] >= 0:
            leaders[leader_ids[0]].append((name, index))
    return leaders


def _ask_leader(
    client: Client, leader_id: int, wanted: Mapping[TopicPartition, int], isolation: int, deadline: Deadline
) -> dict[TopicPartition, FoundOffset | KafkaError]:
    connection = client.to_node(leader_id, deadline)
    needed = max(NEEDS_VERSION.get(time, 1) for time in wanted.values())
    if connection.version_for(k02_list_offsets) < needed:
        raise UnsupportedByBroker(f"{connection.address} serves ListOffsets below version {needed}, and does not know that --time")
    topics: dict[str, list[k02_list_offsets.Partition]] = defaultdict(list)
    for (name, index), time in wanted.items():
        topics[name].append(k02_list_offsets.Partition(partition_index=index, timestamp=time))
    request = k02_list_offsets.Request(
        replica_id=-1,
        isolation_level=isolation,
        topics=[k02_list_offsets.Topic(name=name, partitions=partitions) for name, partitions in topics.items()],
        timeout_ms=deadline.remaining_ms(30_000),
    )
    response: k02_list_offsets.Response = connection.ask(k02_list_offsets, request, deadline)
    return {
        (topic.name, partition.partition_index): refusal(partition.error_code, f"offsets of {topic.name}-{partition.partition_index}")
        or FoundOffset(partition.offset, partition.timestamp, partition.leader_epoch)
        for topic in response.topics
        for partition in topic.partitions
    }
