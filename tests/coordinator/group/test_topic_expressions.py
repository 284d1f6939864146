"""TopicExpressions: small work at once, large work in slices, each topic name matched once, bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from minibroker.clock import ManualClock, ManualTimer
from minibroker.coordinator.group import topics
from minibroker.coordinator.group.topics import MatchingTopics, TopicExpressions
from minibroker.regular_expression import STEPS_A_SLICE, Regex

LARGE = r"(\b?[a-z]?){400}[0-9]+"  #: about 400,000 steps for a name of 249 letters
LONG = "a" * 245


class TurnClock(ManualClock):
    """Runs timers without a delay turn by turn."""

    def __init__(self) -> None:
        super().__init__()
        self._due: list[ManualTimer] = []

    def call_later_ms(self, delay_ms: int, callback: Callable[[], None]) -> ManualTimer:
        assert delay_ms == 0
        timer = ManualTimer(callback)
        self._due.append(timer)
        return timer

    def turn(self) -> None:
        due, self._due = self._due, []
        for timer in due:
            if timer.callback is not None:
                timer.callback()


class Cluster:
    """A cluster that has nothing but topic names."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self.clock = TurnClock()
        self.names = set(names)
        self.version = 1
        self.expressions = TopicExpressions(self.clock, lambda: self.names, lambda: self.version)

    def create(self, *names: str) -> None:
        self.names |= set(names)
        self.version += 1

    def delete(self, name: str) -> None:
        self.names.remove(name)
        self.version += 1

    def matching(self, pattern: str) -> MatchingTopics | None:
        return self.expressions.matching(pattern)


@pytest.fixture
def matched(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Names in the order in which they are matched, with their steps."""
    calls: list[tuple[str, int]] = []

    class Watched(Regex):
        def matches(self, text: str) -> bool:
            calls.append((text, self.steps(text)))
            return super().matches(text)

    monkeypatch.setattr(topics, "Regex", Watched)
    return calls


def test_cheap_regex_is_matched_immediately() -> None:
    cluster = Cluster(["orders-1", "orders-2", "bills"])
    assert cluster.matching("orders-.*") == (("orders-1", "orders-2"), 1)
    assert cluster.matching("none") == ((), 1)


def test_only_new_topic_names_are_matched(matched: list[tuple[str, int]]) -> None:
    cluster = Cluster(["orders-1", "orders-2", "bills"])
    cluster.matching("orders-.*")
    matched.clear()
    assert cluster.matching("orders-.*") == (("orders-1", "orders-2"), 1)
    assert matched == []
    cluster.create("orders-3")
    assert cluster.matching("orders-.*") == (("orders-1", "orders-2", "orders-3"), 2)
    assert [name for name, _ in matched] == ["orders-3"]
    cluster.delete("orders-1")
    assert cluster.matching("orders-.*") == (("orders-2", "orders-3"), 3)
    cluster.create("orders-1")
    assert cluster.matching("orders-.*") == (("orders-1", "orders-2", "orders-3"), 4)
    assert [name for name, _ in matched] == ["orders-3", "orders-1"]


def test_expensive_regex_is_matched_in_slices(matched: list[tuple[str, int]]) -> None:
    cluster = Cluster(f"{LONG}{number}" for number in range(10))
    turns = 0
    result = cluster.matching(LARGE)
    while result is None:
        steps = [each for _, each in matched]
        assert sum(steps[:-1]) < STEPS_A_SLICE  # a slice ends with the name that reaches the limit
        matched.clear()
        cluster.clock.turn()
        turns += 1
        result = cluster.matching(LARGE)
    assert turns >= 5
    assert result == (tuple(sorted(cluster.names)), 1)


def test_last_result_is_used_until_the_next_is_complete() -> None:
    cluster = Cluster([f"{LONG}1"])
    assert cluster.matching(LARGE) == ((f"{LONG}1",), 1)
    cluster.create(*(f"{LONG}{number}" for number in range(10)))
    assert cluster.matching(LARGE) == ((f"{LONG}1",), 1)
    cluster.clock.turn()
    assert cluster.matching(LARGE) == ((f"{LONG}1",), 1)
    for _ in range(10):
        cluster.clock.turn()
    assert cluster.matching(LARGE) == (tuple(sorted(cluster.names)), 2)


def test_regexes_take_turns(matched: list[tuple[str, int]]) -> None:
    cluster = Cluster(f"{LONG}{number}" for number in range(10))
    other = LARGE + "x?"
    assert cluster.matching(LARGE) is None
    assert cluster.matching(other) is None
    for _ in range(30):
        matched.clear()
        cluster.clock.turn()
        assert sum(steps for _, steps in matched) < 2 * STEPS_A_SLICE  # one slice a turn, whichever expression it is for
    assert cluster.matching(LARGE) == cluster.matching(other)


def test_number_of_cached_regexes_is_bounded(matched: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "MAX_EXPRESSIONS", 3)
    cluster = Cluster(["a"])
    for pattern in ("1", "2", "3", "1", "4"):
        cluster.matching(pattern)
    matched.clear()
    for pattern in ("1", "3", "4"):
        cluster.matching(pattern)
    assert matched == []
    cluster.matching("2")
    assert len(matched) == 1


def test_number_of_cached_names_is_bounded(matched: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "MAX_NAMES", 5)
    cluster = Cluster(["a", "b"])
    cluster.matching("1")
    cluster.matching("2")  # shares the names with the first
    cluster.create("c")
    cluster.matching("3")
    matched.clear()
    cluster.matching("2")
    assert [name for name, _ in matched] == ["c"]
    cluster.create("d")
    cluster.matching("3")
    matched.clear()
    cluster.matching("1")
    assert len(matched) == 4  # it was dropped


def test_number_of_unfinished_regexes_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "MAX_EXPRESSIONS", 2)
    cluster = Cluster(f"{LONG}{number}" for number in range(10))
    patterns = [LARGE + "x?" * count for count in range(4)]
    assert [cluster.matching(pattern) for pattern in patterns] == [None] * 4
    for _ in range(40):
        cluster.clock.turn()
    assert [cluster.matching(pattern) is None for pattern in patterns] == [False, False, True, True]
