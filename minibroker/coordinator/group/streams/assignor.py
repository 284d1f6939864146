"""The assignor `sticky`: members keep their tasks as far as that is even, and standbys are in other instances than the active task.

    1. an active task stays with its member, unless the member has more than its share
    2. an active task that had a standby goes to the member with the standby, on the same condition
    3. other active tasks go to the instances with the least load, and there to the members with the fewest tasks
    4. a standby goes to a member that had the task, active or standby, unless the member has more than its share of all tasks
    5. other standbys go to the instances with the least load that do not have the task in any role; without such an instance
       they are left out

A share is the number of tasks divided by that of members, rounded up. A member that has its share
is not counted any more, and the share of the others is computed again. Only subtopologies with
state have standbys.

Source: StickyTaskAssignor, ProcessState of Apache Kafka 4.3.1. Its hash tables order members and
instances differently. Here they keep the order of the arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Generic, NamedTuple, TypeVar

from minibroker.coordinator.group.streams.internal_topics import ConfiguredSubtopology
from minibroker.coordinator.group.streams.members import NO_TASKS, Tasks, TaskSets


class MemberSpec(NamedTuple):
    """A member, as the assignor sees it."""

    process_id: str
    tasks: Tasks = NO_TASKS  #: its present target assignment


class _Holder(NamedTuple):
    """A member that had a task."""

    process: Process
    member_id: str

    @property
    def task_count(self) -> int:
        return self.process.task_counts[self.member_id]


def assign_sticky(
    members: Mapping[str, MemberSpec], subtopologies: Mapping[str, ConfiguredSubtopology], standby_count: int
) -> dict[str, Tasks]:
    """Return the target assignment of each member. `subtopologies` are by id."""
    if not members:
        return {}
    assigning = _Assigning(members, subtopologies, standby_count)
    assigning.assign_active()
    assigning.assign_standbys()
    return assigning.result()


class _Shares:
    """How many tasks a member may have so that all have an even share."""

    def __init__(self, task_count: int, member_count: int) -> None:
        self._task_count = task_count
        self._member_count = member_count
        self.share = -(-task_count // member_count)

    def member_has(self, task_count: int) -> None:
        """Exclude a member that has its share from the further computation."""
        if task_count == self.share:
            self._member_count -= 1
            self._task_count -= task_count
            self.share = -(-self._task_count // self._member_count) if self._member_count else 0


class _Assigning:
    """The assignment of tasks so far."""

    def __init__(self, members: Mapping[str, MemberSpec], subtopologies: Mapping[str, ConfiguredSubtopology], standby_count: int) -> None:
        self._members = members
        self._standby_count = standby_count
        self._active_tasks = [TaskId(each, partition) for each in subtopologies for partition in range(subtopologies[each].task_count)]
        self._stateful_tasks = [task for task in self._active_tasks if subtopologies[task.subtopology_id].is_stateful]
        self._active_shares = _Shares(len(self._active_tasks), len(members))
        self._shares = _Shares(len(self._active_tasks) + len(self._stateful_tasks) * standby_count, len(members))
        self._processes: dict[str, Process] = {}
        self._had_active: dict[TaskId, _Holder] = {}
        self._had_standby: dict[TaskId, list[_Holder]] = {}
        for member_id, spec in members.items():
            process = self._processes.setdefault(spec.process_id, Process())
            process.add_member(member_id)
            holder = _Holder(process, member_id)
            self._had_active |= dict.fromkeys(_ids(spec.tasks.active), holder)
            for task in _ids(spec.tasks.standby):
                self._had_standby.setdefault(task, []).append(holder)

    # Active tasks

    def assign_active(self) -> None:
        """Assign each active task to one member."""
        waiting = sorted(self._active_tasks, key=_by_partition)
        waiting = [task for task in waiting if not self._assign_to(self._had_active.get(task), task)]
        waiting = [task for task in waiting if not self._assign_to(_least_loaded(self._had_standby.get(task, [])), task)]
        by_load = self._by_load()
        for task in sorted(waiting):
            process = by_load.take()
            self._count_active(process.give_to_least(task, is_active=True))
            by_load.add(process)

    def _assign_to(self, holder: _Holder | None, task: TaskId) -> bool:
        """Assign an active task to a member that had it, unless it has its share.

        Return whether it got the task.
        """
        if holder is None or holder.task_count >= self._active_shares.share:
            return False
        self._count_active(holder.process.give(holder.member_id, task, is_active=True))
        return True

    def _count_active(self, task_count: int) -> None:
        self._active_shares.member_has(task_count)
        self._shares.member_has(task_count)

    # Standbys

    def assign_standbys(self) -> None:
        """Assign the standbys of each task: as many as are configured, if enough instances can have them."""
        if self._standby_count == 0:
            return
        waiting: list[tuple[TaskId, int]] = []
        for task in sorted(self._stateful_tasks, key=_by_partition, reverse=True):
            missing = next((self._standby_count - done for done in range(self._standby_count) if not self._keep_standby(task)), 0)
            if missing:
                waiting.append((task, missing))
        by_load = self._by_load()
        for task, missing in sorted(waiting, key=lambda each: each[0], reverse=True):
            for _ in range(missing):
                if not self._add_standby(task, by_load):
                    break

    def _keep_standby(self, task: TaskId) -> bool:
        """Give a standby to a member that had the task before. Return whether such a member exists."""
        active = self._had_active.get(task)
        if active is not None and not active.process.has(task) and active.task_count < self._shares.share:
            self._shares.member_has(active.process.give(active.member_id, task, is_active=False))
            return True
        standby = _least_loaded_without(task, self._had_standby.get(task, []))
        if standby is not None and standby.task_count < self._shares.share:
            self._shares.member_has(standby.process.give(standby.member_id, task, is_active=False))
            return True
        return False

    def _add_standby(self, task: TaskId, by_load: LeastFirst[Process]) -> bool:
        """Give a standby to an instance without the task. Return whether such an instance exists."""
        passed = []
        has_found = False
        while by_load and not has_found:
            process = by_load.take()
            passed.append(process)
            has_found = not process.has(task)
        if has_found:
            self._shares.member_has(passed[-1].give_to_least(task, is_active=False))
        for process in reversed(passed):
            by_load.add(process)
        return has_found

    def _by_load(self) -> LeastFirst[Process]:
        return LeastFirst(lambda process: process.load, self._processes.values())

    def result(self) -> dict[str, Tasks]:
        """Return the tasks of each member."""
        found = {}
        for member_id, spec in self._members.items():
            process = self._processes[spec.process_id]
            found[member_id] = Tasks(_sets(process.active.get(member_id, ())), _sets(process.standby.get(member_id, ())))
        return found


def _by_partition(task: TaskId) -> tuple[int, str]:
    return task.partition, task.subtopology_id


def _ids(tasks: TaskSets) -> Iterable[TaskId]:
    return (TaskId(subtopology_id, partition) for subtopology_id, partitions in tasks.items() for partition in partitions)


def _sets(tasks: Iterable[TaskId]) -> TaskSets:
    found: dict[str, set[int]] = {}
    for subtopology_id, partition in tasks:
        found.setdefault(subtopology_id, set()).add(partition)
    return {subtopology_id: frozenset(partitions) for subtopology_id, partitions in found.items()}


def _least_loaded(holders: Sequence[_Holder]) -> _Holder | None:
    """Return the holder whose instance has the least load and that has fewer tasks than the holders before it."""
    return _least(holders, lambda _: True)


def _least_loaded_without(task: TaskId, holders: Sequence[_Holder]) -> _Holder | None:
    """Return the least loaded holder among instances without the task; also None if the first holder's instance has the task."""
    if holders and holders[0].process.has(task):
        return None
    return _least(holders, lambda holder: not holder.process.has(task))


def _least(holders: Sequence[_Holder], may_be: Callable[[_Holder], bool]) -> _Holder | None:
    if not holders:
        return None
    least = holders[0]
    for holder in holders[1:]:
        if holder.process.load < least.process.load and may_be(holder) and holder.task_count < least.task_count:
            least = holder
    return least


class TaskId(NamedTuple):
    """One task."""

    subtopology_id: str
    partition: int


class Process:
    """One instance of the application: its members and their tasks."""

    def __init__(self) -> None:
        self.task_counts: dict[str, int] = {}  #: by member id
        self.active: dict[str, set[TaskId]] = {}
        self.standby: dict[str, set[TaskId]] = {}
        self._tasks: set[TaskId] = set()
        self._task_count = 0
        self._by_load: LeastFirst[str] | None = None

    @property
    def load(self) -> float:
        """The number of tasks for each member."""
        return self._task_count / len(self.task_counts)

    def add_member(self, member_id: str) -> None:
        """Add a member without tasks."""
        self.task_counts[member_id] = 0

    def has(self, task: TaskId) -> bool:
        """Whether a member of this instance has the task, active or standby."""
        return task in self._tasks

    def give(self, member_id: str, task: TaskId, *, is_active: bool) -> int:
        """Give a task to a member. Return how many it has now."""
        self._by_load = None
        return self._give(member_id, task, is_active)

    def give_to_least(self, task: TaskId, *, is_active: bool) -> int:
        """Give a task to the member with the fewest. Return how many it has now."""
        if self._by_load is None:
            self._by_load = LeastFirst(self.task_counts.__getitem__, self.task_counts)
        member_id = self._by_load.take()
        count = self._give(member_id, task, is_active)
        self._by_load.add(member_id)
        return count

    def _give(self, member_id: str, task: TaskId, is_active: bool) -> int:
        self._task_count += 1
        self._tasks.add(task)
        (self.active if is_active else self.standby).setdefault(member_id, set()).add(task)
        self.task_counts[member_id] += 1
        return self.task_counts[member_id]


T = TypeVar("T")


class LeastFirst(Generic[T]):
    """A priority queue by `size`, which takes equal elements in the order of Java's PriorityQueue: a binary heap in an array.

    The order of equal elements decides which member gets a task, so it must be that of Apache
    Kafka, which heapq does not have. The size of an element must not change while it is in the
    queue. Source: java.util.PriorityQueue.
    """

    def __init__(self, size: Callable[[T], float], elements: Iterable[T]) -> None:
        self._size = size
        self._heap: list[T] = []
        for element in elements:
            self.add(element)

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, element: T) -> None:
        """Add an element: it rises while its parent is larger."""
        heap, size, index = self._heap, self._size(element), len(self._heap)
        heap.append(element)
        while index > 0:
            above = (index - 1) // 2
            if size >= self._size(heap[above]):
                break
            heap[index] = heap[above]
            index = above
        heap[index] = element

    def take(self) -> T:
        """Remove the smallest element; IndexError if there is none.

        The last one takes its place, and sinks while a child is smaller.
        """
        heap = self._heap
        least, last = heap[0], heap.pop()
        if not heap:
            return least
        size, index = self._size(last), 0
        while (below := 2 * index + 1) < len(heap):
            if below + 1 < len(heap) and self._size(heap[below]) > self._size(heap[below + 1]):
                below += 1
            if size <= self._size(heap[below]):
                break
            heap[index] = heap[below]
            index = below
        heap[index] = last
        return least
