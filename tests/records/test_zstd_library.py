"""The standard library's zstd, which replaces zstandard where that is not installed. Needs Python 3.14."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from minibroker.errors import InvalidRecord
from minibroker.records.codecs import zstd
from minibroker.records.codecs.zstd_library import find_library, from_standard_library
from minibroker.records.compression import PIECE_BYTES, Compression, compress, decompress, decompressed_pieces

pytest.importorskip("compression.zstd")

CONTENTS = [b"", b"x", b"the quick brown fox " * 50_000, os.urandom(300_000)]


@pytest.fixture(autouse=True)
def standard_library(monkeypatch: pytest.MonkeyPatch) -> None:
    library = from_standard_library()
    monkeypatch.setattr(zstd, "_library", library)
    monkeypatch.setattr(zstd, "_ERRORS", (ValueError, IndexError, library.error))


@pytest.mark.parametrize("content", CONTENTS, ids=["empty", "byte", "text", "random"])
@pytest.mark.parametrize("level", [None, -5, 22])
def test_it_reads_what_either_library_wrote(content: bytes, level: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = compress(Compression.ZSTD, content, level)
    assert decompress(Compression.ZSTD, packed, max_bytes=len(content)) == content
    assert decompress(Compression.ZSTD, packed + packed) == content * 2

    monkeypatch.setattr(zstd, "_library", find_library())
    assert decompress(Compression.ZSTD, packed) == content
    packed = compress(Compression.ZSTD, content, level)
    monkeypatch.undo()
    assert decompress(Compression.ZSTD, packed) == content


def test_truncated_damaged_and_too_large_frames_are_refused() -> None:
    packed = compress(Compression.ZSTD, CONTENTS[2])
    for end in range(0, len(packed), 7):
        with pytest.raises(InvalidRecord):
            decompress(Compression.ZSTD, packed[:end] if end else packed[:1])
    with pytest.raises(InvalidRecord):
        decompress(Compression.ZSTD, packed, max_bytes=len(CONTENTS[2]) - 1)
    with pytest.raises(InvalidRecord):
        decompress(Compression.ZSTD, packed + b"x")


def test_a_frame_without_a_size_is_bounded_and_comes_in_pieces() -> None:
    blocks = 200  # RLE blocks of 128 KiB in four bytes, in a window of 128 KiB
    bomb = b"\x28\xb5\x2f\xfd\x00\x38" + b"\x02\x00\x10a" * (blocks - 1) + b"\x03\x00\x10a"

    pieces = [len(piece) for piece in decompressed_pieces(Compression.ZSTD, bomb, max_bytes=blocks << 17)]
    assert sum(pieces) == blocks << 17
    assert max(pieces) <= PIECE_BYTES
    assert decompress(Compression.ZSTD, bomb, max_bytes=blocks << 17) == b"a" * (blocks << 17)
    for bound in (0, 1, PIECE_BYTES, (blocks << 17) - 1):
        with pytest.raises(InvalidRecord):
            decompress(Compression.ZSTD, bomb, max_bytes=bound)


def test_it_is_used_where_zstandard_is_not_installed() -> None:
    code = """
import sys
sys.modules["zstandard"] = None
from minibroker.records.compression import Compression, compress, decompress
assert decompress(Compression.ZSTD, compress(Compression.ZSTD, b"content")) == b"content"
print(*(name for name in ("zstandard", "compression.zstd") if sys.modules.get(name)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["compression.zstd"]
