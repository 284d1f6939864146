"""`quorum-state`: the leader of the metadata log, as one line of JSON.

    data_version 0   {"clusterId":"","leaderId":1,"leaderEpoch":1,"votedId":-1,"appliedOffset":0,
                      "currentVoters":[{"voterId":1}],"data_version":0}
    data_version 1   {"leaderId":1,"leaderEpoch":1,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}

Version 1 belongs to logs whose voters are records in the log itself (KIP-853, kraft.version 1), as Kafka and minibroker create them;
version 0 to those whose voters are in each node's configuration. The file keeps its version. Source: QuorumStateData and
FileQuorumStateStore of Apache Kafka.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from minibroker.errors import ConfigurationError
from minibroker.storage.files import Files, read_all, replace_file

NAME = "quorum-state"


class QuorumState(NamedTuple):
    """The contents of the file."""

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
    """Replace the file, synced. It must be on the disk before the epoch's first batch."""
    state: dict[str, Any] = {"leaderId": node_id, "leaderEpoch": leader_epoch, "votedId": -1}
    if data_version == 0:
        state = {"clusterId": "", **state, "appliedOffset": 0, "currentVoters": [{"voterId": node_id}]}
    else:
        state["votedDirectoryId"] = "AAAAAAAAAAAAAAAAAAAAAA"
    state["data_version"] = data_version
    replace_file(files, path, json.dumps(state, separators=(",", ":")).encode(), sync=True)
