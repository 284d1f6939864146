"""The bytes of a batch with the name and value of each field (records/batch.py and records/record.py have the format)."""

from __future__ import annotations

from typing import Any, Final

from minibroker.console.times import time_text
from minibroker.console.values import one_line
from minibroker.errors import KafkaError
from minibroker.records.batch import HEADER_SIZE, MAGIC_V2, RecordBatch
from minibroker.records.record import decode_record, read_varint

#: name, position, size
_FIELDS: Final = (
    ("base_offset", 0, 8),
    ("batch_length", 8, 4),
    ("partition_leader_epoch", 12, 4),
    ("magic", 16, 1),
    ("crc", 17, 4),
    ("attributes", 21, 2),
    ("last_offset_delta", 23, 4),
    ("base_timestamp", 27, 8),
    ("max_timestamp", 35, 8),
    ("producer_id", 43, 8),
    ("producer_epoch", 51, 2),
    ("base_sequence", 53, 4),
    ("record_count", 57, 4),
)
_RECORDS: Final = 40
_RECORD_BYTES: Final = 64
_DATA_BYTES: Final = 256  #: of what has no fields here: compressed records, message sets of old formats


def annotated(data: bytes, batch: RecordBatch) -> list[dict[str, Any]]:
    """Return a line for each field: position, bytes in hexadecimal, name, value. `data` may be the beginning of the batch."""
    if batch.magic < MAGIC_V2:
        return [{"position": 0, "bytes": data[:_DATA_BYTES].hex(" "), "name": f"message set of format v{batch.magic}", "value": ""}]
    lines = [_line(data, position, size, name, _value(batch, name)) for name, position, size in _FIELDS]
    if batch.is_compressed:
        rest = data[HEADER_SIZE : HEADER_SIZE + _DATA_BYTES]
        lines.append(
            {
                "position": HEADER_SIZE,
                "bytes": rest.hex(" "),
                "name": "records",
                "value": f"{batch.size - HEADER_SIZE} bytes, {_codec(batch)}",
            }
        )
        return lines
    return lines + _records(data)


def _value(batch: RecordBatch, name: str) -> str:
    value = getattr(batch, name)
    if name == "crc":
        return f"{value & 0xFFFFFFFF:08x} ({'valid' if batch.check_crc() else 'WRONG'})"
    if name.endswith("_timestamp"):
        return str(value) if value < 0 else f"{value} ({time_text(value)})"
    if name != "attributes":
        return str(value)
    words = [_codec(batch), "LogAppendTime" if batch.timestamp_type else "CreateTime"]
    words += [word for word, holds in (("transactional", batch.is_transactional), ("control", batch.is_control)) if holds]
    return f"{value:#06x}: {', '.join(words)}"


def _codec(batch: RecordBatch) -> str:
    try:
        return batch.compression.name.lower()
    except KafkaError:
        return f"unknown codec {batch.attributes & 7}"


def _line(data: bytes, position: int, size: int, name: str, value: str) -> dict[str, Any]:
    return {"position": position, "bytes": data[position : position + size].hex(" "), "name": name, "value": value}


def _records(data: bytes) -> list[dict[str, Any]]:
    """Return a line for each record of an uncompressed payload."""
    lines: list[dict[str, Any]] = []
    position = HEADER_SIZE
    while position < len(data) and len(lines) < _RECORDS:
        try:
            length, start = read_varint(data, position)
            delta, timestamp_delta, key, value, headers, end = decode_record(data, position)
        except (IndexError, KafkaError):
            lines.append(_line(data, position, _RECORD_BYTES, "...", "more records"))
            break
        text = f"length {length}, offset +{delta}, time +{timestamp_delta} ms, key {one_line(key, 40)}, value {one_line(value, 60)}"
        shown = data[position : min(end, position + _RECORD_BYTES)].hex(" ")
        lines.append(
            {
                "position": position,
                "bytes": shown + (" ..." if end - position > _RECORD_BYTES else ""),
                "name": f"record {len(lines)}",
                "value": text + (f", {len(headers)} headers" if headers else ""),
            }
        )
        position = max(end, start + 1)
    return lines
