"""Convert records to JSON and back: `consume -o jsonl` prints what `produce --input jsonl` reads.

    {"topic": "orders", "partition": 0, "offset": 7, "timestamp": 1357034400000, "timestamp_type": "CreateTime",
     "key": "UA", "value": {"base64": "/wA="}, "headers": [{"key": "origin", "value": null}]}

A key, a value and a header's value are a string if their bytes are UTF-8, otherwise {"base64": "..."}; null is null.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any

from minibroker.client.consumer import ConsumedRecord
from minibroker.records.batch import TimestampType
from minibroker.records.record import Record

TIMESTAMP_TYPES = {TimestampType.CREATE_TIME: "CreateTime", TimestampType.LOG_APPEND_TIME: "LogAppendTime"}


def to_json(topic: str, consumed: ConsumedRecord) -> dict[str, Any]:
    """Convert a consumed record."""
    record = consumed.record
    return {
        "topic": topic,
        "partition": consumed.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "timestamp_type": TIMESTAMP_TYPES[consumed.timestamp_type],
        "key": bytes_to_json(record.key),
        "value": bytes_to_json(record.value),
        "headers": [{"key": name, "value": bytes_to_json(content)} for name, content in record.headers],
    }


def from_json(item: Any, now_ms: int) -> tuple[Record, int | None]:
    """Return a record to produce, and the partition that it names; ValueError for an invalid one. Other fields are ignored."""
    if not isinstance(item, dict):
        raise ValueError("not an object")  # noqa: TRY004  whatever is wrong with the text is a ValueError to the caller
    timestamp, partition = item.get("timestamp"), item.get("partition")
    if not isinstance(timestamp, int | None) or not isinstance(partition, int | None):
        raise ValueError("timestamp and partition must be whole numbers")  # noqa: TRY004  as above
    headers = item.get("headers") or []
    if isinstance(headers, dict):
        headers = [{"key": name, "value": content} for name, content in headers.items()]
    if not isinstance(headers, list) or not all(isinstance(header, dict) and isinstance(header.get("key"), str) for header in headers):
        raise ValueError('headers must be [{"key": ..., "value": ...}] or an object')
    pairs = tuple((header["key"], bytes_from_json(header.get("value"))) for header in headers)
    moment = now_ms if timestamp is None else timestamp
    return Record(0, moment, bytes_from_json(item.get("key")), bytes_from_json(item.get("value")), pairs), partition


def bytes_to_json(content: bytes | None) -> str | dict[str, str] | None:
    """Convert UTF-8 to a string, other bytes to base64, null to null."""
    if content is None:
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(content).decode()}


def bytes_from_json(content: Any) -> bytes | None:
    """Reverse `bytes_to_json`; ValueError for other values."""
    if content is None:
        return None
    if isinstance(content, str):
        return content.encode()
    if isinstance(content, dict) and isinstance(content.get("base64"), str):
        try:
            return base64.b64decode(content["base64"], validate=True)
        except binascii.Error as error:
            raise ValueError(f"not base64: {error}") from error
    raise ValueError('a key or value must be a string, null or {"base64": ...}')
