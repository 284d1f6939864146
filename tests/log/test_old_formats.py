"""Logs that hold message formats v0 and v1, as old Kafka left them: read, found by offset and time, indexed, recovered, gone on with."""

from __future__ import annotations

import bisect
import logging
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from minibroker.errors import OffsetOutOfRange
from minibroker.log.partition_log import PartitionLog
from minibroker.log.results import IsolationLevel, TimestampOffset
from minibroker.log.segment_checking import SegmentTask, check_segment
from minibroker.records.any_format import decode_records, split_batches
from minibroker.records.builder import build_batch
from minibroker.records.compression import Compression
from minibroker.records.legacy import build_message_set, write_message
from minibroker.records.record import Record
from minibroker.records.steps import finished
from minibroker.storage.files import RealFiles
from tests.golden.captures.legacy import legacy_golden
from tests.log.conftest import OpenLog
from tests.records.test_legacy import NOW_MS, OLD_CODECS
from tests.support.log_batches import batch_of, read_batches
from tests.support.soak import examples

SEGMENTS = {entry["codec"]: entry for entry in legacy_golden() if entry["kind"] == "segment"}
GOLDEN_COUNT = 48
SMALL_INDEX = {"index_interval_bytes": 300, "segment_index_bytes": 4096}


def put(folder: Path, base_offset: int, log: bytes, **others: bytes) -> Path:
    folder = folder / "orders-0"
    folder.mkdir(exist_ok=True)
    for suffix, data in {"log": log, **others}.items():
        (folder / f"{base_offset:020}.{suffix}").write_bytes(data)
    return folder / f"{base_offset:020}.log"


def put_golden(folder: Path, codec: str, *, with_indexes: bool) -> Path:
    entry = SEGMENTS[codec]
    indexes = {name: bytes.fromhex(entry[name]) for name in ("index", "timeindex")} if with_indexes else {}
    return put(folder, 50, bytes.fromhex(entry["log"]), **indexes)


def records_in(log: PartitionLog) -> list[Record]:
    return [record for batch in read_batches(log) for record in decode_records(batch)]


def agree(log: PartitionLog, records: list[Record], *, times: list[int]) -> None:
    """Every read and look-up gives what a walk over `records` gives."""
    offsets = [record.offset for record in records]
    for offset in range(log.log_start_offset, log.log_end_offset):
        for max_bytes in (0, 60, 200, 1000, 1 << 20):
            got = list(split_batches(log.read(offset, max_bytes, isolation=IsolationLevel.READ_UNCOMMITTED)))
            wanted = bisect.bisect_left(offsets, offset)
            assert got[0].last_offset >= offset
            assert got[0].base_offset <= offsets[wanted]
            assert all(batch.check_crc() for batch in got)
            assert len(got) == 1 or sum(batch.size for batch in got) <= max_bytes
    with pytest.raises(OffsetOutOfRange):
        log.read(log.log_start_offset - 1, 1, isolation=None)
    for time in times:
        found = next((record for record in records if record.timestamp >= time), None)
        told = log.timestamps.offset_for_timestamp(time)
        assert told == (None if found is None else TimestampOffset(found.timestamp, found.offset, told.leader_epoch if told else -1))


@pytest.mark.parametrize("codec", SEGMENTS)
@pytest.mark.parametrize("with_indexes", [True, False])
@pytest.mark.parametrize("clean_shutdown", [True, False])
def test_segment_written_by_kafka(
    open_log: OpenLog, tmp_path: Path, caplog: pytest.LogCaptureFixture, codec: str, with_indexes: bool, clean_shutdown: bool
) -> None:
    """Formats v0, v1 and v2, with Kafka's indexes or without: the same reads, and no complaint."""
    put_golden(tmp_path, codec, with_indexes=with_indexes)
    with caplog.at_level(logging.WARNING):
        log = open_log(clean_shutdown=clean_shutdown, log_start_offset=50, **SMALL_INDEX)
    assert (log.log_start_offset, log.log_end_offset, log.leader_epoch) == (50, 50 + GOLDEN_COUNT, 0)
    records = records_in(log)
    assert [record.offset for record in records] == list(range(50, 50 + GOLDEN_COUNT))
    assert {record.timestamp for record in records[:16]} == {-1}
    assert [batch.magic for batch in read_batches(log)] == ([0] * 16 + [1] * 16 if codec == "none" else [0] * 4 + [1] * 4) + [2] * 4
    agree(log, records, times=[0, NOW_MS - 5000, NOW_MS, NOW_MS + 71, NOW_MS + 9000, NOW_MS + 9001])
    assert log.timestamps.max_timestamp_offset() == TimestampOffset(NOW_MS + 9000, 50 + 19, -1)
    assert [text for text in caplog.messages if "is missing or empty" not in text] == []
    log.close()


@pytest.mark.parametrize("codec", SEGMENTS)
def test_kafka_indexes_are_used(open_log: OpenLog, tmp_path: Path, codec: str) -> None:
    """Each entry is found right by the batch that it points to; none is made anew."""
    put_golden(tmp_path, codec, with_indexes=True)
    log = open_log(clean_shutdown=True, log_start_offset=50, **SMALL_INDEX)
    segment = log.segments.active
    entries = segment.offset_index.entries()
    assert len(entries) >= 3
    for entry in entries:
        found = segment.find(entry.offset)
        assert found is not None
        assert (found.position, found.last_offset) == (entry.position, entry.offset)
    assert segment.largest_timestamp() == (NOW_MS + 9000, 50 + 19)
    log.close()
    for name in ("index", "timeindex"):
        assert (tmp_path / "orders-0" / f"{50:020}.{name}").read_bytes() == bytes.fromhex(SEGMENTS[codec][name])


@pytest.mark.parametrize("codec", SEGMENTS)
def test_last_batch_torn_at_every_byte(open_log: OpenLog, tmp_path: Path, codec: str) -> None:
    data = bytes.fromhex(SEGMENTS[codec]["log"])
    sizes, position = {0: 50}, 0
    for batch in split_batches(data):
        position += batch.size
        sizes[position] = batch.next_offset
    for size in range(0, len(data), 7):
        path = put(tmp_path, 50, data[:size])
        log = open_log(log_start_offset=50)
        whole = max(known for known in sizes if known <= size)
        assert (log.log_end_offset, path.stat().st_size) == (sizes[whole], whole)
        log.close(clean=False)


@pytest.mark.parametrize("codec", SEGMENTS)
def test_flipped_byte_in_an_old_message_truncates_the_log(open_log: OpenLog, tmp_path: Path, codec: str) -> None:
    data = bytes.fromhex(SEGMENTS[codec]["log"])
    sizes, position = [], 0
    for batch in split_batches(data):
        sizes.append((position, batch))
        position += batch.size
    for index in (0, 2, 5, 7):
        start, batch = sizes[index]
        for place in (0, 6, 8, 10, 12, 16, 17, 20, batch.size - 1):
            bad = bytearray(data)
            bad[start + place] ^= 0x21
            put(tmp_path, 50, bytes(bad))
            log = open_log(log_start_offset=50)
            assert (log.log_end_offset, log.segments.size) == (50 if index == 0 else sizes[index - 1][1].next_offset, start), place
            log.close(clean=False)


def test_undecompressable_set_with_a_valid_crc_is_kept(open_log: OpenLog, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Its CRC is right: some client of old wrote it so. It is served as it is, and nothing is cut off."""
    odd = bytearray()
    write_message(odd, Record(5, NOW_MS, None, b"no gzip"), 1, Compression.GZIP)
    behind = build_message_set([Record(6, NOW_MS, b"k", b"v")], 1)
    put(tmp_path, 0, bytes(odd + behind))
    for _ in range(2):
        log = open_log()
        assert (log.log_end_offset, log.segments.size) == (7, len(odd + behind))
        assert bytes(log.read(0, 1000, isolation=None)) == bytes(odd + behind)
        assert bytes(log.read(6, 1000, isolation=None)) == bytes(behind)
        log.close(clean=False)
    assert "cut" not in caplog.text
    (finding,) = check_segment(RealFiles(), SegmentTask(str(tmp_path / "orders-0"), 0, needs_indexes=False, deep=True)).findings
    assert "the message set at offset 5 cannot be decompressed" in finding.problem


@pytest.mark.parametrize("codec", SEGMENTS)
def test_check_segment_finds_only_real_damage(tmp_path: Path, codec: str) -> None:
    path = put_golden(tmp_path, codec, with_indexes=True)
    task = SegmentTask(str(tmp_path / "orders-0"), 50, deep=True)
    report = check_segment(RealFiles(), task)
    assert (report.findings, report.next_offset, report.is_whole, report.has_gaps) == ((), 50 + GOLDEN_COUNT, True, False)
    data = bytearray(path.read_bytes())
    data[40] ^= 1
    path.write_bytes(data)
    (finding,) = check_segment(RealFiles(), task).findings
    assert "wrong CRC" in finding.problem


@pytest.mark.parametrize("codec", SEGMENTS)
def test_new_records_are_appended_in_format_v2(open_log: OpenLog, tmp_path: Path, codec: str) -> None:
    put_golden(tmp_path, codec, with_indexes=True)
    log = open_log(log_start_offset=50, **SMALL_INDEX)
    assert log.append(batch_of(b"new", b"newer")).base_offset == 98
    validating = log.validate_in_steps(memoryview(build_message_set([Record(0, NOW_MS, b"k", b"old")], 1)), produce_version=2)
    assert log.append_validated(finished(validating), produce_version=2).base_offset == 100
    log.close()
    log = open_log(clean_shutdown=True, recovery_point=101, **SMALL_INDEX)
    assert [(record.offset, record.value) for record in records_in(log)][-3:] == [(98, b"new"), (99, b"newer"), (100, b"old")]
    assert read_batches(log)[-1].magic == 2
    log.close()


def test_compacted_old_log_has_gaps(open_log: OpenLog, tmp_path: Path) -> None:
    """Compaction keeps inner offsets: those of a v1 set still count from where it began."""
    kept = [Record(offset, NOW_MS + offset, b"%d" % offset, b"v") for offset in (3, 7, 8, 20, 40)]
    data = build_message_set(kept[:3], 1, compression=Compression.GZIP) + build_message_set(kept[3:], 1)
    put(tmp_path, 0, bytes(data))
    log = open_log(cleanup_policy=frozenset({"compact"}))
    assert records_in(log) == kept
    agree(log, kept, times=[record.timestamp for record in kept])


def test_v0_log_has_no_timestamps(open_log: OpenLog, tmp_path: Path) -> None:
    records = [Record(offset, -1, None, b"v%d" % offset) for offset in range(40)]
    put(tmp_path, 0, bytes(build_message_set(records, 0)))
    log = open_log(**SMALL_INDEX)
    assert log.timestamps.max_timestamp_offset() is None
    agree(log, records, times=[0, 1, NOW_MS])
    assert [record.timestamp for record in records_in(log)] == [-1] * 40


@st.composite
def logs(draw: st.DrawFn) -> tuple[list[Record], list[bytes]]:
    """Records, and the entries of all formats that hold them."""
    records: list[Record] = []
    entries: list[bytes] = []
    for _ in range(draw(st.integers(1, 12))):
        magic, codec = draw(st.integers(0, 2)), draw(st.sampled_from(OLD_CODECS))
        timestamps = st.integers(-1, 100) if magic else st.just(-1)
        found = [
            Record(len(records) + index, draw(timestamps), None, draw(st.binary(max_size=60))) for index in range(draw(st.integers(1, 5)))
        ]
        if magic == 2:
            entries.append(bytes(build_batch(found, base_offset=len(records), compression=codec, partition_leader_epoch=0)))
        else:
            data = build_message_set(found, magic, compression=codec)
            entries += [bytes(batch.data) for batch in split_batches(data)]
        records += found
    return records, entries


@given(case=logs(), interval=st.integers(0, 400), clean=st.booleans(), data=st.data())
@examples(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_random_mix_of_formats(open_log: OpenLog, tmp_path: Path, case: tuple[list[Record], list[bytes]], **drawn: Any) -> None:
    records, entries = case
    for path in tmp_path.glob("orders-0/*"):
        path.unlink()
    cut = drawn["data"].draw(st.integers(0, len(entries[-1]) - 1))
    put(tmp_path, 0, b"".join(entries)[: sum(map(len, entries)) - cut])
    if cut:
        lost = next(iter(split_batches(entries[-1])))
        records = [record for record in records if record.offset < lost.base_offset]
    log = open_log(index_interval_bytes=drawn["interval"], clean_shutdown=drawn["clean"] and not cut)
    assert records_in(log) == records
    assert log.log_end_offset == len(records)
    agree(log, records, times=[0, 20, 50, 99, 100])
    log.close()


@st.composite
def keyed_logs(draw: st.DrawFn) -> tuple[list[Record], bytes]:
    """Records with few keys, in entries of all formats."""
    records: list[Record] = []
    data = bytearray()
    for _ in range(draw(st.integers(1, 10))):
        magic, codec = draw(st.integers(0, 2)), draw(st.sampled_from(OLD_CODECS))
        keys, values = st.sampled_from([b"a", b"b", b"c", b"k" * 40, None]), st.sampled_from([b"", b"x", b"value " * 9, None])
        time = NOW_MS if magic else -1
        found = [Record(len(records) + index, time + index, draw(keys), draw(values)) for index in range(draw(st.integers(1, 4)))]
        if not magic:
            found = [record._replace(timestamp=-1) for record in found]
        if magic == 2:
            data += build_batch(found, base_offset=len(records), compression=codec, partition_leader_epoch=0)
        else:
            data += build_message_set(found, magic, compression=codec)
        records += found
    return records, bytes(data)


@given(case=keyed_logs())
@examples(40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_compaction_of_old_formats(open_log: OpenLog, tmp_path: Path, case: tuple[list[Record], bytes]) -> None:
    """The last record of each key stays with its offset and time, whatever format it had; again nothing changes."""
    records, data = case
    for path in tmp_path.glob("orders-0/*"):
        path.unlink()
    put(tmp_path, 0, data)
    put(
        tmp_path, len(records), bytes(build_batch([Record(0, NOW_MS, b"active", b"v")], base_offset=len(records), partition_leader_epoch=0))
    )
    log = open_log(cleanup_policy=frozenset({"compact"}), delete_retention_ms=1000, min_cleanable_dirty_ratio=0.0)
    last = {record.key: record for record in records if record.key is not None}
    expected = sorted(last.values())
    for _ in range(2):
        plan = log.compaction.plan(0, NOW_MS, offset_map_bytes=1 << 20)
        assert plan is not None
        assert log.compaction.swap_in(plan.run(RealFiles()))
        left = [record for record in records_in(log) if record.key != b"active"]
        assert left == expected
        assert log.log_end_offset == len(records) + 1
    agree(log, records_in(log), times=[0, NOW_MS, NOW_MS + 3])
    plan = log.compaction.plan(0, NOW_MS + 1001, offset_map_bytes=1 << 20)
    assert plan is not None
    assert log.compaction.swap_in(plan.run(RealFiles()))
    assert [record for record in records_in(log) if record.key != b"active"] == [each for each in expected if each.value is not None]
    log.close()
    log = open_log(cleanup_policy=frozenset({"compact"}))
    assert [record for record in records_in(log) if record.key != b"active"] == [each for each in expected if each.value is not None]
    log.close()
