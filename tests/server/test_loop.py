"""The loop's clock and its background work, on both loops."""

from __future__ import annotations

import asyncio
import threading

from minibroker.server.loop_background import LoopBackground
from minibroker.server.loop_clock import LoopClock
from tests.server.serving import OnLoop, until


def test_work_runs_elsewhere_and_its_result_comes_back(on_loop: OnLoop) -> None:
    async def main() -> None:
        background = LoopBackground(asyncio.get_running_loop(), 2)
        seen: list[tuple[object, bool]] = []
        home = threading.get_ident()

        def done(result: object) -> None:
            seen.append((result, threading.get_ident() == home))

        background.submit(lambda: threading.get_ident() == home, done)
        await until(lambda: seen)
        error = OSError(5, "oh")

        def fail() -> None:
            raise error

        background.submit(fail, done)
        await until(lambda: len(seen) == 2)
        assert seen == [(False, True), (error, True)]
        background.close()

    on_loop(main())


def test_no_delay_means_the_end_of_this_turn_in_order(on_loop: OnLoop) -> None:
    async def main() -> None:
        clock = LoopClock(asyncio.get_running_loop())
        order: list[int] = []
        clock.call_later_ms(0, lambda: order.append(1))
        cancelled = clock.call_later_ms(0, lambda: order.append(2))
        clock.call_later_ms(0, lambda: order.append(3))
        cancelled.cancel()
        assert order == []
        await asyncio.sleep(0)
        assert order == [1, 3]
        clock.call_later_ms(1, lambda: order.append(4))
        await until(lambda: len(order) == 3)
        assert order == [1, 3, 4]

    on_loop(main())
