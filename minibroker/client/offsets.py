"""Offsets of partitions by name or by timestamp, asked of the partitions' leaders."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from minibroker.client.client import Client
from minibroker.client.connection import Connection
from minibroker.client.deadline import Deadline
from minibroker.client.errors import UnsupportedByBroker, refusal
from minibroker.client.leaders import TopicPartition, ask_leaders
from minibroker.errors import KafkaError
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

CONSUMER = -1  #: replica_id
DEBUGGER = -2  #: replica_id of one that is no replica and may look behind the high watermark


class Bounds(NamedTuple):
    """The offsets that bound what there is in a partition; each is at most the next one, and the end is not there yet."""

    log_start_offset: int
    last_stable_offset: int  #: where read_committed ends
    high_watermark: int  #: where read_uncommitted ends
    log_end_offset: int


class FoundOffset(NamedTuple):
    """What a leader answered: offset -1 when no record is that late."""

    offset: int
    timestamp: int  #: of the record found by timestamp, else -1
    leader_epoch: int


def list_offsets(
    client: Client,
    wanted: Mapping[TopicPartition, int],
    *,
    isolation: int = READ_UNCOMMITTED,
    replica_id: int = CONSUMER,
    deadline: Deadline | None = None,
    leader_wait_ms: int | None = None,
) -> dict[TopicPartition, FoundOffset | KafkaError]:
    """The offset of each partition for its time, or the error that is final; retriable errors are tried again until the deadline.

    `leader_wait_ms`: as in `ask_leaders`.
    """
    until = deadline or client.deadline()

    def ask(connection: Connection, partitions: list[TopicPartition]) -> Mapping[TopicPartition, FoundOffset | KafkaError]:
        return _ask_leader(connection, {key: wanted[key] for key in partitions}, isolation, replica_id, until)

    return ask_leaders(client, wanted, ask, until, leader_wait_ms=leader_wait_ms)


def bounds(
    client: Client, wanted: Iterable[TopicPartition], *, leader_wait_ms: int | None = None
) -> dict[TopicPartition, Bounds | KafkaError]:
    """The bounds of each partition, asked one after the other from the first to the last, or the error that is final."""
    deadline = client.deadline()
    starts = list_offsets(client, dict.fromkeys(wanted, EARLIEST), deadline=deadline, leader_wait_ms=leader_wait_ms)
    refused = {key: answer for key, answer in starts.items() if isinstance(answer, KafkaError)}
    keys = [key for key in starts if key not in refused]
    answers = [
        starts,
        list_offsets(client, dict.fromkeys(keys, LATEST), isolation=READ_COMMITTED, deadline=deadline),
        list_offsets(client, dict.fromkeys(keys, LATEST), deadline=deadline),
        list_offsets(client, dict.fromkeys(keys, LATEST), replica_id=DEBUGGER, deadline=deadline),
    ]
    return refused | {key: _bounds([answer[key] for answer in answers]) for key in keys}


def _bounds(found: list[FoundOffset | KafkaError]) -> Bounds | KafkaError:
    offsets = []
    for answer in found:
        if isinstance(answer, KafkaError):
            return answer
        offsets.append(answer.offset)
    return Bounds(*offsets)


def _ask_leader(
    connection: Connection, wanted: Mapping[TopicPartition, int], isolation: int, replica_id: int, deadline: Deadline
) -> dict[TopicPartition, FoundOffset | KafkaError]:
    needed = max(NEEDS_VERSION.get(time, 1) for time in wanted.values())
    if connection.version_for(k02_list_offsets) < needed:
        raise UnsupportedByBroker(f"{connection.address} serves ListOffsets below version {needed}, and does not know that --time")
    topics: dict[str, list[k02_list_offsets.Partition]] = defaultdict(list)
    for (name, index), time in wanted.items():
        topics[name].append(k02_list_offsets.Partition(partition_index=index, timestamp=time))
    request = k02_list_offsets.Request(
        replica_id=replica_id,
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
