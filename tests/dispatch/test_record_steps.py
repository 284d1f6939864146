"""Long batches of several clients: one after the other, also when clients go."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import pytest

from minibroker.dispatch.delayed import Delayed
from minibroker.dispatch.slices import LONG_BATCHES_MAX, RecordSteps
from minibroker.errors import InvalidRecord

Done = Callable[[Any], None]


class Later:
    """Background whose work a test lets end."""

    def __init__(self) -> None:
        self.submitted: list[tuple[Callable[[], Any], Done]] = []

    def submit(self, work: Callable[[], Any], done: Done) -> None:
        self.submitted.append((work, done))

    def submit_process(self, work: Callable[[], Any], done: Done) -> Callable[[], None]:
        raise NotImplementedError


def steps(value: int) -> Generator[Callable[[], Any] | None, Any, int]:
    yield None
    if value < 0:
        raise InvalidRecord
    doubled: int = yield lambda: 2 * value
    return doubled


def waits(work: Generator[Delayed | None, Any, int]) -> bool:
    """Whether the next step is to wait."""
    return next(work) is not None


def outcome(work: Generator[Delayed | None, Any, int], sent: Any) -> Any:
    with pytest.raises(StopIteration) as end:
        work.send(sent)
    return end.value.value


def test_only_so_many_are_worked_on() -> None:
    all_steps = RecordSteps(Later())
    works = [all_steps.do(steps(number)) for number in range(LONG_BATCHES_MAX + 2)]
    assert [waits(work) for work in works] == [False] * LONG_BATCHES_MAX + [True] * 2
    assert waits(works[0])
    assert outcome(works[0], 0) == 0
    assert works[LONG_BATCHES_MAX].send(True) is None  # its turn has come


@pytest.mark.parametrize("is_gone_early", [True, False])
def test_closed_connection_releases_its_turn(is_gone_early: bool) -> None:
    all_steps = RecordSteps(Later())
    active = [all_steps.do(steps(number)) for number in range(LONG_BATCHES_MAX)]
    for work in active:
        assert not waits(work)
    gone, last = all_steps.do(steps(5)), all_steps.do(steps(6))
    assert waits(gone)
    assert waits(last)
    if is_gone_early:
        gone.close()
    for work in active:
        work.close()
    gone.close()
    assert last.send(True) is None
    last.close()
    assert not waits(all_steps.do(steps(7)))


def test_errors_give_the_turn_on() -> None:
    all_steps = RecordSteps(Later())
    for _ in range(3):
        work = all_steps.do(steps(-1))
        assert not waits(work)
        with pytest.raises(InvalidRecord):
            next(work)


def test_work_elsewhere_is_awaited() -> None:
    background = Later()
    work = RecordSteps(background).do(steps(21))
    assert not waits(work)
    assert waits(work)
    ((function, done),) = background.submitted
    done(function())
    assert outcome(work, 42) == 42
