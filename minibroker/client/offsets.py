"""Look up offsets by name or by timestamp, delete records below an offset, and parse the times that users write.

Requests are sent to the partitions' leaders.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from minibroker.client.client import Client
from minibroker.client.connection import Connection
from minibroker.client.errors import UnsupportedByBroker, refusal
from minibroker.client.routing import TopicPartition, ask_leaders
from minibroker.client.transport import Deadline
from minibroker.errors import KafkaError
from minibroker.schemas import k02_list_offsets, k21_delete_records

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6

#: by the values of --time in Kafka's GetOffsetShell
TIMES = {
    "latest": LATEST,
    "earliest": EARLIEST,
    "max-timestamp": MAX_TIMESTAMP,
    "earliest-local": EARLIEST_LOCAL,
    "latest-tiered": LATEST_TIERED,
    "earliest-pending-upload": EARLIEST_PENDING_UPLOAD,
}

#: the first version of ListOffsets with a special time; an older broker would search for that timestamp
NEEDS_VERSION = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}

READ_UNCOMMITTED = 0
READ_COMMITTED = 1
ISOLATION_LEVELS = {"read_uncommitted": READ_UNCOMMITTED, "read_committed": READ_COMMITTED}

CONSUMER = -1  #: replica_id
DEBUGGER = -2  #: replica_id of a client that may read past the high watermark


HIGH_WATERMARK = -1  #: for `delete_records`: all records that a consumer can read
_DELETE_TIMEOUT_MS = 60_000


class Bounds(NamedTuple):
    """The offsets that bound the records of a partition. Each is at most the next one; log_end_offset is exclusive."""

    log_start_offset: int
    last_stable_offset: int  #: where read_committed ends
    high_watermark: int  #: where read_uncommitted ends
    log_end_offset: int


class FoundOffset(NamedTuple):
    """The answer of a leader. `offset` is -1 if no record has the time or a later one."""

    offset: int
    timestamp: int  #: of the record found by timestamp, else -1
    leader_epoch: int


def list_offsets(
    client: Client,
    positions: Mapping[TopicPartition, int],
    *,
    isolation: int = READ_UNCOMMITTED,
    replica_id: int = CONSUMER,
    deadline: Deadline | None = None,
    leader_wait_ms: int | None = None,
) -> dict[TopicPartition, FoundOffset | KafkaError]:
    """Look up offsets by time, and retry retriable errors until the deadline.

    Args:
        client: a client of the cluster.
        positions: for each partition a time in epoch milliseconds, or one of EARLIEST, LATEST and the other constants.
        isolation: READ_UNCOMMITTED or READ_COMMITTED; it decides where LATEST is.
        replica_id: CONSUMER, or DEBUGGER to look past the high watermark.
        deadline: the end of the operation. Default: `timeout_ms` of the client from now.
        leader_wait_ms: how long to wait for a partition without a leader. Default: until the deadline.

    Returns:
        The offset or the final error of each partition.
    """
    until = deadline or client.deadline()

    def ask(connection: Connection, partitions: list[TopicPartition]) -> Mapping[TopicPartition, FoundOffset | KafkaError]:
        return _ask_leader(connection, {key: positions[key] for key in partitions}, isolation, replica_id, until)

    return ask_leaders(client, positions, ask, until, leader_wait_ms=leader_wait_ms)


def bounds(
    client: Client, positions: Iterable[TopicPartition], *, leader_wait_ms: int | None = None
) -> dict[TopicPartition, Bounds | KafkaError]:
    """Return the bounds of partitions.

    They are requested in ascending order, so each is at most the next one even if the log grows meanwhile.

    Args:
        client: a client of the cluster.
        positions: topics and partition numbers.
        leader_wait_ms: how long to wait for a partition without a leader. Default: until the deadline.

    Returns:
        The bounds or the final error of each partition.
    """
    deadline = client.deadline()
    starts = list_offsets(client, dict.fromkeys(positions, EARLIEST), deadline=deadline, leader_wait_ms=leader_wait_ms)
    errors = {key: answer for key, answer in starts.items() if isinstance(answer, KafkaError)}
    keys = [key for key in starts if key not in errors]
    answers = [
        starts,
        list_offsets(client, dict.fromkeys(keys, LATEST), isolation=READ_COMMITTED, deadline=deadline),
        list_offsets(client, dict.fromkeys(keys, LATEST), deadline=deadline),
        list_offsets(client, dict.fromkeys(keys, LATEST), replica_id=DEBUGGER, deadline=deadline),
    ]
    return errors | {key: _bounds([answer[key] for answer in answers]) for key in keys}


def _bounds(found: list[FoundOffset | KafkaError]) -> Bounds | KafkaError:
    offsets = []
    for answer in found:
        if isinstance(answer, KafkaError):
            return answer
        offsets.append(answer.offset)
    return Bounds(*offsets)


def _ask_leader(
    connection: Connection, positions: Mapping[TopicPartition, int], isolation: int, replica_id: int, deadline: Deadline
) -> dict[TopicPartition, FoundOffset | KafkaError]:
    needed = max(NEEDS_VERSION.get(time, 1) for time in positions.values())
    if connection.version_for(k02_list_offsets) < needed:
        raise UnsupportedByBroker(f"{connection.address} serves ListOffsets below version {needed}, and does not support that --time")
    topics: dict[str, list[k02_list_offsets.Partition]] = defaultdict(list)
    for (name, index), time in positions.items():
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


def delete_records(client: Client, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | KafkaError]:
    """Delete records below an offset.

    Args:
        client: finds the leaders.
        before: the offset of the first record to keep, or HIGH_WATERMARK, by partition.

    Returns:
        The new log start offset of each partition, or the final error. Retriable errors are retried.
    """
    deadline = client.deadline()

    def ask(connection: Connection, partitions: list[TopicPartition]) -> Mapping[TopicPartition, int | KafkaError]:
        topics: dict[str, list[k21_delete_records.Partition]] = defaultdict(list)
        for name, index in partitions:
            topics[name].append(k21_delete_records.Partition(partition_index=index, offset=before[name, index]))
        request = k21_delete_records.Request(
            topics=[k21_delete_records.Topic(name=name, partitions=each) for name, each in topics.items()],
            timeout_ms=deadline.remaining_ms(_DELETE_TIMEOUT_MS),
        )
        response: k21_delete_records.Response = connection.ask(k21_delete_records, request, deadline)
        return {
            (topic.name, each.partition_index): refusal(each.error_code, f"records of {topic.name}-{each.partition_index}")
            or each.low_watermark
            for topic in response.topics
            for each in topic.partitions
        }

    return ask_leaders(client, before, ask, deadline)


_DURATION = re.compile(r"P(?:(\d+)D)?(?:T(?=\d)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:[.](\d{1,9}))?S)?)?", re.IGNORECASE | re.ASCII)


def epoch_ms(text: str) -> int:
    """Return a time in epoch milliseconds.

    Args:
        text: epoch milliseconds, or an ISO 8601 date or time: `1357034400000`, `2013-01-01`, `2013-01-01T10:00:00+01:00`.
            Without a zone, it is UTC.

    Returns:
        Milliseconds since 1970-01-01, UTC.

    Raises:
        ValueError: the text is not a time.
    """
    if text.isascii() and text.isdigit():
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a time: give epoch ms, or an ISO date such as 2013-06-01 or 2013-06-01T05:15:00Z") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    since_1970 = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return since_1970.days * 86_400_000 + since_1970.seconds * 1000 + since_1970.microseconds // 1000


def duration_ms(text: str) -> int:
    """Return a duration in milliseconds, as java.time.Duration parses it.

    Args:
        text: an ISO 8601 duration such as `P2DT3H4M5.5S`. Each part is optional.

    Returns:
        Milliseconds; fractions of one are dropped.

    Raises:
        ValueError: the text is not a duration.
    """
    match = _DURATION.fullmatch(text)
    if match is None or not any(match.groups()):
        raise ValueError(f"{text!r} is not a duration such as P2DT3H4M5S")
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups()[:4])
    thousandths = int((match[5] or "0").ljust(3, "0")[:3])
    return (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000 + thousandths
