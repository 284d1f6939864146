"""The loop's clock and its background work, on both loops."""

from __future__ import annotations

import asyncio
import threading
from functools import partial
from pathlib import Path

import pytest

from minibroker.log.deletion import remove_files, remove_later
from minibroker.server.loop import LoopClock
from minibroker.server.loop_background import LoopBackground
from minibroker.storage.files import RealFiles
from tests.server.serving import OnLoop, until


def test_background_work_returns_its_result_to_the_loop(on_loop: OnLoop) -> None:
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


def test_a_removal_that_is_due_after_the_end_is_left_to_the_next_start(
    on_loop: OnLoop, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The timer of a deletion runs in the last turns of the loop, when the threads are gone: no RuntimeError, and no file is removed."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        failures: list[object] = []
        loop.set_exception_handler(lambda _, context: failures.append(context))
        background = LoopBackground(loop, 1)
        path = tmp_path / "00000000000000000000.log.deleted"
        path.touch()
        due: list[object] = []
        clock = LoopClock(loop)
        remove = partial(remove_files, RealFiles(), [str(path)])
        remove_later(remove, delay_ms=1, clock=clock, background=background)
        clock.call_later_ms(1, lambda: due.append(True))
        background.close()
        give_up = background.submit_process(remove, due.append)
        give_up()
        background.close()
        await until(lambda: due)
        assert (failures, due, path.exists()) == ([], [True], True)

    on_loop(main())
    assert caplog.records == []
