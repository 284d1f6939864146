"""Convert structs to the JSON of Kafka's tools: records of the metadata log and of the coordinators, control records.

Names are Kafka's. Ids and bytes are in base64. Fields of other versions and tagged fields with their default are left out
(org.apache.kafka.message.JsonConverterGenerator).
"""

from __future__ import annotations

import base64
import uuid
from typing import Any

from minibroker.errors import WireError
from minibroker.records.control import parse_control_key
from minibroker.records.record import Record
from minibroker.schemas.internal.consumer_protocol import MAX_VERSION, ConsumerProtocolAssignment, ConsumerProtocolSubscription
from minibroker.schemas.internal.control_records import CONTROL_TYPES
from minibroker.schemas.internal.metadata_records import BY_ID
from minibroker.schemas.internal.offset_records import GroupMetadataValue
from minibroker.storage.record_frame import RecordFrame
from minibroker.wire.compiled import decode_all
from minibroker.wire.primitives import read_unsigned_varint
from minibroker.wire.schema import default_of, fields_of

FRAME_VERSION = 1

#: names that do not follow from the names of our fields
SPELLINGS = {"kraft_version": "kRaftVersion", "kraft_version_feature": "kRaftVersionFeature"}


def struct_to_json(value: Any, version: int) -> dict[str, Any]:
    """Convert a struct by its declaration."""
    fields = {}
    for field in fields_of(type(value)):
        content = getattr(value, field.name)
        if field.in_version(version) and (field.tag is None or content != default_of(field)):
            fields[_kafka_name(field.name)] = _to_json(content, version)
    return fields


def metadata_record_to_json(value: bytes | None) -> dict[str, Any]:
    """Convert a record of the metadata log to {"type", "version", "data"}; WireError for an unknown one."""
    if value is None:
        raise WireError("a metadata record without a value")
    frame_version, position = read_unsigned_varint(value, 0)
    if frame_version != FRAME_VERSION:
        raise WireError(f"frame version {frame_version} of a metadata record is unknown")
    record_id, position = read_unsigned_varint(value, position)
    version, position = read_unsigned_varint(value, position)
    record_type = BY_ID.get(record_id)
    if record_type is None or version > record_type.max_version:
        raise WireError(f"metadata record {record_id} version {version} is unknown")
    record = decode_all(record_type.struct, value, position, version, flexible=True)
    return {"type": _enum_name(record_type.struct.__name__), "version": version, "data": struct_to_json(record, version)}


def control_record_to_json(record: Record) -> tuple[str, dict[str, Any]]:
    """Return the type and content of a control record; WireError or InvalidRecord if it cannot be read."""
    kind = parse_control_key(record.key)
    found = next((control for control in CONTROL_TYPES if control.type_id == kind), None)
    if found is None:
        return "UNKNOWN", {}
    value = record.value or b""
    if found.flexible:
        return found.name, struct_to_json(decode_all(found.struct, value, 0, 0, flexible=True), 0)
    if value[:2] != b"\0\0":
        raise WireError(f"an end of a transaction with the value {value.hex()}")
    return found.name, struct_to_json(decode_all(found.struct, value, 2, 0, flexible=False), 0)


def coordinator_record_to_json(frame: RecordFrame, record: Record) -> tuple[dict[str, Any], dict[str, Any] | None] | None:
    """Convert key and value to {"type", "data"} and {"version", "data"}, without value for a tombstone; None for an unknown type.

    Raises:
        WireError: the bytes are not a record of that topic.
    """
    decoded = frame.decode(record.key, record.value)
    if decoded is None or record.key is None:
        return None
    key = {"type": str(coordinator_record_type(record)), "data": struct_to_json(decoded.key, 0)}
    if decoded.value is None:
        return key, None
    data = struct_to_json(decoded.value, decoded.version)
    if isinstance(decoded.value, GroupMetadataValue) and decoded.value.protocol_type == "consumer":
        for member, item in zip(decoded.value.members, data["members"], strict=True):
            item["subscription"] = _consumer_protocol(ConsumerProtocolSubscription, member.subscription)
            item["assignment"] = _consumer_protocol(ConsumerProtocolAssignment, member.assignment)
    return key, {"version": str(decoded.version), "data": data}


def coordinator_record_type(record: Record) -> int:
    """Return the record type, the first field of a key."""
    return int.from_bytes((record.key or b"")[:2], "big", signed=True)


def _consumer_protocol(struct: type[Any], data: bytes) -> dict[str, Any]:
    version = int.from_bytes(data[:2], "big", signed=True)
    if len(data) < 2 or not 0 <= version <= MAX_VERSION:
        raise WireError(f"{struct.__name__} of {len(data)} bytes and version {version}")
    return struct_to_json(decode_all(struct, data, 2, version, flexible=False), version)


def _to_json(content: Any, version: int) -> Any:
    if isinstance(content, list | tuple):
        return [_to_json(element, version) for element in content]
    if isinstance(content, uuid.UUID):
        return base64.urlsafe_b64encode(content.bytes).decode().rstrip("=")
    if isinstance(content, bytes | bytearray | memoryview):
        return base64.b64encode(content).decode()
    if hasattr(content, "declared_"):
        return struct_to_json(content, version)
    return content


def _kafka_name(name: str) -> str:
    first, *rest = name.split("_")
    return SPELLINGS.get(name) or first + "".join(word.capitalize() for word in rest)


def _enum_name(name: str) -> str:
    """Convert `TopicRecord` to TOPIC_RECORD."""
    return "".join(f"_{letter}" if letter.isupper() else letter.upper() for letter in name)[1:]
