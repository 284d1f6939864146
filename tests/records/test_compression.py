from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minibroker.errors import InvalidRecord, UnsupportedCompressionType
from minibroker.records.codecs.snappy import XERIAL_HEADER
from minibroker.records.compression import Compression, compress, decompress
from tests.support.soak import examples

CODECS = [codec for codec in Compression if codec]
TEXT = b"".join(b"%d: the quick brown fox\n" % number for number in range(4_000))


@pytest.mark.parametrize("kind", list(Compression))
@pytest.mark.parametrize("data", [b"", b"x", TEXT, os.urandom(70_000)], ids=["empty", "byte", "text", "random"])
def test_round_trip(kind: Compression, data: bytes) -> None:
    packed = compress(kind, data)

    assert decompress(kind, packed) == data
    assert decompress(kind, memoryview(bytearray(packed)), max_bytes=len(data)) == data


@examples(40)
@given(st.sampled_from(list(Compression)), st.lists(st.binary(max_size=40)), st.integers(1, 300))
def test_round_trip_of_random_bytes(kind: Compression, pieces: list[bytes], times: int) -> None:
    data = b"".join(pieces) * times

    assert decompress(kind, compress(kind, memoryview(data)), max_bytes=len(data)) == data


@pytest.mark.parametrize("kind", list(Compression))
@pytest.mark.parametrize("max_bytes", [0, 1, len(TEXT) - 1])
def test_content_over_the_limit_is_refused(kind: Compression, max_bytes: int) -> None:
    with pytest.raises(InvalidRecord):
        decompress(kind, compress(kind, TEXT), max_bytes=max_bytes)


@pytest.mark.parametrize("kind", CODECS)
def test_every_truncation_is_refused(kind: Compression) -> None:
    packed = compress(kind, TEXT[:9_000] + os.urandom(300))
    step = max(len(packed) // 300, 1)
    for end in {*range(0, len(packed), step), len(packed) - 1}:
        if kind is Compression.SNAPPY and end == len(XERIAL_HEADER):
            continue  # a framing without blocks is an empty payload, as in Java
        with pytest.raises(InvalidRecord):
            decompress(kind, packed[:end])


@pytest.mark.parametrize("kind", CODECS)
def test_trailing_bytes_are_refused(kind: Compression) -> None:
    packed = compress(kind, TEXT)
    for tail in (b"\0", b"tail", bytes(40)):
        with pytest.raises(InvalidRecord):
            decompress(kind, packed + tail)


@examples(200)
@given(st.sampled_from(CODECS), st.data())
def test_damaged_payload_is_refused_or_harmless(kind: Compression, data: st.DataObject) -> None:
    packed = bytearray(compress(kind, TEXT[:3_000]))
    for _ in range(data.draw(st.integers(1, 3))):
        packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
    try:
        out = decompress(kind, packed, max_bytes=50_000)
    except InvalidRecord:
        return
    assert len(out) <= 50_000


@examples(200)
@given(st.sampled_from(CODECS), st.binary(max_size=60))
def test_garbage_is_refused_or_harmless(kind: Compression, data: bytes) -> None:
    magic = {Compression.GZIP: b"\x1f\x8b\x08\0", Compression.SNAPPY: XERIAL_HEADER, Compression.LZ4: b"\x04\x22\x4d\x18"}
    for payload in (data, magic.get(kind, b"\x28\xb5\x2f\xfd") + data):
        with contextlib.suppress(InvalidRecord):
            assert len(decompress(kind, payload, max_bytes=10_000)) <= 10_000


@pytest.mark.parametrize("kind", CODECS)
def test_concatenated_frames_are_read_like_the_java_client(kind: Compression) -> None:
    joined = compress(kind, b"one") + compress(kind, b"two")

    if kind is Compression.LZ4:
        with pytest.raises(InvalidRecord):
            decompress(kind, joined)
    else:
        assert decompress(kind, joined) == b"onetwo"
        with pytest.raises(InvalidRecord):
            decompress(kind, joined, max_bytes=5)


def test_skippable_zstd_frame_is_skipped() -> None:
    skippable = b"\x5a\x2a\x4d\x18\x03\0\0\0xyz"
    packed = compress(Compression.ZSTD, TEXT)

    assert decompress(Compression.ZSTD, skippable + packed + skippable) == TEXT
    for cut in range(1, len(skippable)):
        with pytest.raises(InvalidRecord):
            decompress(Compression.ZSTD, packed + skippable[:cut])


@pytest.mark.parametrize("with_size", [True, False])
@pytest.mark.parametrize("with_checksum", [True, False])
@pytest.mark.parametrize("size", [0, 1, 255, 256, 70_000, 400_000])
def test_zstd_frames_of_every_header_kind(size: int, with_checksum: bool, with_size: bool) -> None:
    zstandard = pytest.importorskip("zstandard")

    data = os.urandom(size // 2) + bytes(size - size // 2)
    compressor = zstandard.ZstdCompressor(write_checksum=with_checksum, write_content_size=with_size)
    stream = compressor.compressobj()
    for packed in (compressor.compress(data), stream.compress(data) + stream.flush()):
        assert decompress(Compression.ZSTD, packed, max_bytes=size) == data


@pytest.mark.parametrize("linked", [True, False])
@pytest.mark.parametrize("with_sums", [True, False])
def test_lz4_frames_of_every_kind(linked: bool, with_sums: bool) -> None:
    import lz4.frame

    data = TEXT * 10
    for block_size in (4, 5, 6, 7):
        packed = lz4.frame.compress(
            data, block_size=block_size, block_linked=linked, content_checksum=with_sums, block_checksum=with_sums, store_size=with_sums
        )
        assert decompress(Compression.LZ4, packed) == data


@pytest.mark.parametrize(
    ("kind", "levels"), [(Compression.GZIP, (1, 9)), (Compression.LZ4, (9, 17)), (Compression.LZ4, (1, 12)), (Compression.ZSTD, (-5, 22))]
)
def test_compression_levels_match_the_configuration(kind: Compression, levels: tuple[int, int]) -> None:
    quick, thorough = (compress(kind, TEXT, level) for level in levels)

    assert decompress(kind, quick) == decompress(kind, thorough) == TEXT
    assert len(thorough) < len(quick)


def test_codec_names_and_ids() -> None:
    assert [Compression.from_name(name) for name in ("none", "gzip", "snappy", "lz4", "zstd")] == [Compression.of(n) for n in range(5)]
    assert Compression.from_name("uncompressed") is Compression.NONE
    assert Compression.from_name("ZSTD") is Compression.ZSTD
    for name in ("producer", "", "brotli"):
        with pytest.raises(ValueError, match="unknown compression type"):
            Compression.from_name(name)
    for codec_id in (5, 7, -1):
        with pytest.raises(UnsupportedCompressionType):
            Compression.of(codec_id)


BOMB = textwrap.dedent("""
    import sys, zlib

    def gzip(size):
        stream = zlib.compressobj(9, zlib.DEFLATED, 31)
        if size <= 8 << 20:
            return stream.compress(bytes(size)) + stream.flush()
        head = stream.compress(bytes(1 << 20)) + stream.flush(zlib.Z_FULL_FLUSH)
        return head + (stream.compress(bytes(1 << 20)) + stream.flush(zlib.Z_FULL_FLUSH)) * (size >> 20)

    def snappy(size):
        from cramjam import snappy
        block = bytes(snappy.compress_raw(bytes(1 << 20)))
        return b"\\x82SNAPPY\\0\\0\\0\\0\\1\\0\\0\\0\\1" + (len(block).to_bytes(4) + block) * (size >> 20)

    def snappy_raw(size):
        left, claim = size + 1, bytearray()
        while left > 127:
            claim.append(left & 127 | 128)
            left >>= 7
        return bytes(claim) + bytes([left]) + b"\\0a" + b"\\xfe\\1\\0" * (size >> 6)

    def lz4(size):
        from lz4 import frame
        packed = frame.compress(bytes(1 << 20), block_size=4, block_linked=False, store_size=False)
        return packed[:7] + packed[7:-4] * (size >> 20) + bytes(4)

    def zstd(size):  # a window of 128 KiB, then RLE blocks of 128 KiB in four bytes
        blocks = (size >> 17) - 1
        return b"\\x28\\xb5\\x2f\\xfd\\x00\\x38" + b"\\x02\\x00\\x10a" * blocks + b"\\x03\\x00\\x10a"

    def zstd_claiming(size):
        return b"\\x28\\xb5\\x2f\\xfd\\xc0\\x38" + size.to_bytes(8, "little") + zstd(size)[6:]

    def peak():
        return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) * 1024

    from minibroker.errors import InvalidRecord
    from minibroker.records.compression import Compression, compress, decompress

    name, size, max_bytes = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    kind = Compression.from_name(name.split("_")[0])
    decompress(kind, compress(kind, b"warm"))
    bomb = globals()[name](size)
    before = peak()
    try:
        print(len(decompress(kind, bomb, max_bytes=max_bytes)), peak() - before - max_bytes, len(bomb))
    except InvalidRecord as error:
        print("refused", peak() - before, len(bomb))
""")


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="the peak of memory is read from /proc")  # noqa: PTH110
@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("gzip", 10 << 30),
        ("snappy", 64 << 20),
        ("snappy_raw", 64 << 20),
        ("lz4", 1 << 30),
        ("zstd", 10 << 30),
        ("zstd_claiming", 10 << 30),
    ],
)
def test_decompression_bomb_memory_stays_within_the_limit(name: str, size: int) -> None:
    max_bytes = 16 << 20

    refused = subprocess.run([sys.executable, "-c", BOMB, name, str(size), str(max_bytes)], capture_output=True, text=True, check=True)
    taken = subprocess.run([sys.executable, "-c", BOMB, name, str(8 << 20), str(max_bytes)], capture_output=True, text=True, check=True)

    outcome, grown, bomb_bytes = refused.stdout.split()
    assert outcome == "refused", refused.stdout
    assert int(grown) <= 2 * max_bytes + 2 * int(bomb_bytes) + (4 << 20)
    assert int(taken.stdout.split()[0]) >= 8 << 20, taken.stdout  # the same bomb, small enough, is a good payload
