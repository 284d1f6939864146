"""What readers of before format v2 are given: converted batch by batch, within their limit, past what converts to nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from minibroker.clock import ManualClock
from minibroker.errors import CorruptMessage, OffsetOutOfRange, UnsupportedCompressionType
from minibroker.log.log_config import LogConfig
from minibroker.log.old_readers import CONVERTED_BYTES, CONVERTED_COUNT, LongConversion, read_messages
from minibroker.log.partition_log import PartitionLog
from minibroker.log.results import IsolationLevel
from minibroker.records.any_format import decode_records, split_batches
from minibroker.records.batch import RecordBatch
from minibroker.records.builder import build_batch
from minibroker.records.compression import Compression
from minibroker.records.control import ControlType, EndTransactionMarker, build_end_transaction_batch
from minibroker.records.legacy import build_message_set
from minibroker.records.record import Record
from minibroker.records.steps import finished
from minibroker.storage.files import RealFiles
from minibroker.wire.schema import Buffer
from tests.log.conftest import OpenLog
from tests.support.broker_in_memory import records
from tests.support.soak import examples

UNCOMMITTED = IsolationLevel.READ_UNCOMMITTED
OLD_CODECS = [Compression.NONE, Compression.GZIP, Compression.SNAPPY, Compression.LZ4]


def append(log: PartitionLog, batch: bytes | bytearray) -> None:
    log.append(memoryview(bytearray(batch)))


def append_marker(log: PartitionLog) -> None:
    marker = EndTransactionMarker(ControlType.COMMIT, 0)
    data = build_end_transaction_batch(marker, timestamp=log._clock.now_ms(), producer_id=log.log_end_offset, producer_epoch=0)
    log._append_batch(RecordBatch(data))


def read(log: PartitionLog, offset: int, max_bytes: int = 1 << 20, *, magic: int = 1, min_one: bool = True) -> bytes:
    return read_messages(log, offset, max_bytes, magic=magic, isolation=UNCOMMITTED, min_one=min_one)


def records_of(data: Buffer) -> list[Record]:
    return [record for batch in split_batches(data) for record in decode_records(batch)]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", OLD_CODECS)
def test_down_conversion_keeps_offsets_and_supported_fields(open_log: OpenLog, codec: Compression, magic: int) -> None:
    log = open_log()
    for _ in range(3):
        append(log, records(4, compression=codec))
    stored = records_of(log.read(0, 1 << 20, isolation=UNCOMMITTED))
    data = read(log, 0, magic=magic)
    assert {batch.magic for batch in split_batches(data)} == {magic}
    assert {batch.compression for batch in split_batches(data)} == {codec}
    assert records_of(data) == [record._replace(timestamp=record.timestamp if magic else -1) for record in stored]


@pytest.mark.parametrize("offset", range(9))
def test_reads_from_any_offset(open_log: OpenLog, offset: int) -> None:
    log = open_log()
    for codec in (Compression.NONE, Compression.GZIP, Compression.NONE):
        append(log, records(3, compression=codec))
    found = [record.offset for record in records_of(read(log, offset))]
    # A compressed set is given whole, and its reader passes over what it did not ask for.
    assert found == list(range(3 if offset in {4, 5} else offset, 9))


def test_reads_at_and_past_the_log_end(open_log: OpenLog) -> None:
    log = open_log()
    append(log, records(2))
    assert read(log, 2) == b""
    with pytest.raises(OffsetOutOfRange):
        read(log, 3)


def test_max_bytes_applies_to_converted_data(open_log: OpenLog) -> None:
    """100 records of 10 bytes take 45 bytes each in v1 and 17 in v2."""
    log = open_log()
    for _ in range(10):
        append(log, records(100))
    stored = len(log.read(0, 1 << 20, isolation=UNCOMMITTED))
    whole = len(read(log, 0))
    assert whole > 2 * stored
    data = read(log, 0, stored)
    assert stored * 0.7 < len(data) <= stored
    assert len(records_of(data)) % 100 == 0


def test_long_conversions_are_split(open_log: OpenLog) -> None:
    log = open_log()
    for _ in range(10):
        append(log, records(500, compression=Compression.GZIP))
    assert len(records_of(read(log, 0))) == CONVERTED_COUNT
    large = [Record(i, log._clock.now_ms(), None, b"x" * 1000) for i in range(50)]
    start = log.log_end_offset
    for _ in range(10):
        append(log, build_batch(large))
    assert CONVERTED_BYTES * 0.5 < len(read(log, start)) <= CONVERTED_BYTES
    append(log, records(CONVERTED_COUNT + 1))
    with pytest.raises(LongConversion) as long:
        read(log, log.log_end_offset - 1 - CONVERTED_COUNT)
    assert len(records_of(finished(long.value.steps))) == CONVERTED_COUNT


@pytest.mark.parametrize("max_bytes", [0, 1, 100, 1000])
def test_at_least_one_batch_is_returned(open_log: OpenLog, max_bytes: int) -> None:
    log = open_log()
    append(log, records(100))
    append(log, records(100))
    assert len(records_of(read(log, 0, max_bytes))) == 100
    assert read(log, 0, max_bytes, min_one=False) == b""


def test_control_batches_are_skipped(open_log: OpenLog) -> None:
    log = open_log()
    append(log, records(2))
    for _ in range(5):
        append_marker(log)
    append(log, records(1))
    append_marker(log)
    assert [record.offset for record in records_of(read(log, 0))] == [0, 1, 7]
    assert [record.offset for record in records_of(read(log, 2, 1))] == [7]  # read on, or its reader would ask for 2 for ever
    assert read(log, 8) == b""


def test_reads_continue_in_the_next_segment(open_log: OpenLog) -> None:
    log = open_log()
    append(log, records(1))
    append_marker(log)
    log._roll()
    append(log, records(1))
    assert [record.offset for record in records_of(read(log, 1))] == [2]


@pytest.mark.parametrize("magic", [0, 1])
def test_zstd_batch_stops_the_read(open_log: OpenLog, magic: int) -> None:
    log = open_log()
    for codec in (Compression.NONE, Compression.ZSTD, Compression.NONE):
        append(log, records(2, compression=codec))
    assert [record.offset for record in records_of(read(log, 0, magic=magic))] == [0, 1]
    with pytest.raises(UnsupportedCompressionType):
        read(log, 2, magic=magic)
    assert [record.offset for record in records_of(read(log, 4, magic=magic))] == [4, 5]


def test_wrong_crc_is_not_replaced_by_a_valid_one(open_log: OpenLog) -> None:
    log = open_log()
    append(log, records(1))
    append(log, records(1))
    with open(log.segments.active.log.path, "r+b") as file:  # noqa: PTH123
        file.seek(-1, 2)
        last = file.read(1)
        file.seek(-1, 2)
        file.write(bytes([last[0] ^ 1]))
    assert [record.offset for record in records_of(read(log, 0))] == [0]
    with pytest.raises(CorruptMessage):
        read(log, 1)


@pytest.mark.parametrize("stored", [0, 1])
@pytest.mark.parametrize("codec", OLD_CODECS)
def test_old_format_batches_are_returned_unchanged(open_log: OpenLog, tmp_path: Path, codec: Compression, stored: int) -> None:
    """To a reader that knows its format; converted to one that does not."""
    folder = tmp_path / "orders-0"
    folder.mkdir()
    now_ms = ManualClock().now_ms()
    sets = [
        build_message_set([Record(3 * i + k, now_ms + k, b"k", b"v%d" % k) for k in range(3)], stored, compression=codec) for i in range(3)
    ]
    (folder / f"{0:020}.log").write_bytes(b"".join(sets))
    log = open_log()
    append(log, records(2))
    assert read(log, 0, magic=1)[: sum(map(len, sets))] == b"".join(sets)
    found = records_of(read(log, 0, magic=0))
    assert {batch.magic for batch in split_batches(read(log, 0, magic=0))} == {0}
    assert [(record.offset, record.timestamp) for record in found] == [(offset, -1) for offset in range(11)]
    assert [record.value for record in found[:9]] == [b"v0", b"v1", b"v2"] * 3


KINDS = st.sampled_from(["none", "gzip", "lz4", "marker", "roll", "large"])


@examples(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(KINDS, st.integers(1, 12)), min_size=1, max_size=12),
    st.integers(0, 40),
    st.sampled_from([0, 50, 300, 1000, 5000]),
    st.sampled_from([0, 1]),
)
def test_sequential_reads_return_every_record_once(
    tmp_path_factory: pytest.TempPathFactory, parts: list[tuple[str, int]], first: int, max_bytes: int, magic: int
) -> None:
    log = PartitionLog.open(tmp_path_factory.mktemp("log") / "orders-0", config=LogConfig(), files=RealFiles(), clock=ManualClock())
    written: list[int] = []
    for kind, count in parts:
        if kind == "marker":
            append_marker(log)
        elif kind == "roll":
            if log.segments.active.size:
                log._roll()
        else:
            written += range(log.log_end_offset, log.log_end_offset + count)
            value = b"x" * (400 if kind == "large" else 1)
            codec = Compression.NONE if kind == "large" else Compression.from_name(kind)
            append(log, build_batch([Record(i, ManualClock().now_ms(), None, value) for i in range(count)], compression=codec))
    offset = first = min(first, log.log_end_offset)
    seen: list[int] = []
    while data := read(log, offset, max_bytes, magic=magic):
        found = [record.offset for record in records_of(data) if record.offset >= offset]
        assert found, "its reader would ask again for ever"
        seen += found
        offset = found[-1] + 1
    assert seen == [each for each in written if each >= first]
    log.close()
