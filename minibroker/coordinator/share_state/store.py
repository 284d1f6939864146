"""`__share_group_state`: where the states of share partitions live, each in the partition that the hash of its key says.

How one is read is stored_topic.py. States of topics that are gone are deleted when the load is done, and from then on with their topic.

Source: CoordinatorRuntime, ShareCoordinatorService of Apache Kafka 4.3.1.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from uuid import UUID

from minibroker.clock import Clock
from minibroker.cluster.cluster import Cluster
from minibroker.cluster.partition import Partition
from minibroker.cluster.topic import SHARE_GROUP_STATE_TOPIC
from minibroker.config.broker_config import BrokerConfig
from minibroker.coordinator.record_frame import SHARE_GROUP_STATE, CoordinatorRecord
from minibroker.coordinator.share_state.states import States
from minibroker.coordinator.stored_topic import StoredPartition, StoredTopic
from minibroker.errors import KafkaError

_LOG = logging.getLogger(__name__)


class StoredStates(StoredPartition):
    """One partition of the topic. Written by StateStore."""

    __slots__ = ("states",)

    def __init__(self, partition: Partition, states: States) -> None:
        super().__init__(partition, SHARE_GROUP_STATE)
        self.states = states

    def replay(self, record: CoordinatorRecord, record_offset: int, _producer_id: int) -> None:
        """Take one record."""
        self.states.replay(record, record_offset)

    def first_needed_offset(self) -> int:
        """Of the log: what lies below is said again further on."""
        needed = self.states.first_needed_offset()
        return self.partition.log.log_end_offset if needed is None else needed


class StateStore:
    """All partitions of the topic, as long as it is the same topic."""

    def __init__(self, cluster: Cluster, config: BrokerConfig, clock: Clock) -> None:
        self._cluster = cluster
        self._config = config
        self._clock = clock
        self._stored = StoredTopic(SHARE_GROUP_STATE_TOPIC, cluster, clock, what="share partitions", make=self._make, finish=self._finish)

    def stop(self) -> None:
        """Load no further."""
        self._stored.stop()

    def ensure_topic(self) -> None:
        """Create the topic if there is none, as Apache Kafka configures it; KafkaError."""
        if SHARE_GROUP_STATE_TOPIC not in self._cluster.topics:
            self._cluster.create_topic(
                SHARE_GROUP_STATE_TOPIC,
                partition_count=self._config.share_coordinator_state_topic_num_partitions,
                configs={
                    "cleanup.policy": "delete",
                    "compression.type": "producer",
                    "min.insync.replicas": str(self._config.share_coordinator_state_topic_min_isr),
                    "retention.ms": "-1",
                    "segment.bytes": str(self._config.share_coordinator_state_topic_segment_bytes),
                },
            )

    @property
    def partition_count(self) -> int:
        """Of the topic, as it is or will be."""
        topic = self._cluster.topics.get(SHARE_GROUP_STATE_TOPIC)
        return self._config.share_coordinator_state_topic_num_partitions if topic is None else len(topic.partitions)

    def usable(self) -> list[StoredStates]:
        """Those whose states are known."""
        self._stored.follow()
        return [each for each in self._stored.loaded if each.is_usable]

    def at(self, index: int) -> StoredStates:
        """One partition, loaded; CoordinatorLoadInProgress, NotCoordinator."""
        return self._stored.at(index)

    def exists(self, topic_id: UUID, partition: int) -> bool:
        """Whether there is such a partition."""
        try:
            self._cluster.partition_by_id(topic_id, partition)
        except KafkaError:
            return False
        return True

    def _make(self, partition: Partition) -> StoredStates:
        return StoredStates(partition, States(self.exists, self._updates_per_snapshot))

    def _updates_per_snapshot(self) -> int:
        return self._config.share_coordinator_snapshot_update_records_per_snapshot

    def _finish(self, stored: StoredStates) -> Iterable[None]:
        self.delete_orphans(stored)
        return ()

    def delete_orphans(self, stored: StoredStates) -> None:
        """Delete states of topics that are gone."""
        try:
            stored.append_all(list(stored.states.orphans()), self._clock.now_ms())
        except KafkaError as error:
            _LOG.warning("%s-%d: states of deleted topics stay: %s", SHARE_GROUP_STATE_TOPIC, stored.partition.index, error)
