"""Wakefulness: when the loop polls instead of sleeping, and that it ends."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from minibroker.server.wakefulness import AWAKE_S, GAP_S, STREAK, Wakefulness


class Loop:
    """A loop whose time stands still until a test moves it."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.due: list[Callable[[], None]] = []

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.due.append(callback)

    def run_once(self) -> None:
        due, self.due = self.due, []
        for callback in due:
            callback()


@pytest.fixture
def loop() -> Loop:
    return Loop()


def wakefulness(loop: Loop, processors: int = 2) -> Wakefulness:
    return Wakefulness(loop.call_soon, now_s=lambda: loop.now_s, processors=processors)


def turns(loop: Loop, subject: Wakefulness, count: int, gap_s: float) -> None:
    for _ in range(count):
        loop.now_s += gap_s
        subject.turn()


def test_a_close_streak_wakes_it(loop: Loop) -> None:
    subject = wakefulness(loop)
    turns(loop, subject, STREAK - 1, GAP_S / 2)
    assert loop.due == []
    turns(loop, subject, 1, GAP_S / 2)
    assert subject.is_awake
    assert len(loop.due) == 1


def test_requests_now_and_then_never_do(loop: Loop) -> None:
    subject = wakefulness(loop)
    turns(loop, subject, 10 * STREAK, GAP_S * 1.01)
    assert not subject.is_awake
    assert loop.due == []


def test_single_gap_restarts_the_streak(loop: Loop) -> None:
    subject = wakefulness(loop)
    turns(loop, subject, STREAK - 1, GAP_S / 2)
    turns(loop, subject, 1, GAP_S * 2)
    turns(loop, subject, STREAK - 1, GAP_S / 2)
    assert not subject.is_awake


def test_it_polls_as_long_as_turns_follow_and_then_sleeps(loop: Loop) -> None:
    subject = wakefulness(loop)
    turns(loop, subject, STREAK, GAP_S / 2)
    for _ in range(100):
        loop.now_s += AWAKE_S / 2
        loop.run_once()
        assert len(loop.due) == 1
        subject.turn()  # while it is awake a turn schedules nothing more
        assert len(loop.due) == 1
    loop.now_s += AWAKE_S * 1.01
    loop.run_once()
    assert loop.due == []
    assert not subject.is_awake


def test_after_a_miss_a_whole_streak_is_needed_again(loop: Loop) -> None:
    subject = wakefulness(loop)
    turns(loop, subject, STREAK, GAP_S / 2)
    loop.now_s += AWAKE_S * 1.01
    loop.run_once()
    turns(loop, subject, STREAK - 1, GAP_S / 3)
    assert not subject.is_awake


def test_with_one_processor_it_always_sleeps(loop: Loop) -> None:
    subject = wakefulness(loop, processors=1)
    turns(loop, subject, 10 * STREAK, GAP_S / 2)
    assert not subject.is_awake
    assert loop.due == []
