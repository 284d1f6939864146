"""Every record type of the metadata log, as in Kafka 4.3.1.

A record's value in `__cluster_metadata-0` is framed as
  frame version   unsigned varint, 1
  record id       unsigned varint, the table below
  record version  unsigned varint, 0 to max_version
  the struct, always in the flexible encoding

The metadata.version feature of the log, not max_version, decides in which version a record is written (Kafka's MetadataVersion).
Ids 6, 13 and 16 belonged to records that no released version still reads.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from minibroker.schemas.internal.broker_records import (
    BrokerRegistrationChangeRecord,
    FenceBrokerRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)
from minibroker.schemas.internal.security_records import (
    AccessControlEntryRecord,
    DelegationTokenRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from minibroker.schemas.internal.setting_records import ClientQuotaRecord, ConfigRecord, FeatureLevelRecord, ProducerIdsRecord
from minibroker.schemas.internal.topic_records import (
    ClearElrRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from minibroker.wire.schema import Int8, String, field, struct


@struct
class NoOpRecord:
    """Written while nothing happens, so that followers see that an idle controller is alive (KIP-835)."""


@struct
class BeginTransactionRecord:
    """Starts a transaction: later records take effect with its EndTransactionRecord (KIP-868)."""

    name: String | None = field(tag=0, default=None)  #: for readers


@struct
class EndTransactionRecord:
    """Ends a transaction: the records since BeginTransactionRecord take effect."""


@struct
class AbortTransactionRecord:
    """Aborts a transaction: the records since BeginTransactionRecord have no effect."""

    reason: String | None = field(tag=0, default=None)  #: for readers


@struct
class ZkMigrationStateRecord:
    """How far a move from ZooKeeper has come; logs begun under Kafka 3 have it, Kafka 4 only reads it."""

    zk_migration_state: Int8  #: 0 none, 1 migration, 2 pre-migration, 3 post-migration


class RecordType(NamedTuple):
    """One kind of metadata record."""

    record_id: int
    struct: type[Any]
    max_version: int  #: the lowest is 0 for all


RECORD_TYPES = (
    RecordType(0, RegisterBrokerRecord, 4),
    RecordType(1, UnregisterBrokerRecord, 0),
    RecordType(2, TopicRecord, 0),
    RecordType(3, PartitionRecord, 2),
    RecordType(4, ConfigRecord, 0),
    RecordType(5, PartitionChangeRecord, 2),
    RecordType(7, FenceBrokerRecord, 0),
    RecordType(8, UnfenceBrokerRecord, 0),
    RecordType(9, RemoveTopicRecord, 0),
    RecordType(10, DelegationTokenRecord, 0),
    RecordType(11, UserScramCredentialRecord, 0),
    RecordType(12, FeatureLevelRecord, 0),
    RecordType(14, ClientQuotaRecord, 0),
    RecordType(15, ProducerIdsRecord, 0),
    RecordType(17, BrokerRegistrationChangeRecord, 3),
    RecordType(18, AccessControlEntryRecord, 0),
    RecordType(19, RemoveAccessControlEntryRecord, 0),
    RecordType(20, NoOpRecord, 0),
    RecordType(21, ZkMigrationStateRecord, 0),
    RecordType(22, RemoveUserScramCredentialRecord, 0),
    RecordType(23, BeginTransactionRecord, 0),
    RecordType(24, EndTransactionRecord, 0),
    RecordType(25, AbortTransactionRecord, 0),
    RecordType(26, RemoveDelegationTokenRecord, 0),
    RecordType(27, RegisterControllerRecord, 0),
    RecordType(28, ClearElrRecord, 0),
)

BY_ID = {record_type.record_id: record_type for record_type in RECORD_TYPES}
BY_STRUCT = {record_type.struct: record_type for record_type in RECORD_TYPES}
