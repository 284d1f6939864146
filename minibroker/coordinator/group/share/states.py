"""What a share group wants of the share coordinator (coordinator/share/persister.py): a state for each partition that members may fetch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol
from uuid import UUID

from minibroker.coordinator.share.values import InitialState, StateSummary
from minibroker.errors import KafkaError


class States(Protocol):
    """The states of all partitions. Errors of single ones are returned, in the order asked; CoordinatorLoadInProgress is raised."""

    def ensure_topic(self) -> None:
        """There is a place to keep them from now on; KafkaError."""

    def initialize(self, group_id: str, states: Sequence[InitialState]) -> list[KafkaError | None]:
        """Make these states, or set them anew with the epoch they had or a newer one."""

    def read_summary(self, group_id: str, partitions: Sequence[tuple[UUID, int]]) -> list[StateSummary | KafkaError]:
        """What is known of these; the default of StateSummary where nothing is."""

    def delete(self, group_id: str, partitions: Sequence[tuple[UUID, int]]) -> list[KafkaError | None]:
        """Forget these, if there are any."""
