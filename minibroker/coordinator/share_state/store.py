"""`__share_group_state`: each state is in the partition that the hash of its key selects.

`stored_topic.py` reads a partition. At the end of its load, states of topics that no longer exist
are deleted, and later with their topic.

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
from minibroker.coordinator.share_state.states import ShareStates
from minibroker.coordinator.stored_topic import StoredPartition, StoredTopic
from minibroker.errors import KafkaError
from minibroker.storage.record_frame import SHARE_GROUP_STATE, CoordinatorRecord

_LOG = logging.getLogger(__name__)


class StoredStates(StoredPartition):
    """One partition of the topic. StateStore writes it."""

    __slots__ = ("states",)

    def __init__(self, partition: Partition, states: ShareStates) -> None:
        super().__init__(partition, SHARE_GROUP_STATE)
        self.states = states

    def replay(self, record: CoordinatorRecord, record_offset: int, _producer_id: int) -> None:
        """Replay one record."""
        self.states.replay(record, record_offset)

    def first_needed_offset(self) -> int:
        """Return the first offset of the log that is needed: later records repeat those below."""
        needed = self.states.first_needed_offset()
        return self.partition.log.log_end_offset if needed is None else needed


class StateStore:
    """All partitions of the topic. A topic that was deleted and created again starts empty."""

    def __init__(self, cluster: Cluster, config: BrokerConfig, clock: Clock) -> None:
        self._cluster = cluster
        self._config = config
        self._clock = clock
        self._stored = StoredTopic(SHARE_GROUP_STATE_TOPIC, cluster, clock, what="share partitions", make=self._make, finish=self._finish)

    def stop(self) -> None:
        """Stop loading."""
        self._stored.stop()

    def ensure_topic(self) -> None:
        """Create the topic if it does not exist, with the configs of Apache Kafka; KafkaError."""
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
        """The partition count of the topic, existing or not."""
        topic = self._cluster.topics.get(SHARE_GROUP_STATE_TOPIC)
        return self._config.share_coordinator_state_topic_num_partitions if topic is None else len(topic.partitions)

    def usable(self) -> list[StoredStates]:
        """Return the partitions that are loaded and online."""
        self._stored.follow()
        return [each for each in self._stored.loaded if each.is_usable]

    def at(self, index: int) -> StoredStates:
        """Return one loaded partition; CoordinatorLoadInProgress, NotCoordinator."""
        return self._stored.at(index)

    def exists(self, topic_id: UUID, partition: int) -> bool:
        """Whether a partition of a topic exists."""
        try:
            self._cluster.partition_by_id(topic_id, partition)
        except KafkaError:
            return False
        return True

    def _make(self, partition: Partition) -> StoredStates:
        return StoredStates(partition, ShareStates(self.exists, self._updates_per_snapshot))

    def _updates_per_snapshot(self) -> int:
        return self._config.share_coordinator_snapshot_update_records_per_snapshot

    def _finish(self, stored: StoredStates) -> Iterable[None]:
        self.delete_orphans(stored)
        return ()

    def delete_orphans(self, stored: StoredStates) -> None:
        """Delete states of topics that no longer exist."""
        try:
            stored.append_all(list(stored.states.orphans()), self._clock.now_ms())
        except KafkaError as error:
            _LOG.warning("%s-%d: could not delete states of deleted topics: %s", SHARE_GROUP_STATE_TOPIC, stored.partition.index, error)
