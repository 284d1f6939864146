"""Frames come out of any way in which their bytes arrive, and memory follows what arrived."""

from __future__ import annotations

import random
import struct
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minibroker.errors import WireError
from minibroker.server import receive_buffer
from minibroker.server.receive_buffer import INITIAL_SIZE, READ_AHEAD_SIZE, ReceiveBuffer, new_read_area
from tests.server.serving import frame
from tests.support.soak import examples

LIMIT = 1 << 20


def new_buffer(limit: int = LIMIT) -> ReceiveBuffer:
    return ReceiveBuffer(limit, new_read_area())


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
        buffer.settle()
    return frames


@given(st.lists(st.integers(1, 20_000), max_size=12), st.lists(st.integers(0, 150_000), max_size=20))
def test_frames_do_not_depend_on_how_bytes_arrive(sizes: list[int], cuts: list[int]) -> None:
    bodies = [bytes([index + 1]) * size for index, size in enumerate(sizes)]
    stream = b"".join(map(frame, bodies))
    buffer = new_buffer()
    edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    frames = [found for start, end in pairwise(edges) for found in feed(buffer, stream[start:end])]
    assert frames == bodies
    assert len(buffer) == 0


def test_byte_by_byte() -> None:
    buffer = new_buffer()
    stream = frame(b"one") + frame(b"two")
    assert [found for byte in stream for found in feed(buffer, bytes([byte]))] == [b"one", b"two"]


def test_nothing_is_held_before_anything_arrives() -> None:
    assert new_buffer().capacity == 0


def test_memory_follows_received_bytes_not_the_declared_size() -> None:
    buffer = new_buffer(104_857_600)
    assert feed(buffer, struct.pack(">i", 104_857_600)) == []
    buffer.space()
    assert buffer.capacity == INITIAL_SIZE
    feed(buffer, bytes(50_000))
    buffer.space()
    assert buffer.capacity <= 2 * 65_536


def test_a_frame_of_the_limit_fits_and_no_buffer_grows_beyond_it() -> None:
    buffer = new_buffer()
    body = bytes(LIMIT)
    assert feed(buffer, frame(body) * 2) == [body, body]
    assert buffer.capacity <= LIMIT + 4 + READ_AHEAD_SIZE


def test_space_is_never_empty_with_a_torn_frame_in_it() -> None:
    buffer = new_buffer()
    whole = frame(bytes(INITIAL_SIZE - 4))
    assert len(feed(buffer, whole + b"\0\0")) == 1
    assert len(buffer.space()) > 0
    assert feed(buffer, b"\0\1x") == [b"x"]


def test_release_gives_memory_back_but_never_a_torn_frame() -> None:
    buffer = new_buffer()
    feed(buffer, frame(b"torn")[:-1])
    buffer.release()
    assert buffer.capacity == INITIAL_SIZE
    assert feed(buffer, b"n") == [b"torn"]
    buffer.release()
    assert buffer.capacity == 0


def test_whole_frames_take_no_memory_of_the_connection() -> None:
    buffer = new_buffer()
    assert feed(buffer, frame(bytes(100_000)) * 2) == [bytes(100_000)] * 2
    assert buffer.capacity == 0


def test_large_frame_grows_without_copying() -> None:
    buffer = new_buffer(104_857_600)
    body = random.Random(1).randbytes(20_000_000)
    stream = frame(body) + frame(b"next")
    places: set[int] = set()
    frames: list[bytes] = []
    for start in range(0, len(stream), 200_000):
        frames += feed(buffer, stream[start : start + 200_000])
        if start > READ_AHEAD_SIZE and not frames:
            places.add(id(buffer._buffer.obj))
            assert buffer.capacity <= start + 200_000 + 2 * (1 << 20)
    assert frames == [body, b"next"]
    assert len(places) == 1
    assert buffer.capacity == 0


def test_without_address_space_a_large_frame_grows_by_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receive_buffer, "_new_place", lambda _size: None)
    buffer = new_buffer(104_857_600)
    body = random.Random(1).randbytes(3_000_000)
    assert feed(buffer, frame(body) * 2) == [body, body]


def test_a_few_bytes_after_a_large_frame_do_not_keep_its_memory() -> None:
    buffer = new_buffer(104_857_600)
    assert len(feed(buffer, frame(bytes(9_000_000)) + b"\0\0")) == 1
    assert buffer.capacity == INITIAL_SIZE
    assert feed(buffer, b"\0\1x") == [b"x"]


def test_frames_that_are_kept_keep_their_memory() -> None:
    buffer = new_buffer(104_857_600)
    stream = frame(bytes(9_000_000))
    feed(buffer, stream[:-1])
    buffer.space()[:1] = b"\0"
    buffer.received(1)
    kept = buffer.next_frame()
    assert kept is not None
    buffer.keep_frames()
    buffer.settle()
    buffer.release()
    assert buffer.capacity > 9_000_000
    buffer.counted = buffer.capacity
    assert buffer.frames_are_done()
    assert buffer.capacity == 0


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 400_000)), max_size=30))
@examples(60)
def test_connections_that_share_an_area_do_not_see_each_other(reads: list[tuple[int, int]]) -> None:
    area = new_read_area()
    buffers = [ReceiveBuffer(LIMIT, area) for _ in range(3)]
    bodies = [[bytes([1 + number * 50 + index]) * (index * 9_001 + 1) for index in range(20)] for number in range(3)]
    streams = [b"".join(map(frame, each)) for each in bodies]
    found: list[list[bytes]] = [[], [], []]
    for number, count in [*reads, *((number, 10**9) for number in range(3))]:
        found[number] += feed(buffers[number], streams[number][:count])
        streams[number] = streams[number][count:]
    assert found == bodies


@pytest.mark.parametrize("size", [-1, 0, -(2**31), LIMIT + 1, 2**31 - 1])
def test_a_size_that_cannot_be_meant_is_refused(size: int) -> None:
    buffer = new_buffer()
    with pytest.raises(WireError, match="frame size"):
        feed(buffer, struct.pack(">i", size))
    assert buffer.capacity == 0
