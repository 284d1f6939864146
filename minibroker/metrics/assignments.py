"""Which members of a group have which partitions, for KMinion's `empty_members`, `topic_members` and `topic_assigned_partitions`.

Members of classic groups have the assignment that their leader sent; it is decoded if the protocol type is `consumer`. Members of KIP-848
have what the coordinator assigned to them. A group is read again only after a change: its generation or one of its epochs is another one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from minibroker.coordinator.group.classic.consumer_protocol import CONSUMER, read_assignment
from minibroker.coordinator.group.classic.group import ClassicGroup
from minibroker.coordinator.group.consumer.group import ConsumerGroup
from minibroker.errors import WireError

if TYPE_CHECKING:
    from minibroker.coordinator.group.kind import LiveGroup

MEMBERS_A_SLICE: Final = 20

Names = dict[UUID, str]


class Assignments:
    """The assignments of one group."""

    def __init__(self, version: object) -> None:
        self.version = version  #: of the group that was read
        self.empty_members = 0
        self.members: dict[str, int] = {}  #: by topic
        self.partitions: dict[str, int] = {}  #: by topic

    def add(self, topics: Iterable[tuple[str, int]]) -> None:
        """Count a member with the number of its partitions by topic."""
        count = 0
        for topic, partition_count in topics:
            count += 1
            self.members[topic] = self.members.get(topic, 0) + 1
            self.partitions[topic] = self.partitions.get(topic, 0) + partition_count
        if not count:
            self.empty_members += 1


def assignments_of(group: LiveGroup, before: Assignments | None, names: Names) -> Iterator[Assignments | None]:
    """Yield None for a pause, then the assignments of a group. `names`: those of all topics by id. Nothing for other kinds of groups."""
    if isinstance(group, ClassicGroup) and group.protocol_type == CONSUMER:
        members: list[Any] = list(group.members)
        version: object = (group.generation_id, group.state, len(members))
        topics_of: Callable[[Any, Names], list[tuple[str, int]] | None] = _of_classic_member
    elif isinstance(group, ConsumerGroup):
        members = list(group.image.members.values())
        version = [(each.member_id, each.member_epoch, each.state) for each in members]
        topics_of = _of_consumer_member
    else:
        return
    if before is not None and before.version == version:
        yield before
        return
    found = Assignments(version)
    for number, member in enumerate(members, 1):
        topics = topics_of(member, names)
        if topics is not None:
            found.add(topics)
        if number % MEMBERS_A_SLICE == 0:
            yield None
    yield found


def _of_classic_member(member: Any, _: Names) -> list[tuple[str, int]] | None:
    """Return the topics of a member; None if its assignment cannot be decoded."""
    if not member.assignment:
        return []
    try:
        assignment = read_assignment(member.assignment)
    except WireError:
        return None
    return [(each.topic, len(each.partitions)) for each in assignment.assigned_partitions]


def _of_consumer_member(member: Any, names: Names) -> list[tuple[str, int]]:
    return [(names[topic_id], len(partitions)) for topic_id, partitions in member.assigned.items() if topic_id in names]
