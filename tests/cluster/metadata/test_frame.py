"""Records and batches of the metadata log, against the bytes that an Apache Kafka 4.3.1 wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from minibroker.cluster.metadata.frame import decode_frame, encode_frame, record_version
from minibroker.cluster.metadata.quorum import leader_change
from minibroker.errors import WireError
from minibroker.records.any_format import decode_records
from minibroker.records.batch import RecordBatch, assign_offsets
from minibroker.records.builder import build_batch
from minibroker.records.record import Record
from minibroker.schemas.internal.broker_records import BrokerRegistrationChangeRecord, RegisterBrokerRecord
from minibroker.schemas.internal.setting_records import ConfigRecord, FeatureLevelRecord, ProducerIdsRecord
from minibroker.schemas.internal.topic_records import PartitionRecord, RemoveTopicRecord, TopicRecord

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "metadata_log_kafka_4.3.1.json").read_text())
BATCHES = [bytes.fromhex(text) for text in GOLDEN["batches"]]
RECORDS = [record.value for data in BATCHES for record in decode_records(RecordBatch(data)) if not RecordBatch(data).is_control]
NOT_WRITTEN_BY_US = (RegisterBrokerRecord, BrokerRegistrationChangeRecord)
KAFKAS_METADATA_VERSION = 30


def frames() -> list[tuple[bytes, Any]]:
    return [(value, decode_frame(value)) for value in RECORDS if value is not None]


def test_kafka_records_are_decoded() -> None:
    kinds = {type(record) for _, record in frames()}
    assert {TopicRecord, PartitionRecord, ConfigRecord, RemoveTopicRecord, ProducerIdsRecord, FeatureLevelRecord} <= kinds


def test_encoded_records_match_kafka() -> None:
    for value, record in frames():
        if not isinstance(record, NOT_WRITTEN_BY_US):
            assert encode_frame(record, KAFKAS_METADATA_VERSION) == value


def test_encoded_batches_match_kafka() -> None:
    rebuilt = 0
    for data in BATCHES:
        batch = RecordBatch(data)
        records = list(decode_records(batch))
        if batch.is_control or any(isinstance(decode_frame(record.value or b""), NOT_WRITTEN_BY_US) for record in records):
            continue
        again = [Record(0, record.timestamp, None, encode_frame(decode_frame(record.value or b""), 30)) for record in records]
        assert build_batch(again, base_offset=batch.base_offset, partition_leader_epoch=batch.partition_leader_epoch) == data
        rebuilt += 1
    assert rebuilt > 5


def test_leader_change_record_matches_kafka() -> None:
    (first, *_) = decode_records(RecordBatch(BATCHES[0]))
    ours = leader_change(1, first.timestamp)
    assert (ours.key, ours.value) == (first.key, first.value)

    batch = build_batch([ours], is_control=True)
    assign_offsets(memoryview(batch), 7, 3)
    view = RecordBatch(batch)
    assert (view.base_offset, view.partition_leader_epoch, view.is_control, view.check_crc()) == (7, 3, True, True)


@pytest.mark.parametrize(("metadata_version", "version"), [(7, 0), (16, 0), (17, 1), (22, 1), (23, 2), (30, 2)])
def test_older_metadata_versions_use_older_record_versions(metadata_version: int, version: int) -> None:
    assert record_version(PartitionRecord, metadata_version) == version
    assert record_version(TopicRecord, metadata_version) == 0


@pytest.mark.parametrize("value", [b"", b"\x02\x02\x00", b"\x01\x7f\x00", b"\x01\x02\x09", b"\x01\x02\x00\x05ab"], ids=repr)
def test_invalid_records_are_refused(value: bytes) -> None:
    with pytest.raises(WireError):
        decode_frame(value)
