"""Tasks by subtopology: those that a member shall have, has, or must give up.

A task is one subtopology of the application at one partition. The member with the active task
processes it. A standby keeps a copy of its state. A warm-up would become active later, but Apache
Kafka 4.3.1 assigns none. Source: TasksTuple, TasksTupleWithEpochs of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

TaskSets = Mapping[str, frozenset[int]]  #: partitions by subtopology; immutable, without subtopologies that have no partitions
TaskEpochs = Mapping[str, Mapping[int, int]]  #: likewise, with the member epoch at which the member got each task

NO_SETS: Final[TaskSets] = {}
NO_EPOCHS: Final[TaskEpochs] = {}


class Tasks(NamedTuple):
    """The tasks of one member."""

    active: TaskSets = NO_SETS
    standby: TaskSets = NO_SETS
    warmup: TaskSets = NO_SETS


class HeldTasks(NamedTuple):
    """The tasks that a member has, or must give up."""

    active: TaskEpochs = NO_EPOCHS
    standby: TaskSets = NO_SETS
    warmup: TaskSets = NO_SETS

    @property
    def tasks(self) -> Tasks:
        """The tasks without their epochs."""
        return Tasks({each: frozenset(epochs) for each, epochs in self.active.items()}, self.standby, self.warmup)

    @property
    def is_nothing(self) -> bool:
        """Whether there is no task."""
        return not (self.active or self.standby or self.warmup)


NO_TASKS: Final = Tasks()
NO_HELD_TASKS: Final = HeldTasks()


def frozen(tasks: Mapping[str, Iterable[int]]) -> TaskSets:
    """Return task sets without subtopologies that have no partitions."""
    return {subtopology_id: frozenset(partitions) for subtopology_id, partitions in tasks.items() if partitions}


def is_any_of(owned: Tasks, tasks: Tasks) -> bool:
    """Whether a task in `owned` is also in `tasks`, in the same role."""
    return any(
        not partitions.isdisjoint(those.get(subtopology_id, frozenset()))
        for these, those in zip(owned, tasks, strict=True)
        for subtopology_id, partitions in these.items()
    )


def is_part_of(owned: Tasks, tasks: Tasks) -> bool:
    """Whether all tasks in `owned` are also in `tasks`, in the same role."""
    return all(
        partitions <= those.get(subtopology_id, frozenset())
        for these, those in zip(owned, tasks, strict=True)
        for subtopology_id, partitions in these.items()
    )
