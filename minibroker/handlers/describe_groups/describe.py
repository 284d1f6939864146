"""Describing groups of the newer kinds: each group is answered on its own, and what is refused of one is its answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from minibroker.cluster.authorized_operations import GROUP_OPERATIONS, NOT_ASKED_FOR
from minibroker.errors import InvalidGroupId, KafkaError

G = TypeVar("G")


class AsksForGroups(Protocol):
    """A request."""

    @property
    def group_ids(self) -> Sequence[str]:
        """Of the groups."""

    @property
    def include_authorized_operations(self) -> bool:
        """Whether to tell what the client may do with them."""


def describe_each(request: AsksForGroups, describe: Callable[[str, int], G], refused: Callable[[str, KafkaError], G]) -> list[G]:
    """The answers for all groups; `describe` is told an id and the operations to tell, and may raise KafkaError."""
    operations = GROUP_OPERATIONS if request.include_authorized_operations else NOT_ASKED_FOR

    def answer(group_id: str) -> G:
        try:
            if not group_id:
                raise InvalidGroupId
            return describe(group_id, operations)
        except KafkaError as error:
            return refused(group_id, error)

    return [answer(group_id) for group_id in request.group_ids]
