"""Walks over a `.log`: the same batches whatever the chunk size; the position of what is none."""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from minibroker.errors import CorruptMessage, UnsupportedForMessageFormat
from minibroker.records.batch import assign_offsets
from minibroker.storage.batch_scan import read_batches, read_headers
from minibroker.storage.files import APPEND, FileHandle, RealFiles
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
def test_every_batch_is_met_once(chunk_size: int, tmp_path: Path) -> None:
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


@pytest.mark.parametrize("tail", [b"\0", bytes(11), bytes(60), bytes(61), bytes(5000), b"\xff" * 100])
def test_what_is_no_batch_is_named(tail: bytes, tmp_path: Path) -> None:
    batch = bytes(batch_of(b"a"))
    handle = log_of(tmp_path, batch + tail)
    walks: list[Iterator[Any]] = [walk(files, handle, 0, len(batch + tail)) for walk in (read_batches, read_headers)]
    for walked in walks:
        assert next(walked).size == len(batch)
        with pytest.raises(CorruptMessage, match=rf"0\.log: .*position {len(batch)}"):
            next(walked)
    handle.close()


def test_a_length_that_lies_reads_no_further_than_the_file(tmp_path: Path) -> None:
    batch = bytearray(batch_of(b"a"))
    batch[8:12] = (2**31 - 1).to_bytes(4, "big")
    handle = log_of(tmp_path, bytes(batch) * 3)
    for walk in (read_batches, read_headers):
        with pytest.raises(CorruptMessage):
            list(walk(files, handle, 0, 3 * len(batch)))
    handle.close()


def test_an_old_format_is_told_from_damage(tmp_path: Path) -> None:
    body = bytes([1, 0]) + bytes(8) + (-1).to_bytes(4, "big", signed=True) + (60).to_bytes(4, "big") + bytes(60)
    message = bytes(8) + (len(body) + 4).to_bytes(4, "big") + zlib.crc32(body).to_bytes(4, "big") + body
    handle = log_of(tmp_path, message)
    with pytest.raises(UnsupportedForMessageFormat):
        list(read_batches(files, handle, 0, len(message)))
    handle.close()
    handle = log_of(tmp_path, message[:-1] + b"x")
    with pytest.raises(CorruptMessage):
        list(read_batches(files, handle, 0, len(message)))
    handle.close()
