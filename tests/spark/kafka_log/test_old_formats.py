"""Segments of formats v0 and v1, alone and before batches of v2, against records/legacy.py; folders that Apache Kafka wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")

from minibroker.clock import ManualClock
from minibroker.errors import CorruptLogError
from minibroker.log.log_config import LogConfig
from minibroker.log.partition_log import PartitionLog
from minibroker.records.any_format import decode_records, split_batches
from minibroker.records.batch import TimestampType, assign_offsets
from minibroker.records.builder import build_batch
from minibroker.records.compression import Compression
from minibroker.records.legacy import build_message_set
from minibroker.records.record import Record
from minibroker.storage.files import RealFiles
from tests.spark.kafka_log.reading import rows_of, values_of
from tests.support.golden_storage import restore_golden_folder
from tests.support.log_batches import NOW_MS, read_batches, read_values
from tests.support.transactional_logs import committed_values

CODECS = [Compression.NONE, Compression.GZIP, Compression.SNAPPY, Compression.LZ4]


def written(folder: Path, content: bytes) -> Path:
    (folder / "old-0").mkdir()
    (folder / "old-0" / "00000000000000000000.log").write_bytes(content)
    return folder


def records_from(first: int, count: int) -> list[Record]:
    return [
        Record(first + index, NOW_MS + index, None if index % 3 == 0 else b"k%d" % index, None if index % 4 == 0 else b"v" * index)
        for index in range(count)
    ]


def milliseconds(row: dict[str, Any]) -> int:
    seconds: float = row["timestamp"].timestamp()
    return round(seconds * 1000)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("magic", [0, 1])
def test_old_messages_and_sets(tmp_path: Path, magic: int, codec: Compression) -> None:
    sets = [build_message_set(records_from(first, 7), magic, compression=codec) for first in (0, 7, 20)]
    new = build_batch(records_from(0, 5), compression=codec)
    assign_offsets(memoryview(new), 27, 0)
    content = b"".join([*map(bytes, sets), bytes(new), bytes(build_message_set(records_from(32, 3), magic, compression=codec))])
    expected = [(record, batch.magic) for batch in split_batches(content) for record in decode_records(batch)]
    rows = rows_of(written(tmp_path, content))
    assert [(row["offset"], milliseconds(row), row["key"], row["value"], row["headers"]) for row in rows] == [
        (record.offset, record.timestamp, record.key, record.value, None) for record, _ in expected
    ]
    assert [row["timestampType"] for row in rows] == [-1 if magic == 0 else 0 for _, magic in expected]
    part = values_of(tmp_path, startingOffsets='{"old": {"0": 3}}', endingOffsets='{"old": {"0": 33}}')
    assert sorted(part) == [record.offset for record, _ in expected if 3 <= record.offset < 33]
    if magic:
        assert min(values_of(tmp_path, startingTimestamp=NOW_MS + 4)) == 4


def test_the_broker_s_time(tmp_path: Path) -> None:
    same = [Record(index, NOW_MS, b"k", b"v") for index in range(3)]
    content = build_message_set(same, 1, compression=Compression.GZIP, timestamp_type=TimestampType.LOG_APPEND_TIME)
    new = build_batch([Record(index, NOW_MS + index, b"k", b"v") for index in range(3)], timestamp_type=TimestampType.LOG_APPEND_TIME)
    assign_offsets(memoryview(new), 3, 0)
    rows = rows_of(written(tmp_path, bytes(content) + bytes(new)))
    assert {row["timestampType"] for row in rows} == {1}
    assert [milliseconds(row) for row in rows] == [NOW_MS] * 3 + [NOW_MS + 2] * 3


@pytest.mark.parametrize("magic", [0, 1])
def test_a_damaged_message_is_left_out_alone(tmp_path: Path, magic: int) -> None:
    messages = [bytes(build_message_set(records_from(first, 1), magic)) for first in range(1, 9)]
    start = sum(len(message) for message in messages[:3])
    data = written(tmp_path, b"".join(messages))
    everything = values_of(data, failOnDataLoss="false")
    path = data / "old-0" / "00000000000000000000.log"
    for position in range(start + 12, start + len(messages[3])):
        damaged = bytearray(b"".join(messages))
        damaged[position] ^= 0xFF
        path.write_bytes(damaged)
        with pytest.raises(CorruptLogError, match=rf"{path}.*position {start}\b"):
            values_of(data)
        found = values_of(data, mode="PERMISSIVE")
        assert found == {offset: value for offset, value in everything.items() if offset != 4}


@pytest.mark.parametrize("name", ["rolled-0", "idempotent-0", "one-segment-0", "empty-0", "transactional-0", "stamped-0", "open-0"])
def test_folders_of_apache_kafka(tmp_path: Path, name: str) -> None:
    """Against our log, which consumers of all kinds were compared with."""
    folder = restore_golden_folder(name, tmp_path)
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    (tmp_path / "other").mkdir()
    log = PartitionLog.open(
        restore_golden_folder(name, tmp_path / "other"), config=LogConfig(), files=RealFiles(), clock=ManualClock(), clean_shutdown=True
    )
    control = {batch.base_offset for batch in read_batches(log) if batch.is_control}
    assert values_of(folder) == {offset: value for offset, value in read_values(log).items() if offset not in control}
    assert values_of(folder, isolationLevel="read_committed") == committed_values(log, log.log_start_offset, 1000)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == files
