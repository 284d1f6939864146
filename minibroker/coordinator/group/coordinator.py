"""The group coordinator: committed offsets, outside and inside of transactions.

Every call is one synchronous run that ends with its records in the log. What it returns besides is the log that must be synced before
anybody is told, None where no sync is asked for. Errors are raised; every call may raise NotCoordinator and CoordinatorLoadInProgress
(store.py).

Groups have no members yet, so a generation is always of a member that this coordinator does not know:

    generation_id   the group is known   it is not
    -1              committed            committed, and there is a group now: a simple one
    0 and above     UnknownMemberId      GroupIdNotFound from OffsetCommit 9 on, IllegalGeneration before and in a transaction

Source: GroupCoordinatorService, OffsetMetadataManager of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from minibroker.clock import Clock, Timer
from minibroker.cluster.cluster import Cluster
from minibroker.cluster.topic import CONSUMER_OFFSETS_TOPIC
from minibroker.config.broker_config import BrokerConfig
from minibroker.coordinator.group.commits import Commit, Membership, NewOffset
from minibroker.coordinator.group.offsets import NO_TIMESTAMP, CommittedOffset, Offsets, TopicPartition
from minibroker.coordinator.group.records import offset_record
from minibroker.coordinator.group.retention import expired
from minibroker.coordinator.group.shard import Shard
from minibroker.coordinator.group.store import GroupStore, StoredShard
from minibroker.coordinator.transaction.metadata import NO_IDS, ProducerIdAndEpoch
from minibroker.coordinator.transaction.placement import partition_of
from minibroker.errors import (
    GroupIdNotFound,
    IllegalGeneration,
    InvalidGroupId,
    KafkaError,
    OffsetMetadataTooLarge,
    UnknownMemberId,
    UnstableOffsetCommit,
)

_MINUTE_MS = 60_000


class GroupOffsets(NamedTuple):
    """The offsets of one group, as one request sees them."""

    group_id: str
    offsets: Offsets
    require_stable: bool

    def get(self, partition: TopicPartition) -> CommittedOffset | None:
        """None when nothing is committed; UnstableOffsetCommit where an open transaction may change that, if stable ones are required."""
        if self.require_stable and self.offsets.is_unstable(self.group_id, partition):
            raise UnstableOffsetCommit
        return self.offsets.of_group(self.group_id).get(partition)

    def partitions(self) -> Iterator[TopicPartition]:
        """Those with a committed offset."""
        return iter(self.offsets.of_group(self.group_id))


class GroupCoordinator:
    """Of all groups: one node coordinates every one."""

    def __init__(self, cluster: Cluster, config: BrokerConfig, clock: Clock) -> None:
        self._cluster = cluster
        self._config = config
        self._clock = clock
        self._store = GroupStore(cluster, config, clock)
        self._timer: Timer | None = None

    # Life

    def start(self) -> None:
        """Hear of deleted topics, and look for expired offsets, from now on."""
        self._cluster.on_topic_deleted.append(self._store.delete_topic)
        self._timer = self._clock.call_later_ms(self._config.offsets_retention_check_interval_ms, self._check_retention)

    def stop(self) -> None:
        """Write nothing more."""
        self._cluster.on_topic_deleted.remove(self._store.delete_topic)
        if self._timer is not None:
            self._timer.cancel()
        self._store.stop()

    def ensure_topic(self) -> None:
        """Create `__consumer_offsets` if there is none; KafkaError. Until somebody does, everything here is NotCoordinator."""
        self._store.ensure_topic()

    def topic_partition(self, group_id: str) -> TopicPartition:
        """Where a group lives, or will: what a transaction that commits its offsets must reach."""
        return CONSUMER_OFFSETS_TOPIC, partition_of(group_id, self._store.partition_count)

    # Offsets

    def commit(
        self,
        group_id: str,
        offsets: Sequence[NewOffset],
        membership: Membership,
        *,
        retention_ms: int = NO_TIMESTAMP,
        unknown_group: type[KafkaError] = GroupIdNotFound,
    ) -> Commit:
        """Commit outside of a transaction; `retention_ms` -1 leaves it to the broker. UnknownMemberId, or `unknown_group`: see above."""
        stored = self._shard_of(group_id)
        _check_membership(stored.shard, group_id, membership, unknown_group)
        expire_timestamp_ms = NO_TIMESTAMP if retention_ms == NO_TIMESTAMP else self._clock.now_ms() + retention_ms
        return self._commit(stored, group_id, offsets, NO_IDS, expire_timestamp_ms)

    def commit_in_transaction(self, group_id: str, offsets: Sequence[NewOffset], membership: Membership, ids: ProducerIdAndEpoch) -> Commit:
        """Commit with the producer's transaction, which must have reached `topic_partition`: that is the caller's to see to.

        Raises:
            IllegalGeneration, UnknownMemberId: see above. InvalidGroupId: an empty group id.
            InvalidProducerEpoch, InvalidTxnState: as PartitionLog.append_own.
        """
        if not group_id:
            raise InvalidGroupId
        stored = self._shard_of(group_id)
        _check_membership(stored.shard, group_id, membership, IllegalGeneration)
        return self._commit(stored, group_id, offsets, ids, NO_TIMESTAMP)

    def fetch(self, group_id: str, *, require_stable: bool) -> GroupOffsets:
        """What the group has committed; nothing for one that is not known."""
        return GroupOffsets(group_id, self._shard_of(group_id).shard.offsets, require_stable)

    def _shard_of(self, group_id: str) -> StoredShard:
        return self._store.shard(partition_of(group_id, self._store.partition_count))

    def _commit(
        self, stored: StoredShard, group_id: str, offsets: Sequence[NewOffset], ids: ProducerIdAndEpoch, expire_timestamp_ms: int
    ) -> Commit:
        now_ms = self._clock.now_ms()
        errors: list[KafkaError | None] = []
        records = []
        for new in offsets:
            metadata = new.metadata or ""
            if _java_length(metadata) > self._config.offset_metadata_max_bytes:
                errors.append(OffsetMetadataTooLarge())
                continue
            errors.append(None)
            committed = CommittedOffset(new.offset, new.leader_epoch, metadata, now_ms, expire_timestamp_ms, new.topic_id)
            records.append(offset_record(group_id, new.partition, committed))
        return Commit(errors, stored.append(records, now_ms, ids) if records else None)

    # Retention

    def _check_retention(self) -> None:
        self._check_partition(0)

    def _check_partition(self, index: int) -> None:
        """One partition of the topic a turn; behind the last one, wait for the next time."""
        if index >= self._store.partition_count:
            self._timer = self._clock.call_later_ms(self._config.offsets_retention_check_interval_ms, self._check_retention)
            return
        self._timer = self._clock.call_later_ms(0, lambda: self._check_partition(index + 1))
        now_ms = self._clock.now_ms()
        retention_ms = self._config.offsets_retention_minutes * _MINUTE_MS
        with suppress(KafkaError):  # one that is loading is looked at the next time; what else goes wrong is told where it does
            stored = self._store.shard(index)
            stored.append_all(expired(stored.shard, now_ms=now_ms, retention_ms=retention_ms), now_ms)


def _check_membership(shard: Shard, group_id: str, membership: Membership, unknown_group: type[KafkaError]) -> None:
    if membership.generation_id < 0:
        return
    raise UnknownMemberId if group_id in shard.groups else unknown_group


def _java_length(text: str) -> int:
    """String.length: UTF-16 code units."""
    return len(text) + sum(character > "\uffff" for character in text) if not text.isascii() else len(text)
