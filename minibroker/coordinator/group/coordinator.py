"""The group coordinator: committed offsets, outside and inside of transactions, on top of members (memberships.py).

Every call is one synchronous run that ends with its records in the log. What it returns besides is the log that must be synced before
anybody is told, None where no sync is asked for. Errors are raised; every call may raise NotCoordinator and CoordinatorLoadInProgress
(store.py). Who may commit is said by the group's machine, of whatever kind it is (kinds.py); where there is none, a client that is no
member may: there is a simple one from then on. A generation of it is GroupIdNotFound from OffsetCommit 9 on, IllegalGeneration before and
in a transaction.

Source: GroupCoordinatorService, OffsetMetadataManager of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from minibroker.clock import Clock, Timer
from minibroker.cluster.cluster import Cluster
from minibroker.cluster.topic import CONSUMER_OFFSETS_TOPIC
from minibroker.config.broker_config import BrokerConfig
from minibroker.coordinator.group.classic.group import ClassicGroup
from minibroker.coordinator.group.classic.service import Memberships
from minibroker.coordinator.group.kind import CheckCommit, GroupType, LiveGroup, may_commit_all
from minibroker.coordinator.group.live_groups import SyncLogs
from minibroker.coordinator.group.offset_records import offset_record, offset_tombstone
from minibroker.coordinator.group.offsets import NO_TIMESTAMP, Commit, CommittedOffset, Membership, NewOffset, Offsets, TopicPartition
from minibroker.coordinator.group.retention import expired
from minibroker.coordinator.group.shard import Group
from minibroker.coordinator.group.store import StoredShard
from minibroker.coordinator.placement import partition_of
from minibroker.coordinator.record_frame import CoordinatorRecord
from minibroker.coordinator.transaction.metadata import NO_IDS, ProducerIdAndEpoch
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
    from minibroker.coordinator.group.consumer.service import ConsumerMemberships
    from minibroker.coordinator.group.share.service import ShareMemberships
    from minibroker.coordinator.group.streams.service import StreamsMemberships
    from minibroker.coordinator.share_state.persister import Persister

_MINUTE_MS = 60_000
_INT64_MIDDLE = 1 << 63
OFFSETS_A_TURN = 2_000  #: that retention looks at, or deletes: 20 ms
EMPTY = "Empty"  #: the state of a group without members, as all kinds spell it


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


class ListedGroup(NamedTuple):
    """One group in a list of all."""

    group_id: str
    protocol_type: str
    state: str
    group_type: str


class GroupCoordinator(Memberships):
    """Of all groups: one node coordinates every one."""

    def __init__(
        self, cluster: Cluster, config: BrokerConfig, clock: Clock, sync: SyncLogs, share_persister: Callable[[], Persister]
    ) -> None:
        super().__init__(cluster, config, clock, sync, share_persister)
        self._timer: Timer | None = None
        self._consumer: ConsumerMemberships | None = None
        self._share: ShareMemberships | None = None
        self._forgets_topics = False  #: of share groups, in the next turn
        self._streams: StreamsMemberships | None = None

    @property
    def consumer(self) -> ConsumerMemberships:
        """Members of groups of KIP-848."""
        if self._consumer is None:
            from minibroker.coordinator.group.consumer.service import ConsumerMemberships  # noqa: PLC0415  many brokers have none

            self._consumer = ConsumerMemberships(self)
        return self._consumer

    @property
    def share(self) -> ShareMemberships:
        """Members and offsets of share groups."""
        if self._share is None:
            from minibroker.coordinator.group.share.service import ShareMemberships  # noqa: PLC0415  many brokers have none

            self._share = ShareMemberships(self)
        return self._share

    @property
    def streams(self) -> StreamsMemberships:
        """Members of streams groups."""
        if self._streams is None:
            from minibroker.coordinator.group.streams.service import StreamsMemberships  # noqa: PLC0415  many brokers have none

            self._streams = StreamsMemberships(self)
        return self._streams

    # Life

    def start(self) -> None:
        """Hear of deleted topics, and look for expired offsets, from now on."""
        self.cluster.on_topic_deleted.append(self._delete_topic)
        self._timer = self.clock.call_later_ms(self.config.offsets_retention_check_interval_ms, self._check_retention)

    def stop(self) -> None:
        """Write nothing more; who waits is told to look for another coordinator."""
        self.cluster.on_topic_deleted.remove(self._delete_topic)
        if self._timer is not None:
            self._timer.cancel()
        self._forget_topics()
        self._store.stop()
        for stored in self._store.loaded:
            for group_id in list(stored.live):
                self.forget(stored, group_id)

    def unload(self) -> None:
        """Answer the members that wait with NOT_COORDINATOR, and let no time-out run. No request may follow; `stop` does."""
        for stored in self._store.loaded:
            for group in stored.live.values():
                group.unload()

    def _delete_topic(self, name: str) -> None:
        self._store.delete_topic(name)
        if not self._forgets_topics:
            self._forgets_topics = True
            self.clock.call_later_ms(0, self._forget_topics)

    def _forget_topics(self) -> None:
        """Once for all topics of a turn. A broker that dies before that does it when it reads the log again."""
        if not self._forgets_topics:
            return
        self._forgets_topics = False
        for stored in self._store.loaded:
            if stored.is_usable and any(group.group_type is GroupType.SHARE for group in stored.live.values()):
                self.share.forget_deleted_topics(stored)

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
        has_member_epoch: bool = True,
    ) -> Commit:
        """Commit outside of a transaction; `retention_ms` -1 leaves it to the broker. What the group's machine says, or see above.

        `has_member_epoch`: the request is of a version that knows of KIP-848. Of an offset: OffsetMetadataTooLarge.
        """
        stored = self.shard_of(group_id)
        group = stored.live.get(group_id)
        if group is not None:
            check_commit = group.check_offset_commit(membership, is_transactional=False, has_member_epoch=has_member_epoch)
        else:
            check_commit = _check_stranger(stored, group_id, membership, GroupIdNotFound if has_member_epoch else IllegalGeneration)
        expire_timestamp_ms = NO_TIMESTAMP if retention_ms == NO_TIMESTAMP else _wrapped(self.clock.now_ms() + retention_ms)
        return self._commit(stored, group_id, offsets, check_commit, expire_timestamp_ms=expire_timestamp_ms)

    def commit_in_transaction(self, group_id: str, offsets: Sequence[NewOffset], membership: Membership, ids: ProducerIdAndEpoch) -> Commit:
        """Commit with the producer's transaction, which must have reached `topic_partition`: that is the caller's to see to.

        Raises:
            IllegalGeneration, UnknownMemberId: see above; StaleMemberEpoch is IllegalGeneration here. InvalidGroupId: an empty group id.
            InvalidProducerEpoch, InvalidTxnState: as PartitionLog.append_own.
        """
        if not group_id:
            raise InvalidGroupId
        stored = self.shard_of(group_id)
        group = stored.live.get(group_id)
        if group is None:
            check_commit = _check_stranger(stored, group_id, membership, IllegalGeneration)
        else:
            try:
                check_commit = group.check_offset_commit(membership, is_transactional=True)
            except StaleMemberEpoch as error:
                raise IllegalGeneration from error
        return self._commit(stored, group_id, offsets, check_commit, ids)

    def fetch(self, group_id: str, *, require_stable: bool, member_id: str | None = None, member_epoch: int = -1) -> GroupOffsets:
        """What the group has committed; nothing for one that is not known. Whether a member may ask, its group's machine says."""
        stored = self.shard_of(group_id)
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
        now_ms = self.clock.now_ms()
        errors: list[KafkaError | None] = []
        accepted = []
        for new in offsets:
            if new.metadata and _java_length(new.metadata) > self.config.offset_metadata_max_bytes:
                errors.append(OffsetMetadataTooLarge())
                continue
            if (error := check_commit(new.topic_id, new.partition[1])) is not None:
                raise error if ids == NO_IDS else IllegalGeneration  # of the whole request, as in Apache Kafka
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

    # Groups and their end

    def describe(self, group_id: str) -> ClassicGroup:
        """The group as it is now, for reading; GroupIdNotFound where there is no classic group of this id."""
        return self.find_of_type(group_id, ClassicGroup, "classic")[1]

    def groups(self) -> Iterator[ListedGroup]:
        """List every group of every log that can be read. Groups may come and go between two of them.

        Raises:
            CoordinatorLoadInProgress: one of the logs is being read.
        """
        for index in range(self._store.partition_count):
            try:
                stored = self._store.shard(index)
            except NotCoordinator:
                continue
            for group_id, known in list(stored.shard.groups.items()):
                yield _listed(group_id, known, stored.live.get(group_id))

    def delete_group(self, group_id: str) -> PartitionLog | None:
        """Forget a group without members, and its offsets; GroupIdNotFound, NonEmptyGroup."""
        stored = self.shard_of(group_id)
        group = self.find(stored, group_id)
        if group is None:
            raise GroupIdNotFound(f"Group {group_id} not found.")
        group.check_delete()
        offsets = (offset_tombstone(group_id, partition) for partition in stored.shard.offsets.partitions_of(group_id))
        tombstones = [*offsets, *group.tombstones()]
        unsynced = stored.append_all(tombstones, self.clock.now_ms())
        self.forget(stored, group_id)
        return unsynced

    def delete_offsets(self, group_id: str, partitions: Sequence[TopicPartition]) -> Commit:
        """Forget offsets that nobody of the group reads any more: GroupSubscribedToTopic where somebody does.

        Raises:
            InvalidGroupId, GroupIdNotFound. NonEmptyGroup: it has members that are no consumers, so nobody knows what they read.
        """
        if not group_id:
            raise InvalidGroupId
        stored = self.shard_of(group_id)
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
        return Commit(errors, stored.append_all(tombstones, self.clock.now_ms()))

    def _check_retention(self) -> None:
        self._check_partition(0)

    def _check_partition(self, index: int, group_ids: Sequence[str] | None = None) -> None:
        """Some groups of one partition of the topic a turn, all of it to begin with; behind the last one, wait for the next time."""
        if index >= self._store.partition_count:
            self._timer = self.clock.call_later_ms(self.config.offsets_retention_check_interval_ms, self._check_retention)
            return
        left: Sequence[str] = ()
        with suppress(KafkaError):  # one that is loading is looked at the next time; what else goes wrong is told where it does
            stored = self._store.shard(index)
            left = self._expire(stored, list(stored.shard.groups) if group_ids is None else group_ids)
        following = partial(self._check_partition, index, left) if left else partial(self._check_partition, index + 1)
        self._timer = self.clock.call_later_ms(0, following)

    def _expire(self, stored: StoredShard, group_ids: Sequence[str]) -> Sequence[str]:
        """Delete what expired, as much as a turn of the loop may take; the groups that are left to be looked at."""
        now_ms, retention_ms = self.clock.now_ms(), self.config.offsets_retention_minutes * _MINUTE_MS
        shard, tombstones, looked_at, index = stored.shard, list[CoordinatorRecord](), 0, 0
        while index < len(group_ids) and looked_at < OFFSETS_A_TURN:
            group_id = group_ids[index]
            index += 1
            if group_id in shard.groups:
                looked_at += 1 + len(shard.offsets.of_group(group_id))
                tombstones += expired(shard, group_id, stored.live.get(group_id), now_ms=now_ms, retention_ms=retention_ms)
        if len(tombstones) > OFFSETS_A_TURN:  # of one group, which comes again with the rest
            tombstones, index = tombstones[:OFFSETS_A_TURN], index - 1
        stored.append_all(tombstones, now_ms)
        for group_id in stored.live.keys() - shard.groups.keys():
            self.forget(stored, group_id)
        return group_ids[index:]


def _check_stranger(stored: StoredShard, group_id: str, membership: Membership, unknown_group: type[KafkaError]) -> CheckCommit:
    """Who may commit where no machine knows: nobody is of a generation."""
    if membership.generation_id >= 0:
        raise UnknownMemberId if group_id in stored.shard.groups else unknown_group
    return may_commit_all


def _listed(group_id: str, known: Group, live: LiveGroup | None) -> ListedGroup:
    group_type = known.group_type.value
    if live is not None:
        return ListedGroup(group_id, live.protocol_type, live.state.value, group_type)
    return ListedGroup(group_id, known.stored.protocol_type if known.stored else "", EMPTY, group_type)


def _wrapped(number: int) -> int:
    """The int64 that Java's addition gives: a retention time of 2^63-1 expires at once, as in Apache Kafka 4.3.1."""
    return (number + _INT64_MIDDLE) % (2 * _INT64_MIDDLE) - _INT64_MIDDLE


def _java_length(text: str) -> int:
    """String.length: UTF-16 code units."""
    return len(text) + sum(character > "\uffff" for character in text) if not text.isascii() else len(text)
