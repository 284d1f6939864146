"""Which offsets nobody will ask for again: they are deleted, and with its last one the group.

    kind of group                       an offset expires offsets.retention.minutes after
    simple (offsets and nothing else)   it was committed
    classic, without members            the last member left (before KIP-211 told when: it was committed)
    in use                              never

An offset that was committed with a retention time of its own (OffsetCommit 2 to 4) expires by that alone. One for which an open
transaction has another stays, and so does a group while a transaction has yet to decide about it.

Source: OffsetMetadataManager.cleanupExpiredOffsets, ClassicGroup.offsetExpirationCondition of Apache Kafka 4.3.1; KIP-211.
"""

from __future__ import annotations

from minibroker.coordinator.group.offsets import NO_TIMESTAMP, CommittedOffset
from minibroker.coordinator.group.records import group_tombstone, offset_tombstone
from minibroker.coordinator.group.shard import Group, Shard
from minibroker.coordinator.record_frame import CoordinatorRecord


def expired(shard: Shard, *, now_ms: int, retention_ms: int) -> list[CoordinatorRecord]:
    """The tombstones to be written."""
    tombstones = []
    for group_id, group in shard.groups.items():
        if group.is_in_use:
            continue
        offsets = shard.offsets.of_group(group_id)
        gone = [
            partition
            for partition, committed in offsets.items()
            if _is_expired(group, committed, now_ms, retention_ms) and not shard.offsets.is_unstable(group_id, partition)
        ]
        tombstones += [offset_tombstone(group_id, partition) for partition in gone]
        if len(gone) == len(offsets) and not shard.offsets.has_open_transaction(group_id):
            tombstones.append(group_tombstone(group_id))
    return tombstones


def _is_expired(group: Group, committed: CommittedOffset, now_ms: int, retention_ms: int) -> bool:
    if committed.expire_timestamp_ms != NO_TIMESTAMP:
        return now_ms >= committed.expire_timestamp_ms
    since_ms = committed.commit_timestamp_ms
    if group.protocol_type is not None and group.state_timestamp_ms != NO_TIMESTAMP:
        since_ms = group.state_timestamp_ms
    return now_ms - since_ms >= retention_ms
