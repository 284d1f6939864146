"""Frames: whole, byte by byte, several at once; and what is no frame."""

from __future__ import annotations

import pytest

from minibroker.wire.frame import FrameSizeError, FrameSplitter, describe, frame_size, with_size

STREAM = bytes.fromhex("00000003 616263 00000001 64 00000002 6566")
FRAMES = [b"abc", b"d", b"ef"]


@pytest.mark.parametrize("step", [1, 2, 5, 100])
def test_a_stream_is_cut_into_frames_however_it_arrives(step: int) -> None:
    splitter = FrameSplitter(max_size=100)
    frames = [frame for start in range(0, len(STREAM), step) for frame in splitter.feed(STREAM[start : start + step])]
    assert frames == FRAMES
    assert splitter.pending == 0


def test_a_frame_that_is_not_whole_is_kept() -> None:
    splitter = FrameSplitter(max_size=100)
    assert list(splitter.feed(STREAM[:-1])) == FRAMES[:2]
    assert splitter.pending == 4 + 1


def test_size_comes_before_the_chunks() -> None:
    chunks = with_size([b"ab", memoryview(b"c")])
    assert b"".join(chunks) == STREAM[:7]
    assert len(chunks) == 3


@pytest.mark.parametrize("size", [1, 99, 100])
def test_sizes_within_the_limit(size: int) -> None:
    assert frame_size(b"xx" + size.to_bytes(4, "big"), 2, 100) == size


@pytest.mark.parametrize(
    "size", ["00000000", "ffffffff", "80000000", "7fffffff", "00000065"], ids=["0", "-1", "-2^31", "2^31-1", "limit + 1"]
)
def test_senseless_sizes_are_refused_before_anything_is_kept(size: str) -> None:
    splitter = FrameSplitter(max_size=100)
    with pytest.raises(FrameSizeError, match="not within 1 to 100"):
        list(splitter.feed(bytes.fromhex(size)))


@pytest.mark.parametrize(
    ("first", "said"),
    [
        (b"GET / HTTP/1.1\r\n", "HTTP"),
        (b"POST /topics HTTP/1.1\r\n", "HTTP"),
        (b"PRI * HTTP/2.0\r\n", "HTTP"),
        (bytes.fromhex("16030100f8010000f40303"), "TLS"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "SSH"),
        (b"\xff\xff\xff\xff", "ff ff ff ff"),
    ],
)
def test_says_what_it_looks_like(first: bytes, said: str) -> None:
    assert said in describe(first)
    with pytest.raises(FrameSizeError, match=said):
        frame_size(first, 0, 104_857_600)
