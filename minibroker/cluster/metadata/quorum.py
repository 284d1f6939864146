"""The voters of the metadata log: its control records, and the control records that minibroker writes.

    LEADER_CHANGE   the first record of a leader's epoch, with the ids of the voters
    KRAFT_VERSION   1: the log has the voters (KIP-853). 0 or missing: they are in the configuration of each node
    KRAFT_VOTERS    id, directory.id and address of each voter; the last one counts

A log that minibroker creates has kraft.version 1 and one voter, this node with the directory.id of the
metadata directory, as `kafka-storage format --standalone` creates it. So Apache Kafka opens it with
`controller.quorum.bootstrap.servers` as well as with `controller.quorum.voters`, and writes the address
of its controller listener into the log (seen with 4.3.1).
Sources: KIP-853, ControlRecordUtils, VoterSet.

`quorum-state`: the leader of the metadata log, as one line of JSON.

    data_version 0   {"clusterId":"","leaderId":1,"leaderEpoch":1,"votedId":-1,"appliedOffset":0,
                      "currentVoters":[{"voterId":1}],"data_version":0}
    data_version 1   {"leaderId":1,"leaderEpoch":1,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}

Version 1 belongs to logs whose voters are records in the log itself (KIP-853, kraft.version 1), as Kafka and minibroker create them;
version 0 to those whose voters are in each node's configuration. The file keeps its version. Source: QuorumStateData and
FileQuorumStateStore of Apache Kafka.
"""

from __future__ import annotations

import json
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
from minibroker.storage.files import Files, read_all, replace_file
from minibroker.wire.codec import encode
from minibroker.wire.compiled import decode_all

KRAFT_VERSION_MAX = 1
#: The controller listener of Kafka's default server.properties. Kafka corrects it when it starts.
CONTROLLER = VoterEndpoint(name="CONTROLLER", host="localhost", port=9093)

_STRUCTS: dict[ControlType, type[Any]] = {
    ControlType.LEADER_CHANGE: LeaderChangeMessage,
    ControlType.KRAFT_VERSION: KRaftVersionRecord,
    ControlType.KRAFT_VOTERS: VotersRecord,
}
_VERSION = 0  #: the only version of all of them in Kafka 4.3.1


class Quorum(NamedTuple):
    """The voters after the last control record."""

    kraft_version: int = 0
    voters: VotersRecord | None = None
    leader_voters: frozenset[int] = frozenset()  #: ids in the last LEADER_CHANGE

    def after(self, record: Record) -> Self:
        """Return the quorum after one more control record.

        Raises:
            WireError, InvalidRecord: the record is invalid.
            ConfigurationError: its kraft.version is too new.
        """
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
        """The node ids of the voters; empty if the log does not have them."""
        return frozenset(voter.voter_id for voter in self.voters.voters) if self.voters is not None else self.leader_voters

    def is_led_by(self, node_id: int, directory_id: UUID) -> bool:
        """Whether this node in this directory is the only voter. With kraft.version 0 the voters are not in the log: True."""
        if self.voters is None:
            return self.kraft_version == 0
        return [(voter.voter_id, voter.voter_directory_id) for voter in self.voters.voters] == [(node_id, directory_id)]

    def control_records(self, now_ms: int) -> list[Record]:
        """Return the records that follow the header of a snapshot, and LEADER_CHANGE in a new log."""
        records = []
        if self.kraft_version > 0:
            version = KRaftVersionRecord(version=_VERSION, kraft_version=self.kraft_version)
            records.append(control_record(ControlType.KRAFT_VERSION, version, now_ms))
        if self.voters is not None:
            records.append(control_record(ControlType.KRAFT_VOTERS, self.voters, now_ms))
        return records


def quorum_of(node_id: int, directory_id: UUID) -> Quorum:
    """Return a quorum of this node alone, with kraft.version 1."""
    feature = KRaftVersionFeature(min_supported_version=0, max_supported_version=KRAFT_VERSION_MAX)
    voter = Voter(voter_id=node_id, voter_directory_id=directory_id, endpoints=[CONTROLLER], kraft_version_feature=feature)
    return Quorum(KRAFT_VERSION_MAX, VotersRecord(version=_VERSION, voters=[voter]), frozenset({node_id}))


def leader_change(node_id: int, now_ms: int) -> Record:
    """Return the control record that starts a leader's epoch in a quorum of one."""
    voter = [VoterId(voter_id=node_id)]
    message = LeaderChangeMessage(version=_VERSION, leader_id=node_id, voters=voter, granting_voters=voter)
    return control_record(ControlType.LEADER_CHANGE, message, now_ms)


def control_record(control_type: ControlType, value: object, now_ms: int) -> Record:
    """Return a KRaft control record."""
    return Record(0, now_ms, control_key(control_type), encode(value, _VERSION, flexible=True), ())


QUORUM_STATE = "quorum-state"


class QuorumState(NamedTuple):
    """The contents of `quorum-state`."""

    leader_epoch: int
    data_version: int
    voters: frozenset[int]  #: node ids, in version 0


def read_quorum_state(files: Files, path: str) -> QuorumState | None:
    """Read the file; None if it is missing or empty. Raise ConfigurationError if it is invalid."""
    try:
        text = read_all(files, path)
    except FileNotFoundError:
        return None
    if not text.strip():
        return None
    try:
        state = json.loads(text)
        voters = frozenset(int(voter["voterId"]) for voter in state.get("currentVoters") or ())
        return QuorumState(int(state["leaderEpoch"]), int(state["data_version"]), voters)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigurationError(f"{path}: no quorum state ({error}); remove it if the metadata log beside it is good") from None


def write_quorum_state(files: Files, path: str, *, node_id: int, leader_epoch: int, data_version: int) -> None:
    """Replace the file, synced. It must be on disk before the epoch's first batch."""
    state: dict[str, Any] = {"leaderId": node_id, "leaderEpoch": leader_epoch, "votedId": -1}
    if data_version == 0:
        state = {"clusterId": "", **state, "appliedOffset": 0, "currentVoters": [{"voterId": node_id}]}
    else:
        state["votedDirectoryId"] = "AAAAAAAAAAAAAAAAAAAAAA"
    state["data_version"] = data_version
    replace_file(files, path, json.dumps(state, separators=(",", ":")).encode(), sync=True)
