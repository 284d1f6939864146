"""The sticky assignor: what Apache Kafka's makes of the same cases, and what holds whatever the case."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from minibroker.coordinator.group.streams.assignor import LeastFirst, MemberSpec, assign_sticky
from tests.coordinator.group.streams.cases import Case, case_of, drawn, line_of, subtopology, told
from tests.coordinator.group.streams.observe_assignor import KEPT

KNOWN = json.loads(KEPT.read_text())["cases"]


def test_assignments_match_kafka() -> None:
    assert len(KNOWN) == 240
    for line, theirs in KNOWN:
        case = case_of(line)
        assert line_of(case) == line
        assert told(case.assign()) == theirs, line


@pytest.mark.parametrize("seed", range(2_000, 2_060))
def test_each_task_is_active_once_with_standbys_elsewhere(seed: int) -> None:
    for case in drawn(seed):
        found = case.assign()
        active = Counter((each, at) for tasks in found.values() for each, those in tasks.active.items() for at in those)
        assert active == Counter((each, at) for each, (count, _) in case.tasks.items() for at in range(count))
        sizes = [sum(map(len, tasks.active.values())) for tasks in found.values()]
        assert max(sizes) - min(sizes) <= max(1, uneven_processes(case))
        processes = Counter(each.process_id for each in case.members.values())
        places = Counter(
            (case.members[member_id].process_id, each, at)
            for member_id, tasks in found.items()
            for role in tasks
            for each, those in role.items()
            for at in those
        )
        assert set(places.values()) <= {1}, "an instance has a task twice"
        standby = Counter((each, at) for tasks in found.values() for each, those in tasks.standby.items() for at in those)
        stateful = [(each, at) for each, (count, keeps) in case.tasks.items() if keeps for at in range(count)]
        room = min(case.standby_count, len(processes) - 1)
        assert all(room <= standby[task] <= case.standby_count or standby[task] == room for task in stateful)
        assert standby.keys() <= set(stateful)


def uneven_processes(case: Case) -> int:
    """Instances share by members, who may then have more or less than the others."""
    return 1 + max(Counter(each.process_id for each in case.members.values()).values())


def test_new_member_takes_only_its_share_of_tasks() -> None:
    subtopologies = {"0": subtopology(4, True)}
    alone = assign_sticky({"a": MemberSpec("p")}, subtopologies, 1)
    assert told(alone) == "a=0:0.1.2.3;", "nobody else could stand by"
    both = assign_sticky({"a": MemberSpec("p", alone["a"]), "b": MemberSpec("q")}, subtopologies, 1)
    assert told(both) == "a=0:0.1;0:2.3 b=0:2.3;0:0.1"
    again = assign_sticky({"a": MemberSpec("p", both["a"]), "b": MemberSpec("q", both["b"])}, subtopologies, 1)
    assert again == both
    assert told(assign_sticky({"b": MemberSpec("q", both["b"])}, subtopologies, 1)) == "b=0:0.1.2.3;"


def test_no_members() -> None:
    assert assign_sticky({}, {"0": subtopology(3, False)}, 2) == {}


def test_queue_orders_equal_entries_like_java() -> None:
    """What java.util.PriorityQueue gives for the same."""
    queue = LeastFirst(lambda each: each[0], [(1, "a"), (1, "b"), (0, "c"), (1, "d"), (0, "e")])
    assert [queue.take()[1] for _ in range(len(queue))] == ["c", "e", "d", "a", "b"]
    with pytest.raises(IndexError):
        queue.take()
