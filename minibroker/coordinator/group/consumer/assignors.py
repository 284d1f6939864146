"""The assignors of consumer groups. A group uses the one that most of its members name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final
from uuid import UUID

from minibroker.coordinator.group.modern import Assignment, MemberSpec, frozen
from minibroker.errors import UnsupportedAssignor

UNIFORM: Final = "uniform"
RANGE: Final = "range"
ASSIGNORS: Final = (UNIFORM, RANGE)  #: the allowed ones, unless group.consumer.assignors is set; the first is the default


def check_assignor(name: str | None, assignors: Sequence[str] = ASSIGNORS) -> None:
    """Raise UnsupportedAssignor unless members may name this assignor."""
    if name is not None and name not in assignors:
        raise UnsupportedAssignor(f"ServerAssignor {name} is not supported. Supported assignors: {', '.join(assignors)}.")


def preferred(names: Iterable[str | None], assignors: Sequence[str] = ASSIGNORS) -> str:
    """Return the assignor with the most votes; of equal ones, the choice of the older members."""
    votes = Counter(name for name in names if name is not None and name in assignors)
    return votes.most_common(1)[0][0] if votes else assignors[0]


def assign(
    name: str, members: Mapping[str, MemberSpec], partition_counts: Mapping[UUID, int], *, is_homogeneous: bool
) -> dict[str, Assignment]:
    """Return the target assignment of each member.

    `is_homogeneous`: all members have the same subscription.
    """
    if not members:
        return {}
    if name == RANGE:
        return assign_ranges(members, partition_counts)
    return (assign_uniform if is_homogeneous else assign_uneven)(members, partition_counts)


def assign_ranges(members: Mapping[str, MemberSpec], partition_counts: Mapping[UUID, int]) -> dict[str, Assignment]:
    """Assign by `range`: each member gets a run of neighboring partitions of each topic.

    Members have one order for all topics, static members first, so that partitions with the same
    index in topics of the same size go to the same member. The present assignment has no effect.
    Source: RangeAssignor of Apache Kafka 4.3.1.
    """
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
    """Assign by `uniform` for members with the same topics: their partition counts differ by one at most.

    A member keeps its partitions up to its share. If the partitions do not divide evenly, members
    that already have one more keep it, the earlier ones first; then the last members get one more.
    The remaining partitions go to members below their share.

    Source: UniformHomogeneousAssignmentBuilder of Apache Kafka 4.3.1. Its hash tables order members
    and topics differently. Here members have the given order, and topics that of their ids.
    """
    topics = sorted(next(iter(members.values())).topics)
    assigned = {
        (topic_id, partition) for member in members.values() for topic_id, owned in member.assignment.items() for partition in owned
    }
    free = [(topic_id, each) for topic_id in topics for each in range(partition_counts[topic_id]) if (topic_id, each) not in assigned]
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
_NO_OWNER: Final = -1


def assign_uneven(members: Mapping[str, MemberSpec], partition_counts: Mapping[UUID, int]) -> dict[str, Assignment]:
    """Assign by `uniform` for members with different topics: as even as the subscriptions allow.

        1. a member keeps partitions of topics that it is still subscribed to
        2. free partitions go to the subscribers with the fewest partitions, first of topics with many partitions for each subscriber
        3. each topic is balanced among its subscribers, from those with the most partitions to those with the fewest, until nothing
           moves in a round over all topics, or after 16 rounds

    If subscriptions overlap without being equal, each topic is balanced, but the whole may not be.
    Source: UniformHeterogeneousAssignmentBuilder of Apache Kafka 4.3.1.
    """
    building = _Building(list(members.values()), partition_counts)
    building.hand_out()
    building.balance()
    return dict(zip(members, building.assignments(), strict=True))


class _Building:
    """The owners of partitions. A member is identified by its index."""

    def __init__(self, members: Sequence[MemberSpec], partition_counts: Mapping[UUID, int]) -> None:
        self._sizes = [0] * len(members)  #: the partition count of each member
        self._subscribers: dict[UUID, list[int]] = {}
        for index, member in enumerate(members):
            for topic_id in member.topics:
                self._subscribers.setdefault(topic_id, []).append(index)
        self._topics = sorted(self._subscribers, key=lambda each: self._rank(each, partition_counts[each]))
        self._owners = {topic_id: [_NO_OWNER] * partition_counts[topic_id] for topic_id in self._topics}
        for index, member in enumerate(members):
            for topic_id in member.assignment.keys() & member.topics:
                for partition in member.assignment[topic_id]:
                    self._give(topic_id, partition, index)

    def _rank(self, topic_id: UUID, partition_count: int) -> tuple[float, int, UUID]:
        subscriber_count = len(self._subscribers[topic_id])
        return -partition_count / subscriber_count, subscriber_count, topic_id

    def _give(self, topic_id: UUID, partition: int, index: int) -> None:
        before = self._owners[topic_id][partition]
        if before != _NO_OWNER:
            self._sizes[before] -= 1
        self._owners[topic_id][partition] = index
        self._sizes[index] += 1

    def hand_out(self) -> None:
        """Give free partitions to the members with the fewest partitions."""
        for topic_id in self._topics:
            line = _Line(self._subscribers[topic_id], self._sizes)
            for partition, owner in enumerate(self._owners[topic_id]):
                if owner == _NO_OWNER:
                    self._give(topic_id, partition, line.next_least())

    def balance(self) -> None:
        """Balance one topic after the other."""
        topics = [topic_id for topic_id in self._topics if len(self._subscribers[topic_id]) > 1]
        last_moved: UUID | None = None
        for _ in range(_MAX_ROUNDS):
            for topic_id in topics:
                if topic_id == last_moved:
                    return
                if self._balance(topic_id) or last_moved is None:
                    last_moved = topic_id

    def _balance(self, topic_id: UUID) -> bool:
        """Balance one topic. Return whether a partition moved."""
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
        """Return the assignment of each member, in the order of the members."""
        found: list[dict[UUID, list[int]]] = [{} for _ in self._sizes]
        for topic_id, owners in self._owners.items():
            for partition, owner in enumerate(owners):
                found[owner].setdefault(topic_id, []).append(partition)
        return [frozen(each) for each in found]


class _Line:
    """The subscribers of a topic, sorted by partition count.

    Members on the left get partitions, members on the right give them.

    Two runs of members grow towards each other. All members of a run have the same `size`. The run
    returns each of its members once, then moves on by one partition and includes the neighbors with
    that count. For members outside of the runs, `sizes` does not change.
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
        """Return the member that gets the next partition."""
        if self._next_least >= self._least_end:
            self._least_size += 1
            while self._least_end < len(self._line) and self._sizes[self._line[self._least_end]] == self._least_size:
                self._least_end += 1
            self._next_least = 0
        self._next_least += 1
        return self._line[self._next_least - 1]

    def next_most(self) -> int | None:
        """Return the member that gives the next partition; None if no member has more."""
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
        """Remove the last member that `next_most` returned from its run: it has nothing to give."""
        place, last = self._next_most + 1, self._most_end - 1
        self._line[place], self._line[last] = self._line[last], self._line[place]
        self._most_end -= 1
