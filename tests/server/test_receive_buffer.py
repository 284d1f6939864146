"""Frames come out of any way in which their bytes arrive, and memory follows what arrived."""

from __future__ import annotations

import struct
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minibroker.errors import WireError
from minibroker.server.receive_buffer import INITIAL_SIZE, READ_AHEAD_SIZE, ReceiveBuffer
from tests.server.serving import frame

LIMIT = 1 << 20


def feed(buffer: ReceiveBuffer, data: bytes) -> list[bytes]:
    """Put `data` in as a loop does, reading no more than there is space for, and take the frames out."""
    frames = []
    while data:
        space = buffer.space()
        count = min(len(space), len(data))
        space[:count] = data[:count]
        data = data[count:]
        buffer.received(count)
        while (found := buffer.next_frame()) is not None:
            frames.append(bytes(found))
    return frames


@given(st.lists(st.integers(1, 20_000), max_size=12), st.lists(st.integers(0, 150_000), max_size=20))
@settings(max_examples=100, deadline=None)
def test_frames_do_not_depend_on_how_bytes_arrive(sizes: list[int], cuts: list[int]) -> None:
    bodies = [bytes([index + 1]) * size for index, size in enumerate(sizes)]
    stream = b"".join(map(frame, bodies))
    buffer = ReceiveBuffer(LIMIT)
    edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    frames = [found for start, end in pairwise(edges) for found in feed(buffer, stream[start:end])]
    assert frames == bodies
    assert len(buffer) == 0


def test_byte_by_byte() -> None:
    buffer = ReceiveBuffer(LIMIT)
    stream = frame(b"one") + frame(b"two")
    assert [found for byte in stream for found in feed(buffer, bytes([byte]))] == [b"one", b"two"]


def test_nothing_is_held_before_anything_arrives() -> None:
    assert ReceiveBuffer(LIMIT).capacity == 0


def test_memory_follows_what_arrived_not_what_a_size_claims() -> None:
    buffer = ReceiveBuffer(104_857_600)
    assert feed(buffer, struct.pack(">i", 104_857_600)) == []
    buffer.space()
    assert buffer.capacity == INITIAL_SIZE
    feed(buffer, bytes(50_000))
    buffer.space()
    assert buffer.capacity <= 2 * 65_536


def test_a_frame_of_the_limit_fits_and_no_buffer_grows_beyond_it() -> None:
    buffer = ReceiveBuffer(LIMIT)
    body = bytes(LIMIT)
    assert feed(buffer, frame(body) * 2) == [body, body]
    assert buffer.capacity <= LIMIT + 4 + READ_AHEAD_SIZE


def test_space_is_never_empty_with_a_torn_frame_in_it() -> None:
    buffer = ReceiveBuffer(LIMIT)
    whole = frame(bytes(INITIAL_SIZE - 4))
    assert len(feed(buffer, whole + b"\0\0")) == 1
    assert len(buffer.space()) > 0
    assert feed(buffer, b"\0\1x") == [b"x"]


def test_release_gives_memory_back_but_never_a_torn_frame() -> None:
    buffer = ReceiveBuffer(LIMIT)
    feed(buffer, frame(b"whole"))
    buffer.release()
    assert buffer.capacity == 0
    feed(buffer, frame(b"torn")[:-1])
    buffer.release()
    assert feed(buffer, b"n") == [b"torn"]


@pytest.mark.parametrize("size", [-1, 0, -(2**31), LIMIT + 1, 2**31 - 1])
def test_a_size_that_cannot_be_meant_is_refused(size: int) -> None:
    buffer = ReceiveBuffer(LIMIT)
    with pytest.raises(WireError, match="frame size"):
        feed(buffer, struct.pack(">i", size))
    assert buffer.capacity == INITIAL_SIZE
