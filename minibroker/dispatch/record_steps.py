"""Run the steps of record batches (records/steps.py) as slices of a request, or in a worker thread where a step allows it.

At most ACTIVE_MAX long batches are processed at the same time, and the others wait in order. A zstd window, or a payload that is
compressed again, may take 100 MB.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from minibroker.dispatch.delayed import Delayed

if TYPE_CHECKING:
    from minibroker.background import Background
    from minibroker.records.steps import Steps

ACTIVE_MAX: Final = 1  #: long batches of all clients that are processed at the same time

T = TypeVar("T")


class RecordSteps:
    """The long batches of a broker."""

    def __init__(self, background: Background) -> None:
        self._background = background
        self._active = 0
        self._waiting: deque[Delayed] = deque()

    def do(self, steps: Steps[T]) -> Generator[Delayed | None, Any, T]:
        """Run `steps` within sliced work (dispatch/slices.py). Raises their errors."""
        if self._active < ACTIVE_MAX:
            self._active += 1
        else:
            yield from self._wait()
        try:
            return (yield from self._do(steps))
        finally:
            self._pass_on()

    def _wait(self) -> Generator[Delayed, Any, None]:
        turn = Delayed()
        self._waiting.append(turn)
        try:
            yield turn
        except GeneratorExit:  # the client is gone
            if turn in self._waiting:
                self._waiting.remove(turn)
            else:
                self._pass_on()
            raise

    def _pass_on(self) -> None:
        """Start the next waiting batch."""
        if self._waiting:
            self._waiting.popleft().complete(True)
        else:
            self._active -= 1

    def _do(self, steps: Steps[T]) -> Generator[Delayed | None, Any, T]:
        sent: Any = None
        while True:
            try:
                work = steps.send(sent)
            except StopIteration as end:
                outcome: T = end.value
                return outcome
            sent = (yield None) if work is None else (yield self._elsewhere(work))

    def _elsewhere(self, work: Callable[[], Any]) -> Delayed:
        """Start `work` in a worker thread. Returns a Delayed with its result, which must not be None, or its error."""
        delayed = Delayed()

        def done(outcome: Any) -> None:
            delayed.resolve(partial(_unwrapped, outcome))

        self._background.submit(work, done)
        return delayed


def _unwrapped(outcome: Any) -> Any:
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome
