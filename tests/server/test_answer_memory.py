"""Answers in memory that clients do not take have one limit over all connections; who reads is never closed for others."""

from __future__ import annotations

import asyncio

import pytest

from minibroker.server import answer_memory, connection
from minibroker.server.answer_memory import HELD_SIZE, AnswerMemory
from minibroker.server.listener import ConnectionCounts
from tests.server.serving import Client, OnLoop, Script, frame, listening, until

MB = 1 << 20


class Reader:
    def __init__(self, memory: AnswerMemory) -> None:
        self.memory = memory
        self.unsent_size = 0
        self.is_closed = False

    def answer(self, size: int) -> None:
        self.unsent_size += size
        self.memory.changed(self)

    def close_for_unsent(self, size: int, total: int) -> None:
        assert HELD_SIZE < size <= total
        self.is_closed = True


def test_longest_stalled_reader_is_closed_first() -> None:
    memory = AnswerMemory(10 * MB)
    stalled = [Reader(memory) for _ in range(4)]
    slow = Reader(memory)
    slow.answer(3 * MB)
    for each in stalled[:2]:
        each.answer(3 * MB)
    slow.unsent_size -= 1000  # it reads, and nothing tells the broker
    for each in stalled[2:]:
        each.answer(3 * MB)
    assert [each.is_closed for each in stalled] == [True, True, False, False]
    assert not slow.is_closed
    assert memory.used <= 10 * MB


def test_one_answer_may_be_larger_than_the_limit() -> None:
    memory = AnswerMemory(10 * MB)
    one, other = Reader(memory), Reader(memory)
    one.answer(MB)
    other.answer(20 * MB)
    assert one.is_closed
    assert not other.is_closed
    other.unsent_size = 0
    memory.changed(other)
    assert memory.used == 0


def test_clients_that_read_are_not_counted() -> None:
    memory = AnswerMemory(MB)
    for each in [Reader(memory) for _ in range(1000)]:
        each.answer(HELD_SIZE)
    assert memory.used == 0


@pytest.mark.parametrize("is_queued", [False, True], ids=["sent", "after one that waits"])
def test_over_sockets(on_loop: OnLoop, is_queued: bool, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        counts = ConnectionCounts()
        counts.answer_memory = AnswerMemory(20 * MB)
        script = Script()
        async with listening(script, counts=counts) as listener:
            stalled = [await Client.connect(listener) for _ in range(8)]
            for client in stalled:
                seen = len(script.seen)
                client.writer.transport.pause_reading()  # type: ignore[attr-defined]  # a stream's transport reads
                client.send(*([b"fsync"] if is_queued else []), b"big %d" % (12 * MB))
                while len(script.seen) < seen + (2 if is_queued else 1):  # noqa: ASYNC110  as `until`
                    await asyncio.sleep(0.001)
            assert listener.answer_memory.used <= 20 * MB
            await until(lambda: len(listener.connections) < 4)
            honest = await Client.connect(listener)
            honest.send(b"big %d" % (12 * MB))
            assert len(await honest.receive()) == 12 * MB
            last = stalled[-1]
            if is_queued:
                script.waiting[-1].finish([frame(b"synced")])
            last.writer.transport.resume_reading()  # type: ignore[attr-defined]  # as above
            for client in stalled:
                client.writer.transport.abort()
            await until(lambda: len(listener.connections) == 1)
            assert listener.answer_memory.used == 0

    on_loop(main())
    lines = [record.getMessage() for record in caplog.records if record.name == connection.__name__]  # the watchdog reports slow turns
    assert all("has not taken" in line for line in lines)
    assert len(lines) >= 5


def test_the_limit_is_the_documented_one() -> None:
    assert ConnectionCounts().answer_memory._limit == answer_memory.UNSENT_MAX
