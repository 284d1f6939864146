"""The size of a frame, and the errors for bytes that are not one."""

from __future__ import annotations

import pytest

from minibroker.wire.header import FrameSizeError, describe, frame_size, with_size


def test_size_precedes_the_chunks() -> None:
    chunks = with_size([b"ab", memoryview(b"c")])
    assert b"".join(chunks) == bytes.fromhex("00000003 616263")
    assert len(chunks) == 3


@pytest.mark.parametrize("size", [1, 99, 100])
def test_sizes_within_the_limit(size: int) -> None:
    assert frame_size(b"xx" + size.to_bytes(4, "big"), 2, 100) == size


@pytest.mark.parametrize(
    "size", ["00000000", "ffffffff", "80000000", "7fffffff", "00000065"], ids=["0", "-1", "-2^31", "2^31-1", "limit + 1"]
)
def test_invalid_sizes_are_rejected(size: str) -> None:
    with pytest.raises(FrameSizeError, match="not within 1 to 100"):
        frame_size(bytes.fromhex(size), 0, 100)


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
def test_invalid_frame_is_described_by_its_protocol(first: bytes, said: str) -> None:
    assert said in describe(first)
    with pytest.raises(FrameSizeError, match=said):
        frame_size(first, 0, 104_857_600)
