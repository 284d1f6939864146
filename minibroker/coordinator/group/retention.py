"""The retention of committed offsets: expired offsets are deleted, and a group with its last offset.

    kind of group                               an offset expires offsets.retention.minutes after
    simple (offsets and nothing else)           its commit
    classic, without members                    the last member left (if the record is older than KIP-211: its commit)
    classic, of consumers, in the state Stable  its commit, if no member is subscribed to its topic
    consumer                                    its commit, if no member is subscribed to its topic
    all others                                  never

An offset that was committed with its own retention time (OffsetCommit 2 to 4) expires after that
time. An offset stays while an open transaction has a new offset for the same partition. A group
stays while an open transaction has offsets of it.

Source: OffsetMetadataManager.cleanupExpiredOffsets, ClassicGroup.offsetExpirationCondition of
Apache Kafka 4.3.1; KIP-211.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from minibroker.clock import Timer
from minibroker.coordinator.group.classic.members import group_tombstone
from minibroker.coordinator.group.kind import LiveGroup, StoredGroup
from minibroker.coordinator.group.live_groups import LiveGroups
from minibroker.coordinator.group.offsets import NO_TIMESTAMP, CommittedOffset, offset_tombstone
from minibroker.coordinator.group.store import Shard, StoredShard
from minibroker.errors import KafkaError
from minibroker.storage.record_frame import CoordinatorRecord

_MINUTE_MS: Final = 60_000
OFFSETS_A_TURN: Final = 2_000  #: offsets checked or deleted in one turn of the loop: 20 ms

_Since = Callable[[CommittedOffset], int]  #: when the retention of an offset starts, epoch ms


class OffsetRetention:
    """Check all offsets every offsets.retention.check.interval.ms, some in each turn of the loop."""

    def __init__(self, groups: LiveGroups) -> None:
        self._groups = groups
        self._timer: Timer | None = None

    def start(self) -> None:
        """Wait for the first check."""
        self._timer = self._groups.clock.call_later_ms(self._groups.config.offsets_retention_check_interval_ms, self._check)

    def stop(self) -> None:
        """Stop checking."""
        if self._timer is not None:
            self._timer.cancel()

    def _check(self) -> None:
        self._check_partition(0)

    def _check_partition(self, index: int, group_ids: Sequence[str] | None = None) -> None:
        """Check some of the groups of one partition of the topic.

        After the last partition, wait for the next check.
        """
        if index >= self._groups.store.partition_count:
            self.start()
            return
        left: Sequence[str] = ()
        with suppress(KafkaError):  # a partition that is loading is checked the next time; other failures are logged where they happen
            stored = self._groups.store.shard(index)
            left = self._expire(stored, list(stored.shard.groups) if group_ids is None else group_ids)
        following = partial(self._check_partition, index, left) if left else partial(self._check_partition, index + 1)
        self._timer = self._groups.clock.call_later_ms(0, following)

    def _expire(self, stored: StoredShard, group_ids: Sequence[str]) -> Sequence[str]:
        """Delete expired offsets, as many as fit into one turn of the loop.

        Return the groups that remain to be checked.
        """
        now_ms, retention_ms = self._groups.clock.now_ms(), self._groups.config.offsets_retention_minutes * _MINUTE_MS
        shard, tombstones, checked, index = stored.shard, list[CoordinatorRecord](), 0, 0
        while index < len(group_ids) and checked < OFFSETS_A_TURN:
            group_id = group_ids[index]
            index += 1
            if group_id in shard.groups:
                checked += 1 + len(shard.offsets.of_group(group_id))
                tombstones += expired(shard, group_id, stored.live.get(group_id), now_ms=now_ms, retention_ms=retention_ms)
        if len(tombstones) > OFFSETS_A_TURN:  # of one group, whose other offsets are deleted in the next turn
            tombstones, index = tombstones[:OFFSETS_A_TURN], index - 1
        stored.append_all(tombstones, now_ms)
        for group_id in stored.live.keys() - shard.groups.keys():
            self._groups.forget(stored, group_id)
        return group_ids[index:]


def expired(shard: Shard, group_id: str, live: LiveGroup | None, *, now_ms: int, retention_ms: int) -> list[CoordinatorRecord]:
    """Return the tombstones of expired offsets of a group, followed by those of the group if no offset is left."""
    since = _since(shard.groups[group_id], live)
    if since is None:
        return []
    offsets = shard.offsets.of_group(group_id)
    gone = [
        (topic, index)
        for (topic, index), committed in offsets.items()
        if _is_expired(since, committed, now_ms, retention_ms)
        and not (live is not None and live.is_subscribed(topic))
        and not shard.offsets.is_unstable(group_id, (topic, index))
    ]
    tombstones = [offset_tombstone(group_id, partition) for partition in gone]
    is_empty = live is None or live.is_empty
    if is_empty and len(gone) == len(offsets) and not shard.offsets.has_open_transaction(group_id):
        tombstones += [group_tombstone(group_id)] if live is None else live.tombstones()
    return tombstones


def _since(group: StoredGroup, live: LiveGroup | None) -> _Since | None:
    """Return when the retention of each offset starts; None while all offsets stay."""
    stored = group.stored
    if live is not None and not (live.is_empty and group.is_classic):
        return _committed if live.do_offsets_expire else None
    if not group.is_classic or (stored is not None and stored.members):
        return None
    if stored is None or not stored.protocol_type or stored.current_state_timestamp == NO_TIMESTAMP:
        return _committed
    empty_since_ms = stored.current_state_timestamp
    return lambda _: empty_since_ms


def _committed(committed: CommittedOffset) -> int:
    return committed.commit_timestamp_ms


def _is_expired(since: _Since, committed: CommittedOffset, now_ms: int, retention_ms: int) -> bool:
    if committed.expire_timestamp_ms != NO_TIMESTAMP:
        return now_ms >= committed.expire_timestamp_ms
    return now_ms - since(committed) >= retention_ms
