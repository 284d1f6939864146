"""Partitions by topic: what a member shall have, has, or must give up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple
from uuid import UUID

Assignment = Mapping[UUID, frozenset[int]]  #: never changed, no topic without partitions
Epochs = Mapping[UUID, Mapping[int, int]]  #: likewise, with the member epoch at which each partition became the member's

NOTHING: Final[Assignment] = {}
NO_EPOCHS: Final[Epochs] = {}


class MemberSpec(NamedTuple):
    """What an assignor knows of a member."""

    topics: frozenset[UUID]  #: that it subscribed to and that are there
    assignment: Assignment = NOTHING  #: what it shall have at the moment
    instance_id: str | None = None


def frozen(partitions: Mapping[UUID, Iterable[int]]) -> Assignment:
    """Of sets or lists that may be empty."""
    return {topic_id: frozenset(indexes) for topic_id, indexes in partitions.items() if indexes}


def without_epochs(epochs: Epochs) -> Assignment:
    """Which partitions these are."""
    return {topic_id: frozenset(partitions) for topic_id, partitions in epochs.items()}
