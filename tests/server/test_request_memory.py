"""Unfinished requests of all connections have one limit; it blocks no client for ever, and closes what makes no progress."""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable
from itertools import pairwise

import pytest

from minibroker.clock import ManualClock, Timer
from minibroker.server.listener import ConnectionLimits
from minibroker.server.receive_buffer import READ_AHEAD_SIZE, ReceiveBuffer, new_read_area
from minibroker.server.request_memory import PATIENCE, PROGRESS_SIZE, SHORT_READ_SIZE, SMALL_SIZE, RequestMemory
from tests.server.serving import Client, OnLoop, Script, listening, until

MB = 1 << 20
LIMIT = 16 * MB
REQUEST_MAX = 100 * MB
SECOND_MS = 1000


class Sender:
    """A connection without a socket: its client sends when the broker reads."""

    def __init__(self, memory: RequestMemory, clock: ManualClock, frame_size: int = REQUEST_MAX) -> None:
        self.memory = memory
        self.clock = clock
        self.buffer = ReceiveBuffer(REQUEST_MAX, new_read_area())
        self.is_read = True
        self.is_closed = False
        self.is_stopped_by_us = False
        self.served = 0
        self.after: Callable[[int, Callable[[], None]], Timer] = clock.call_later_ms
        self.keeps = False  #: the request is worked on in slices
        self.frame_size = frame_size
        self.left = 4 + frame_size

    def wait_for_memory(self) -> None:
        self.is_read = False

    def memory_is_there(self) -> None:
        self.is_read = True

    def close_for_memory(self, used: int, limit: int) -> None:
        assert used > limit - limit // 8
        self.is_closed = True

    def send(self, size: int) -> None:
        """As much of `size` bytes as the broker reads."""
        while size and self.left and self.is_read and not self.is_closed:
            space = self.buffer.space()
            count = min(size, len(space), self.left)
            if self.left > self.frame_size:
                space[:4] = struct.pack(">i", self.frame_size)
            self.left, size = self.left - count, size - count
            self.buffer.received(count)
            if self.buffer.next_frame() is not None:
                self.served += 1
                if self.keeps:
                    self.buffer.keep_frames()
            if self.buffer.settle():
                self.memory.changed(self, self.after)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def memory() -> RequestMemory:
    return RequestMemory(LIMIT)


def senders(memory: RequestMemory, clock: ManualClock, count: int, frame_size: int = REQUEST_MAX) -> list[Sender]:
    return [Sender(memory, clock, frame_size) for _ in range(count)]


def second(clock: ManualClock) -> None:
    clock.advance(SECOND_MS)


def test_memory_of_unfinished_requests_is_bounded(memory: RequestMemory, clock: ManualClock) -> None:
    stalled = senders(memory, clock, 30)
    for _ in range(90):
        for each in stalled:
            each.send(MB)
    assert [each.is_read for each in stalled] == [True, *[False] * 29]
    assert memory.used == sum(each.buffer.capacity for each in stalled)
    assert memory.used <= LIMIT + REQUEST_MAX + 30 * 512 * 1024
    for each in stalled:
        memory.forget(each)
    assert memory.used == 0


def test_requests_that_are_sent_together_arrive_one_after_the_other(memory: RequestMemory, clock: ManualClock) -> None:
    honest = senders(memory, clock, 40, 5 * MB)
    most = 0
    for _ in range(1000):
        for each in honest:
            each.send(256 * 1024)
        most = max(most, memory.used)
    assert [each.served for each in honest] == [1] * 40
    assert most <= LIMIT + 6 * MB + 40 * 512 * 1024
    assert not any(each.is_closed for each in honest)
    assert not memory.is_short


def test_stalled_senders_are_closed_and_active_ones_continue(memory: RequestMemory, clock: ManualClock) -> None:
    stalled = senders(memory, clock, 30)
    for each in stalled:
        each.send(2 * MB)
    second(clock)
    honest = Sender(memory, clock, 8 * MB)
    for _ in range(PATIENCE + 1):
        assert not honest.served
        honest.send(8 * MB)
        second(clock)
    honest.send(8 * MB)
    assert all(each.is_closed for each in stalled)
    assert honest.served == 1


def test_a_client_that_sends_a_byte_now_and_then_makes_no_progress(memory: RequestMemory, clock: ManualClock) -> None:
    trickling = senders(memory, clock, 4)
    for each in trickling:
        each.send(5 * MB)
    for _ in range(PATIENCE + 1):
        for each in trickling:
            each.send(1)
        second(clock)
    assert all(each.is_closed for each in trickling)
    assert memory.used == 0
    assert not memory.is_short


def test_those_that_are_late_are_closed_one_in_each_turn() -> None:
    memory, turns = RequestMemory(LIMIT), []
    clock = ManualClock()

    def after(delay_ms: int, callback: Callable[[], None]) -> Timer:
        if delay_ms:
            return clock.call_later_ms(delay_ms, callback)
        turns.append(callback)
        return clock.call_later_ms(0, lambda: None)

    stalled = senders(memory, clock, 4)
    for each in stalled:
        each.after = after
        each.send(5 * MB)
    clock.advance((PATIENCE + 1) * SECOND_MS)
    closed = []
    while turns:
        turns.pop(0)()
        closed.append(sum(each.is_closed for each in stalled))
    assert closed[-1] == len(stalled)
    assert [later - earlier for earlier, later in pairwise(closed)] == [1] * (len(closed) - 2) + [0]


def test_a_slow_client_that_makes_progress_is_not_closed(memory: RequestMemory, clock: ManualClock) -> None:
    slow, *stalled = senders(memory, clock, 4, 60 * MB)
    for each in (slow, *stalled):
        each.send(5 * MB)
    assert memory.is_short
    for _ in range(5 * PATIENCE):
        slow.send(2 * PROGRESS_SIZE)
        second(clock)
    assert slow.served == 1
    assert not any(each.is_closed for each in stalled), "memory is there again"


def test_sender_paused_by_the_broker_is_not_closed(memory: RequestMemory, clock: ManualClock) -> None:
    waiting, *stalled = senders(memory, clock, 4)
    waiting.is_stopped_by_us = True  # its request is the oldest one
    for each in (waiting, *stalled):
        each.send(5 * MB)
    for _ in range(PATIENCE + 2):
        second(clock)
    assert not waiting.is_closed
    assert all(each.is_closed for each in stalled)


def test_small_requests_are_always_read(memory: RequestMemory, clock: ManualClock) -> None:
    for each in senders(memory, clock, 10):
        each.send(5 * MB)
    assert memory.is_short
    small = Sender(memory, clock, SMALL_SIZE // 2 - 4)
    while small.left:
        small.send(1000)
    assert small.served == 1


def test_memory_that_is_kept_for_the_next_frame_is_given_back_first(memory: RequestMemory, clock: ManualClock) -> None:
    idle = senders(memory, clock, 20, 900_000)
    for each in idle:
        each.send(100_000)
        each.send(900_000)
        assert each.served
    assert memory.used > 0
    busy = senders(memory, clock, 1, 20 * MB)[0]
    busy.send(20 * MB)
    assert not any(each.buffer.capacity for each in idle)


def test_while_a_large_request_is_worked_on_the_others_wait_for_it(memory: RequestMemory, clock: ManualClock) -> None:
    working, *others = senders(memory, clock, 3, 10 * MB)
    working.keeps = True
    for each in (working, *others):
        each.send(4 + 10 * MB)
    assert working.served == 1
    assert memory.is_short
    for _ in range(2 * PATIENCE):
        second(clock)
    assert not any(each.is_read or each.is_closed for each in others)
    assert working.buffer.frames_are_done()
    memory.changed(working, clock.call_later_ms)
    assert working.buffer.capacity == 0
    for each in others:
        each.send(4 + 10 * MB)
    assert [each.served for each in others] == [1, 1]


def test_no_limit(clock: ManualClock) -> None:
    memory = RequestMemory(-1)
    many = senders(memory, clock, 4)
    for each in many:
        each.send(10 * MB)
    assert not memory.is_short
    assert memory.used >= 40 * MB


def test_over_sockets(on_loop: OnLoop, caplog: pytest.LogCaptureFixture) -> None:
    """Frames that stall, a client with small requests, one with a large request; the clock is the test's."""

    async def main() -> None:
        clock = ManualClock()
        script = Script()
        limits = ConnectionLimits(queued_max_request_bytes=2 * MB)
        async with listening(script, limits, clock) as listener:
            stalled = [await Client.connect(listener) for _ in range(3)]
            for client in stalled:
                client.writer.write(struct.pack(">i", 50 * MB) + bytes(2 * MB))
            memory = listener.request_memory
            await until(lambda: memory.is_short)
            clock.advance(0)
            assert len(listener.read_area) == SHORT_READ_SIZE
            small = await Client.connect(listener)
            small.send(b"hello")
            assert await small.receive() == b"hello"
            for _ in range(PATIENCE + 1):
                clock.advance(SECOND_MS)
            await until(lambda: not memory.is_short)
            assert len(listener.read_area) == READ_AHEAD_SIZE
            clock.advance(0)
            large = await Client.connect(listener)
            large.send(b"\1" * MB)
            assert len(await large.receive()) == MB
            for client in stalled:
                client.writer.transport.abort()

    with caplog.at_level(logging.WARNING):
        on_loop(main())
    lines = [record.getMessage() for record in caplog.records]
    assert lines
    assert all("unfinished request made no progress" in line and "queued.max.request.bytes=2097152" in line for line in lines)
