"""Replay `__consumer_offsets` and `__transaction_state` from files, as far as a report needs them.

A record of a committed offset counts at once, or from the commit marker of its transaction on; an abort marker drops it. Of two commits
for one partition the later record counts. Source: OffsetMetadataManager, TransactionLog of Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from minibroker.client.routing import TopicPartition
from minibroker.errors import WireError
from minibroker.records.any_format import decode_records
from minibroker.records.batch import NO_PRODUCER_ID, RecordBatch
from minibroker.records.control import ControlType, read_marker
from minibroker.schemas.internal.consumer_group_records import ConsumerGroupMetadataKey
from minibroker.schemas.internal.offset_records import GroupMetadataKey, LegacyOffsetCommitKey, OffsetCommitKey
from minibroker.schemas.internal.share_group_records import ShareGroupMetadataKey
from minibroker.schemas.internal.streams_group_records import StreamsGroupMetadataKey
from minibroker.schemas.internal.transaction_records import TransactionLogValue
from minibroker.spark.report.results import TransactionInfo
from minibroker.storage.record_frame import CONSUMER_OFFSETS, TRANSACTION_STATE, CoordinatorRecord, RecordFrame

CONSUMER_OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTION_STATE_TOPIC = "__transaction_state"
CLASSIC = "classic"
#: the record that says that a group is there, by the type of its key: the group's type as ListGroups spells it
_GROUP_TYPES: dict[type[Any], str] = {
    GroupMetadataKey: CLASSIC,
    ConsumerGroupMetadataKey: "consumer",
    ShareGroupMetadataKey: "share",
    StreamsGroupMetadataKey: "streams",
}
#: `transaction_status` of a record as DescribeTransactions spells it
_TRANSACTION_STATES = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
)


class CommittedOffset(NamedTuple):
    """An offset that a group has committed."""

    group: str
    group_type: str
    partition: TopicPartition
    offset: int


def committed_offsets(batches: Iterable[RecordBatch]) -> list[CommittedOffset]:
    """Return the offsets that one partition of `__consumer_offsets` holds; commits of open transactions do not count yet."""
    committed: dict[tuple[str, TopicPartition], tuple[int, int]] = {}  #: record offset and committed offset
    pending: dict[int, dict[tuple[str, TopicPartition], tuple[int, int]]] = {}  #: by producer id
    group_types: dict[str, str] = {}
    for batch in batches:
        if batch.is_control:
            marker = read_marker(batch)
            offsets = pending.pop(batch.producer_id, {}) if marker is not None else {}
            if marker is not None and marker.control_type is ControlType.COMMIT:
                committed.update({place: found for place, found in offsets.items() if found > committed.get(place, (-1, 0))})
            continue
        store = committed
        if batch.is_transactional and batch.producer_id != NO_PRODUCER_ID:
            store = pending.setdefault(batch.producer_id, {})
        for offset, (key, value, _) in _decoded(batch, CONSUMER_OFFSETS):
            if isinstance(key, OffsetCommitKey | LegacyOffsetCommitKey):
                place = key.group, (key.topic, key.partition)
                if value is None:
                    for each in (committed, *pending.values()):
                        each.pop(place, None)
                else:
                    store[place] = offset, value.offset
            elif type(key) in _GROUP_TYPES:
                group = key.group if isinstance(key, GroupMetadataKey) else key.group_id
                if value is not None:
                    group_types[group] = _GROUP_TYPES[type(key)]
                elif group_types.get(group) == _GROUP_TYPES[type(key)]:
                    del group_types[group]
    return [CommittedOffset(group, group_types.get(group, CLASSIC), partition, found[1]) for (group, partition), found in committed.items()]


def transactions(partitions: Iterable[Iterable[RecordBatch]]) -> dict[str, TransactionInfo]:
    """Return the latest state of each transactional id from the partitions of `__transaction_state`; a tombstone removes an id."""
    latest: dict[str, TransactionInfo] = {}
    for batch in (batch for batches in partitions for batch in batches if not batch.is_control):
        for _, (key, value, _) in _decoded(batch, TRANSACTION_STATE):
            latest.pop(key.transactional_id, None)
            if value is not None:
                latest[key.transactional_id] = _transaction(key.transactional_id, value)
    return latest


def _decoded(batch: RecordBatch, frame: RecordFrame) -> Iterator[tuple[int, CoordinatorRecord]]:
    """Yield the offset and the content of each record of a known type."""
    for record in decode_records(batch):
        decoded = frame.decode(record.key, record.value)
        if decoded is not None:
            yield record.offset, decoded


def _transaction(transactional_id: str, value: TransactionLogValue) -> TransactionInfo:
    start = value.transaction_start_timestamp_ms
    if not 0 <= value.transaction_status < len(_TRANSACTION_STATES):
        raise WireError(f"transactional id {transactional_id} has the unknown state {value.transaction_status}")
    partitions = [f"{each.topic}-{index}" for each in value.transaction_partitions or () for index in each.partition_ids]
    return TransactionInfo(
        transactional_id,
        value.producer_id,
        value.producer_epoch,
        _TRANSACTION_STATES[value.transaction_status],
        value.transaction_timeout_ms,
        None if start < 0 else start,
        tuple(sorted(partitions)),
    )
