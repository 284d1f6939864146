"""Cases for assignors, in the words of Assignors.java: groups that grow, shrink and change their minds."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import NamedTuple
from uuid import UUID

from minibroker.coordinator.group.consumer.assignors import ASSIGNORS, assign
from minibroker.coordinator.group.modern import Assignment, MemberSpec, frozen

TOPICS = 9
STEPS = 8


class Case(NamedTuple):
    assignor: str
    is_homogeneous: bool
    partition_counts: dict[UUID, int]
    members: dict[str, MemberSpec]

    def assign(self) -> dict[str, Assignment]:
        return assign(self.assignor, self.members, self.partition_counts, is_homogeneous=self.is_homogeneous)


def text_of(assignment: Assignment) -> str:
    return "/".join(f"{topic.int}:{'.'.join(map(str, sorted(assignment[topic])))}" for topic in sorted(assignment))


def line_of(case: Case) -> str:
    counts = ",".join(f"{topic.int}:{count}" for topic, count in case.partition_counts.items())
    members = ",".join(
        f"{member_id};{each.instance_id or '-'};{'.'.join(str(topic.int) for topic in sorted(each.topics))};{text_of(each.assignment)}"
        for member_id, each in case.members.items()
    )
    return f"{case.assignor}|{int(case.is_homogeneous)}|{counts}|{members}"


def case_of(line: str) -> Case:
    assignor, homogeneous, counts, members = line.split("|")
    specs = {}
    for each in filter(None, members.split(",")):
        member_id, instance, topics, owned = each.split(";")
        pairs = [part.split(":") for part in filter(None, owned.split("/"))]
        assignment = frozen({UUID(int=int(topic)): [int(index) for index in partitions.split(".")] for topic, partitions in pairs})
        known = frozenset(UUID(int=int(topic)) for topic in filter(None, topics.split(".")))
        specs[member_id] = MemberSpec(known, assignment, None if instance == "-" else instance)
    found = [each.split(":") for each in counts.split(",")]
    return Case(assignor, homogeneous == "1", {UUID(int=int(topic)): int(count) for topic, count in found}, specs)


def drawn(seed: int) -> Iterator[Case]:
    """One group over some steps: each begins with what the one before came to."""
    random = Random(seed)
    assignor = random.choice([ASSIGNORS[0], *ASSIGNORS])
    is_homogeneous = random.random() < 0.5
    counts = {UUID(int=number): random.randint(1, random.choice([2, 7, 20])) for number in range(1, random.randint(1, TOPICS) + 1)}
    members: dict[str, MemberSpec] = {}
    topics = _some(random, counts)
    for _ in range(STEPS):
        for _ in range(random.randint(0, 3)):
            name = f"m{random.randrange(100)}"
            instance = f"i{random.randrange(1000)}-{name}" if random.random() < 0.3 else None
            members.setdefault(name, MemberSpec(topics, instance_id=instance))
        for name in random.sample(sorted(members), min(len(members), random.choice([0, 0, 1, 2]))):
            del members[name]
        if random.random() < 0.3:
            counts[random.choice(list(counts))] += random.randint(1, 5)
        if is_homogeneous:
            topics = _some(random, counts) if random.random() < 0.2 else topics
        for name, member in members.items():
            changed = topics if is_homogeneous else _some(random, counts) if random.random() < 0.5 else member.topics
            members[name] = member._replace(topics=changed)
        if members:
            case = Case(assignor, is_homogeneous, dict(counts), dict(members))
            yield case
            members = {name: members[name]._replace(assignment=each) for name, each in case.assign().items()}


def _some(random: Random, counts: dict[UUID, int]) -> frozenset[UUID]:
    return frozenset(random.sample(list(counts), random.randint(0 if random.random() < 0.1 else 1, len(counts))))
