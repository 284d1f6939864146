"""The assignors of the broker by name. A group takes the one that most of its members ask for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final
from uuid import UUID

from minibroker.coordinator.group.assignment import Assignment, MemberSpec
from minibroker.coordinator.group.consumer.ranges import assign_ranges
from minibroker.coordinator.group.consumer.uneven import assign_uneven
from minibroker.coordinator.group.consumer.uniform import assign_uniform
from minibroker.errors import UnsupportedAssignor

UNIFORM: Final = "uniform"
RANGE: Final = "range"
ASSIGNORS: Final = (
    UNIFORM,
    RANGE,
)  #: group.consumer.assignors names those that members may ask for; the first one is for who asks for none


def check_assignor(name: str | None, assignors: Sequence[str] = ASSIGNORS) -> None:
    """UnsupportedAssignor where a member asks for one that is not there."""
    if name is not None and name not in assignors:
        raise UnsupportedAssignor(f"ServerAssignor {name} is not supported. Supported assignors: {', '.join(assignors)}.")


def preferred(names: Iterable[str | None], assignors: Sequence[str] = ASSIGNORS) -> str:
    """The one with the most votes; of several that which the older members want."""
    votes = Counter(name for name in names if name is not None and name in assignors)
    return votes.most_common(1)[0][0] if votes else assignors[0]


def assign(
    name: str, members: Mapping[str, MemberSpec], partition_counts: Mapping[UUID, int], *, is_homogeneous: bool
) -> dict[str, Assignment]:
    """What each member shall have. `is_homogeneous`: all of them subscribed to the same."""
    if not members:
        return {}
    if name == RANGE:
        return assign_ranges(members, partition_counts)
    return (assign_uniform if is_homogeneous else assign_uneven)(members, partition_counts)
