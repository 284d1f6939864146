"""Work on long batches in steps, between which the broker serves other clients.

A call that would take more than a few milliseconds raises LongBatch. Its caller then runs a generator of steps, which does the same work.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, TypeVar

T = TypeVar("T")

#: Yields None to pause, or a function that the caller runs (in another thread if possible) and whose result it sends; returns the result.
Steps = Generator[Callable[[], Any] | None, Any, T]


class LongBatch(Exception):  # noqa: N818  not an error: the caller runs the steps instead
    """The call would take more than a few milliseconds on this batch."""


def finished(steps: Steps[T]) -> T:
    """Run all steps at once and return the result."""
    sent: Any = None
    while True:
        try:
            work = steps.send(sent)
        except StopIteration as end:
            outcome: T = end.value
            return outcome
        sent = None if work is None else work()
