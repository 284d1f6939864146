"""Walks over a `.log`: the same batches whatever the chunk size; the position of what is none."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from minibroker.errors import CorruptMessage
from minibroker.records.any_format import split_batches
from minibroker.records.batch import assign_offsets
from minibroker.records.builder import build_batch
from minibroker.records.compression import Compression
from minibroker.records.control import ControlType, EndTransactionMarker, build_end_transaction_batch
from minibroker.records.legacy import build_message_set
from minibroker.records.record import Record
from minibroker.storage.batch_scan import read_batches, read_headers, read_transactional
from minibroker.storage.files import APPEND, FileHandle, RealFiles
from minibroker.storage.segment import Segment
from tests.support.log_batches import batch_of

files = RealFiles()


def log_of(folder: Path, data: bytes) -> FileHandle:
    path = folder / "0.log"
    path.write_bytes(data)
    return files.handles.handle(str(path), APPEND)


def some_batches() -> list[bytes]:
    rng = random.Random(3)
    batches = []
    offset = 0
    for size in [1, 5000, 70, 3, 200_000, 64, 1_300_000, 12]:
        batch = batch_of(rng.randbytes(size), b"x")
        assign_offsets(batch, offset, 4)
        offset += 2
        batches.append(bytes(batch))
    return batches


@pytest.mark.parametrize("chunk_size", [64, 100, 5000, 1 << 20, 1 << 24])
def test_every_batch_is_read_once(chunk_size: int, tmp_path: Path) -> None:
    batches = some_batches()
    data = b"".join(batches)
    handle = log_of(tmp_path, data)
    whole = list(read_batches(files, handle, 0, len(data), chunk_size=chunk_size))
    assert [bytes(batch.data) for batch in whole] == batches
    headers = list(read_headers(files, handle, 0, len(data), chunk_size=chunk_size))
    assert [(h.size, h.base_offset, h.last_offset, h.max_timestamp, h.leader_epoch) for h in headers] == [
        (b.size, b.base_offset, b.last_offset, b.max_timestamp, 4) for b in whole
    ]
    assert [header.position for header in headers] == [sum(map(len, batches[:index])) for index in range(len(batches))]
    handle.close()


def test_headers_of_a_segment_are_read_as_they_are_needed(tmp_path: Path) -> None:
    data = bytes(batch_of(b"first")) + bytes(100)
    (tmp_path / "00000000000000000000.log").write_bytes(data)
    segment = Segment(files, str(tmp_path), 0, size=len(data), index_interval_bytes=4096, index_max_bytes=1 << 20)
    headers = iter(segment.headers_from(0))
    assert next(headers).last_offset == 0
    with pytest.raises(CorruptMessage):
        next(headers)
    segment.release()


@pytest.mark.parametrize("chunk_size", [64, 100, 5000, 1 << 20])
def test_only_transactional_batches_are_read(chunk_size: int, tmp_path: Path) -> None:
    """Between batches of others, and messages of old formats."""
    owned = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
    marker = build_end_transaction_batch(EndTransactionMarker(ControlType.ABORT, 0), timestamp=1, producer_id=7, producer_epoch=0)
    batches = [*some_batches(), bytes(batch_of(b"x" * 900, **owned)), bytes(marker), some_batches()[4], bytes(batch_of(b"y", **owned))]
    batches.insert(3, bytes(build_message_set([Record(6, 1, b"k", b"old" * 50)], 0)))
    data = b"".join(batches)
    found = list(read_transactional(files, log_of(tmp_path, data), 0, len(data), chunk_size=chunk_size))
    assert [data[each.position : each.position + each.size] for each in found] == [batches[9], batches[10], batches[12]]
    assert [(each.producer_id, each.is_control, each.base_offset) for each in found] == [(7, False, 0), (7, True, 0), (7, False, 0)]


@pytest.mark.parametrize("tail", [b"\0", bytes(11), bytes(60), bytes(61), bytes(5000), b"\xff" * 100])
def test_invalid_batch_is_reported_with_its_position(tail: bytes, tmp_path: Path) -> None:
    batch = bytes(batch_of(b"a"))
    handle = log_of(tmp_path, batch + tail)
    walks: list[Iterator[Any]] = [walk(files, handle, 0, len(batch + tail)) for walk in (read_batches, read_headers)]
    for walked in walks:
        assert next(walked).size == len(batch)
        with pytest.raises(CorruptMessage, match=rf"0\.log: .*position {len(batch)}"):
            next(walked)
    handle.close()


def test_excessive_batch_length_does_not_read_past_the_file(tmp_path: Path) -> None:
    batch = bytearray(batch_of(b"a"))
    batch[8:12] = (2**31 - 1).to_bytes(4, "big")
    handle = log_of(tmp_path, bytes(batch) * 3)
    for walk in (read_batches, read_headers):
        with pytest.raises(CorruptMessage):
            list(walk(files, handle, 0, 3 * len(batch)))
    handle.close()


def old_log() -> bytes:
    """Messages of 26 bytes and more, compressed sets, and a batch between them."""
    untimed = [Record(index, -1, None, None) for index in range(3)]
    timed = [Record(index, 1000 + index, b"key", b"value" * index) for index in range(3, 6)]
    return b"".join(
        bytes(part)
        for part in (
            build_message_set(untimed, 0),
            build_message_set(timed, 1),
            build_message_set([record._replace(offset=record.offset + 3) for record in timed], 1, compression=Compression.GZIP),
            build_batch([Record(9, 5, None, b"new")], base_offset=9, partition_leader_epoch=2),
            build_message_set([record._replace(offset=record.offset + 10) for record in untimed], 0, compression=Compression.LZ4),
            build_message_set([untimed[0]._replace(offset=13)], 0),
        )
    )


OLD_OFFSETS = [0, 1, 2, 3, 4, 5, 8, 9, 12, 13]


@pytest.mark.parametrize("chunk_size", [43, 61, 70, 100, 150, 4096])
def test_old_formats_are_read_like_batches(tmp_path: Path, chunk_size: int) -> None:
    data = old_log()
    handle = log_of(tmp_path, data)
    headers = list(read_headers(files, handle, 0, len(data), chunk_size=chunk_size))
    batches = list(read_batches(files, handle, 0, len(data), chunk_size=chunk_size))
    assert [header.last_offset for header in headers] == [batch.last_offset for batch in batches] == OLD_OFFSETS
    assert [header.max_timestamp for header in headers] == [batch.max_timestamp for batch in batches]
    assert [header.size for header in headers] == [batch.size for batch in batches]
    assert [header.position + header.size for header in headers][-1] == len(data)
    assert [header.leader_epoch for header in headers] == [-1] * 7 + [2] + [-1] * 2
    assert all(batch.check_crc() for batch in batches)
    assert b"".join(bytes(batch.data) for batch in batches) == data
    handle.close()


def test_torn_old_message_stops_the_scan(tmp_path: Path) -> None:
    data = old_log()
    ends = [0]
    for batch in split_batches(data):
        ends.append(ends[-1] + batch.size)
    for end in range(1, len(data)):
        handle = log_of(tmp_path, data[:end])
        for walk in (read_headers, read_batches):
            found: list[int] = []
            if end in ends:
                found = [each.size for each in walk(files, handle, 0, end)]
            else:
                with pytest.raises(CorruptMessage, match="position"):
                    found.extend(each.size for each in walk(files, handle, 0, end))
            assert sum(found) == max(known for known in ends if known <= end)
        handle.close()


@pytest.mark.parametrize("field", [(8, bytes(4)), (8, b"\x7f\xff\xff\xff"), (16, b"\x03"), (16, b"\xff")])
def test_invalid_headers_of_old_messages(tmp_path: Path, field: tuple[int, bytes]) -> None:
    data = bytearray(build_message_set([Record(0, 5, b"key", b"value " * 9)], 1))
    position, lie = field
    data[position : position + len(lie)] = lie
    handle = log_of(tmp_path, bytes(data))
    with pytest.raises(CorruptMessage):
        list(read_headers(files, handle, 0, len(data)))
    handle.close()
