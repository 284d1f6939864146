"""Directories that our own log wrote, read back whole and in parts, under both isolation levels; damage."""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from pyspark.sql.datasource import InputPartition

from minibroker.clock import ManualClock
from minibroker.errors import CorruptLogError
from minibroker.log.log_config import LogConfig
from minibroker.log.partition_log import PartitionLog
from minibroker.records.builder import build_batch
from minibroker.records.compression import Compression
from minibroker.records.record import Record
from minibroker.spark.failures import OptionError
from minibroker.spark.kafka_log.options import parse_options
from minibroker.spark.kafka_log.source import KafkaLogReader
from minibroker.storage.files import RealFiles
from tests.spark.kafka_log.reading import ranges_of, rows_of, values_of
from tests.support.log_batches import NOW_MS, batch_of, read_values
from tests.support.soak import times
from tests.support.transactional_logs import committed_values, fill

COMMITTED = {"isolationLevel": "read_committed"}
OpenLog = Callable[..., PartitionLog]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    return folder


@pytest.fixture
def open_log(data: Path) -> OpenLog:
    def open_(**config: Any) -> PartitionLog:
        settings = {"segment_bytes": 1500, "index_interval_bytes": 100, **config}
        return PartitionLog.open(data / "orders-0", config=LogConfig(**settings), files=RealFiles(), clock=ManualClock())

    return open_


def between(start: int, end: int) -> dict[str, str]:
    return {"startingOffsets": json.dumps({"orders": {"0": start}}), "endingOffsets": json.dumps({"orders": {"0": end}})}


@pytest.mark.parametrize("seed", range(6))
def test_transactions_of_all_kinds(data: Path, open_log: OpenLog, seed: int) -> None:
    """Also while the log is open, when the newest index entries are in its memory alone; and whole tasks cut into small ones."""
    log = open_log()
    fill(log, seed)
    everything = read_values(log)
    committed = committed_values(log, 0, 700)
    control = set(everything) - set(values_of(data))
    assert {offset: value for offset, value in everything.items() if offset not in control} == values_of(data)
    assert values_of(data, **COMMITTED) == committed
    assert values_of(data, **COMMITTED, maxPartitionBytes=300) == committed
    rng = random.Random(seed)
    for is_closed in (False, True):
        for _ in range(25):
            start, end = sorted((rng.randint(0, log.last_stable_offset), rng.randint(0, log.last_stable_offset)))
            size = rng.choice([200, 1000, 100_000])
            expected = {offset: value for offset, value in committed.items() if start <= offset < end}
            assert values_of(data, **COMMITTED, **between(start, end), maxPartitionBytes=size) == expected
            expected = {offset: value for offset, value in everything.items() if start <= offset < end and offset not in control}
            assert values_of(data, **between(start, end), maxPartitionBytes=size) == expected
        if not is_closed:
            log.close()


@pytest.mark.parametrize("codec", list(Compression))
def test_codecs_headers_and_nulls(data: Path, open_log: OpenLog, codec: Compression) -> None:
    log = open_log(segment_bytes=4000)
    written = [
        Record(0, NOW_MS, None, b"no key"),
        Record(1, NOW_MS + 5, b"", None, (("a", b"1"), ("a", None), ("\u00e9", b""))),
        Record(2, NOW_MS - 7, b"k", b"v" * 3000, (("h", b"x" * 100),)),
        Record(3, NOW_MS, b"k", b""),
    ]
    for _ in range(3):
        log.append(memoryview(build_batch(written, compression=codec)))
    rows = rows_of(data, includeHeaders="true")
    assert [(row["offset"], row["key"], row["value"]) for row in rows] == [
        (4 * n + r.offset, r.key, r.value) for n in range(3) for r in written
    ]
    assert [row["headers"] for row in rows[:4]] == [[{"key": k, "value": v} for k, v in r.headers] or None for r in written]
    assert [round(row["timestamp"].timestamp() * 1000) for row in rows[:4]] == [record.timestamp for record in written]
    assert {(row["topic"], row["partition"], row["timestampType"]) for row in rows} == {("orders", 0, 0)}


def test_large_batches_and_many_small_ones(data: Path, open_log: OpenLog) -> None:
    """Batches larger than what is read at once, among thousands of one record each."""
    log = open_log(segment_bytes=100_000_000, max_message_bytes=20_000_000)
    rng = random.Random(1)
    expected: dict[int, bytes] = {}
    for size in (10, 3_000_000, 10, 10, 9_000_000):
        for _ in range(1000 if size == 10 else 1):
            value = rng.randbytes(size)
            expected[log.append(batch_of(value)).base_offset] = value
    assert values_of(data) == expected
    parts = ranges_of(data, maxPartitionBytes=50_000)
    assert len(parts) > 5
    assert values_of(data, maxPartitionBytes=50_000) == expected


def test_only_segments_that_can_hold_what_is_asked_for(data: Path, open_log: OpenLog) -> None:
    log = open_log()
    for number in range(200):
        log.append(batch_of(b"%d" % number * 20, timestamp=NOW_MS + 1000 * number))
    log.close()
    paths = sorted(str(path) for path in (data / "orders-0").glob("*.log"))
    assert len(paths) > 10

    def segments(**options: str) -> list[str]:
        return sorted({part.path for each in ranges_of(data, **options) for part in each.slices})

    def bytes_of(**options: str) -> int:
        return sum(each.size for each in ranges_of(data, **options))

    assert segments() == paths
    inside = [int(Path(path).stem) for path in paths]
    assert segments(**between(inside[3], inside[4])) == paths[3:4]
    assert segments(**between(inside[3] + 1, inside[5] + 1)) == paths[3:6]
    assert bytes_of(**between(inside[3] + 4, inside[3] + 5)) < 800
    late = {"startingTimestamp": str(NOW_MS + 1000 * inside[8]), "endingTimestamp": str(NOW_MS + 1000 * inside[9])}
    assert segments(**late) == paths[8:9]
    assert sorted(values_of(data, **late)) == list(range(inside[8], inside[9]))


def test_timestamps_find_the_first_record_as_late(data: Path, open_log: OpenLog) -> None:
    """Also where they do not grow, with and without indexes."""
    log = open_log()
    rng = random.Random(3)
    timestamps: list[int] = []
    for _ in range(150):
        many = [NOW_MS + rng.randrange(10_000) for _ in range(3)]
        timestamps += many
        log.append(memoryview(build_batch([Record(i, at, b"k", b"v" * 30) for i, at in enumerate(many)])))
    for without_indexes in (False, True):
        for _ in range(times(60, soak=200)):
            timestamp = NOW_MS + rng.randrange(10_000)
            first = next((offset for offset, at in enumerate(timestamps) if at >= timestamp), len(timestamps))
            found = values_of(data, startingTimestamp=timestamp, startingOffsetsByTimestampStrategy="latest")
            assert min(found, default=len(timestamps)) == first
            assert max(values_of(data, endingTimestamp=timestamp), default=-1) == first - 1
        if not without_indexes:
            log.close()
            for path in (data / "orders-0").glob("*.*index"):
                path.unlink()
    with pytest.raises(OptionError, match="no record of orders-0 is at or after"):
        values_of(data, startingTimestamp=NOW_MS + 10**6)


def damaged(index: bytes, rng: random.Random) -> bytes:
    """Return the bytes of an index with other bytes at random positions, without its last bytes, or with zeros there."""
    content = bytearray(index)
    if rng.random() < 0.3:
        size = rng.randrange(len(index) + 1)
        return index[:size] + rng.choice([b"", bytes(len(index) - size)])
    for _ in range(max(len(content) // 12, 1)):
        content[rng.randrange(len(content))] = rng.randrange(256)
    return bytes(content)


@pytest.mark.parametrize("is_compressed", [False, True])
def test_wrong_indexes_are_not_believed(data: Path, open_log: OpenLog, is_compressed: bool) -> None:
    """Damaged offset and time indexes may cost time, but no records."""
    log = open_log(segment_bytes=20_000)
    timestamps: list[int] = []
    for number in range(200):
        at, count = NOW_MS + number // 4, 1 + number % 3
        records = [Record(index, at, b"k", b"%d" % number * 20) for index in range(count)]
        log.append(memoryview(build_batch(records, compression=Compression.GZIP if is_compressed else Compression.NONE)))
        timestamps += [at] * count
    expected = read_values(log)
    log.close()
    indexes = sorted((path, path.read_bytes()) for path in (data / "orders-0").glob("*.*index") if path.stat().st_size)
    for seed in range(times(12, soak=200)):
        rng = random.Random(seed)
        for path, content in indexes:
            path.write_bytes(damaged(content, rng))
        assert values_of(data) == expected, seed
        for _ in range(4):
            start, end = sorted(rng.randint(0, len(expected)) for _ in range(2))
            found = values_of(data, **between(start, end), maxPartitionBytes=rng.choice([300, 500, 1_000_000]))
            assert found == {offset: value for offset, value in expected.items() if start <= offset < end}, (seed, start, end)
        at = rng.choice(timestamps)
        first = timestamps.index(at)
        assert min(values_of(data, startingTimestamp=at)) == first, (seed, at)
        assert max(values_of(data, endingTimestamp=at), default=-1) == first - 1, (seed, at)


def test_an_index_entry_that_points_into_a_value(data: Path, open_log: OpenLog) -> None:
    """The value begins like a batch, but the CRC of that batch is wrong."""
    forged = bytearray(batch_of(b"forged"))
    forged[:8] = (1).to_bytes(8)
    forged[-1] ^= 1
    log = open_log(segment_bytes=1_000_000)
    for number in range(6):
        log.append(batch_of(bytes(forged) + bytes(200) if number == 2 else b"%d" % number))
    expected = read_values(log)
    log.close()
    position = (data / "orders-0" / "00000000000000000000.log").read_bytes().index(forged)
    for last_offset in range(6):
        (data / "orders-0" / "00000000000000000000.index").write_bytes(last_offset.to_bytes(4) + position.to_bytes(4))
        assert values_of(data) == expected
        assert values_of(data, maxPartitionBytes=position) == expected
        assert values_of(data, **between(4, 5)) == {4: b"4"}


def test_a_batch_that_is_being_written_is_not_there_yet(data: Path, open_log: OpenLog) -> None:
    log = open_log(segment_bytes=1_000_000)
    for number in range(10):
        log.append(batch_of(b"%d" % number))
    expected = read_values(log)
    log.close()
    (path,) = (data / "orders-0").glob("*.log")
    whole = path.read_bytes()
    batch = bytearray(batch_of(b"new"))
    batch[:8] = (10).to_bytes(8)
    for cut in (1, 11, 16, 17, 40, len(batch) - 1):
        path.write_bytes(whole + batch[:cut])
        assert values_of(data) == expected
        assert values_of(data, **COMMITTED) == expected
    path.write_bytes(whole + bytes(4096))
    assert values_of(data) == expected
    path.write_bytes(whole + batch)
    assert values_of(data) == {**expected, 10: b"new"}


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.LZ4])
def test_every_byte_of_a_batch_damaged(data: Path, open_log: OpenLog, codec: Compression) -> None:
    """Told with file and position, or left out alone; what the CRC does not cover (epoch) may be anything."""
    log = open_log(segment_bytes=1_000_000)
    positions = [0]
    for number in range(5):
        log.append(batch_of(b"%d" % number * 40, b"more", compression=codec))
        positions.append(log.segments.size)
    log.close()
    everything = values_of(data)
    (path,) = (data / "orders-0").glob("*.log")
    whole = path.read_bytes()
    start, stop = positions[2], positions[3]
    left = {offset: value for offset, value in everything.items() if offset not in {4, 5}}
    for position in range(start, stop):
        damaged = bytearray(whole)
        damaged[position] ^= 0xFF
        path.write_bytes(damaged)
        if start + 12 <= position < start + 16:
            assert values_of(data) == everything
            continue
        with pytest.raises(CorruptLogError, match=rf"{path}.*position {start}\b"):
            values_of(data)
        assert values_of(data, mode="PERMISSIVE") == left
        rows = rows_of(data, mode="PERMISSIVE", columnNameOfCorruptRecord="damage")
        damages = [row["damage"] for row in rows if row["damage"] is not None]
        assert len(damages) == 1
        assert f"{path}: corrupt batch at position {start}" in damages[0]


def test_a_timestamp_that_spark_cannot_hold(data: Path, open_log: OpenLog) -> None:
    log = open_log(segment_bytes=1_000_000)
    log.append(batch_of(b"good"))
    log.close()
    (path,) = (data / "orders-0").glob("*.log")
    bad = build_batch([Record(1, 1 << 60, b"k", b"v")], base_offset=1)
    path.write_bytes(path.read_bytes() + bad)
    with pytest.raises(CorruptLogError, match=r"position \d+: a timestamp that Spark cannot hold"):
        values_of(data)
    assert list(values_of(data, mode="PERMISSIVE")) == [0]


def test_options_that_cannot_be_followed(data: Path, open_log: OpenLog, tmp_path: Path) -> None:
    open_log().append(batch_of(b"v"))
    cases: list[tuple[dict[str, Any], str]] = [
        ({"subscribe": "other"}, "other: no such topic"),
        ({"assign": '{"orders": [0, 7]}'}, "orders-7: no such topic or partition"),
        ({"assign": '{"orders": "0"}'}, "assign is"),
        ({"subscribe": "a", "subscribePattern": "b"}, "only one of"),
        ({"subscribePattern": "("}, "not a regular expression"),
        ({"startingOffsets": "latest"}, "nothing to read"),
        ({"endingOffsets": "earliest"}, "nothing to read"),
        ({"startingOffsets": "soon"}, "not a JSON object"),
        ({"startingOffsets": '{"orders": {"0": -3}}'}, "has -3"),
        ({"startingOffsets": '{"orders": {"1": 0}}'}, "startingOffsets has no offset for partition 0 of orders"),
        ({"endingOffsets": '{"orders": {"0": 1, "1": 0}}'}, "names partition 1 of orders"),
        ({"startingTimestamp": "yesterday"}, "not epoch milliseconds"),
        ({"isolationLevel": "serializable"}, "isolationLevel"),
        ({"mode": "DROPMALFORMED"}, "mode is"),
        ({"columnNameOfCorruptRecord": "c"}, "needs mode=PERMISSIVE"),
        ({"includeHeaders": "yes"}, "includeHeaders"),
        ({"minPartitions": "-1"}, "minPartitions"),
        (between(0, 9), "offset 9 of orders-0 does not exist: it has 0 up to 1"),
    ]
    for options, words in cases:
        with pytest.raises(OptionError, match=words):
            rows_of(data, **options)
    assert list(values_of(data, **between(0, 9), failOnDataLoss="false")) == [0]
    (tmp_path / "dbus-1").mkdir()
    (tmp_path / "dbus-1" / "system.conf").touch()
    (tmp_path / "apt-2").touch()
    for path, words in [(tmp_path, "not a Kafka log directory"), (tmp_path / "none", "does not exist"), (tmp_path / "file", "is a file")]:
        (tmp_path / "file").touch()
        with pytest.raises(OptionError, match=words):
            rows_of(path)


def test_one_folder_several_directories_internal_topics(data: Path, open_log: OpenLog, tmp_path: Path) -> None:
    open_log().append(batch_of(b"one"))
    for name in ("__consumer_offsets-3", "other/orders-1", "other/orders-2"):
        log = PartitionLog.open(data.parent / name, config=LogConfig(), files=RealFiles(), clock=ManualClock())
        log.append(batch_of(name.encode()))
    (data.parent / "other/orders-2").rename(data.parent / "other/orders-2.00000000000000000000000000000000-delete")
    assert values_of(data / "orders-0") == {0: b"one"}
    (data.parent / "__consumer_offsets-3").rename(data / "__consumer_offsets-3")
    assert [row["partition"] for row in rows_of(f"{data},{tmp_path}/other")] == [0, 1]  # type: ignore[arg-type]
    assert [row["partition"] for row in rows_of(data, subscribe="__consumer_offsets")] == [3]
    assert [row["partition"] for row in rows_of(data, subscribePattern=".*")] == [3, 0]


class CountingFiles(RealFiles):
    """Notes what is read of `.log` files, by name."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes_read: Counter[str] = Counter()
        self._paths: dict[int, str] = {}

    def open(self, path: str, flags: int) -> int:
        descriptor = super().open(path, flags)
        self._paths[descriptor] = path
        return descriptor

    def read_at(self, descriptor: int, size: int, position: int, /) -> bytes:
        data = os.pread(descriptor, size, position)
        path = self._paths[descriptor]
        if path.endswith(".log"):
            self.bytes_read[path] += len(data)
        return data


@pytest.mark.parametrize("by", ["offsets", "time"])
@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_only_what_is_asked_for_is_read(data: Path, open_log: OpenLog, by: str, isolation: str) -> None:
    """Counted at the files, by planner and tasks together: of segments outside nothing, but a few heads."""
    log = open_log(segment_bytes=300_000, index_interval_bytes=4096)
    for number in range(1200):
        log.append(batch_of(random.Random(number).randbytes(1000), timestamp=NOW_MS + 1000 * number))
    log.close()
    paths = sorted(str(path) for path in (data / "orders-0").glob("*.log"))
    bases = [int(Path(path).stem) for path in paths]
    assert len(paths) >= 4
    for start, end in [(bases[1], bases[2]), (bases[1] + 50, bases[1] + 60), (bases[2] - 5, bases[2] + 5), (1190, 1200)]:
        options = {"startingTimestamp": str(NOW_MS + 1000 * start), "endingTimestamp": str(NOW_MS + 1000 * end)}
        files = CountingFiles()
        found = rows_of(data, files=files, isolationLevel=isolation, **(options if by == "time" else between(start, end)))
        assert [row["offset"] for row in found] == list(range(start, end))
        touched = {path for path, base, after in zip(paths, bases, [*bases[1:], 1200], strict=True) if base < end and after > start}
        beside = {path: size for path, size in files.bytes_read.items() if path not in touched}
        # the end of the log: heads behind the last index entry; times: the batch that a time index names, and those after it
        assert set(beside) <= ({paths[-1]} if by == "offsets" else set(paths))
        assert all(size <= (20_000 if path == paths[-1] else 16_384) for path, size in beside.items())
        expected = (end - start) * 1100
        assert sum(files.bytes_read.values()) < expected + (45_000 if by == "offsets" else 50_000)


@pytest.mark.parametrize("partition", [None, InputPartition(None)])
def test_a_plan_without_partitions(partition: Any) -> None:
    """PySpark then calls `read` once: 4.0 and 4.1 with None, 4.2 with an empty partition."""
    reader = KafkaLogReader(parse_options({"path": "/nowhere"}), ("value",))
    assert list(reader.read(partition)) == []
