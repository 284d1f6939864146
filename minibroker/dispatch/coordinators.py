"""The coordinators of a broker, created at first use: a start without transactions and groups imports neither.

start()                                                         loads the internal topics, if there are any
groups, transactions, share_persister, share_partitions         create the coordinator at first use
stop()                                                          before the cluster closes
"""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING

from minibroker.clock import Clock
from minibroker.cluster.cluster import Cluster
from minibroker.cluster.topic import CONSUMER_OFFSETS_TOPIC, SHARE_GROUP_STATE_TOPIC, TRANSACTION_STATE_TOPIC
from minibroker.config.broker_config import BrokerConfig
from minibroker.dispatch.flush import FlushQueue

if TYPE_CHECKING:
    from minibroker.coordinator.group.coordinator import GroupCoordinator
    from minibroker.coordinator.share_partition.share_partitions import SharePartitions
    from minibroker.coordinator.share_state.persister import Persister
    from minibroker.coordinator.transaction.coordinator import TransactionCoordinator


class Coordinators:
    """The coordinators of one broker; part of its Services."""

    __slots__ = (
        "_clock", "_cluster", "_config", "_flush_queue", "_groups", "_share_partitions", "_share_persister", "_transactions",
        "is_restricted",
    )  # fmt: skip

    def __init__(self, cluster: Cluster, config: BrokerConfig, clock: Clock, flush_queue: FlushQueue) -> None:
        self._cluster = cluster
        self._config = config
        self._clock = clock
        self._flush_queue = flush_queue
        self.is_restricted = False  #: an authorizer decides what members of groups see; written before the first group is loaded
        self._groups: GroupCoordinator | None = None
        self._transactions: TransactionCoordinator | None = None
        self._share_persister: Persister | None = None
        self._share_partitions: SharePartitions | None = None

    @property
    def groups(self) -> GroupCoordinator:
        """The coordinator of all groups."""
        if self._groups is None:
            from minibroker.coordinator.group.coordinator import GroupCoordinator  # noqa: PLC0415  a start does not need it

            self._groups = GroupCoordinator(self._cluster, self._config, self._clock, self._flush_queue.flush, lambda: self.share_persister)
            self._groups.live.topics.is_restricted = self.is_restricted
            self._groups.start()
        return self._groups

    @property
    def share_persister(self) -> Persister:
        """The share coordinator: the states of all share partitions."""
        if self._share_persister is None:
            from minibroker.coordinator.share_state.persister import Persister  # noqa: PLC0415  a start does not need it

            self._share_persister = Persister(self._cluster, self._config, self._clock, self._flush_queue.flush)
            self._share_persister.start()
        return self._share_persister

    @property
    def share_partitions(self) -> SharePartitions:
        """The records that members of share groups have acquired."""
        if self._share_partitions is None:
            from minibroker.coordinator.share_partition.share_partitions import SharePartitions  # noqa: PLC0415  a start does not need it

            self._share_partitions = SharePartitions(self._cluster, self._config, self._clock, self.share_persister)
            self._share_partitions.start()
            self.groups.on_share_member_gone.append(self._share_partitions.end_sessions)
        return self._share_partitions

    @property
    def transactions(self) -> TransactionCoordinator:
        """The coordinator of all transactional ids."""
        return self._transactions or self._start_transactions()

    def _start_transactions(self, *, ends_orphans: bool = False) -> TransactionCoordinator:
        from minibroker.coordinator.transaction.coordinator import TransactionCoordinator  # noqa: PLC0415  a start does not need it

        self._transactions = TransactionCoordinator(self._cluster, self._config, self._clock, self._flush_queue.flush)
        self._transactions.start(ends_orphans=ends_orphans)
        return self._transactions

    def start(self) -> None:
        """Continue after a restart: complete decided transactions, time out the others, expire offsets."""
        if TRANSACTION_STATE_TOPIC in self._cluster.topics or self._is_a_transaction_open():
            self._start_transactions(ends_orphans=True)
        if CONSUMER_OFFSETS_TOPIC in self._cluster.topics:
            _ = self.groups

    def take_over(self, topics: Container[str]) -> None:
        """Start the coordinators of the internal topics in `topics`, so that clients that know this broker need no new look-up."""
        if CONSUMER_OFFSETS_TOPIC in topics:
            self.groups.ensure_topic()
        if TRANSACTION_STATE_TOPIC in topics:
            self.transactions.ensure_topic()
        if SHARE_GROUP_STATE_TOPIC in topics:
            self.share_persister.ensure_topic()

    def _is_a_transaction_open(self) -> bool:
        logs = (partition.online_log for topic in self._cluster.topics.values() for partition in topic.partitions)
        return any(log is not None and log.first_unstable_offset is not None for log in logs)

    def send_away(self) -> None:
        """Make members that wait in a rebalance look for another coordinator, because the broker is about to stop."""
        if self._groups is not None:
            self._groups.unload()

    def stop(self) -> None:
        """Stop all coordinators; they write nothing more."""
        if self._transactions is not None:
            self._transactions.stop()
        if self._share_partitions is not None:
            self._share_partitions.stop()
        if self._groups is not None:
            self._groups.stop()
        if self._share_persister is not None:
            self._share_persister.stop()
