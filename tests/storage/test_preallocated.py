"""Index files as a running Apache Kafka has them: 10 MB, of which little was ever written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from minibroker.storage.files import RealFiles, read_preallocated
from minibroker.storage.indexes import OffsetIndex
from tests.support.faulty_files import FaultyFiles

SIZE = 10 << 20


@pytest.mark.parametrize("chunk_size", [100, 4096, 1 << 17])
@pytest.mark.parametrize("written", [0, 1, 4096, 5000, 300_000])
def test_reading_skips_the_hole(written: int, chunk_size: int, tmp_path: Path) -> None:
    path = tmp_path / "0.index"
    content = os.urandom(written)
    path.write_bytes(content)
    os.truncate(path, SIZE)
    files = FaultyFiles()
    data, size = read_preallocated(files, str(path), chunk_size=chunk_size)
    assert (bytes(data).rstrip(b"\0"), size) == (content.rstrip(b"\0"), SIZE)
    assert len(data) < written + max(chunk_size, 4096) + 4096


def test_bytes_after_a_hole_are_read(tmp_path: Path) -> None:
    path = tmp_path / "0.index"
    path.write_bytes(b"a")
    with path.open("r+b") as file:
        file.seek(5 << 20)
        file.write(b"z")
    assert read_preallocated(RealFiles(), str(path)) == (bytearray(path.read_bytes()), (5 << 20) + 1)


def test_entries_of_a_preallocated_index(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.index"
    index = OffsetIndex(RealFiles(), str(path), 0, SIZE, is_new=True)
    for number in range(1, 40_000):
        index.append(number, number * 4096)
    index.save()
    os.truncate(path, SIZE)
    again = OffsetIndex(RealFiles(), str(path), 0, SIZE)
    assert (again.entries(), again.is_damaged) == (index.entries(), False)
    again.save()
    assert path.stat().st_size == 39_999 * 8  # ours are as long as their entries
