"""The assignors of the broker by name. A group takes the one that most of its members ask for.

The assignor `range`: of each topic every member has a run of partitions that lie side by side.

Members are taken in one order for all topics, static ones first, so that partitions of the same number in topics of the same size come to
the same member. What was assigned before does not count. Source: RangeAssignor of Apache Kafka 4.3.1.

The assignor `uniform` for members who all subscribed to the same: nobody has more than one partition more than another.

A member keeps what it has as far as its share goes. Where it does not come out even, one partition more is for members who have it
already, the earlier ones first, and else for the last members. What is left goes to who has too little.

Source: UniformHomogeneousAssignmentBuilder of Apache Kafka 4.3.1, whose hash tables take members and topics in an order of their own; here
members come in the order in which they are given, topics in that of their ids.

The assignor `uniform` for members who subscribed to different topics: as even as the subscriptions allow.

    1. a member keeps what it has of the topics that it is still subscribed to
    2. what is free goes to the subscribers who have the least; topics with many partitions a subscriber first
    3. each topic is made even among its subscribers, from who has the most to who has the least, and again, until nothing moves
       in a whole round over the topics, or after 16 rounds

Where subscriptions overlap without being the same the result is almost even: each topic is, the whole may not be.
Source: UniformHeterogeneousAssignmentBuilder of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final
from uuid import UUID

from minibroker.coordinator.group.modern import Assignment, MemberSpec, frozen
from minibroker.errors import UnsupportedAssignor

UNIFORM: Final = "uniform"
RANGE: Final = "range"
ASSIGNORS: Final = (
    UNIFORM,
    RANGE,
)  #: group.consumer.assignors names those that members may ask for; the first one is for who asks for none


def check_assignor(name: str | None, assignors: Sequence[str] = ASSIGNORS) -> None:
    """UnsupportedAssignor where a member asks for one that is not there."""
    if name is not None and name not in assignors:
        raise UnsupportedAssignor(f"ServerAssignor {name} is not supported. Supported assignors: {', '.join(assignors)}.")


def preferred(names: Iterable[str | None], assignors: Sequence[str] = ASSIGNORS) -> str:
    """The one with the most votes; of several that which the older members want."""
    votes = Counter(name for name in names if name is not None and name in assignors)
    return votes.most_common(1)[0][0] if votes else assignors[0]


def assign(
    name: str, members: Mapping[str, MemberSpec], partition_counts: Mapping[UUID, int], *, is_homogeneous: bool
) -> dict[str, Assignment]:
    """What each member shall have. `is_homogeneous`: all of them subscribed to the same."""
    if not members:
        return {}
    if name == RANGE:
        return assign_ranges(members, partition_counts)
    return (assign_uniform if is_homogeneous else assign_uneven)(members, partition_counts)


def assign_ranges(members: Mapping[str, MemberSpec], partition_counts: Mapping[UUID, int]) -> dict[str, Assignment]:
    """What each member shall have."""
    found: dict[str, dict[UUID, frozenset[int]]] = {member_id: {} for member_id in members}
    ordered = sorted(members, key=lambda member_id: _rank(member_id, members[member_id]))
    for topic_id in sorted({topic_id for member in members.values() for topic_id in member.topics}):
        subscribers = [member_id for member_id in ordered if topic_id in members[member_id].topics]
        share, extra = divmod(partition_counts[topic_id], len(subscribers))
        start = 0
        for index, member_id in enumerate(subscribers):
            end = start + share + (index < extra)
            if start < end:
                found[member_id][topic_id] = frozenset(range(start, end))
            start = end
    return dict(found)


def _rank(member_id: str, member: MemberSpec) -> tuple[bool, str]:
    return (True, member_id) if member.instance_id is None else (False, member.instance_id)


def assign_uniform(members: Mapping[str, MemberSpec], partition_counts: Mapping[UUID, int]) -> dict[str, Assignment]:
    """What each member shall have. All have the same topics."""
    topics = sorted(next(iter(members.values())).topics)
    had = {(topic_id, partition) for member in members.values() for topic_id, owned in member.assignment.items() for partition in owned}
    free = [(topic_id, each) for topic_id in topics for each in range(partition_counts[topic_id]) if (topic_id, each) not in had]
    share, extra = divmod(sum(partition_counts[topic_id] for topic_id in topics), len(members))
    found: dict[str, dict[UUID, set[int]]] = {}
    unfilled: list[tuple[str, int]] = []
    for index, (member_id, member) in enumerate(members.items()):
        quota = share + (extra > 0)
        found[member_id] = {}
        for topic_id in sorted(member.assignment.keys() & member.topics):
            owned = sorted(member.assignment[topic_id])
            found[member_id][topic_id] = set(owned[:quota])
            free += [(topic_id, partition) for partition in owned[quota:]]
            quota -= min(quota, len(owned))
        if extra and quota and len(members) - index > extra:
            quota -= 1
        elif extra:
            extra -= 1
        if quota:
            unfilled.append((member_id, quota))
    waiting = iter(free)
    for member_id, quota in unfilled:
        for _, (topic_id, partition) in zip(range(quota), waiting, strict=False):
            found[member_id].setdefault(topic_id, set()).add(partition)
    return {member_id: frozen(assignment) for member_id, assignment in found.items()}


_MAX_ROUNDS: Final = 16
_NOBODY: Final = -1


def assign_uneven(members: Mapping[str, MemberSpec], partition_counts: Mapping[UUID, int]) -> dict[str, Assignment]:
    """What each member shall have."""
    building = _Building(list(members.values()), partition_counts)
    building.hand_out()
    building.balance()
    return dict(zip(members, building.assignments(), strict=True))


class _Building:
    """Owners of partitions; members are known by their place among the given."""

    def __init__(self, members: Sequence[MemberSpec], partition_counts: Mapping[UUID, int]) -> None:
        self._sizes = [0] * len(members)  #: how many partitions each member has
        self._subscribers: dict[UUID, list[int]] = {}
        for index, member in enumerate(members):
            for topic_id in member.topics:
                self._subscribers.setdefault(topic_id, []).append(index)
        self._topics = sorted(self._subscribers, key=lambda each: self._rank(each, partition_counts[each]))
        self._owners = {topic_id: [_NOBODY] * partition_counts[topic_id] for topic_id in self._topics}
        for index, member in enumerate(members):
            for topic_id in member.assignment.keys() & member.topics:
                for partition in member.assignment[topic_id]:
                    self._give(topic_id, partition, index)

    def _rank(self, topic_id: UUID, partition_count: int) -> tuple[float, int, UUID]:
        subscriber_count = len(self._subscribers[topic_id])
        return -partition_count / subscriber_count, subscriber_count, topic_id

    def _give(self, topic_id: UUID, partition: int, index: int) -> None:
        before = self._owners[topic_id][partition]
        if before != _NOBODY:
            self._sizes[before] -= 1
        self._owners[topic_id][partition] = index
        self._sizes[index] += 1

    def hand_out(self) -> None:
        """Give what nobody has to those who have the least."""
        for topic_id in self._topics:
            line = _Line(self._subscribers[topic_id], self._sizes)
            for partition, owner in enumerate(self._owners[topic_id]):
                if owner == _NOBODY:
                    self._give(topic_id, partition, line.next_least())

    def balance(self) -> None:
        """Make topics even one after the other."""
        topics = [topic_id for topic_id in self._topics if len(self._subscribers[topic_id]) > 1]
        last_moved: UUID | None = None
        for _ in range(_MAX_ROUNDS):
            for topic_id in topics:
                if topic_id == last_moved:
                    return
                if self._balance(topic_id) or last_moved is None:
                    last_moved = topic_id

    def _balance(self, topic_id: UUID) -> bool:
        """Whether a partition of the topic moved."""
        line = _Line(self._subscribers[topic_id], self._sizes)
        if line.spread <= 1:
            return False
        owned: dict[int, list[int]] = {}
        for partition, owner in enumerate(self._owners[topic_id]):
            owned.setdefault(owner, []).append(partition)
        has_moved = False
        while not line.is_even():
            giver = line.next_most()
            while giver is not None and not owned.get(giver):
                line.exclude()
                giver = line.next_most()
            if giver is None:
                break
            partition = owned[giver].pop()
            taker = line.next_least()
            if line.is_even():
                break
            self._give(topic_id, partition, taker)
            has_moved = True
        return has_moved

    def assignments(self) -> list[Assignment]:
        """Of each member, in the order of the members."""
        found: list[dict[UUID, list[int]]] = [{} for _ in self._sizes]
        for topic_id, owners in self._owners.items():
            for partition, owner in enumerate(owners):
                found[owner].setdefault(topic_id, []).append(partition)
        return [frozen(each) for each in found]


class _Line:
    """Subscribers of a topic by how much they have. From its left end partitions are given to, from its right end they are taken.

    Two runs of members grow towards each other: all in a run have the same `size`, and each is asked once before the run moves on by
    one partition and takes in the neighbours that have as many. `sizes` is as it was when the line was made, for members outside of them.
    """

    def __init__(self, subscribers: Sequence[int], sizes: Sequence[int]) -> None:
        self._sizes = sizes
        self._line = sorted(subscribers, key=lambda index: (sizes[index], index))
        least, most = sizes[self._line[0]], sizes[self._line[-1]]
        self.spread = most - least
        self._least_size, self._least_end, self._next_least = least - 1, 0, 0
        self._most_size, self._most_start, self._most_end = most + 1, len(self._line), len(self._line)
        self._next_most = len(self._line) - 1

    def is_even(self) -> bool:
        """Whether the runs differ by one partition at most."""
        return self._most_size - self._least_size <= 1

    def next_least(self) -> int:
        """Who shall be given a partition."""
        if self._next_least >= self._least_end:
            self._least_size += 1
            while self._least_end < len(self._line) and self._sizes[self._line[self._least_end]] == self._least_size:
                self._least_end += 1
            self._next_least = 0
        self._next_least += 1
        return self._line[self._next_least - 1]

    def next_most(self) -> int | None:
        """Who shall give a partition; None where nobody has any left."""
        if self._next_most < self._most_start:
            if self._most_end <= self._most_start and self._most_start > 0:
                self._most_size = self._sizes[self._line[self._most_start - 1]]
            else:
                self._most_size -= 1
            while self._most_start > 0 and self._sizes[self._line[self._most_start - 1]] == self._most_size:
                self._most_start -= 1
            self._next_most = self._most_end - 1
        if self._next_most < 0:
            return None
        self._next_most -= 1
        return self._line[self._next_most + 1]

    def exclude(self) -> None:
        """Who was asked last has nothing to give: it leaves the run."""
        place, last = self._next_most + 1, self._most_end - 1
        self._line[place], self._line[last] = self._line[last], self._line[place]
        self._most_end -= 1
