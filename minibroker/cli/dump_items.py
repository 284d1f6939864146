"""The items that dump-log finds in a file. Their fields are those of the JSON output, which is stable.

`text_of` formats an item exactly as Kafka's DumpLogSegments. A `problem` is printed on stderr and makes the exit code 1.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

Item = dict[str, Any]


def problem(file: str, words: str, position: int | None = None) -> Item:
    """Return an item for damage."""
    return {"type": "problem", "file": file, "position": position, "problem": words}


def problem_text(item: Item) -> str:
    """Return a problem as one line: file, position, error."""
    where = item["file"] if item["position"] is None else f"{item['file']} at position {item['position']}"
    return f"{where}: {item['problem']}"


def text_of(item: Item) -> str:
    """Return an item that is not a problem as a line of DumpLogSegments."""
    return TEXTS[item["type"]](item)


def _file(item: Item) -> str:
    return f"Dumping {item['file']}" + (f"\n{item['note']}" if item["note"] else "")


def _batch(item: Item) -> str:
    words = f"offset: {item['last_offset']}" if item["magic"] < 2 else _batch_of_v2(item)
    return (
        f"{words} position: {item['position']} {item['timestamp_type']}: {item['timestamp']} size: {item['size']} magic: {item['magic']}"
        f" compresscodec: {item['compression']} crc: {item['crc']} isvalid: {_bool(item['is_valid'])}"
    )


def _batch_of_v2(item: Item) -> str:
    return (
        f"baseOffset: {item['base_offset']} lastOffset: {item['last_offset']} count: {item['count']}"
        f" baseSequence: {item['base_sequence']} lastSequence: {item['last_sequence']}"
        f" producerId: {item['producer_id']} producerEpoch: {item['producer_epoch']}"
        f" partitionLeaderEpoch: {item['partition_leader_epoch']}"
        f" isTransactional: {_bool(item['is_transactional'])} isControl: {_bool(item['is_control'])}"
        f" deleteHorizonMs: {_optional(item['delete_horizon_ms'])}"
    )


def _record(item: Item) -> str:
    words = "|"
    if "offset" in item:
        words += (
            f" offset: {item['offset']} {item['timestamp_type']}: {item['timestamp']} keySize: {item['key_size']}"
            f" valueSize: {item['value_size']}"
        )
        if "crc" in item:
            words += f" isValid: {_bool(item['is_valid'])} crc: {item['crc']}"
        else:
            words += f" sequence: {item['sequence']} headerKeys: [{','.join(item['header_keys'])}]"
    if "control" in item:
        words += " " + _control(item)
    if item.get("key") is not None:
        words += f" key: {_content(item['key'])}"
    if item.get("value") is not None:
        words += f" payload: {_content(item['value'])}"
    if "metadata" in item:
        words += f" payload: {_json(item['metadata'])}"
    return words + _coordinator(item)


def _coordinator(item: Item) -> str:
    if "skipped" in item:
        return f" key: {item['skipped']}"
    if "coordinator_key" not in item:
        return ""
    value = item["coordinator_value"]
    return f" key: {_json(item['coordinator_key'])} payload: {'<DELETE>' if value is None else _json(value)}"


def _control(item: Item) -> str:
    kind, content = item["control"], item["control_value"]
    if kind in ("ABORT", "COMMIT"):
        return f"endTxnMarker: {kind} coordinatorEpoch: {content['coordinatorEpoch']}"
    if kind == "UNKNOWN":
        return "controlType: UNKNOWN"
    words = "".join(word.capitalize() for word in kind.split("_")).replace("Kraft", "KRaft")
    return f"{words}{':' if kind == 'LEADER_CHANGE' else ''} {_json(content)}"


def _producer(item: Item) -> str:
    head = (
        f"producerId: {item['producer_id']} producerEpoch: {item['producer_epoch']} coordinatorEpoch: {item['coordinator_epoch']}"
        f" currentTxnFirstOffset: {_optional(item['current_txn_first_offset'])} lastTimestamp: {item['timestamp']} "
    )
    if item["last_sequence"] is None:
        return head
    return head + (
        f"firstSequence: {item['first_sequence']} lastSequence: {item['last_sequence']} lastOffset: {item['last_offset']}"
        f" offsetDelta: {item['offset_delta']} timestamp: {item['timestamp']}"
    )


def _aborted(item: Item) -> str:
    return (
        f"version: {item['version']} producerId: {item['producer_id']} firstOffset: {item['first_offset']}"
        f" lastOffset: {item['last_offset']} lastStableOffset: {item['last_stable_offset']}"
    )


def _bool(value: bool) -> str:
    return "true" if value else "false"


def _optional(value: int | None) -> str:
    return "OptionalLong.empty" if value is None else f"OptionalLong[{value}]"


def _content(value: str | dict[str, str]) -> str:
    """Return a key or value as text. Bytes that are not UTF-8 become replacement characters, as in Java."""
    if isinstance(value, str):
        return value
    return base64.b64decode(value["base64"]).decode(errors="replace")


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


TEXTS: dict[str, Callable[[Item], str]] = {
    "file": _file,
    "batch": _batch,
    "record": _record,
    "offset_index_entry": lambda item: f"offset: {item['offset']} position: {item['position']}",
    "time_index_entry": lambda item: f"timestamp: {item['timestamp']} offset: {item['offset']}",
    "aborted_transaction": _aborted,
    "producer": _producer,
    "leader_epoch": lambda item: f"epoch: {item['epoch']} startOffset: {item['start_offset']}",
    "note": lambda item: str(item["note"]),
}
