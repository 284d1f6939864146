"""The group coordinator: the services of all kinds of groups, committed offsets, and the deletion of groups.

Every call runs synchronously and appends its records to the log before it returns. Many calls
return the log that must be synced before the client gets its answer, or None if no sync is needed.
Every call may raise NotCoordinator and CoordinatorLoadInProgress (store.py).

The state machine of a group decides which clients may commit. A group without one accepts commits
from clients that are not members, which make it a simple group. If a request for such a group names
a generation, the error is GroupIdNotFound from OffsetCommit 9 on, and IllegalGeneration in older
versions and in transactions.

Source: GroupCoordinatorService, OffsetMetadataManager of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from minibroker.clock import Clock
from minibroker.cluster.cluster import Cluster
from minibroker.cluster.topic import CONSUMER_OFFSETS_TOPIC
from minibroker.config.broker_config import BrokerConfig
from minibroker.coordinator.group.classic.service import ClassicGroups
from minibroker.coordinator.group.kind import CheckCommit, GroupKind, GroupType, LiveGroup, Membership, StoredGroup, may_commit_all
from minibroker.coordinator.group.live_groups import LiveGroups, SyncLogs
from minibroker.coordinator.group.offsets import (
    NO_TIMESTAMP,
    Commit,
    CommittedOffset,
    NewOffset,
    Offsets,
    TopicPartition,
    offset_record,
    offset_tombstone,
)
from minibroker.coordinator.group.retention import OffsetRetention
from minibroker.coordinator.group.store import StoredShard
from minibroker.coordinator.stored_topic import partition_of
from minibroker.coordinator.transaction.records import NO_IDS, ProducerIdAndEpoch
from minibroker.errors import (
    GroupIdNotFound,
    GroupSubscribedToTopic,
    IllegalGeneration,
    InvalidGroupId,
    KafkaError,
    NotCoordinator,
    OffsetMetadataTooLarge,
    StaleMemberEpoch,
    UnknownMemberId,
    UnstableOffsetCommit,
)
from minibroker.log.partition_log import PartitionLog

if TYPE_CHECKING:
    from minibroker.coordinator.group.consumer.service import ConsumerGroups
    from minibroker.coordinator.group.share.service import ShareGroups
    from minibroker.coordinator.group.streams.service import StreamsGroups
    from minibroker.coordinator.share_state.persister import Persister

_INT64_MIDDLE = 1 << 63
EMPTY = "Empty"  #: the state of a group without members, for all kinds


class GroupOffsets(NamedTuple):
    """The offsets of one group, as one request sees them."""

    group_id: str
    offsets: Offsets
    require_stable: bool

    def get(self, partition: TopicPartition) -> CommittedOffset | None:
        """Return the committed offset of a partition; None if there is none.

        Raises:
            UnstableOffsetCommit: Stable offsets are required, and an open transaction may change this one.
        """
        if self.require_stable and self.offsets.is_unstable(self.group_id, partition):
            raise UnstableOffsetCommit
        return self.offsets.of_group(self.group_id).get(partition)

    def partitions(self) -> Iterator[TopicPartition]:
        """Return the partitions that have a committed offset."""
        return iter(self.offsets.of_group(self.group_id))


class ListedGroup(NamedTuple):
    """A group, as ListGroups shows it."""

    group_id: str
    protocol_type: str
    state: str
    group_type: str


class GroupCoordinator:
    """The coordinator of all groups: one node coordinates every one."""

    def __init__(
        self, cluster: Cluster, config: BrokerConfig, clock: Clock, sync: SyncLogs, share_persister: Callable[[], Persister]
    ) -> None:
        """Create the coordinator.

        `sync` is that of LiveGroups; `share_persister` returns the share coordinator.
        """
        self._cluster = cluster
        self._config = config
        self._clock = clock
        self._share_persister = share_persister
        self.live = LiveGroups(cluster, config, clock, sync, self._kind_of)
        self.classic = ClassicGroups(self.live)
        self.on_share_member_gone: list[Callable[[str, str], None]] = []  #: called with group id and member id
        self._retention = OffsetRetention(self.live)
        self._consumer: ConsumerGroups | None = None
        self._share: ShareGroups | None = None
        self._streams: StreamsGroups | None = None
        self._will_forget_topics = False  #: share groups drop deleted topics in the next turn of the loop

    @property
    def consumer(self) -> ConsumerGroups:
        """The service of consumer groups (KIP-848)."""
        if self._consumer is None:
            from minibroker.coordinator.group.consumer.service import ConsumerGroups  # noqa: PLC0415  many brokers have none

            self._consumer = ConsumerGroups(self.live, self.classic)
        return self._consumer

    @property
    def share(self) -> ShareGroups:
        """The service of share groups (KIP-932)."""
        if self._share is None:
            from minibroker.coordinator.group.share.service import ShareGroups  # noqa: PLC0415  many brokers have none

            self._share = ShareGroups(self.live, self._share_persister, self._share_member_gone)
        return self._share

    @property
    def streams(self) -> StreamsGroups:
        """The service of streams groups (KIP-1071)."""
        if self._streams is None:
            from minibroker.coordinator.group.streams.service import StreamsGroups  # noqa: PLC0415  many brokers have none

            self._streams = StreamsGroups(self.live)
        return self._streams

    def _kind_of(self, group_type: GroupType) -> GroupKind:
        kinds: dict[GroupType, Callable[[], GroupKind]] = {
            GroupType.CLASSIC: lambda: self.classic,
            GroupType.CONSUMER: lambda: self.consumer,
            GroupType.SHARE: lambda: self.share,
            GroupType.STREAMS: lambda: self.streams,
        }
        return kinds[group_type]()

    def _share_member_gone(self, group_id: str, member_id: str) -> None:
        for listener in self.on_share_member_gone:
            listener(group_id, member_id)

    # Life

    def start(self) -> None:
        """Watch for deleted topics, and check the retention of offsets from now on."""
        self._cluster.on_topic_deleted.append(self._delete_topic)
        self._retention.start()

    def stop(self) -> None:
        """Stop writing. Waiting members look for another coordinator."""
        self._cluster.on_topic_deleted.remove(self._delete_topic)
        self._retention.stop()
        self._forget_topics()
        self.live.store.stop()
        for stored in self.live.store.loaded:
            for group_id in list(stored.live):
                self.live.forget(stored, group_id)

    def unload(self) -> None:
        """Answer waiting members with NOT_COORDINATOR, and cancel all time-outs.

        No request may follow, only `stop`.
        """
        for stored in self.live.store.loaded:
            for group in stored.live.values():
                group.unload()

    def _delete_topic(self, name: str) -> None:
        self.live.store.delete_topic(name)
        if not self._will_forget_topics:
            self._will_forget_topics = True
            self._clock.call_later_ms(0, self._forget_topics)

    def _forget_topics(self) -> None:
        """Drop all topics that were deleted in this turn from share groups.

        After a crash, loading the log does it.
        """
        if not self._will_forget_topics:
            return
        self._will_forget_topics = False
        for stored in self.live.store.loaded:
            if stored.is_usable and any(group.group_type is GroupType.SHARE for group in stored.live.values()):
                self.share.forget_deleted_topics(stored)

    def ensure_topic(self) -> None:
        """Create `__consumer_offsets` if it does not exist; KafkaError.

        Until then every call here raises NotCoordinator.
        """
        self.live.store.ensure_topic()

    def topic_partition(self, group_id: str) -> TopicPartition:
        """Return the partition of a group, existing or not.

        A transaction that commits offsets of the group must include it.
        """
        return CONSUMER_OFFSETS_TOPIC, partition_of(group_id, self.live.store.partition_count)

    # Offsets

    def commit(
        self,
        group_id: str,
        offsets: Sequence[NewOffset],
        membership: Membership,
        *,
        retention_ms: int = NO_TIMESTAMP,
        has_member_epoch: bool = True,
    ) -> Commit:
        """Commit outside of a transaction.

        Errors of single offsets (OffsetMetadataTooLarge) are returned.

        Args:
            group_id: The group, which need not exist.
            offsets: The offsets to commit.
            membership: The client that commits.
            retention_ms: How long to keep the offsets; -1 uses offsets.retention.minutes.
            has_member_epoch: The version of the request has member epochs (KIP-848).

        Raises:
            KafkaError: The client may not commit. The head of this module has the errors for groups without state machine.
        """
        stored = self.live.shard_of(group_id)
        group = stored.live.get(group_id)
        if group is not None:
            check_commit = group.check_offset_commit(membership, is_transactional=False, has_member_epoch=has_member_epoch)
        else:
            check_commit = _check_non_member(stored, group_id, membership, GroupIdNotFound if has_member_epoch else IllegalGeneration)
        expire_timestamp_ms = NO_TIMESTAMP if retention_ms == NO_TIMESTAMP else _wrapped(self._clock.now_ms() + retention_ms)
        return self._commit(stored, group_id, offsets, check_commit, expire_timestamp_ms=expire_timestamp_ms)

    def commit_in_transaction(self, group_id: str, offsets: Sequence[NewOffset], membership: Membership, ids: ProducerIdAndEpoch) -> Commit:
        """Commit with the transaction of a producer.

        The caller must have added `topic_partition` to that transaction.

        Raises:
            IllegalGeneration: The request has another generation, or a stale member epoch.
            UnknownMemberId: The member is not in the group.
            InvalidGroupId: The group id is empty.
            InvalidProducerEpoch, InvalidTxnState: As PartitionLog.append_own.
        """
        if not group_id:
            raise InvalidGroupId
        stored = self.live.shard_of(group_id)
        group = stored.live.get(group_id)
        if group is None:
            check_commit = _check_non_member(stored, group_id, membership, IllegalGeneration)
        else:
            try:
                check_commit = group.check_offset_commit(membership, is_transactional=True)
            except StaleMemberEpoch as error:
                raise IllegalGeneration from error
        return self._commit(stored, group_id, offsets, check_commit, ids)

    def fetch(self, group_id: str, *, require_stable: bool, member_id: str | None = None, member_epoch: int = -1) -> GroupOffsets:
        """Return the committed offsets of a group; none for an unknown group.

        Raise KafkaError if the member may not fetch them.
        """
        stored = self.live.shard_of(group_id)
        group = stored.live.get(group_id)
        if group is not None:
            group.check_offset_fetch(member_id, member_epoch)
        return GroupOffsets(group_id, stored.shard.offsets, require_stable)

    def _commit(
        self,
        stored: StoredShard,
        group_id: str,
        offsets: Sequence[NewOffset],
        check_commit: CheckCommit,
        ids: ProducerIdAndEpoch = NO_IDS,
        *,
        expire_timestamp_ms: int = NO_TIMESTAMP,
    ) -> Commit:
        now_ms = self._clock.now_ms()
        errors: list[KafkaError | None] = []
        accepted = []
        for new in offsets:
            if new.metadata and _java_length(new.metadata) > self._config.offset_metadata_max_bytes:
                errors.append(OffsetMetadataTooLarge())
                continue
            if (error := check_commit(new.topic_id, new.partition[1])) is not None:
                raise error if ids == NO_IDS else IllegalGeneration  # fails the whole request, as in Apache Kafka
            errors.append(None)
            accepted.append(new)
        if not accepted:
            return Commit(errors, None)
        if expire_timestamp_ms == NO_TIMESTAMP:
            return Commit(errors, stored.commit(group_id, accepted, now_ms, ids))
        records = []
        for new in accepted:
            committed = CommittedOffset(new.offset, new.leader_epoch, new.metadata or "", now_ms, expire_timestamp_ms, new.topic_id)
            records.append(offset_record(group_id, new.partition, committed))
        return Commit(errors, stored.append(records, now_ms, ids))

    # Listing and deleting groups

    def groups(self) -> Iterator[ListedGroup]:
        """List the groups of every log that can be read.

        Groups may be created and deleted during the iteration.

        Raises:
            CoordinatorLoadInProgress: One of the logs is being read.
        """
        for index in range(self.live.store.partition_count):
            try:
                stored = self.live.store.shard(index)
            except NotCoordinator:
                continue
            for group_id, known in list(stored.shard.groups.items()):
                yield _listed(group_id, known, stored.live.get(group_id))

    def delete_group(self, group_id: str) -> PartitionLog | None:
        """Delete a group without members, and its offsets; GroupIdNotFound, NonEmptyGroup."""
        stored = self.live.shard_of(group_id)
        group = self.live.find(stored, group_id)
        if group is None:
            raise GroupIdNotFound(f"Group {group_id} not found.")
        group.check_delete()
        offsets = (offset_tombstone(group_id, partition) for partition in stored.shard.offsets.partitions_of(group_id))
        tombstones = [*offsets, *group.tombstones()]
        unsynced = stored.append_all(tombstones, self._clock.now_ms())
        self.live.forget(stored, group_id)
        return unsynced

    def delete_offsets(self, group_id: str, partitions: Sequence[TopicPartition]) -> Commit:
        """Delete committed offsets.

        Partitions of topics that a member is subscribed to get GroupSubscribedToTopic.

        Raises:
            InvalidGroupId, GroupIdNotFound: The group does not exist.
            NonEmptyGroup: It has members that are not consumers, whose subscriptions the broker cannot read.
        """
        if not group_id:
            raise InvalidGroupId
        stored = self.live.shard_of(group_id)
        if group_id not in stored.shard.groups:
            raise GroupIdNotFound
        group = stored.live.get(group_id)
        if group is not None:
            group.check_offset_delete()
        errors: list[KafkaError | None] = [
            GroupSubscribedToTopic() if group is not None and group.is_subscribed(topic) else None for topic, _ in partitions
        ]
        offsets = stored.shard.offsets
        known = [
            partition
            for partition, error in zip(partitions, errors, strict=True)
            if error is None and (partition in offsets.of_group(group_id) or offsets.is_unstable(group_id, partition))
        ]
        tombstones = [offset_tombstone(group_id, partition) for partition in dict.fromkeys(known)]
        return Commit(errors, stored.append_all(tombstones, self._clock.now_ms()))


def _check_non_member(stored: StoredShard, group_id: str, membership: Membership, unknown_group: type[KafkaError]) -> CheckCommit:
    """Check a commit to a group without state machine. Such a group has no generation."""
    if membership.generation_id >= 0:
        raise UnknownMemberId if group_id in stored.shard.groups else unknown_group
    return may_commit_all


def _listed(group_id: str, known: StoredGroup, live: LiveGroup | None) -> ListedGroup:
    group_type = known.group_type.value
    if live is not None:
        return ListedGroup(group_id, live.protocol_type, live.state.value, group_type)
    return ListedGroup(group_id, known.stored.protocol_type if known.stored else "", EMPTY, group_type)


def _wrapped(number: int) -> int:
    """Wrap to int64, as Java's addition does: a retention time of 2^63-1 expires immediately, as in Apache Kafka 4.3.1."""
    return (number + _INT64_MIDDLE) % (2 * _INT64_MIDDLE) - _INT64_MIDDLE


def _java_length(text: str) -> int:
    """Return the length in UTF-16 code units, as Java's String.length."""
    return len(text) + sum(character > "\uffff" for character in text) if not text.isascii() else len(text)
