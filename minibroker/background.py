"""Long work leaves the loop: recovery, deletion, fsync and checking are submitted here.

The work must own what it touches, or a copy of it; only `done` may change shared state, and it runs on the owner's thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

T = TypeVar("T")


class WorkLost(Exception):  # noqa: N818  named for what happened
    """The process that did the work is gone: given up, killed, out of memory."""


class Background(Protocol):
    """Runs work elsewhere and brings the result back."""

    def submit(self, work: Callable[[], T], done: Callable[[T | BaseException], None]) -> None:
        """Run `work` off the owner's thread, then `done(result or exception)` on it."""

    def submit_process(self, work: Callable[[], T], done: Callable[[T | BaseException], None]) -> Callable[[], None]:
        """The same for work that computes for seconds: in another process, so it and its result must be picklable.

        Returns what gives it up: the process is killed, and `done` gets WorkLost; harmless when the work is done.
        """


class InlineBackground:
    """Runs both at once, on the caller's thread: for tools and for tests."""

    def submit(self, work: Callable[[], T], done: Callable[[T | BaseException], None]) -> None:
        """Run `work`, then `done`, before returning."""
        try:
            result: T | BaseException = work()
        except Exception as error:  # noqa: BLE001  whatever the work raised is its result
            result = error
        done(result)

    def submit_process(self, work: Callable[[], T], done: Callable[[T | BaseException], None]) -> Callable[[], None]:
        """As `submit`."""
        self.submit(work, done)
        return lambda: None
