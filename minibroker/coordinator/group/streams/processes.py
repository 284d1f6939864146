"""An instance of the application while tasks are given out: its members, and what they have so far.

Source: ProcessState of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from typing import NamedTuple

from minibroker.coordinator.group.streams.queue import LeastFirst


class TaskId(NamedTuple):
    """A task."""

    subtopology_id: str
    partition: int


class Process:
    """One instance. Its load is how many tasks it has a member."""

    def __init__(self) -> None:
        self.task_counts: dict[str, int] = {}  #: of its members
        self.active: dict[str, set[TaskId]] = {}
        self.standby: dict[str, set[TaskId]] = {}
        self._tasks: set[TaskId] = set()
        self._task_count = 0
        self._by_load: LeastFirst[str] | None = None

    @property
    def load(self) -> float:
        """How many tasks it has a member."""
        return self._task_count / len(self.task_counts)

    def add_member(self, member_id: str) -> None:
        """One that has nothing yet."""
        self.task_counts[member_id] = 0

    def has(self, task: TaskId) -> bool:
        """Whether a member of it has the task, active or not."""
        return task in self._tasks

    def give(self, member_id: str, task: TaskId, *, is_active: bool) -> int:
        """To that member; how many it has now."""
        self._by_load = None
        return self._give(member_id, task, is_active)

    def give_to_least(self, task: TaskId, *, is_active: bool) -> int:
        """To the member that has the fewest; how many it has now."""
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
