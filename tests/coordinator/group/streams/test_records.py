"""Records of streams groups: what Apache Kafka 4.3.1 wrote is understood, and written again as it was."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator

from minibroker.coordinator.group.kind import GroupType
from minibroker.coordinator.group.store import type_of_key
from minibroker.coordinator.group.streams.members import (
    StreamsGroupImage,
    current_record,
    epoch_record,
    group_tombstones,
    member_record,
    member_tombstones,
    target_epoch_record,
    target_record,
    topology_record,
)
from minibroker.records.any_format import decode_records, split_batches
from minibroker.schemas.internal import streams_group_records as stored
from minibroker.storage.record_frame import CONSUMER_OFFSETS, CoordinatorRecord
from tests.coordinator.group.modern_world import facts
from tests.golden.captures.streams import LOGS

GROUP = "word-count"


def batches_of_kafka() -> Iterator[list[CoordinatorRecord]]:
    for segment in json.loads(LOGS.read_text())["segments"].values():
        for batch in split_batches(bytes.fromhex(segment["segment"])):
            decoded = [] if batch.is_control else [CONSUMER_OFFSETS.decode(each.key, each.value) for each in decode_records(batch)]
            found = [each for each in decoded if each is not None and type_of_key(each.key) is GroupType.STREAMS]
            if found:
                yield found


def written_again(image: StreamsGroupImage, record: CoordinatorRecord) -> CoordinatorRecord:
    """The record that says what the image has of this one's."""
    key = record.key
    if isinstance(key, stored.StreamsGroupMetadataKey):
        result = (image.epoch, image.metadata_hash, image.validated_topology_epoch, image.assignment_configs)
        return epoch_record(GROUP, *result)
    if isinstance(key, stored.StreamsGroupTopologyKey):
        assert image.topology is not None
        return topology_record(GROUP, image.topology)
    if isinstance(key, stored.StreamsGroupTargetAssignmentMetadataKey):
        return target_epoch_record(GROUP, image.assignment_epoch, image.assignment_timestamp_ms)
    if isinstance(key, stored.StreamsGroupTargetAssignmentMemberKey):
        return target_record(GROUP, key.member_id, image.targets[key.member_id])
    member = image.members[key.member_id]
    is_said = isinstance(key, stored.StreamsGroupMemberMetadataKey)
    return member_record(GROUP, member) if is_said else current_record(GROUP, member)


def test_kafka_records_round_trip() -> None:
    image, seen = StreamsGroupImage(), Counter[str]()
    for batch in batches_of_kafka():
        for record in batch:
            image.replay(record)
            seen[type(record.key).__name__] += 1
            if record.value is not None:
                again = written_again(image, record)
                assert (again.key, again.version) == (record.key, record.version)
                data, theirs = (CONSUMER_OFFSETS.encode_value(record.key, each.value, each.version) for each in (again, record))
                assert data == theirs
    assert len(seen) == 6
    assert image.members == {}


def test_tombstone_order_matches_kafka() -> None:
    gone = [[each.key for each in batch] for batch in batches_of_kafka() if all(each.value is None for each in batch)]
    assert [each.key for each in group_tombstones(GROUP)] in gone
    current = stored.StreamsGroupCurrentMemberAssignmentKey
    leaving = next(batch for batch in batches_of_kafka() if isinstance(batch[0].key, current) and batch[0].value is None)
    member_id = leaving[0].key.member_id
    assert leaving[:3] == member_tombstones(GROUP, member_id)
    assert isinstance(leaving[3].key, stored.StreamsGroupMetadataKey)


def test_records_may_be_replayed_in_any_order() -> None:
    """The last one of each key, backwards."""
    last: dict[bytes, CoordinatorRecord] = {}
    image = StreamsGroupImage()
    for batch in list(batches_of_kafka())[:-3]:
        for record in batch:
            image.replay(record)
            last[CONSUMER_OFFSETS.encode_key(record.key)] = record
    compacted = StreamsGroupImage()
    for record in reversed(last.values()):
        compacted.replay(record)
    for name in facts(image).keys() - {"topology"}:
        assert getattr(compacted, name) == getattr(image, name), name
