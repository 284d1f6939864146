"""Checks of the records in the coordinators' topics, for `storage check`.

Each record must be readable, and must be in the partition where the coordinator looks for the
transactional id, group or share partition. Records of types that only other versions of Kafka know
are skipped, as by the coordinators.
"""

from __future__ import annotations

from functools import partial

from minibroker.cluster.topic import CONSUMER_OFFSETS_TOPIC, SHARE_GROUP_STATE_TOPIC, TRANSACTION_STATE_TOPIC
from minibroker.coordinator.share_state.records import StateKey
from minibroker.coordinator.stored_topic import partition_of
from minibroker.coordinator.transaction import records
from minibroker.errors import WireError
from minibroker.log.segment_checking import RecordCheck
from minibroker.records.record import Record
from minibroker.storage.record_frame import CONSUMER_OFFSETS, SHARE_GROUP_STATE


def record_check_of(topic: str, partition: int, partition_count: int | None) -> RecordCheck | None:
    """Return the picklable check of a partition's records; None for topics of users.

    Without a count, placement is not checked.
    """
    checks = {TRANSACTION_STATE_TOPIC: check_transaction, CONSUMER_OFFSETS_TOPIC: check_offset, SHARE_GROUP_STATE_TOPIC: check_share_state}
    return partial(checks[topic], partition, partition_count) if topic in checks else None


def check_transaction(partition: int, partition_count: int | None, record: Record) -> str | None:
    """Return the problem of a record of `__transaction_state`; None for a valid record."""
    try:
        decoded = records.decode(record.key, record.value)
    except WireError as error:
        return f"no state of a transaction: {error}"
    return None if decoded is None else _misplaced(f"transactional id {decoded[0]}", decoded[0], partition, partition_count)


def check_offset(partition: int, partition_count: int | None, record: Record) -> str | None:
    """Return the problem of a record of `__consumer_offsets`; None for a valid record."""
    try:
        decoded = CONSUMER_OFFSETS.decode(record.key, record.value)
    except WireError as error:
        return f"no record of a group: {error}"
    if decoded is None:
        return None
    key = decoded.key
    group = str(key.group if hasattr(key, "group") else key.group_id)
    return _misplaced(f"group {group or repr(group)}", group, partition, partition_count)


def check_share_state(partition: int, partition_count: int | None, record: Record) -> str | None:
    """Return the problem of a record of `__share_group_state`; None for a valid record."""
    try:
        decoded = SHARE_GROUP_STATE.decode(record.key, record.value)
    except WireError as error:
        return f"no record of a share partition: {error}"
    if decoded is None:
        return None
    key = StateKey.of(decoded.key).coordinator_key
    return _misplaced(f"share partition {key}", key, partition, partition_count)


def _misplaced(what: str, key: str, partition: int, partition_count: int | None) -> str | None:
    if partition_count is None or partition_of(key, partition_count) == partition:
        return None
    return f"{what} belongs in partition {partition_of(key, partition_count)} of {partition_count}, where it is looked for"
