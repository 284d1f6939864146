"""The assignor `simple`: members share all partitions evenly, and several members may have one partition.

If all members have the same subscription, all partitions are assigned together, otherwise each
topic among its subscribers:

    1. each partition gets as many members as there are members for one partition, rounded up; each member gets an even share of these
    2. a member with more than its share gives up its first partitions
    3. a partition with too many members loses its first ones
    4. partitions with too few members get members below their share, in turn

A member keeps its partitions as far as possible. Source: SimpleHomogeneousAssignmentBuilder,
SimpleHeterogeneousAssignmentBuilder of Apache Kafka 4.3.1. Their hash tables order partitions
differently. Here partitions are sorted by topic id and index.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from math import ceil
from typing import Final
from uuid import UUID

from minibroker.coordinator.group.modern import Assignment, MemberSpec, frozen

SIMPLE: Final = "simple"  #: its name in configs and answers

Partition = tuple[UUID, int]


def assign_simple(members: Mapping[str, MemberSpec], assignable: Assignment) -> dict[str, Assignment]:
    """Return the target assignment of each member among the partitions that members may have."""
    found: dict[str, dict[UUID, set[int]]] = {member_id: {} for member_id in members}
    is_homogeneous = len({member.topics for member in members.values()}) == 1
    topics = sorted({topic_id for member in members.values() for topic_id in member.topics})
    for together in [topics] if is_homogeneous else [[topic_id] for topic_id in topics]:
        partitions = [(topic_id, index) for topic_id in together for index in sorted(assignable.get(topic_id, ()))]
        subscribers = {member_id: member for member_id, member in members.items() if member.topics.issuperset(together)}
        if partitions:
            _share(subscribers, partitions, found)
    return {member_id: frozen(each) for member_id, each in found.items()}


def _share(members: Mapping[str, MemberSpec], partitions: Sequence[Partition], found: dict[str, dict[UUID, set[int]]]) -> None:
    sharing = -(-len(members) // len(partitions))
    each = sharing * len(partitions) / len(members)
    quotas = {member_id: ceil(each * (index + 1)) - ceil(each * index) for index, member_id in enumerate(members)}
    readers: dict[Partition, list[str]] = {partition: [] for partition in partitions}
    for member_id, member in members.items():
        kept = sorted(partition for partition in _partitions(member.assignment) if partition in readers)
        for partition in kept[max(len(kept) - quotas[member_id], 0) :]:
            readers[partition].append(member_id)
    for partition in partitions:
        del readers[partition][: max(len(readers[partition]) - sharing, 0)]
    for some in readers.values():
        for member_id in some:
            quotas[member_id] -= 1
    _fill(readers, {member_id: missing for member_id, missing in quotas.items() if missing > 0}, sharing)
    for (topic_id, index), some in readers.items():
        for member_id in some:
            found[member_id].setdefault(topic_id, set()).add(index)


def _partitions(assignment: Assignment) -> Iterator[Partition]:
    return ((topic_id, index) for topic_id, indexes in assignment.items() for index in indexes)


def _fill(readers: dict[Partition, list[str]], missing: dict[str, int], sharing: int) -> None:
    """Give partitions to members below their share, in turn. A partition that all of them already have keeps fewer members."""
    turn = deque(missing)
    for some in readers.values():
        passed = 0  #: members in a row that already have this partition
        while len(some) < sharing and passed < len(turn):
            member_id = turn.popleft()
            if member_id in some:
                passed += 1
                turn.append(member_id)
                continue
            some.append(member_id)
            passed = 0
            missing[member_id] -= 1
            if missing[member_id]:
                turn.append(member_id)
