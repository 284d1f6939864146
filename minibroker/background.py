"""`Background`: runs long work outside the loop, such as recovery, deletion, fsync and compaction.

The work must own what it uses, or a copy of it. Only `done` may change shared state; it runs on the owner's thread.
"""

from __future__ import annotations

from collections.abc import Callable
from logging import Logger
from typing import Generic, Protocol, TypeVar

T = TypeVar("T")


class WorkLost(Exception):  # noqa: N818  named for what happened
    """The process of the work was cancelled, was killed, or ran out of memory."""


class LowPriority(Generic[T]):
    """Work for `submit_process` that may wait: its process gives way to all others of the machine, and does no other kind of work."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work

    def __call__(self) -> T:
        """Do the work."""
        return self._work()


class Background(Protocol):
    """Runs work in another thread or process, and returns the result to the owner's thread."""

    def submit(self, work: Callable[[], T], done: Callable[[T | BaseException], None]) -> None:
        """Run `work` off the owner's thread, then `done(result or exception)` on it."""

    def submit_process(self, work: Callable[[], T], done: Callable[[T | BaseException], None]) -> Callable[[], None]:
        """Run `work` in another process, for computations of seconds. It and its result must be picklable.

        Returns:
            A function that gives the work up: it kills the process, and `done` gets WorkLost. Harmless if the work is done.
        """


class InlineBackground:
    """Runs the work immediately, on the caller's thread, for tools and tests."""

    def submit(self, work: Callable[[], T], done: Callable[[T | BaseException], None]) -> None:
        """Run `work`, then `done`, before returning."""
        try:
            result: T | BaseException = work()
        except Exception as error:  # noqa: BLE001  an exception is the result of the work
            result = error
        done(result)

    def submit_process(self, work: Callable[[], T], done: Callable[[T | BaseException], None]) -> Callable[[], None]:
        """Run `work`, then `done`, before returning."""
        self.submit(work, done)
        return lambda: None


def warn_of_error(log: Logger, message: str, result: object) -> None:
    """Log the error of background work on which nothing depends. `message` has one %s."""
    if isinstance(result, BaseException):
        log.warning(message, result)
