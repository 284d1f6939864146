"""Cases for the assignor, in the words of SimpleAssignments.java: groups that grow, shrink and change their minds."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import NamedTuple
from uuid import UUID

from minibroker.coordinator.group.modern import Assignment, MemberSpec, frozen
from minibroker.coordinator.group.share.step import assign_simple
from tests.coordinator.group.consumer.cases import text_of

STEPS = 8
PARTITIONS = 12


class Case(NamedTuple):
    is_homogeneous: bool
    assignable: Assignment
    members: dict[str, MemberSpec]

    def assign(self) -> dict[str, Assignment]:
        return assign_simple(self.members, self.assignable)


def line_of(case: Case) -> str:
    members = ",".join(
        f"{member_id};{'.'.join(str(topic.int) for topic in sorted(each.topics))};{text_of(each.assignment)}"
        for member_id, each in case.members.items()
    )
    return f"{int(case.is_homogeneous)}|{text_of(case.assignable).replace('/', ',')}|{members}"


def case_of(line: str) -> Case:
    homogeneous, assignable, members = line.split("|")
    specs = {}
    for each in filter(None, members.split(",")):
        member_id, topics, owned = each.split(";")
        known = frozenset(UUID(int=int(topic)) for topic in filter(None, topics.split(".")))
        specs[member_id] = MemberSpec(known, _partitions(owned.split("/")))
    return Case(homogeneous == "1", _partitions(assignable.split(",")), specs)


def _partitions(told: list[str]) -> Assignment:
    pairs = [each.split(":") for each in filter(None, told)]
    return frozen({UUID(int=int(topic)): [int(index) for index in indexes.split(".")] for topic, indexes in pairs})


def wanted(case: Case, answer: str) -> str:
    """Return an answer of Kafka without topics to which no member is subscribed: Kafka keeps them in the target assignment."""
    topics = {str(topic.int) for member in case.members.values() for topic in member.topics}
    members = (each.split("=") for each in answer.split(" "))
    return " ".join(
        f"{member_id}={'/'.join(part for part in result.split('/') if part.split(':')[0] in topics)}" for member_id, result in members
    )


def drawn(seed: int) -> Iterator[Case]:
    """One group over some steps: each begins with what the one before came to."""
    random = Random(seed)
    is_homogeneous = random.random() < 0.5
    known = [UUID(int=0)] if is_homogeneous else [UUID(int=number) for number in range(1, random.randint(2, 4))]
    counts = {topic: random.randint(1, random.choice([2, 5, PARTITIONS])) for topic in known}
    members: dict[str, MemberSpec] = {}
    for _ in range(STEPS):
        for _ in range(random.randint(0, 3)):
            members.setdefault(f"m{random.randrange(100)}", MemberSpec(frozenset(known)))
        for name in random.sample(sorted(members), min(len(members), random.choice([0, 0, 1, 2]))):
            del members[name]
        if random.random() < 0.3:
            topic = random.choice(known)
            counts[topic] = min(counts[topic] + random.randint(1, 5), PARTITIONS)
        if not is_homogeneous:
            for name, member in members.items():
                if random.random() < 0.5:
                    members[name] = member._replace(topics=frozenset(random.sample(known, random.randint(1, len(known)))))
        is_same = len({member.topics for member in members.values()}) == 1
        if members and is_same == is_homogeneous:
            case = Case(is_homogeneous, frozen({topic: range(count) for topic, count in counts.items()}), dict(members))
            yield case
            members = {name: members[name]._replace(assignment=each) for name, each in case.assign().items()}
