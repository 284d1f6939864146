"""Records of groups in words that any broker would use: without times, with members by the names that a scene gave them.

A log becomes a list of batches, each a sorted list of its records: hash tables say in which order Apache Kafka writes at once.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from minibroker.cli.dump_batches import coordinator_record_to_json
from minibroker.records.any_format import decode_records, split_batches
from minibroker.storage.record_frame import CONSUMER_OFFSETS
from minibroker.wire.schema import Buffer

_OF_OFFSETS: Final = frozenset({"0", "1"})
_TIMES: Final = frozenset({"assignmentTimestamp", "currentStateTimestamp", "timestamp"})
_HASHES: Final = frozenset({"metadataHash"})  #: of topic ids, which every broker draws anew

Names = Mapping[str, str]


def batches_of(log: Buffer, group: str, names: Names) -> list[list[str]]:
    """What a log says of a group, offsets apart; `names` are those of members, and of topics by their ids in base64."""
    found = []
    for batch in split_batches(log):
        results = [] if batch.is_control else sorted(_told(batch, group, names))
        if results:
            found.append(results)
    return found


def _told(batch: Any, group: str, names: Names) -> Iterator[str]:
    for record in decode_records(batch):
        if group.encode() not in (record.key or b""):
            continue  # others may have members that say what no consumer says
        decoded = coordinator_record_to_json(CONSUMER_OFFSETS, record)
        if decoded is None:
            continue
        key, value = decoded
        if key["type"] in _OF_OFFSETS or group not in {key["data"].get("groupId"), key["data"].get("group")}:
            continue
        result = "gone" if value is None else json.dumps(_plain(value["data"], names), sort_keys=True)
        yield f"{key['type']} {json.dumps(_plain(key['data'], names), sort_keys=True)}: {result}"


def _plain(said: Any, names: Names) -> Any:
    if isinstance(said, dict):
        return {key: _plain_field(key, value, names) for key, value in said.items()}
    if isinstance(said, list):
        return sorted((_plain(each, names) for each in said), key=json.dumps)
    return names.get(said, said) if isinstance(said, str) else said


def _plain_field(key: str, value: Any, names: Names) -> Any:
    if key in _TIMES:
        return "then" if value > 0 else value
    if key in _HASHES:
        return "a hash" if value else 0
    return _plain(value, names)
