"""The record types of `__transaction_state`, `__consumer_offsets` and `__share_group_state`, as in Kafka 4.3.1.

Each topic numbers its types by itself. A record is framed as
  key    Int16 record type, the tables below | the key's struct, v0, not flexible
  value  Int16 version | the value's struct, flexible from `flexible_since` on; or no value: a tombstone

Types 10 to 15 are share groups' (KIP-932), 17 to 23 streams groups' (KIP-1071).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from minibroker.schemas.internal.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from minibroker.schemas.internal.offset_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from minibroker.schemas.internal.share_group_records import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
)
from minibroker.schemas.internal.share_state_records import ShareSnapshotKey, ShareSnapshotValue, ShareUpdateKey, ShareUpdateValue
from minibroker.schemas.internal.streams_group_records import (
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMemberMetadataValue,
    StreamsGroupMetadataKey,
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMemberValue,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTargetAssignmentMetadataValue,
    StreamsGroupTopologyKey,
    StreamsGroupTopologyValue,
)
from minibroker.schemas.internal.transaction_records import TransactionLogKey, TransactionLogValue
from minibroker.wire.api import NEVER


class CoordinatorRecordType(NamedTuple):
    """One kind of record of one topic."""

    type_id: int
    key: type[Any]
    value: type[Any]
    max_version: int  #: of the value; the lowest is 0 for all
    flexible_since: int  #: version of the value


TRANSACTION_RECORD_TYPES = (CoordinatorRecordType(0, TransactionLogKey, TransactionLogValue, 1, 1),)

OFFSET_RECORD_TYPES = (
    CoordinatorRecordType(0, LegacyOffsetCommitKey, LegacyOffsetCommitValue, 0, NEVER),
    CoordinatorRecordType(1, OffsetCommitKey, OffsetCommitValue, 4, 4),
    CoordinatorRecordType(2, GroupMetadataKey, GroupMetadataValue, 4, 4),
    CoordinatorRecordType(3, ConsumerGroupMetadataKey, ConsumerGroupMetadataValue, 0, 0),
    CoordinatorRecordType(4, ConsumerGroupPartitionMetadataKey, ConsumerGroupPartitionMetadataValue, 0, 0),
    CoordinatorRecordType(5, ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue, 0, 0),
    CoordinatorRecordType(6, ConsumerGroupTargetAssignmentMetadataKey, ConsumerGroupTargetAssignmentMetadataValue, 0, 0),
    CoordinatorRecordType(7, ConsumerGroupTargetAssignmentMemberKey, ConsumerGroupTargetAssignmentMemberValue, 0, 0),
    CoordinatorRecordType(8, ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupCurrentMemberAssignmentValue, 0, 0),
    CoordinatorRecordType(10, ShareGroupMemberMetadataKey, ShareGroupMemberMetadataValue, 0, 0),
    CoordinatorRecordType(11, ShareGroupMetadataKey, ShareGroupMetadataValue, 0, 0),
    CoordinatorRecordType(12, ShareGroupTargetAssignmentMetadataKey, ShareGroupTargetAssignmentMetadataValue, 0, 0),
    CoordinatorRecordType(13, ShareGroupTargetAssignmentMemberKey, ShareGroupTargetAssignmentMemberValue, 0, 0),
    CoordinatorRecordType(14, ShareGroupCurrentMemberAssignmentKey, ShareGroupCurrentMemberAssignmentValue, 0, 0),
    CoordinatorRecordType(15, ShareGroupStatePartitionMetadataKey, ShareGroupStatePartitionMetadataValue, 0, 0),
    CoordinatorRecordType(16, ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue, 0, 0),
    CoordinatorRecordType(17, StreamsGroupMetadataKey, StreamsGroupMetadataValue, 0, 0),
    CoordinatorRecordType(19, StreamsGroupMemberMetadataKey, StreamsGroupMemberMetadataValue, 0, 0),
    CoordinatorRecordType(20, StreamsGroupTargetAssignmentMetadataKey, StreamsGroupTargetAssignmentMetadataValue, 0, 0),
    CoordinatorRecordType(21, StreamsGroupTargetAssignmentMemberKey, StreamsGroupTargetAssignmentMemberValue, 0, 0),
    CoordinatorRecordType(22, StreamsGroupCurrentMemberAssignmentKey, StreamsGroupCurrentMemberAssignmentValue, 0, 0),
    CoordinatorRecordType(23, StreamsGroupTopologyKey, StreamsGroupTopologyValue, 0, 0),
)

SHARE_STATE_RECORD_TYPES = (
    CoordinatorRecordType(0, ShareSnapshotKey, ShareSnapshotValue, 0, 0),
    CoordinatorRecordType(1, ShareUpdateKey, ShareUpdateValue, 0, 0),
)

ALL_RECORD_TYPES = (*TRANSACTION_RECORD_TYPES, *OFFSET_RECORD_TYPES, *SHARE_STATE_RECORD_TYPES)
