"""Operations of the metadata log are encoded in steps, and are the same batch however they were encoded."""

from __future__ import annotations

from uuid import UUID

import pytest

from minibroker.cluster.metadata.frame import STEP_RECORDS, MetadataOperation, encode_frame, run
from minibroker.cluster.metadata.metadata_image import partition_records, topic_records
from minibroker.records.builder import build_batch
from minibroker.records.record import Record

TOPIC_ID, DIRECTORY_ID = UUID(int=7), UUID(int=8)
LEVELS = (16, 30)  #: without and with directories of partitions


def records(count: int) -> list[object]:
    partitions = partition_records(TOPIC_ID, range(count), 1, [DIRECTORY_ID] * count)
    return [*topic_records("orders", TOPIC_ID, {"retention.ms": "1"}), *partitions, *topic_records("more", UUID(int=9), {})]


def expected(of: list[object], level: int) -> bytearray:
    frames = [Record(0, 5, None, encode_frame(record, level)) for record in of]
    return build_batch(frames, base_offset=3, partition_leader_epoch=2)


def batch(operation: MetadataOperation, level: int) -> bytearray:
    return operation.batch(3, epoch=2, now_ms=5, metadata_version=level)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("count", [0, 1, 99, 150, STEP_RECORDS, 1000])
def test_encoded_batch(count: int, level: int) -> None:
    wanted = expected(records(count), level)
    assert batch(MetadataOperation(records(count)), level) == wanted
    operation = MetadataOperation(records(count))
    assert sum(1 for _ in operation.encode(level)) == (count + 2) // STEP_RECORDS
    assert batch(operation, level) == wanted
    assert batch(operation, level) == wanted


def test_metadata_version_changes_between_two_steps() -> None:
    operation = MetadataOperation(records(1000))
    steps = operation.encode(LEVELS[0])
    next(steps)
    assert batch(operation, LEVELS[1]) == expected(records(1000), LEVELS[1])
    run(operation.encode(LEVELS[0]))
    assert batch(operation, LEVELS[1]) == expected(records(1000), LEVELS[1])
