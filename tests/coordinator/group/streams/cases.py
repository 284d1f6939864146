"""Cases for the sticky assignor, in the words of StickyAssignor.java: groups that grow, shrink and are given other numbers of tasks."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import NamedTuple

from minibroker.coordinator.group.streams.assignor import MemberSpec, assign_sticky
from minibroker.coordinator.group.streams.internal_topics import ConfiguredSubtopology, InternalTopic
from minibroker.coordinator.group.streams.members import NO_TASKS, Tasks, TaskSets, frozen

IDS = "abcdefghijkl"  #: of members and processes; longer tables of Kafka's would take them in another order
STEPS = 6


class Case(NamedTuple):
    standby_count: int
    tasks: dict[str, tuple[int, bool]]  #: subtopologies: number of tasks, whether they keep something
    members: dict[str, MemberSpec]

    def assign(self) -> dict[str, Tasks]:
        return assign_sticky(self.members, {each: subtopology(*self.tasks[each]) for each in sorted(self.tasks)}, self.standby_count)


def subtopology(task_count: int, is_stateful: bool) -> ConfiguredSubtopology:
    changelog = InternalTopic("changelog", task_count, 0, {})
    return ConfiguredSubtopology(task_count, [], [], {}, {"changelog": changelog} if is_stateful else {})


def told_tasks(tasks: TaskSets) -> str:
    return "/".join(f"{each}:{'.'.join(map(str, sorted(tasks[each])))}" for each in sorted(tasks))


def told(assignment: dict[str, Tasks]) -> str:
    return " ".join(f"{member_id}={told_tasks(each.active)};{told_tasks(each.standby)}" for member_id, each in assignment.items())


def line_of(case: Case) -> str:
    tasks = ",".join(f"{each}:{count}:{int(is_stateful)}" for each, (count, is_stateful) in case.tasks.items())
    members = ",".join(
        f"{member_id};{each.process_id};{told_tasks(each.tasks.active)};{told_tasks(each.tasks.standby)}"
        for member_id, each in case.members.items()
    )
    return f"{case.standby_count}|{tasks}|{members}"


def case_of(line: str) -> Case:
    standby_count, tasks, members = line.split("|")
    specs = {}
    for each in members.split(","):
        member_id, process_id, active, standby = each.split(";")
        specs[member_id] = MemberSpec(process_id, Tasks(_tasks(active), _tasks(standby)))
    found = [each.split(":") for each in tasks.split(",")]
    return Case(int(standby_count), {each: (int(count), is_stateful == "1") for each, count, is_stateful in found}, specs)


def _tasks(words: str) -> TaskSets:
    pairs = [each.split(":") for each in filter(None, words.split("/"))]
    return frozen({each: [int(partition) for partition in partitions.split(".")] for each, partitions in pairs})


def drawn(seed: int) -> Iterator[Case]:
    """One group over some steps: each begins with what the one before came to."""
    random = Random(seed)
    standby_count = random.choice([0, 0, 1, 2])
    tasks = {str(number): (random.randint(1, random.choice([3, 12])), random.random() < 0.6) for number in range(random.randint(1, 11))}
    members: dict[str, MemberSpec] = {}
    for _ in range(STEPS):
        for member_id in random.sample(IDS, random.randint(0, 4)):
            if member_id in members:
                del members[member_id]
            else:
                members[member_id] = MemberSpec(random.choice(IDS[:5]), NO_TASKS)
        members = _without_gaps(members or {"a": MemberSpec("a")})
        if random.random() < 0.2:
            tasks[random.choice(list(tasks))] = (random.randint(1, 9), random.random() < 0.6)
        case = Case(standby_count, dict(tasks), members)
        yield case
        found = case.assign()
        members = {member_id: each._replace(tasks=found[member_id]) for member_id, each in members.items()}


def _without_gaps(members: dict[str, MemberSpec]) -> dict[str, MemberSpec]:
    """In order, the processes called by the order in which they come."""
    names: dict[str, str] = {}
    for _, each in sorted(members.items()):
        names.setdefault(each.process_id, IDS[len(names)])
    return {member_id: each._replace(process_id=names[each.process_id]) for member_id, each in sorted(members.items())}
