"""The assignor `uniform` for members who all subscribed to the same: nobody has more than one partition more than another.

A member keeps what it has as far as its share goes. Where it does not come out even, one partition more is for members who have it
already, the earlier ones first, and else for the last members. What is left goes to who has too little.

Source: UniformHomogeneousAssignmentBuilder of Apache Kafka 4.3.1, whose hash tables take members and topics in an order of their own; here
members come in the order in which they are given, topics in that of their ids.
"""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from minibroker.coordinator.group.assignment import Assignment, MemberSpec, frozen


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
