from __future__ import annotations

import gc
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minibroker.errors import InvalidRecord
from minibroker.records.compression import AT_ONCE_BYTES, PIECE_BYTES, Compression, compress, decompress, decompressed_pieces, parts_max
from tests.support.opcodes import count_opcodes
from tests.support.payload_attacks import MANY_PARTS, gzip_of_large_names, zeros
from tests.support.soak import examples

CODECS = [codec for codec in Compression if codec]
MIB = 1024 * 1024


def refused(kind: Compression, payload: bytes, max_bytes: int = 100 * MIB) -> str:
    with pytest.raises(InvalidRecord) as raised:
        decompress(kind, payload, max_bytes=max_bytes)
    return str(raised.value)


def peak_bytes_of(kind: Compression, payload: bytes) -> int:
    gc.collect()
    tracemalloc.start()
    try:
        assert len(decompress(kind, payload)) == 32 * MIB
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", MANY_PARTS)
def test_many_empty_parts_are_refused_in_bounded_time(name: str) -> None:
    kind, make = MANY_PARTS[name]
    payload = make(400_000)

    assert "more than" in refused(kind, payload)
    assert count_opcodes(lambda: refused(kind, payload)) < 250 * parts_max(len(payload))


@pytest.mark.parametrize("name", MANY_PARTS)
def test_allowed_number_of_parts_is_read(name: str) -> None:
    kind, make = MANY_PARTS[name]
    size = 10_000
    assert decompress(kind, make(size)) == b""


def test_gzip_members_are_decompressed_in_linear_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library copies what it is fed and does not consume: with all members at once, the square of their number."""
    import zlib

    fed = 0

    class Counting:
        def __init__(self, wbits: int) -> None:
            self.stream = real(wbits)

        def decompress(self, data: memoryview, max_length: int) -> bytes:
            nonlocal fed
            fed += len(data)
            return self.stream.decompress(data, max_length)

        def __getattr__(self, name: str) -> object:
            return getattr(self.stream, name)

    real = zlib.decompressobj
    monkeypatch.setattr(zlib, "decompressobj", Counting)
    member = compress(Compression.GZIP, b"content " * 40)
    payload = member * 3_000

    assert decompress(Compression.GZIP, payload) == b"content " * 40 * 3_000
    assert fed < 20 * len(payload) + AT_ONCE_BYTES


@pytest.mark.parametrize("kind", CODECS)
def test_large_content_is_in_memory_once(kind: Compression) -> None:
    assert peak_bytes_of(kind, zeros(kind, 32 * MIB)) < 38 * MIB


@pytest.mark.parametrize("kind", [Compression.GZIP, Compression.LZ4, Compression.ZSTD])
def test_decompressing_in_pieces_uses_little_memory(kind: Compression) -> None:
    payload = zeros(kind, 32 * MIB)
    list(decompressed_pieces(kind, payload, max_bytes=32 * MIB))
    gc.collect()
    tracemalloc.start()
    try:
        assert sum(len(piece) for piece in decompressed_pieces(kind, payload, max_bytes=32 * MIB)) == 32 * MIB
        assert tracemalloc.get_traced_memory()[1] < 8 * PIECE_BYTES
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("kind", CODECS)
def test_bomb_is_refused_before_its_content_is_decompressed(kind: Compression) -> None:
    payload = zeros(kind, 32 * MIB)
    gc.collect()
    tracemalloc.start()
    try:
        assert "more than" in refused(kind, payload, MIB) or kind is Compression.ZSTD
        assert tracemalloc.get_traced_memory()[1] < 4 * MIB
    finally:
        tracemalloc.stop()


def test_large_name_in_a_gzip_header_is_read_once() -> None:
    payload = gzip_of_large_names(4 * MIB)

    assert decompress(Compression.GZIP, payload) == b"content"
    assert count_opcodes(lambda: decompress(Compression.GZIP, payload)) < 10_000


@examples(60)
@given(st.sampled_from(list(Compression)), st.lists(st.binary(min_size=1, max_size=200), min_size=1, max_size=5), st.integers(1, 3_000))
def test_pieces_join_to_the_content(kind: Compression, parts: list[bytes], times: int) -> None:
    data = b"".join(parts) * times
    payload = compress(kind, data)

    pieces = list(decompressed_pieces(kind, payload, max_bytes=len(data)))
    assert b"".join(pieces) == data
    assert all(0 < len(piece) <= PIECE_BYTES for piece in pieces)
    with pytest.raises(InvalidRecord):
        list(decompressed_pieces(kind, payload, max_bytes=len(data) - 1))


@examples(150)
@given(st.sampled_from(CODECS), st.data())
def test_pieces_and_whole_agree_on_damage(kind: Compression, data: st.DataObject) -> None:
    payload = bytearray(compress(kind, b"".join(b"%d: the quick brown fox\n" % number for number in range(300))))
    for _ in range(data.draw(st.integers(0, 2))):
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    del payload[data.draw(st.integers(1, len(payload))) :]
    outcomes: list[bytes | None] = []
    for read in (decompress, lambda *given, max_bytes: b"".join(decompressed_pieces(*given, max_bytes=max_bytes))):
        try:
            outcomes.append(read(kind, payload, max_bytes=50_000))
        except InvalidRecord:
            outcomes.append(None)
    assert outcomes[0] == outcomes[1]
