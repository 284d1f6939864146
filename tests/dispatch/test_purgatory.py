"""Requests wait, are woken once a turn, and let go of everything when they are answered."""

from __future__ import annotations

from collections.abc import Callable

from minibroker.clock import ManualClock
from minibroker.dispatch.delayed import Delayed, MakeResponse, Purgatory


class Source:
    """Something to watch."""

    def __init__(self) -> None:
        self.callbacks: list[Callable[[], None]] = []

    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
        self.callbacks.append(callback)
        return lambda: self.callbacks.remove(callback)

    def move(self) -> None:
        for callback in list(self.callbacks):
            callback()


class Owner:
    """The dispatcher's part."""

    def __init__(self, delayed: Delayed) -> None:
        self.answers: list[object] = []
        self.delayed = delayed
        delayed.bind(self.run, str)

    def run(self, work: MakeResponse) -> None:
        answer = work()
        if answer is not None:
            self.delayed.finished()
            self.answers.append(answer)


class Attempts:
    """Answers when `enough`, or at the last attempt."""

    def __init__(self) -> None:
        self.tried: list[bool] = []
        self.enough = False

    def __call__(self, is_last: bool) -> str | None:
        self.tried.append(is_last)
        return "late" if is_last else "enough" if self.enough else None


def test_waits_for_enough_bytes() -> None:
    clock, source, attempts = ManualClock(), Source(), Attempts()
    purgatory = Purgatory(clock)
    owner = Owner(purgatory.park([source], 500, attempts))
    assert purgatory.count == 1
    source.move()
    clock.advance(0)
    assert owner.answers == []
    attempts.enough = True
    source.move()
    assert owner.answers == []  # not within the move, which is another request's work
    clock.advance(0)
    assert owner.answers == ["enough"]
    assert (purgatory.count, source.callbacks) == (0, [])
    clock.advance(1000)
    assert attempts.tried == [False, False]


def test_many_moves_of_one_turn_are_one_attempt() -> None:
    clock, first, second, attempts = ManualClock(), Source(), Source(), Attempts()
    Owner(Purgatory(clock).park([first, second], 500, attempts))
    for source in (first, second, first):
        source.move()
    clock.advance(0)
    assert attempts.tried == [False]


def test_time_is_up() -> None:
    clock, source, attempts = ManualClock(), Source(), Attempts()
    purgatory = Purgatory(clock)
    owner = Owner(purgatory.park([source], 500, attempts))
    clock.advance(499)
    assert owner.answers == []
    clock.advance(1)
    assert owner.answers == ["late"]
    assert (purgatory.count, source.callbacks) == (0, [])


def test_steps_aside_at_once() -> None:
    clock, source, attempts = ManualClock(), Source(), Attempts()
    delayed = Purgatory(clock).park([source], 500, attempts)
    owner = Owner(delayed)
    source.move()
    delayed.step_aside()
    delayed.step_aside()
    clock.advance(1000)
    assert owner.answers == ["late"]


def test_cancelled_requests_are_forgotten() -> None:
    clock, source, attempts = ManualClock(), Source(), Attempts()
    purgatory = Purgatory(clock)
    delayed = purgatory.park([source], 500, attempts)
    source.move()
    delayed.cancel()
    delayed.cancel()
    clock.advance(1000)
    assert (attempts.tried, purgatory.count, source.callbacks) == ([], 0, [])
