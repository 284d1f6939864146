"""The assignor `range`: of each topic every member has a run of partitions that lie side by side.

Members are taken in one order for all topics, static ones first, so that partitions of the same number in topics of the same size come to
the same member. What was assigned before does not count. Source: RangeAssignor of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from minibroker.coordinator.group.assignment import Assignment, MemberSpec


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
