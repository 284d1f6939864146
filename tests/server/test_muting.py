"""A client above its quota: its answer leaves at once, its next requests are served when its time is over, others are served meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from minibroker.clock import Timer
from minibroker.dispatch.context import ConnectionInfo
from minibroker.dispatch.delayed import Delayed
from minibroker.server.listener import ConnectionLimits
from minibroker.server.loop import LoopClock
from minibroker.wire.schema import Buffer
from tests.server.serving import Client, OnLoop, Script, frame, listening, until


class Quota(Script):
    """Holds whoever says `much`, and whose `fsync` is answered late, for 70 ms."""

    def dispatch(self, connection: ConnectionInfo, request: memoryview) -> list[Buffer] | Delayed:
        answer = super().dispatch(connection, request)
        if bytes(request) == b"much":
            connection.throttle_ms = 70
        return answer


class StandingClock(LoopClock):
    """Timers of 70 ms fire when the test says so."""

    def __init__(self) -> None:
        super().__init__(asyncio.get_running_loop())
        self.held: list[Callable[[], None]] = []
        self.timers: list[Timer] = []

    def call_later_ms(self, delay_ms: int, callback: Callable[[], None]) -> Timer:
        if delay_ms != 70:
            return super().call_later_ms(delay_ms, callback)
        self.held.append(callback)
        self.timers.append(super().call_later_ms(3_600_000, callback))
        return self.timers[-1]


def test_requests_wait_until_the_time_is_over(on_loop: OnLoop) -> None:
    async def main() -> None:
        script, clock = Quota(), StandingClock()
        async with listening(script, clock=clock) as listener:
            client, other = await Client.connect(listener), await Client.connect(listener)
            client.send(b"much", b"next", b"much", b"last")
            assert await client.receive() == b"much"
            other.send(b"hello")
            assert await other.receive() == b"hello"
            assert script.seen == [b"much", b"hello"]
            clock.held.pop()()
            assert [await client.receive() for _ in range(2)] == [b"next", b"much"]
            assert script.seen[-1] == b"much"
            clock.held.pop()()
            assert await client.receive() == b"last"

    on_loop(main())


def test_delayed_answer_also_mutes(on_loop: OnLoop) -> None:
    async def main() -> None:
        script, clock = Quota(), StandingClock()
        async with listening(script, clock=clock) as listener:
            client = await Client.connect(listener)
            client.send(b"fsync")
            await script.wait_for(0)
            (connection,) = listener.connections
            connection.info.throttle_ms = 70
            script.waiting[0].finish([frame(b"done")])
            assert await client.receive() == b"done"
            client.send(b"next")
            await asyncio.sleep(0.02)  # nothing can be waited for that does not happen
            assert script.seen == [b"fsync"]
            clock.held.pop()()
            assert await client.receive() == b"next"

    on_loop(main())


def test_two_quotas_hold_until_the_longer_is_over(on_loop: OnLoop) -> None:
    async def main() -> None:
        script, clock = Quota(), StandingClock()
        async with listening(script, clock=clock) as listener:
            client = await Client.connect(listener)
            client.send(b"fsync", b"much", b"next")
            await until(lambda: clock.held)
            (connection,) = listener.connections
            connection.info.throttle_ms = 70
            script.waiting[0].finish([frame(b"done")])
            assert [await client.receive() for _ in range(2)] == [b"done", b"much"]
            assert len(clock.held) == 2
            clock.held.pop()()
            assert script.seen == [b"fsync", b"much"]
            clock.held.pop()()
            assert await client.receive() == b"next"

    on_loop(main())


def test_connection_over_the_limit_is_muted_and_closed(on_loop: OnLoop) -> None:
    async def main() -> None:
        script, clock = Script(), StandingClock()
        async with listening(script, clock=clock, connection_throttle_ms=lambda _host: 70 if listening_for else 0) as listener:
            welcome = await Client.connect(listener)
            welcome.send(b"hello")
            assert await welcome.receive() == b"hello"
            listening_for.append("too many")
            refused = await Client.connect(listener)
            refused.send(b"hello?")
            await until(lambda: clock.held)
            assert script.seen == [b"hello"]
            for end in clock.held:
                end()
            assert await refused.is_closed()
            welcome.send(b"again")
            assert await welcome.receive() == b"again"
            assert script.seen == [b"hello", b"again"]

    listening_for: list[str] = []
    on_loop(main())


def test_disconnect_of_a_muted_client_cancels_its_timer(on_loop: OnLoop) -> None:
    async def main() -> None:
        clock = StandingClock()
        async with listening(Quota(), clock=clock) as listener:
            client = await Client.connect(listener)
            client.send(b"much")
            assert await client.receive() == b"much"
            (connection,) = listener.connections
            connection.abort()
            await until(lambda: not listener.connections)
            (timer,) = clock.timers
            assert "cancelled" in repr(timer)  # both loops say so

    on_loop(main())


def test_idle_muted_client_is_closed(on_loop: OnLoop) -> None:
    """It is not read, so that nobody notices when it goes."""

    async def main() -> None:
        clock = StandingClock()
        async with listening(Quota(), ConnectionLimits(max_idle_ms=1000), clock=clock) as listener:
            client = await Client.connect(listener)
            client.send(b"much")
            assert await client.receive() == b"much"
            for _ in range(4):
                listener.sweep()
            assert listener.connections
            listener.sweep()
            assert await client.is_closed()

    on_loop(main())
