"""One turn that held the event loop is reported with what it did; the time is the test's."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from minibroker.dispatch.context import ConnectionInfo
from minibroker.dispatch.delayed import Delayed
from minibroker.schemas import k03_metadata, k43_elect_leaders, k74_list_config_resources
from minibroker.server import connection as connection_module
from minibroker.server.listener import ConnectionCounts
from minibroker.server.loop import LoopClock, Watchdog, watchdog_of
from minibroker.server.loop_background import LoopBackground
from minibroker.wire.schema import Buffer
from tests.server.serving import Client, OnLoop, Script, listening, until
from tests.support.broker_in_memory import BrokerInMemory, frame_of


class Time:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s

    def tick(self) -> float:
        """Return the time, later by 120 ms for each call."""
        self.now_s += 0.12
        return self.now_s


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def watchdog(time: Time) -> Watchdog:
    return Watchdog(time)


def work_for(time: Time, seconds: float) -> Callable[[], None]:
    def busy_work() -> None:
        time.now_s += seconds

    return busy_work


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


def test_a_slow_turn_is_reported_by_name(watchdog: Watchdog, time: Time, caplog: pytest.LogCaptureFixture) -> None:
    watchdog.run("a timer", work_for(time, 0.099))
    assert not lines(caplog)
    watchdog.run("a timer", partial(work_for(time, 0.312)))
    assert lines(caplog) == ["a timer (work_for.<locals>.busy_work) held the event loop for 312 ms"]


@pytest.mark.parametrize(
    ("slow_request", "name"),
    [
        (k43_elect_leaders.Request(topic_partitions=None, timeout_ms=1), "ElectLeaders v2 of client 'slow' at 127.0.0.1 (22 bytes)"),
        # another Delayed waits for the slices, to encode what they make
        (k74_list_config_resources.Request(resource_types=[]), "ListConfigResources v1 of client 'slow' at 127.0.0.1 (17 bytes)"),
    ],
)
def test_a_slow_slice_is_reported_with_its_request(
    slow_request: Any, name: str, watchdog: Watchdog, time: Time, caplog: pytest.LogCaptureFixture
) -> None:
    broker = BrokerInMemory(topics={"orders": 300})
    slices = broker.services.slices
    slices.now_s = time.tick

    broker.begin(slow_request, client_id="slow")
    watchdog.run("a timer", slices._turn)

    (line,) = lines(caplog)
    assert line.startswith(f"a timer (Slices._turn: {name}) held the event loop for ")


def test_many_slow_turns_are_a_line_now_and_then(watchdog: Watchdog, time: Time, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(50):
        watchdog.run("a timer", work_for(time, 0.15))
    time.now_s += 10
    watchdog.run("a timer", work_for(time, 0.2))
    assert watchdog.slow_turns == 51
    assert [line.partition(") ")[2] for line in lines(caplog)] == [
        "held the event loop for 150 ms",
        "held the event loop for 200 ms (49 other slow turns since the last report)",
    ]


def test_a_turn_within_another_is_reported_once(watchdog: Watchdog, time: Time, caplog: pytest.LogCaptureFixture) -> None:
    watchdog.run("a timer", lambda: watchdog.run("an inner turn", work_for(time, 0.2)))
    assert watchdog.slow_turns == 1
    assert lines(caplog)[0].startswith("an inner turn")


class Slow(Script):
    """`slow N` takes N milliseconds."""

    def __init__(self, time: Time) -> None:
        super().__init__()
        self.time = time

    def dispatch(self, connection: ConnectionInfo, request: memoryview) -> list[Buffer] | Delayed:
        if bytes(request[:4]) == b"slow":
            self.time.now_s += int(bytes(request[4:8])) / 1000
        return super().dispatch(connection, request)

    def describe(self, frame: memoryview) -> str:
        return f"Script {bytes(frame[:8])!r}"


def test_slow_requests_of_one_connection_are_not_one_turn(
    on_loop: OnLoop, time: Time, watchdog: Watchdog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_module, "perf_counter", time)

    async def main() -> None:
        script = Slow(time)
        async with listening(script, counts=ConnectionCounts(watchdog)) as listener:
            listener.wakefulness._now_s = time
            greedy, other = await Client.connect(listener), await Client.connect(listener)
            await until(lambda: len(listener.connections) == 2)
            greedy.send(*[b"slow  40"] * 100)
            other.send(b"hello")
            assert await other.receive() == b"hello"
            assert script.seen.index(b"hello") < 10
            assert [await greedy.receive() for _ in range(100)] == [b"slow  40"] * 100
            assert watchdog.slow_turns == 0

    on_loop(main())


@pytest.mark.parametrize(
    ("requests", "expected"),
    [
        ([b"hello", b"slow  99"], []),
        ([b"slow 312" + bytes(999_992)], ["Script b'slow 312' at 127.0.0.1 (1,000,000 bytes) held the event loop for 312 ms"]),
        (
            [b"a", b"slow 150", b"b"],
            ["2 requests, the largest Script b'slow 150' at 127.0.0.1 (8 bytes), held the event loop for 150 ms"],
        ),
    ],
)
def test_requests(
    on_loop: OnLoop,
    time: Time,
    watchdog: Watchdog,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    requests: list[bytes],
    expected: list[str],
) -> None:
    monkeypatch.setattr(connection_module, "perf_counter", time)

    async def main() -> None:
        script = Slow(time)
        async with listening(script, counts=ConnectionCounts(watchdog)) as listener:
            listener.wakefulness._now_s = time
            client = await Client.connect(listener)
            client.send(*requests)
            for request in requests:
                assert await client.receive() == request
            assert listener.wakefulness.turns

    on_loop(main())
    assert lines(caplog) == expected


def test_timers_and_results_of_a_running_broker(on_loop: OnLoop, time: Time, caplog: pytest.LogCaptureFixture) -> None:
    results: list[object] = []

    def done(result: object) -> None:
        time.now_s += 0.2
        results.append(result)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        clock = LoopClock(loop)
        watchdog = watchdog_of(clock)
        watchdog._now_s = time
        for delay_ms in (0, 1):
            clock.call_later_ms(delay_ms, partial(done, delay_ms))
        background = LoopBackground(loop, 1, watchdog=watchdog)
        background.submit(lambda: "a result", done)
        await until(lambda: len(results) == 3)
        background.close()
        assert watchdog.slow_turns == 3

    with caplog.at_level(logging.WARNING):
        on_loop(main())
    assert len(lines(caplog)) == 1


def test_dispatcher_describes_a_request() -> None:
    memory = BrokerInMemory(topics={"orders": 1})
    try:
        frame = memoryview(frame_of(k03_metadata.Request(topics=None), 12, client_id="x"))
        assert memory.dispatcher.describe(frame) == "API 3 v12 of client 'x'"
        memory.dispatcher.dispatch(memory.connection, frame)
        assert memory.dispatcher.describe(frame) == "Metadata v12 of client 'x'"
    finally:
        memory.cluster.close(clean=False)
