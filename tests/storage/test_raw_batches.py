"""The walk of compaction: every batch of every format, whatever piece of the file it crosses, and nothing that is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from minibroker.errors import CorruptMessage
from minibroker.records.any_format import decode_records, split_batches
from minibroker.records.builder import build_batch
from minibroker.records.compression import Compression
from minibroker.records.record import Record
from minibroker.storage import raw_batches
from minibroker.storage.files import READ_ONLY, RealFiles
from minibroker.storage.raw_batches import RawBatch, read_raw
from tests.golden.captures.legacy import legacy_golden


def batch_at(offset: int, size: int, codec: Compression = Compression.NONE) -> bytes:
    records = [Record(0, 1_700_000_000_000, b"k", bytes([offset % 251]) * size)]
    return bytes(build_batch(records, base_offset=offset, compression=codec))


def read(path: Path, size: int | None = None) -> list[tuple[int, int, bytes]]:
    """Position, last offset and bytes of each batch."""
    files = RealFiles()
    descriptor = files.open(str(path), READ_ONLY)
    try:
        batches = read_raw(files, descriptor, path.stat().st_size if size is None else size, path.name)
        return [(batch.position, batch.last_offset, bytes(batch.data)) for batch in batches]
    finally:
        files.close(descriptor)


@pytest.mark.parametrize("chunk_bytes", [61, 100, 333, 1 << 20])
def test_batches_of_all_sizes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk_bytes: int) -> None:
    monkeypatch.setattr(raw_batches, "CHUNK_BYTES", chunk_bytes)
    written = [batch_at(index, size) for index, size in enumerate((0, 300, 10, 0, 5000, 1, 90, 99, 100, 101, 2000, 0))]
    path = tmp_path / "0.log"
    path.write_bytes(b"".join(written))
    found = read(path)
    assert [data for _, _, data in found] == written
    assert [last_offset for _, last_offset, _ in found] == list(range(len(written)))
    assert [position for position, _, _ in found] == [sum(map(len, written[:index])) for index in range(len(written))]


@pytest.mark.parametrize("codec", list(Compression))
def test_records_of_all_codecs(tmp_path: Path, codec: Compression) -> None:
    data = batch_at(5, 1000, codec)
    batch = RawBatch(b"xx" + data, 2, 0, "0.log")
    payload, start, stop = batch.records()
    assert payload[start:stop] == batch_at(5, 1000)[61:]
    with pytest.raises(CorruptMessage, match=r"0\.log, position 7: the CRC is wrong"):
        RawBatch(data[:-1] + bytes([data[-1] ^ 1]), 0, 7, "0.log").records()


def segments() -> list[bytes]:
    """Whole segments that Apache Kafka wrote in the old formats."""
    return [bytes.fromhex(entry["log"]) for entry in legacy_golden() if entry["kind"] == "segment"]


@pytest.mark.parametrize("chunk_bytes", [61, 1 << 20])
def test_mixed_old_and_new_formats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk_bytes: int) -> None:
    monkeypatch.setattr(raw_batches, "CHUNK_BYTES", chunk_bytes)
    for segment in segments():
        path = tmp_path / "0.log"
        path.write_bytes(batch_at(0, 10) + segment + batch_at(9, 10) + segment)
        expected = list(split_batches(path.read_bytes()))
        assert [data for _, _, data in read(path)] == [bytes(batch.data) for batch in expected]
        files = RealFiles()
        descriptor = files.open(str(path), READ_ONLY)
        records = [list(decode_records(raw.checked())) for raw in read_raw(files, descriptor, path.stat().st_size, "0.log")]
        assert records == [list(decode_records(batch)) for batch in expected]
        files.close(descriptor)


@pytest.mark.parametrize("less", [1, 30, 61, 62, 80])
def test_torn_last_batch(tmp_path: Path, less: int) -> None:
    path = tmp_path / "0.log"
    path.write_bytes(batch_at(0, 50) + batch_at(1, 50)[:-less])
    with pytest.raises(CorruptMessage, match=rf"0\.log, position {len(batch_at(0, 50))}"):
        read(path)


def test_file_shorter_than_expected(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    path.write_bytes(batch_at(0, 50))
    with pytest.raises(CorruptMessage):
        read(path, size=1000)


@pytest.mark.parametrize("position", [8, 16])
def test_invalid_batch_header(tmp_path: Path, position: int) -> None:
    data = bytearray(batch_at(0, 50) + batch_at(1, 50))
    data[len(batch_at(0, 50)) + position] = 0xFF
    path = tmp_path / "0.log"
    path.write_bytes(data)
    with pytest.raises(CorruptMessage, match="not a batch"):
        read(path)
