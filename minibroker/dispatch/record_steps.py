"""Steps of records (records/long_batch.py) as slices of a request: what may be done elsewhere is done in a worker thread."""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from minibroker.dispatch.delayed import Delayed

if TYPE_CHECKING:
    from minibroker.background import Background
    from minibroker.records.long_batch import Steps

T = TypeVar("T")


def in_slices(background: Background, steps: Steps[T]) -> Generator[Delayed | None, Any, T]:
    """Do `steps` within sliced work (dispatch/slices.py); their errors are raised."""
    sent: Any = None
    while True:
        try:
            work = steps.send(sent)
        except StopIteration as end:
            outcome: T = end.value
            return outcome
        sent = (yield None) if work is None else (yield elsewhere(background, work))


def elsewhere(background: Background, work: Callable[[], Any]) -> Delayed:
    """Start `work` in a worker thread; its result, which must not be None, or its error is the response of what is returned."""
    delayed = Delayed()

    def done(outcome: Any) -> None:
        delayed.resolve(partial(_unwrapped, outcome))

    background.submit(work, done)
    return delayed


def _unwrapped(outcome: Any) -> Any:
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome
