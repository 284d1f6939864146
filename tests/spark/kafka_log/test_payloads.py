"""Payloads behind one another in a buffer, against records/compression.py: the same bytes, the same refusals."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lz4 import frame

pytest.importorskip("pyarrow")

from minibroker.errors import InvalidRecord
from minibroker.records.compression import Compression, compress, decompress
from minibroker.spark.kafka_log import decoder
from minibroker.spark.kafka_log.decoder import BLOCK_BYTES, GROUP_BYTES, KEPT_BYTES, PayloadBuffer, block_bytes, plain_blocks
from tests.support.soak import examples

SIZES = [1, 100, 65_535, 65_536, 65_537, 300_000, 5_000_000]


def contents(buffer: PayloadBuffer) -> list[bytes]:
    return [buffer.data[start:stop].tobytes() for start, stop in zip(buffer.starts, buffer.stops, strict=True)]


def content_of(size: int, *, is_random: bool = False) -> bytes:
    rng = random.Random(size)
    return rng.randbytes(size) if is_random else b"%d word " % rng.randrange(1000) * (size // 9) + b"." * (size % 9)


@pytest.mark.parametrize("codec", list(Compression))
def test_payloads_of_all_codecs_and_sizes(codec: Compression) -> None:
    """Larger ones than the buffer was, and what no codec makes smaller (blocks that are not compressed); between others each."""
    buffer = PayloadBuffer()
    expected = []
    for size in SIZES:
        for content in (content_of(size), content_of(size, is_random=True)):
            packed = compress(codec, content)
            buffer.append(codec, b"before" + packed + b"behind", 6, 6 + len(packed))
            expected.append(content)
    assert contents(buffer) == expected
    assert (buffer.is_full, len(buffer.data) > KEPT_BYTES) == (True, True)
    buffer.clear()
    assert (buffer.is_full, len(buffer.data) < 2 * GROUP_BYTES) == (False, True)


@pytest.mark.parametrize("block_size", [4, 5, 6, 7])
@pytest.mark.parametrize("options", [{}, {"block_linked": False}, {"content_checksum": True}, {"block_checksum": True}], ids=str)
def test_lz4_frames_of_every_kind(block_size: int, options: dict[str, bool]) -> None:
    content = content_of(700_000)
    for store_size in (False, True):
        packed = frame.compress(content, block_size=block_size, store_size=store_size, **options)
        if options:  # without any, the library takes independent blocks where one is enough
            assert (block_bytes(packed, 0) > 0) == ("block_linked" in options and not store_size)
        buffer = PayloadBuffer()
        buffer.append(Compression.LZ4, packed, 0, len(packed))
        assert contents(buffer) == [content]


def test_headers_of_plain_frames_have_right_checksums() -> None:
    for header in BLOCK_BYTES:
        assert frame.decompress(header + bytes(4)) == b""


@examples(300)
@given(data=st.data())
def test_damaged_frames(data: st.DataObject) -> None:
    """A byte changed, cut out or put in: the same content, or refused as ever, and what was there before stays."""
    content = content_of(data.draw(st.sampled_from([3, 200, 70_000])), is_random=data.draw(st.booleans()))
    packed = bytearray(compress(Compression.LZ4, content))
    position = data.draw(st.one_of(st.integers(0, 40), st.integers(0, len(packed) - 1))) % len(packed)
    match data.draw(st.sampled_from(["change", "cut", "insert", "end"])):
        case "change":
            packed[position] ^= data.draw(st.integers(1, 255))
        case "cut":
            del packed[position]
        case "insert":
            packed.insert(position, data.draw(st.integers(0, 255)))
        case "end":
            del packed[position:]
    buffer = PayloadBuffer()
    buffer.append(Compression.NONE, b"before", 0, 6)
    try:
        expected = decompress(Compression.LZ4, packed)
    except InvalidRecord:
        with pytest.raises(InvalidRecord):
            buffer.append(Compression.LZ4, bytes(packed), 0, len(packed))
        assert contents(buffer) == [b"before"]
    else:
        buffer.append(Compression.LZ4, bytes(packed), 0, len(packed))
        assert contents(buffer) == [b"before", expected]


def test_usual_frames_take_the_short_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoder, "decompress", None)
    packed = compress(Compression.LZ4, content_of(200_000))
    assert len(plain_blocks(packed, 0, len(packed))) == 4
    buffer = PayloadBuffer()
    buffer.append(Compression.LZ4, packed, 0, len(packed))
    assert contents(buffer) == [content_of(200_000)]
