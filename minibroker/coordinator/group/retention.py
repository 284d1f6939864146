"""Which offsets nobody will ask for again: they are deleted, and with its last one the group.

    kind of group                               an offset expires offsets.retention.minutes after
    simple (offsets and nothing else)           it was committed
    classic, without members                    the last member left (before KIP-211 told when: it was committed)
    classic, of consumers, in the state Stable  it was committed, if nobody is subscribed to its topic
    consumer                                    it was committed, if nobody is subscribed to its topic
    all others                                  never

An offset that was committed with a retention time of its own (OffsetCommit 2 to 4) expires by that alone. One for which an open
transaction has another stays, and so does a group while a transaction has yet to decide about it.

Source: OffsetMetadataManager.cleanupExpiredOffsets, ClassicGroup.offsetExpirationCondition of Apache Kafka 4.3.1; KIP-211.
"""

from __future__ import annotations

from collections.abc import Callable

from minibroker.coordinator.group.kind import LiveGroup
from minibroker.coordinator.group.offset_records import group_tombstone, offset_tombstone
from minibroker.coordinator.group.offsets import NO_TIMESTAMP, CommittedOffset
from minibroker.coordinator.group.shard import Group, Shard
from minibroker.coordinator.record_frame import CoordinatorRecord

_Since = Callable[[CommittedOffset], int]  #: when the retention of an offset begins, epoch ms


def expired(shard: Shard, group_id: str, live: LiveGroup | None, *, now_ms: int, retention_ms: int) -> list[CoordinatorRecord]:
    """The tombstones to be written for a group of the shard, those of the group itself behind those of its offsets."""
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


def _since(group: Group, live: LiveGroup | None) -> _Since | None:
    """None while all offsets stay."""
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
