"""Dump files of record batches: segments (`.log`) and snapshots of the metadata log (`.checkpoint`).

Control records, records of the metadata log and records of coordinators become the JSON of Kafka's tools
(org.apache.kafka.message.JsonConverterGenerator): Kafka's names, ids and bytes in base64, without fields of other versions
and without tagged fields that have their default.
"""

from __future__ import annotations

import base64
import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from minibroker.cli.dump_items import Item, problem
from minibroker.cli.records import TIMESTAMP_TYPES, bytes_to_json
from minibroker.cluster.topic import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from minibroker.errors import KafkaError, WireError
from minibroker.records.any_format import decode_records, read_batch
from minibroker.records.batch import LOG_OVERHEAD, RecordBatch, increment_sequence
from minibroker.records.control import parse_control_key
from minibroker.records.legacy import LegacyBatch, messages_of, records_of
from minibroker.records.record import Record
from minibroker.schemas.internal.consumer_protocol import MAX_VERSION, ConsumerProtocolAssignment, ConsumerProtocolSubscription
from minibroker.schemas.internal.control_records import CONTROL_TYPES
from minibroker.schemas.internal.metadata_records import BY_ID
from minibroker.schemas.internal.offset_records import GroupMetadataValue
from minibroker.storage.record_frame import CONSUMER_OFFSETS, TRANSACTION_STATE, RecordFrame
from minibroker.wire.compiled import decode_all
from minibroker.wire.primitives import read_unsigned_varint
from minibroker.wire.schema import default_of, fields_of

HEAD_BYTES = LOG_OVERHEAD + 5  #: up to the magic byte, which shows how much to read
FRAME_VERSION = 1  #: of a record of the metadata log
#: names that do not follow from the names of our fields
SPELLINGS = {"kraft_version": "kRaftVersion", "kraft_version_feature": "kRaftVersionFeature"}
BOOTSTRAP_SNAPSHOT = "bootstrap.checkpoint"
COORDINATOR_TOPICS = {CONSUMER_OFFSETS: CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE: TRANSACTION_STATE_TOPIC}


class BatchOptions(NamedTuple):
    """Options for the output of batches."""

    deep: bool  #: show each record
    data: bool  #: show keys, values and headers
    metadata: bool  #: values are records of the metadata log
    coordinator: RecordFrame | None  #: records are those of a coordinator's topic
    skip_metadata: bool  #: leave out offsets, timestamps and sizes
    max_bytes: int | None


def note_of(path: Path) -> str:
    """Return the note of DumpLogSegments about a file, before its batches."""
    if path.suffix == ".log":
        return f"Log starting offset: {int(path.stem) if path.stem.isdecimal() else 0}"
    if path.name == BOOTSTRAP_SNAPSHOT:
        return "KRaft bootstrap snapshot"
    offset, _, epoch = path.stem.partition("-")
    return f"Snapshot end offset: {int(offset)}, epoch: {int(epoch)}" if offset.isdecimal() and epoch.isdecimal() else ""


def dump_batches(path: Path, options: BatchOptions) -> Iterator[Item]:
    """Yield the batches of a file, with records if requested, and a problem for each damaged batch."""
    previous: RecordBatch | None = None
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        end = size if options.max_bytes is None else min(size, options.max_bytes)
        position = 0
        while position < end:
            head = os.pread(file.fileno(), HEAD_BYTES, position)
            batch_size = LOG_OVERHEAD + int.from_bytes(head[8:12], "big", signed=True)
            if end < size and position + batch_size > end:
                return
            try:
                batch = read_batch(os.pread(file.fileno(), min(max(batch_size, HEAD_BYTES), size - position), position))
            except KafkaError as error:
                yield {"type": "note", "note": f"Found {size - position} invalid bytes at the end of {path.name}"}
                yield problem(str(path), f"the remaining {size - position} bytes are not a record batch: {_reason(error)}", position)
                return
            yield from _batch(path, batch, position, options)
            if previous is not None and _known_offset(batch) <= previous.last_offset:
                yield problem(str(path), f"offset {_known_offset(batch)} follows {previous.last_offset}", position)
            previous = batch
            position += batch.size


def _batch(path: Path, batch: RecordBatch, position: int, options: BatchOptions) -> Iterator[Item]:
    is_valid = batch.check_crc()
    base_offset, count = _base_offset_and_count(batch)
    yield {
        "type": "batch",
        "base_offset": base_offset,
        "last_offset": batch.last_offset,
        "count": count,
        "base_sequence": batch.base_sequence,
        "last_sequence": batch.last_sequence,
        "producer_id": batch.producer_id,
        "producer_epoch": batch.producer_epoch,
        "partition_leader_epoch": batch.partition_leader_epoch,
        "is_transactional": batch.is_transactional,
        "is_control": batch.is_control,
        "delete_horizon_ms": batch.base_timestamp if batch.has_delete_horizon else None,
        "position": position,
        "timestamp_type": _timestamp_type(batch),
        "timestamp": batch.max_timestamp,
        "size": batch.size,
        "magic": batch.magic,
        "compression": _compression(batch),
        "crc": batch.crc,
        "is_valid": is_valid,
    }
    if not is_valid:
        yield problem(str(path), f"the batch at offset {_known_offset(batch)} has a wrong CRC", position)
    if options.deep and is_valid:
        try:
            if isinstance(batch, LegacyBatch):
                yield from _messages(batch, options)
                return
            for record in decode_records(batch):
                if options.skip_metadata and batch.is_control:
                    yield {"type": "note", "note": ""}  # as DumpLogSegments has it
                else:
                    yield _record(batch, record, options)
        except (KafkaError, WireError) as error:
            yield problem(str(path), f"the batch at offset {_known_offset(batch)} cannot be read: {error}", position)


def _messages(batch: LegacyBatch, options: BatchOptions) -> Iterator[Item]:
    """Yield messages of formats v0 and v1. Each has a CRC; they have neither sequence numbers nor headers."""
    messages = messages_of(batch)
    for message, record in zip(messages, records_of(batch, messages), strict=True):
        item = _record(batch, record, options)
        if not options.skip_metadata:
            item |= {"magic": message.magic, "is_valid": True, "crc": message.crc}  # a wrong CRC would have raised
        yield item


def _record(batch: RecordBatch, record: Record, options: BatchOptions) -> Item:
    item: Item = {"type": "record"}
    if not options.skip_metadata:
        item |= {
            "offset": record.offset,
            "timestamp_type": _timestamp_type(batch),
            "timestamp": record.timestamp,
            "key_size": -1 if record.key is None else len(record.key),
            "value_size": -1 if record.value is None else len(record.value),
            "sequence": increment_sequence(batch.base_sequence, record.offset - batch.base_offset) if batch.base_sequence >= 0 else -1,
            "header_keys": [name for name, _ in record.headers],
        }
    if batch.is_control:
        item["control"], item["control_value"] = control_record_to_json(record)
    elif options.metadata:
        item["metadata"] = metadata_record_to_json(record.value)
    elif options.coordinator is not None:
        try:
            decoded = coordinator_record_to_json(options.coordinator, record)
        except WireError as error:  # the batch is valid; the decoder is that of another topic
            raise WireError(f"not a record of {COORDINATOR_TOPICS[options.coordinator]}: {error}") from error
        if decoded is None:
            item["skipped"] = f"Unknown record type {coordinator_record_type(record)} at offset {record.offset}, skipping."
        else:
            item["coordinator_key"], item["coordinator_value"] = decoded
    elif options.data:
        item["key"], item["value"] = bytes_to_json(record.key), bytes_to_json(record.value)
        item["headers"] = [{"key": name, "value": bytes_to_json(content)} for name, content in record.headers]
    return item


def _base_offset_and_count(batch: RecordBatch) -> tuple[int | None, int | None]:
    """Return the base offset and the record count; None if an old compressed message cannot be decompressed."""
    try:
        return batch.base_offset, batch.record_count
    except KafkaError:
        return None, None


def _known_offset(batch: RecordBatch) -> int:
    return batch.offset if isinstance(batch, LegacyBatch) else batch.base_offset


def _timestamp_type(batch: RecordBatch) -> str:
    return TIMESTAMP_TYPES[batch.timestamp_type] if batch.magic else "NoTimestampType"


def _compression(batch: RecordBatch) -> str:
    try:
        return batch.compression.name.lower()
    except KafkaError:
        return f"unknown({batch.attributes & 7})"


def _reason(error: KafkaError) -> str:
    """Return the reason, without the position inside the piece that was read."""
    return str(error).replace(" at position 0", "")


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
        raise WireError(f"a transaction marker with the value {value.hex()}")
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
        raise WireError(f"{struct.__name__} of {len(data)} bytes has the unknown version {version}")
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
