"""Read, write and delete the committed offsets of groups, from outside the group."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from minibroker.client.client import Client
from minibroker.client.connection import Connection
from minibroker.client.coordinators import ask_coordinators
from minibroker.client.errors import refusal
from minibroker.client.leaders import TopicPartition
from minibroker.client.transport import Deadline
from minibroker.errors import CoordinatorLoadInProgress, CoordinatorNotAvailable, KafkaError, NotCoordinator, UnstableOffsetCommit
from minibroker.schemas import k08_offset_commit, k09_offset_fetch, k47_offset_delete
from minibroker.schemas.k10_find_coordinator import GROUP

K = TypeVar("K")
V = TypeVar("V")

NEWEST_WITH_NAMES: Final = 9  #: of OffsetCommit and OffsetFetch. Deleted topics have no id, but they may have offsets.
SEVERAL_GROUPS_SINCE: Final = 8
STABLE_SINCE: Final = 7
NOT_READY: Final = (CoordinatorLoadInProgress, CoordinatorNotAvailable, NotCoordinator)


class Committed(NamedTuple):
    """The next offset that the group reads."""

    offset: int
    leader_epoch: int | None
    metadata: str  #: the client's own data
    lag: int | None = None  #: of a share group: the number of records still to deliver; None if the coordinator does not report it


Offsets = dict[TopicPartition, Committed | KafkaError]
Results = dict[TopicPartition, KafkaError | None]


def committed_offsets(
    client: Client, groups: Iterable[str], *, decided: Collection[TopicPartition] = ()
) -> dict[str, Offsets | KafkaError]:
    """Return the committed offsets of each group, by partition in order; none for a group that does not exist.

    An open transaction may commit another offset. For the partitions in `decided`, wait for its end (KIP-447) if the broker
    supports it; other partitions may then be UnstableOffsetCommit.
    """
    deadline = client.deadline()

    def ask(connection: Connection, keys: list[str]) -> Mapping[str, Offsets | KafkaError]:
        if connection.version_for(k09_offset_fetch, NEWEST_WITH_NAMES) >= SEVERAL_GROUPS_SINCE:
            offset_request = k09_offset_fetch.Request(
                groups=[k09_offset_fetch.Group(group_id=key, topics=None) for key in keys], require_stable=bool(decided)
            )
            response: k09_offset_fetch.Response = connection.ask(k09_offset_fetch, offset_request, deadline, most=NEWEST_WITH_NAMES)
            return {
                each.group_id: refusal(each.error_code, f"group {each.group_id}") or _if_decided(_offsets(each), decided)
                for each in response.groups
            }
        found: dict[str, Offsets | KafkaError] = {}
        for key in keys:
            request = k09_offset_fetch.Request(group_id=key, topics=None, require_stable=bool(decided) and _knows_stable(connection))
            answer = connection.ask(k09_offset_fetch, request, deadline)
            found[key] = refusal(answer.error_code, f"group {key}") or _if_decided(_offsets(answer), decided)
        return found

    return ask_coordinators(client, GROUP, groups, ask, deadline)


def commit_offsets(client: Client, group: str, offsets: Mapping[TopicPartition, int]) -> Results:
    """Commit for a group without members. Returns the error of each partition, or None; KafkaError if the coordinator rejects all."""
    return commit_as_member(client, group, offsets, member_id="", epoch=-1)


def commit_as_member(client: Client, group: str, offsets: Mapping[TopicPartition, int], *, member_id: str, epoch: int) -> Results:
    """Commit for a member in its epoch. Returns and raises as `commit_offsets`."""
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
    """Delete a group's offsets of topics that it does not read. Returns the error of each partition, or None; KafkaError if all fails."""
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
    """Ask the coordinator of one group. Retries while it is not ready, which it reports for every partition."""
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


def _if_decided(offsets: Offsets, decided: Collection[TopicPartition]) -> Offsets | KafkaError:
    """Return the offsets, or the error that makes the caller retry because a partition in `decided` has an open transaction."""
    return next((answer for key in decided if isinstance(answer := offsets.get(key), UnstableOffsetCommit)), None) or offsets


def _offsets(group: k09_offset_fetch.GroupResult | k09_offset_fetch.Response) -> Offsets:
    found: Offsets = {}
    for topic in group.topics:
        for each in topic.partitions:
            error = refusal(each.error_code, f"committed offset of {topic.name}-{each.partition_index}")
            epoch = None if each.committed_leader_epoch < 0 else each.committed_leader_epoch
            if error is not None or each.committed_offset >= 0:
                found[topic.name, each.partition_index] = error or Committed(each.committed_offset, epoch, each.metadata or "")
    return dict(sorted(found.items()))
