"""Who leads what, as a test orders it: on the loop's thread, JSON in and out. What follows from it: cluster/leadership.py.

Of one broker alone leaders may be taken away, and epochs raised; there is nobody to move them to.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minibroker.cluster.leadership import Leadership
from minibroker.cluster.nodes import NO_LEADER
from minibroker.cluster.partition import Partition
from minibroker.server.broker import Broker


class Leaders:
    """Of the broker that runs, which `broker` gives; errors are KafkaError and BrokerError."""

    def __init__(self, broker: Callable[[], Broker]) -> None:
        self._broker = broker

    def commands(self) -> dict[str, Callable[..., Any]]:
        """For the lab, by name."""
        names = ("take_away", "give_back", "move", "bump_epoch", "elect", "describe")
        return {f"leaders.{name}": getattr(self, name) for name in names}

    def take_away(self, topic: str, partition: int) -> None:
        """Leave a partition without a leader, whoever is alive, until it is given back or moved."""
        self._leadership.take_away(self._find(topic, partition))

    def give_back(self, topic: str, partition: int) -> None:
        """Let a partition that was taken away have its leader again, in the next epoch; harmless else."""
        self._leadership.give_back(self._find(topic, partition))

    def move(self, topic: str, partition: int, to: int) -> None:
        """Let another broker lead a partition, in the next epoch; one without a replica gets that of the leader before."""
        self._leadership.move(self._find(topic, partition), to)

    def bump_epoch(self, topic: str, partition: int) -> int:
        """Let a partition have the next leader epoch, with the same leader; returns it."""
        return self._leadership.bump_epoch(self._find(topic, partition))

    def elect(self, topic: str, partition: int, unclean: bool = False) -> None:
        """Let the preferred replica lead; `unclean`: anybody who is alive, where nobody leads. Refused as ElectLeaders is."""
        found = self._find(topic, partition)
        if unclean:
            self._leadership.elect_unclean(found)
        else:
            self._leadership.elect_preferred(found)

    def describe(self, topic: str, partition: int) -> dict[str, Any]:
        """Leader (null: nobody), leader epoch, replicas, those in sync, those that are offline."""
        found = self._find(topic, partition)
        nodes = self._broker().nodes[0].services.nodes.of(found)
        return {
            "leader": None if nodes.leader_id == NO_LEADER else nodes.leader_id,
            "leader_epoch": found.leader_epoch,
            "replicas": [*nodes.replicas],
            "in_sync": [*nodes.in_sync],
            "offline": [*nodes.offline],
        }

    @property
    def _leadership(self) -> Leadership:
        return self._broker().leadership

    def _find(self, topic: str, partition: int) -> Partition:
        return self._broker().cluster.partition(topic, partition)
