"""The walk that sums every CRC meets the batches that the plain walk meets, whatever the chunk size, and names what is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from minibroker.errors import CorruptMessage
from minibroker.records.any_format import split_batches
from minibroker.records.batch import assign_offsets
from minibroker.storage.batch_scan import read_batches, read_verified
from tests.storage.test_batch_scan import files, log_of, old_log, some_batches
from tests.support.log_batches import batch_of


@pytest.mark.parametrize("chunk_size", [64, 100, 5000, 1 << 20, 1 << 24])
def test_every_batch_is_read_once(chunk_size: int, tmp_path: Path) -> None:
    data = b"".join(some_batches())
    handle = log_of(tmp_path, data)
    position, expected = 0, []
    for b in read_batches(files, handle, 0, len(data)):
        head = (position, b.size, b.base_offset, b.last_offset, b.max_timestamp)
        expected.append((*head, b.partition_leader_epoch, b.attributes, b.producer_id, b.record_count, True))
        position += b.size
    assert list(read_verified(files, handle, 0, len(data), chunk_size=chunk_size)) == expected
    start = expected[3][0]
    assert list(read_verified(files, handle, start, len(data), chunk_size=chunk_size)) == expected[3:]
    handle.close()


@pytest.mark.parametrize("tail", [b"\0", bytes(11), bytes(60), bytes(61), bytes(5000), b"\xff" * 100])
@pytest.mark.parametrize("chunk_size", [70, 1 << 20])
def test_invalid_batch_is_reported_with_its_position(tail: bytes, chunk_size: int, tmp_path: Path) -> None:
    batch = bytes(batch_of(b"a"))
    handle = log_of(tmp_path, batch + tail)
    walk = read_verified(files, handle, 0, len(batch + tail), chunk_size=chunk_size)
    assert next(walk)[1] == len(batch)
    with pytest.raises(CorruptMessage, match=rf"0\.log: .*position {len(batch)}"):
        next(walk)
    handle.close()


def test_truncated_file_is_reported_with_its_position(tmp_path: Path) -> None:
    batch = bytes(batch_of(b"a"))
    handle = log_of(tmp_path, batch)
    walk = read_verified(files, handle, 0, 2 * len(batch))
    assert next(walk)[1] == len(batch)
    with pytest.raises(CorruptMessage, match=rf"position {len(batch)}"):
        next(walk)
    handle.close()


def test_each_flipped_byte_after_the_crc_is_detected(tmp_path: Path) -> None:
    first, second = bytearray(batch_of(b"a")), bytearray(batch_of(b"b"))
    assign_offsets(memoryview(second), 1, 0)
    for position in range(17, len(first)):
        damaged = bytearray(first)
        damaged[position] ^= 4
        handle = log_of(tmp_path, bytes(damaged + second))
        assert [batch[-1] for batch in read_verified(files, handle, 0, len(first + second))] == [False, True]
        handle.close()


@pytest.mark.parametrize("chunk_size", [61, 100, 150, 400, 1 << 20])
def test_old_formats_between_batches(tmp_path: Path, chunk_size: int) -> None:
    """Plain messages, compressed sets and batches in turn, and one of them with a wrong CRC."""
    data = bytearray(old_log() * 3)
    batches = list(split_batches(bytes(data)))
    wrong = len(batches) - 4
    data[sum(batch.size for batch in batches[: wrong + 1]) - 1] ^= 1
    handle = log_of(tmp_path, bytes(data))
    found = list(read_verified(files, handle, 0, len(data), chunk_size=chunk_size))
    position = 0
    for number, (batch, scanned) in enumerate(zip(batches, found, strict=True)):
        assert scanned[:2] == (position, batch.size)
        assert scanned[-1] == (number != wrong)
        if number != wrong:
            described = batch.base_offset, batch.last_offset, batch.max_timestamp, batch.partition_leader_epoch, batch.attributes
            assert scanned[2:9] == (*described, batch.producer_id, batch.record_count)
        position += batch.size
    handle.close()
