"""Committed offsets as bytes: what Apache Kafka 4.3.1 wrote is what we write for the same commits, and is understood."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minibroker.coordinator.group.classic.members import group_tombstone
from minibroker.coordinator.group.offsets import (
    NO_TIMESTAMP,
    CommittedOffset,
    NewOffset,
    committed_offset,
    encode_commit,
    offset_record,
    offset_tombstone,
)
from minibroker.coordinator.stored_topic import batch_of
from minibroker.coordinator.transaction.records import NO_IDS, ProducerIdAndEpoch
from minibroker.records.any_format import decode_records, split_batches
from minibroker.records.batch import CRC_POSITION, RecordBatch
from minibroker.schemas.internal.offset_records import LegacyOffsetCommitKey, LegacyOffsetCommitValue, OffsetCommitKey
from minibroker.storage.record_frame import CONSUMER_OFFSETS, CoordinatorRecord
from tests.golden import FRAMES
from tests.support.broker_in_memory import BrokerInMemory
from tests.support.committed_offsets import TOPIC, fetch, groups_of
from tests.support.golden_exchange import topic_ids

SEGMENTS: dict[str, Any] = json.loads((FRAMES.parent / "records" / "coordinators_kafka_4.3.1.json").read_text())["segments"]
OFFSETS = {name: bytes.fromhex(each["segment"]) for name, each in SEGMENTS.items() if name.startswith(TOPIC)}


def batches() -> Iterator[RecordBatch]:
    """Batches of commits, as Kafka wrote them."""
    for data in OFFSETS.values():
        for batch in split_batches(memoryview(data)):
            if not batch.is_control and all(isinstance(each.key, OffsetCommitKey) for each in records(batch)):
                yield batch


def records(batch: RecordBatch) -> list[CoordinatorRecord]:
    return [found for each in decode_records(batch) if (found := CONSUMER_OFFSETS.decode(each.key, each.value)) is not None]


@pytest.mark.parametrize("batch", [pytest.param(each, id=f"{index}") for index, each in enumerate(batches())])
def test_same_commits_write_the_same_bytes(batch: RecordBatch) -> None:
    ids = ProducerIdAndEpoch(batch.producer_id, batch.producer_epoch) if batch.is_transactional else NO_IDS
    ours = []
    for record in records(batch):
        committed = committed_offset(record, 0)
        assert committed is not None
        ours.append(offset_record(record.key.group, (record.key.topic, record.key.partition), committed))

    # What stands before the CRC is the log's to write: base offset and leader epoch.
    assert batch_of(CONSUMER_OFFSETS, ours, batch.base_timestamp, ids)[CRC_POSITION:] == bytes(batch.data[CRC_POSITION:])


def test_kafka_offsets_topic_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups are in the same partitions as in Kafka, and the last offsets are those in the answers of Kafka."""
    broker = BrokerInMemory(config={"offsets.topic.num.partitions": "3"})
    groups_of(broker)
    ids = {found.value.topic_id.int: found.key.topic for batch in batches() for found in records(batch) if found.value.topic_id.int}
    for topic_id, name in ids.items():
        topic_ids(monkeypatch, [UUID(int=topic_id)])
        broker.cluster.create_topic(name, partition_count=2)
    for name, data in OFFSETS.items():
        log = broker.cluster.partition(TOPIC, int(name.split("/")[0].rpartition("-")[2])).log
        for batch in split_batches(memoryview(bytearray(data))):
            log.append_own(batch.data)

    assert fetch(broker, group="golden-group") == {("golden-committed", 0): 10}
    assert fetch(broker, group="golden-session") == {("golden-committed", 1): 2}
    assert fetch(broker, group="java-transactional", require_stable=True) == {("java-transactional", 0): 12}
    assert fetch(broker, group="java-open", require_stable=True) == {("java-open", 0): 9}
    assert fetch(broker, group="librdkafka") == {("librdkafka", 0): 3}
    assert fetch(broker, group="group-3") == {("librdkafka", 1): 1}


COMMITTED = CommittedOffset(5, 3, "note", 1_000, NO_TIMESTAMP, UUID(int=7))


def decoded(record: CoordinatorRecord) -> CoordinatorRecord | None:
    value = None if record.value is None else CONSUMER_OFFSETS.encode_value(record.key, record.value, record.version)
    return CONSUMER_OFFSETS.decode(CONSUMER_OFFSETS.encode_key(record.key), value)


def test_offset_record_round_trip() -> None:
    record = offset_record("g", ("a", 1), COMMITTED)
    assert decoded(record) == record
    assert committed_offset(record, 42) == COMMITTED._replace(record_offset=42)


def test_expire_timestamp_replaces_leader_epoch_and_topic_id() -> None:
    record = offset_record("g", ("a", 1), COMMITTED._replace(expire_timestamp_ms=2_000))
    assert record.version == 1
    assert decoded(record) == record
    assert committed_offset(record, 0) == CommittedOffset(5, -1, "note", 1_000, 2_000, record_offset=0)


@pytest.mark.parametrize("tombstone", [offset_tombstone("g", ("a", 1)), group_tombstone("g")])
def test_tombstones(tombstone: CoordinatorRecord) -> None:
    assert decoded(tombstone) == tombstone
    assert committed_offset(tombstone, 0) is None


def test_record_of_kafka_0_8() -> None:
    key = LegacyOffsetCommitKey(group="g", topic="a", partition=1)
    record = CoordinatorRecord(key, LegacyOffsetCommitValue(offset=5, metadata="note", commit_timestamp=1_000), 0)
    assert committed_offset(record, 3) == CommittedOffset(5, -1, "note", 1_000, record_offset=3)


def test_groups_are_in_the_partitions_chosen_by_kafka() -> None:
    assert {Path(name).parts[0] for name in OFFSETS} == {f"{TOPIC}-{index}" for index in range(3)}


INT64 = st.integers(-(2**63), 2**63 - 1)
COMMITS = st.builds(
    NewOffset,
    st.tuples(st.text(max_size=5), st.integers(0, 2**31 - 1)),
    INT64,
    st.integers(-(2**31), 2**31 - 1),
    st.none() | st.text(max_size=200) | st.just("m" * 32_000),
    st.sampled_from([UUID(int=0), UUID(int=1), UUID(int=2**128 - 1)]),
)


@given(st.text(max_size=5), COMMITS, INT64)
def test_fast_encoding_of_a_commit_matches_its_record(group_id: str, new: NewOffset, now_ms: int) -> None:
    committed = CommittedOffset(new.offset, new.leader_epoch, new.metadata or "", now_ms, NO_TIMESTAMP, new.topic_id)
    key, value, version = offset_record(group_id, new.partition, committed)
    expected = CONSUMER_OFFSETS.encode_key(key), CONSUMER_OFFSETS.encode_value(key, value, version)
    assert encode_commit(group_id, new, now_ms) == expected
