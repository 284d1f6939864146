"""Read, write and delete the offsets of groups, and plan resets.

Groups of the kinds classic, consumer and streams have committed offsets. Share groups (KIP-932) have start offsets, which are
CommittedOffset as well, with the lag. The lag does not count records after the start offset that are already acknowledged.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from minibroker.client.client import Client
from minibroker.client.connection import Connection
from minibroker.client.errors import refusal
from minibroker.client.offsets import EARLIEST, LATEST, FoundOffset, list_offsets
from minibroker.client.routing import TopicPartition, ask_coordinators
from minibroker.client.transport import Deadline
from minibroker.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    KafkaError,
    NotCoordinator,
    OffsetOutOfRange,
    UnstableOffsetCommit,
)
from minibroker.schemas import (
    k08_offset_commit,
    k09_offset_fetch,
    k47_offset_delete,
    k90_describe_share_group_offsets,
    k91_alter_share_group_offsets,
    k92_delete_share_group_offsets,
)
from minibroker.schemas.k10_find_coordinator import GROUP

K = TypeVar("K")
V = TypeVar("V")

NEWEST_WITH_NAMES: Final = 9  #: of OffsetCommit and OffsetFetch. Deleted topics have no id, but they may have offsets.
SEVERAL_GROUPS_SINCE: Final = 8
STABLE_SINCE: Final = 7
NOT_READY: Final = (CoordinatorLoadInProgress, CoordinatorNotAvailable, NotCoordinator)


class CommittedOffset(NamedTuple):
    """The next offset that the group reads."""

    offset: int
    leader_epoch: int | None
    metadata: str  #: the client's own data
    lag: int | None = None  #: of a share group: the number of records still to deliver; None if the coordinator does not report it


Offsets = dict[TopicPartition, CommittedOffset | KafkaError]
Results = dict[TopicPartition, KafkaError | None]


def committed_offsets(client: Client, groups: Iterable[str], *, stable: Collection[TopicPartition] = ()) -> dict[str, Offsets | KafkaError]:
    """Return the committed offsets of each group, by partition in order; none for a group that does not exist.

    An open transaction may commit another offset. For the partitions in `stable`, wait for its end (KIP-447) if the broker
    supports this. The result of other partitions may then be UnstableOffsetCommit.
    """
    deadline = client.deadline()

    def ask(connection: Connection, keys: list[str]) -> Mapping[str, Offsets | KafkaError]:
        if connection.version_for(k09_offset_fetch, NEWEST_WITH_NAMES) >= SEVERAL_GROUPS_SINCE:
            offset_request = k09_offset_fetch.Request(
                groups=[k09_offset_fetch.Group(group_id=key, topics=None) for key in keys], require_stable=bool(stable)
            )
            response: k09_offset_fetch.Response = connection.ask(k09_offset_fetch, offset_request, deadline, most=NEWEST_WITH_NAMES)
            return {
                each.group_id: refusal(each.error_code, f"group {each.group_id}") or _if_decided(_offsets(each), stable)
                for each in response.groups
            }
        found: dict[str, Offsets | KafkaError] = {}
        for key in keys:
            request = k09_offset_fetch.Request(group_id=key, topics=None, require_stable=bool(stable) and _knows_stable(connection))
            answer = connection.ask(k09_offset_fetch, request, deadline)
            found[key] = refusal(answer.error_code, f"group {key}") or _if_decided(_offsets(answer), stable)
        return found

    return ask_coordinators(client, GROUP, groups, ask, deadline)


def commit_offsets(client: Client, group: str, offsets: Mapping[TopicPartition, int]) -> Results:
    """Commit for a group without members.

    Returns:
        The error of each partition, or None.

    Raises:
        KafkaError: the coordinator rejects the whole request.
    """
    return commit_as_member(client, group, offsets, member_id="", epoch=-1)


def commit_as_member(client: Client, group: str, offsets: Mapping[TopicPartition, int], *, member_id: str, epoch: int) -> Results:
    """Commit for a member in its epoch. Returns and raises like `commit_offsets`."""
    request = k08_offset_commit.Request(
        group_id=group,
        generation_id_or_member_epoch=epoch,
        member_id=member_id,
        topics=[
            k08_offset_commit.Topic(
                name=topic,
                partitions=[
                    k08_offset_commit.Partition(partition_index=index, committed_offset=offset, committed_metadata="")
                    for index, offset in partitions.items()
                ],
            )
            for topic, partitions in by_topic(offsets).items()
        ],
    )

    def ask(connection: Connection, deadline: Deadline) -> Results:
        response: k08_offset_commit.Response = connection.ask(k08_offset_commit, request, deadline, most=NEWEST_WITH_NAMES)
        return _results(response.topics, f"group {group}")

    return of_group(client, group, ask)


def delete_offsets(client: Client, group: str, partitions: Iterable[TopicPartition]) -> Results:
    """Delete a group's offsets of topics that it does not read. Returns and raises like `commit_offsets`."""
    request = k47_offset_delete.Request(
        group_id=group,
        topics=[
            k47_offset_delete.Topic(name=topic, partitions=[k47_offset_delete.Partition(partition_index=index) for index in indexes])
            for topic, indexes in by_topic(dict.fromkeys(partitions)).items()
        ],
    )

    def ask(connection: Connection, deadline: Deadline) -> Results | KafkaError:
        response: k47_offset_delete.Response = connection.ask(k47_offset_delete, request, deadline)
        return refusal(response.error_code, f"group {group}") or _results(response.topics, f"group {group}")

    return of_group(client, group, ask)


def by_topic(offsets: Mapping[TopicPartition, V]) -> dict[str, dict[int, V]]:
    """Group values of partitions by topic."""
    found: dict[str, dict[int, V]] = defaultdict(dict)
    for (topic, index), value in sorted(offsets.items(), key=lambda item: item[0]):
        found[topic][index] = value
    return found


def of_group(
    client: Client, group: str, ask: Callable[[Connection, Deadline], dict[K, KafkaError | None] | KafkaError]
) -> dict[K, KafkaError | None]:
    """Ask the coordinator of one group. Retry while the coordinator reports for every partition that it is not ready."""
    deadline = client.deadline()

    def ask_one(connection: Connection, _: list[str]) -> dict[str, dict[K, KafkaError | None] | KafkaError]:
        answer = ask(connection, deadline)
        errors = () if isinstance(answer, KafkaError) else answer.values()
        return {group: next((error for error in errors if isinstance(error, NOT_READY)), answer)}

    (answer,) = ask_coordinators(client, GROUP, [group], ask_one, deadline).values()
    if isinstance(answer, KafkaError):
        raise answer
    return answer


def _results(topics: Sequence[k08_offset_commit.TopicResult] | Sequence[k47_offset_delete.TopicResult], what: str) -> Results:
    return {
        (topic.name, partition.partition_index): refusal(partition.error_code, f"{what}: {topic.name}-{partition.partition_index}")
        for topic in topics
        for partition in topic.partitions
    }


def _knows_stable(connection: Connection) -> bool:
    return connection.version_for(k09_offset_fetch, NEWEST_WITH_NAMES) >= STABLE_SINCE


def _if_decided(offsets: Offsets, stable: Collection[TopicPartition]) -> Offsets | KafkaError:
    """Return the offsets. If a partition in `stable` has an open transaction, return its retriable error instead."""
    return next((answer for key in stable if isinstance(answer := offsets.get(key), UnstableOffsetCommit)), None) or offsets


def _offsets(group: k09_offset_fetch.GroupResult | k09_offset_fetch.Response) -> Offsets:
    found: Offsets = {}
    for topic in group.topics:
        for each in topic.partitions:
            error = refusal(each.error_code, f"committed offset of {topic.name}-{each.partition_index}")
            epoch = None if each.committed_leader_epoch < 0 else each.committed_leader_epoch
            if error is not None or each.committed_offset >= 0:
                found[topic.name, each.partition_index] = error or CommittedOffset(each.committed_offset, epoch, each.metadata or "")
    return dict(sorted(found.items()))


SHARE: Final = "share"  #: the type and the protocol type of these groups


def share_offsets(client: Client, groups: Iterable[str]) -> dict[str, Offsets | KafkaError]:
    """Return the start offsets of each share group, by partition in order, without partitions that have none yet."""
    deadline = client.deadline()

    def ask(connection: Connection, keys: list[str]) -> Mapping[str, Offsets | KafkaError]:
        requested = [k90_describe_share_group_offsets.Group(group_id=key, topics=None) for key in keys]
        request = k90_describe_share_group_offsets.Request(groups=requested)
        response: k90_describe_share_group_offsets.Response = connection.ask(k90_describe_share_group_offsets, request, deadline)
        return {
            each.group_id: refusal(each.error_code, f"group {each.group_id}", each.error_message) or _share_offsets(each)
            for each in response.groups
        }

    return ask_coordinators(client, GROUP, groups, ask, deadline)


def _share_offsets(group: k90_describe_share_group_offsets.GroupResult) -> Offsets:
    found: Offsets = {}
    for topic in group.topics:
        for each in topic.partitions:
            error = refusal(each.error_code, f"start offset of {topic.topic_name}-{each.partition_index}", each.error_message)
            if error is not None or each.start_offset >= 0:
                committed = CommittedOffset(each.start_offset, each.leader_epoch, "", lag=None if each.lag < 0 else each.lag)
                found[topic.topic_name, each.partition_index] = error or committed
    return dict(sorted(found.items()))


def alter_share_offsets(client: Client, group: str, offsets: Mapping[TopicPartition, int]) -> Results:
    """Set the start offsets of a share group without members. Returns and raises like `commit_offsets`."""
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
    """Delete the start offsets that a share group without members has in topics. Returns the error of each topic, or None."""
    requested = [k92_delete_share_group_offsets.Topic(topic_name=topic) for topic in topics]
    request = k92_delete_share_group_offsets.Request(group_id=group, topics=requested)

    def ask(connection: Connection, deadline: Deadline) -> dict[str, KafkaError | None] | KafkaError:
        response: k92_delete_share_group_offsets.Response = connection.ask(k92_delete_share_group_offsets, request, deadline)
        return refusal(response.error_code, f"group {group}", response.error_message) or {
            each.topic_name: refusal(each.error_code, f"group {group}: topic {each.topic_name}", each.error_message)
            for each in response.responses
        }

    return of_group(client, group, ask)


TO_EARLIEST: Final = "to-earliest"
TO_LATEST: Final = "to-latest"
TO_CURRENT: Final = "to-current"
TO_OFFSET: Final = "to-offset"
SHIFT_BY: Final = "shift-by"
TO_TIMESTAMP: Final = "to-timestamp"


class Reset(NamedTuple):
    """A requested reset: one of the strategies above, and its offset, number of offsets or ms since 1970."""

    strategy: str
    value: int = 0


class PlannedOffset(NamedTuple):
    """The plan of one partition; `new_offset` is between log start and log end."""

    committed_offset: int | None
    requested_offset: int  #: may be outside of the log
    new_offset: int
    log_start_offset: int
    log_end_offset: int


def plan_resets(
    client: Client, resets: Mapping[TopicPartition, Reset], committed: Offsets, *, group: str
) -> dict[TopicPartition, PlannedOffset | KafkaError]:
    """Return the new offset of each partition, or the error. Nothing is written.

    TO_TIMESTAMP gives the offset of the first record at or after the time, or the log end if there is no such record.
    """
    deadline = client.deadline()
    starts = list_offsets(client, dict.fromkeys(resets, EARLIEST), deadline=deadline)
    ends = list_offsets(client, dict.fromkeys(resets, LATEST), deadline=deadline)
    times = {key: reset.value for key, reset in resets.items() if reset.strategy == TO_TIMESTAMP}
    by_time = list_offsets(client, times, deadline=deadline) if times else {}
    return {
        key: _plan_one(reset, (starts[key], ends[key], by_time.get(key)), committed.get(key), what=f"group {group}: {key[0]}-{key[1]}")
        for key, reset in sorted(resets.items())
    }


def _plan_one(
    reset: Reset, answers: tuple[FoundOffset | KafkaError | None, ...], committed: CommittedOffset | KafkaError | None, *, what: str
) -> PlannedOffset | KafkaError:
    offsets = []
    for answer in (*answers, committed):
        if isinstance(answer, KafkaError):
            return answer
        offsets.append(None if answer is None else answer.offset)
    start, end, by_time, current = offsets
    if start is None or end is None:
        raise TypeError("every partition has a start and an end")
    return _planned(reset, start, end, current, by_time, what=what)


def _planned(reset: Reset, start: int, end: int, committed: int | None, by_time: int | None, *, what: str) -> PlannedOffset | KafkaError:
    if reset.strategy == SHIFT_BY and committed is None:
        return OffsetOutOfRange(f"{what} has no committed offset to shift")
    base = end if committed is None else committed
    requested_offset = {
        TO_EARLIEST: start,
        TO_LATEST: end,
        TO_CURRENT: base,
        TO_OFFSET: reset.value,
        SHIFT_BY: base + reset.value,
        TO_TIMESTAMP: end if by_time is None or by_time < 0 else by_time,
    }[reset.strategy]
    return PlannedOffset(committed, requested_offset, min(max(requested_offset, start), end), start, end)
