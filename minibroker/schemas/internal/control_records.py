"""Control records: records that brokers write into a log and consumers skip.

A control record's key is `ControlRecordKey`; its type decides the struct of the value (Kafka's ControlRecordType):

  0  ABORT            EndTxnMarker           the producer's transaction is aborted
  1  COMMIT           EndTxnMarker           it is committed
  2  LEADER_CHANGE    LeaderChangeMessage    metadata log: a leader starts its epoch
  3  SNAPSHOT_HEADER  SnapshotHeaderRecord   first in a snapshot of the metadata log
  4  SNAPSHOT_FOOTER  SnapshotFooterRecord   last in it
  5  KRAFT_VERSION    KRaftVersionRecord     metadata log: the level of the kraft.version feature (KIP-853)
  6  KRAFT_VOTERS     VotersRecord           metadata log: the set of voters (KIP-853)

The key and the marker are not flexible. Each follows an Int16 with its version, 0.
The other values are flexible. Kafka 4.3.1 writes and reads all of them at version 0 (ControlRecordUtils), so minibroker does the same.

LeaderChangeMessage
  v1  voter_directory_id (KIP-853), known to Kafka 4.3.1 and not yet written
"""

from __future__ import annotations

from typing import Any, NamedTuple

from minibroker.wire.schema import NIL_UUID, Int16, Int32, Int64, String, UInt16, Uuid, field, struct


@struct
class ControlRecordKey:
    """The key of every control record; Kafka's name is ControlRecordTypeSchema."""

    type: Int16


@struct
class EndTxnMarker:
    """The end of a producer's transaction in this partition."""

    coordinator_epoch: Int32


@struct
class VoterId:
    """A voter in a LeaderChangeMessage; Kafka's name is Voter."""

    voter_id: Int32
    voter_directory_id: Uuid = field(since=1, default=NIL_UUID)


@struct
class LeaderChangeMessage:
    """First batch of a leader's epoch."""

    version: Int16
    leader_id: Int32
    voters: list[VoterId]
    granting_voters: list[VoterId]  #: who voted for this leader


@struct
class SnapshotHeaderRecord:
    """How far into the log a snapshot reaches."""

    version: Int16
    last_contained_log_timestamp: Int64  #: ms since 1970


@struct
class SnapshotFooterRecord:
    """A snapshot without it was cut off."""

    version: Int16


@struct
class KRaftVersionRecord:
    """The finalized level of kraft.version."""

    version: Int16
    kraft_version: Int16


@struct
class VoterEndpoint:
    """The address of one listener of a voter."""

    name: String
    host: String
    port: UInt16


@struct
class KRaftVersionFeature:
    """The levels of kraft.version that a voter supports."""

    min_supported_version: Int16
    max_supported_version: Int16


@struct
class Voter:
    """A member of the quorum."""

    voter_id: Int32
    voter_directory_id: Uuid
    endpoints: list[VoterEndpoint]
    kraft_version_feature: KRaftVersionFeature


@struct
class VotersRecord:
    """The whole set of voters from here on."""

    version: Int16
    voters: list[Voter]


class ControlType(NamedTuple):
    """One kind of control record."""

    type_id: int
    name: str
    struct: type[Any]
    max_version: int  #: the lowest is 0 for all
    flexible: bool


CONTROL_TYPES = (
    ControlType(0, "ABORT", EndTxnMarker, 0, flexible=False),
    ControlType(1, "COMMIT", EndTxnMarker, 0, flexible=False),
    ControlType(2, "LEADER_CHANGE", LeaderChangeMessage, 1, flexible=True),
    ControlType(3, "SNAPSHOT_HEADER", SnapshotHeaderRecord, 0, flexible=True),
    ControlType(4, "SNAPSHOT_FOOTER", SnapshotFooterRecord, 0, flexible=True),
    ControlType(5, "KRAFT_VERSION", KRaftVersionRecord, 0, flexible=True),
    ControlType(6, "KRAFT_VOTERS", VotersRecord, 0, flexible=True),
)
