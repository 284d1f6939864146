"""Who may lead the metadata log: what its control records say, and the ones that we write.

    LEADER_CHANGE   first of a leader's epoch; names the voters by id
    KRAFT_VERSION   1: the voters are records of the log (KIP-853), 0 or none: they are in the configuration of each node
    KRAFT_VOTERS    id, directory.id and address of each voter; the last one counts

A log that we begin has kraft.version 1 and one voter, this node with the directory.id of the metadata directory, as `kafka-storage format
--standalone` makes it. So Apache Kafka opens it with `controller.quorum.bootstrap.servers` and with `controller.quorum.voters` alike; it
writes the address of its own controller listener into the log itself (seen with 4.3.1). Sources: KIP-853, ControlRecordUtils, VoterSet.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Self
from uuid import UUID

from minibroker.errors import ConfigurationError
from minibroker.records.control import ControlType, control_key, parse_control_key
from minibroker.records.record import Record
from minibroker.schemas.internal.control_records import (
    KRaftVersionFeature,
    KRaftVersionRecord,
    LeaderChangeMessage,
    Voter,
    VoterEndpoint,
    VoterId,
    VotersRecord,
)
from minibroker.wire.codec import encode
from minibroker.wire.compiled import decode_all

KRAFT_VERSION_MAX = 1
#: Where the controller of Kafka's own server.properties listens; Kafka corrects it when it starts.
CONTROLLER = VoterEndpoint(name="CONTROLLER", host="localhost", port=9093)

_STRUCTS: dict[ControlType, type[Any]] = {
    ControlType.LEADER_CHANGE: LeaderChangeMessage,
    ControlType.KRAFT_VERSION: KRaftVersionRecord,
    ControlType.KRAFT_VOTERS: VotersRecord,
}
_VERSION = 0  #: Kafka 4.3.1 writes and reads all of them so


class Quorum(NamedTuple):
    """State after the last control record."""

    kraft_version: int = 0
    voters: VotersRecord | None = None
    leader_voters: frozenset[int] = frozenset()  #: ids in the last LEADER_CHANGE

    def after(self, record: Record) -> Self:
        """With one more control record; WireError and InvalidRecord for what is none, ConfigurationError for a kraft.version to come."""
        control_type = parse_control_key(record.key)
        struct_type = _STRUCTS.get(control_type)
        if struct_type is None:
            return self
        value = decode_all(struct_type, record.value or b"", 0, _VERSION, flexible=True)
        if control_type is ControlType.LEADER_CHANGE:
            return self._replace(leader_voters=frozenset(voter.voter_id for voter in value.voters))
        if control_type is ControlType.KRAFT_VOTERS:
            return self._replace(voters=value)
        if value.kraft_version > KRAFT_VERSION_MAX:
            raise ConfigurationError(f"the metadata log has kraft.version {value.kraft_version}: 0 to {KRAFT_VERSION_MAX} can be served")
        return self._replace(kraft_version=value.kraft_version)

    @property
    def voter_ids(self) -> frozenset[int]:
        """Node ids of the voters, as far as the log says."""
        return frozenset(voter.voter_id for voter in self.voters.voters) if self.voters is not None else self.leader_voters

    def is_led_by(self, node_id: int, directory_id: UUID) -> bool:
        """Whether the voters are this node in this directory and nobody else."""
        if self.voters is None:
            return self.kraft_version == 0
        return [(voter.voter_id, voter.voter_directory_id) for voter in self.voters.voters] == [(node_id, directory_id)]

    def control_records(self, now_ms: int) -> list[Record]:
        """What stands behind a snapshot's header, and behind LEADER_CHANGE in a new log."""
        records = []
        if self.kraft_version > 0:
            version = KRaftVersionRecord(version=_VERSION, kraft_version=self.kraft_version)
            records.append(control_record(ControlType.KRAFT_VERSION, version, now_ms))
        if self.voters is not None:
            records.append(control_record(ControlType.KRAFT_VOTERS, self.voters, now_ms))
        return records


def quorum_of(node_id: int, directory_id: UUID) -> Quorum:
    """This node alone, with kraft.version 1."""
    feature = KRaftVersionFeature(min_supported_version=0, max_supported_version=KRAFT_VERSION_MAX)
    voter = Voter(voter_id=node_id, voter_directory_id=directory_id, endpoints=[CONTROLLER], kraft_version_feature=feature)
    return Quorum(KRAFT_VERSION_MAX, VotersRecord(version=_VERSION, voters=[voter]), frozenset({node_id}))


def leader_change(node_id: int, now_ms: int) -> Record:
    """The control record that begins a leader's epoch in a quorum of one."""
    voter = [VoterId(voter_id=node_id)]
    message = LeaderChangeMessage(version=_VERSION, leader_id=node_id, voters=voter, granting_voters=voter)
    return control_record(ControlType.LEADER_CHANGE, message, now_ms)


def control_record(control_type: ControlType, value: object, now_ms: int) -> Record:
    """One of KRaft's control records."""
    return Record(0, now_ms, control_key(control_type), encode(value, _VERSION, flexible=True), ())
