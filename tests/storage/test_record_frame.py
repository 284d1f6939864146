"""Coordinator records: those that Apache Kafka wrote, read as Kafka's own tool reads them, and written back to the byte."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from minibroker.errors import WireError
from minibroker.records.any_format import decode_records, split_batches
from minibroker.records.record import Record
from minibroker.schemas.internal.coordinator_records import ALL_RECORD_TYPES
from minibroker.schemas.internal.offset_records import OffsetCommitKey, OffsetCommitValue
from minibroker.schemas.internal.transaction_records import TransactionLogKey, TransactionLogValue
from minibroker.storage.record_frame import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE, RecordFrame
from tests.schemas.declared import messages
from tests.schemas.kafka_itself import kafka_json

RECORDS = Path(__file__).parents[1] / "golden" / "records"
LOGS = [RECORDS / f"{name}_kafka_4.3.1.json" for name in ("coordinators", "groups", "share_state", "streams")]
FRAMES = {"__transaction_state": TRANSACTION_STATE, "__consumer_offsets": CONSUMER_OFFSETS, "__share_group_state": SHARE_GROUP_STATE}


# Tagged fields that Kafka's JSON leaves out.
LEFT_OUT = {
    "previousProducerId": -1,
    "nextProducerId": -1,
    "nextProducerEpoch": -1,
    "clientTransactionVersion": 0,
    "topicId": "AAAAAAAAAAAAAAAAAAAAAA",
    "metadataHash": 0,
    "assignmentTimestamp": 0,
    "assignmentEpochs": [],
    "validatedTopologyEpoch": -1,
    "lastAssignmentConfigs": [],
    "deliveryCompleteCount": -1,
}


class Stored(NamedTuple):
    """A record of a golden segment, and what Kafka's DumpLogSegments says of it."""

    frame: RecordFrame
    record: Record
    key_words: str
    value_words: str


def segments() -> dict[str, Any]:
    """All of the golden segments by topic, partition and file."""
    return {f"{name} of {file.stem}": segment for file in LOGS for name, segment in json.loads(file.read_text())["segments"].items()}


def stored(segment: str) -> Iterator[Stored]:
    frame = FRAMES[segment.partition("/")[0].rpartition("-")[0]]
    golden = segments()[segment]
    words = {offset: (key, value) for offset, key, value in golden["records"]}
    for batch in split_batches(bytes.fromhex(golden["segment"])):
        if not batch.is_control:
            yield from (Stored(frame, record, *words.pop(record.offset)) for record in decode_records(batch))
    assert words == {}


def filled(theirs: Any, ours: Any) -> Any:
    """Kafka's JSON with what it left out, wherever we have such a field."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        absent = {name: LEFT_OUT[name] for name in ours.keys() - theirs.keys()}
        return absent | {name: filled(value, ours.get(name)) for name, value in theirs.items()}
    if isinstance(theirs, list) and isinstance(ours, list):
        return [filled(*each) for each in zip(theirs, ours, strict=True)]
    return ours if isinstance(theirs, dict) else theirs  # a member's subscription and assignment, which the tool takes apart


each_segment = pytest.mark.parametrize("segment", sorted(segments()))


@each_segment
def test_kafka_records_decode_as_kafka_decodes_them(segment: str) -> None:
    for frame, record, key_words, value_words in stored(segment):
        found = frame.decode(record.key, record.value)
        assert found is not None
        key_message = messages()[type(found.key).__name__]
        assert json.loads(key_words) == {"type": str(key_message.kafka.key), "data": kafka_json(key_message, 0, found.key)}
        if found.value is None:
            assert value_words == "<DELETE>"
            continue
        value_message = messages()[type(found.value).__name__]
        expected = json.loads(value_words)
        ours = kafka_json(value_message, found.version, found.value)
        assert (expected["version"], filled(expected["data"], ours)) == (str(found.version), ours)


@each_segment
def test_kafka_records_encode_to_the_same_bytes(segment: str) -> None:
    for frame, record, _, _ in stored(segment):
        found = frame.decode(record.key, record.value)
        assert found is not None
        assert frame.encode_key(found.key) == record.key
        if found.value is not None:
            assert frame.encode_value(found.key, found.value, found.version) == record.value


def test_golden_segments_cover_every_record_type() -> None:
    kinds = set()
    for segment in segments():
        for frame, record, _, _ in stored(segment):
            found = frame.decode(record.key, record.value)
            assert found is not None
            kinds.add((type(found.key).__name__.removesuffix("Key"), found.version))
    live = {name for name, version in kinds if version >= 0}
    declared = {each.key.__name__.removesuffix("Key") for each in ALL_RECORD_TYPES}
    assert live == declared - {"LegacyOffsetCommit", "ConsumerGroupPartitionMetadata"}
    assert kinds >= {
        ("TransactionLog", 0),
        ("TransactionLog", 1),
        ("OffsetCommit", 4),
        ("GroupMetadata", 3),
        ("ConsumerGroupMemberMetadata", -1),
    }


KEY = TransactionLogKey(transactional_id="payments")
VALUE = TransactionLogValue(
    producer_id=7,
    producer_epoch=1,
    transaction_timeout_ms=60_000,
    transaction_status=0,
    transaction_partitions=None,
    transaction_last_update_timestamp_ms=5,
    transaction_start_timestamp_ms=-1,
)


def test_unknown_record_type_is_skipped() -> None:
    assert CONSUMER_OFFSETS.decode(b"\0\x63 whatever", b"\0\0") is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"\0\0"),
        (b"\0", b"\0\0"),
        (b"\0\0\0\x01", b"\0\0"),
        (TRANSACTION_STATE.encode_key(KEY) + b"\0", None),
        (TRANSACTION_STATE.encode_key(KEY), b"\0"),
        (TRANSACTION_STATE.encode_key(KEY), b"\0\x02"),
        (TRANSACTION_STATE.encode_key(KEY), b"\xff\xff"),
        (TRANSACTION_STATE.encode_key(KEY), TRANSACTION_STATE.encode_value(KEY, VALUE, 1) + b"\0"),
        (TRANSACTION_STATE.encode_key(KEY), TRANSACTION_STATE.encode_value(KEY, VALUE, 0)[:-1]),
    ],
)
def test_invalid_record_is_refused(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(WireError):
        TRANSACTION_STATE.decode(key, value)


@pytest.mark.parametrize("version", [-1, 2])
def test_unsupported_version_is_not_written(version: int) -> None:
    with pytest.raises(ValueError, match="version"):
        TRANSACTION_STATE.encode_value(KEY, VALUE, version)


def test_value_must_match_its_key() -> None:
    value = OffsetCommitValue(offset=1, metadata="", commit_timestamp=2)
    assert CONSUMER_OFFSETS.decode(
        CONSUMER_OFFSETS.encode_key(key := OffsetCommitKey(group="g", topic="t", partition=0)), CONSUMER_OFFSETS.encode_value(key, value, 3)
    ) == (key, value, 3)
    with pytest.raises(ValueError, match="OffsetCommitValue"):
        TRANSACTION_STATE.encode_value(KEY, value, 0)
