from __future__ import annotations

from pathlib import Path

import measure
import pytest
from figures_of_runs import ABOUT
from loads.declaration import Figures, Load
from measure import Estimate, Session, Step, available, plan
from peers import Need, Peer, Unavailable
from pump import LoadError
from reporting.results import Measurement, Run


class FakePeer(Peer):
    """Starts at once, and is nothing."""

    name = "fake"
    running: list[Peer] = []  # noqa: RUF012  of all

    def start(self) -> None:
        self.running.append(self)

    def stop(self, *, keep: bool = False) -> None:
        if self in self.running:
            self.running.remove(self)
        self.folder.rmdir()

    def command(self) -> list[str]:
        return []


class Bare(FakePeer):
    gives = frozenset()


class Absent(FakePeer):
    def prepare(self) -> None:
        raise Unavailable("not here")


class Lame(FakePeer):
    """Does not come up."""

    def start(self) -> None:
        super().start()
        raise Unavailable("lame did not start: no memory")


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Log:
    """A Watcher that remembers."""

    def __init__(self) -> None:
        self.begun: list[tuple[int, str, str]] = []
        self.passed: list[tuple[float, float]] = []
        self.lines: list[str] = []

    def begins(self, step: Step, done: float, left_s: float) -> None:
        self.begun.append(step.place)
        self.passed.append((done, left_s))

    def measured(self, step: Step, measurement: Measurement) -> None:
        pass

    def left_out(self, line: str) -> None:
        self.lines.append(line)


def one(peer: Peer, scale: float) -> Figures:
    """Gives its scale."""
    return {"MB/s": scale}


A = Load("a", one, "Theme", seconds=10, quick=0.5)
B = Load("b", one, "Theme", seconds=20, needs=frozenset({Need.GROUPS}))
KINDS: dict[str, type[Peer]] = {"minibroker": FakePeer, "mock": Bare}


def test_round_by_round_brokers_in_turn() -> None:
    steps = plan([A, B], KINDS, rounds=2, scale=1.0, quick=False)
    once = [("a", "minibroker"), ("a", "mock"), ("b", "minibroker")]
    assert [step.place for step in steps] == [(number, *each) for number in (1, 2) for each in once]


def test_a_quick_run_has_a_scale_of_each_load_s_own() -> None:
    assert [step.scale for step in plan([A], KINDS, rounds=1, scale=0.5, quick=True)] == [0.25, 0.25]


def test_each_measurement_is_kept_at_once() -> None:
    run, kept = Run(ABOUT), list[int]()
    session = Session(run, KINDS, lambda: kept.append(len(run.measurements)), Log())
    session.go_through(plan([A], KINDS, rounds=2, scale=0.5, quick=False))
    assert kept == [1, 2, 3, 4]
    assert run.by_round("mock", "a", "MB/s") == {1: 0.5, 2: 0.5}
    assert {tuple(each.server) for each in run.measurements} == {()}  # it has no process
    assert FakePeer.running == []


def test_a_run_goes_on_where_it_ended() -> None:
    run, log = Run(ABOUT, [Measurement(1, "minibroker", "a", 3.0, {"MB/s": 7.0})]), Log()
    Session(run, KINDS, lambda: None, log).go_through(plan([A], KINDS, rounds=1, scale=1.0, quick=False))
    assert log.begun == [(1, "a", "mock")]
    assert run.by_round("minibroker", "a", "MB/s") == {1: 7.0}


def test_a_load_that_breaks_costs_its_own_figures_alone() -> None:
    def breaks(peer: Peer, scale: float) -> Figures:
        raise LoadError("Produce error 3")

    run, log = Run(ABOUT), Log()
    session = Session(run, {"minibroker": FakePeer}, lambda: None, log)
    session.go_through(plan([Load("bad", breaks, "Theme"), A], {"minibroker": FakePeer}, rounds=1, scale=1.0, quick=False))
    assert session.broke
    assert run.left_out == log.lines == ["bad, minibroker, round 1: LoadError: Produce error 3"]
    assert run.loads() == ["a"]
    assert FakePeer.running == []


def test_missing_requirement_is_tried_once() -> None:
    def needs_java(peer: Peer, scale: float) -> Figures:
        raise Unavailable("no java on this machine")

    run, log = Run(ABOUT), Log()
    session = Session(run, {"minibroker": FakePeer}, lambda: None, log)
    session.go_through(plan([Load("spark", needs_java, "Theme")], {"minibroker": FakePeer}, rounds=3, scale=1.0, quick=False))
    assert log.begun == [(1, "spark", "minibroker")]
    assert run.left_out == ["spark, minibroker: no java on this machine"]
    assert not session.broke


def test_a_broker_that_never_came_up_is_not_tried_again() -> None:
    kinds: dict[str, type[Peer]] = {"minibroker": FakePeer, "kafka": Lame}
    run, log = Run(ABOUT), Log()
    session = Session(run, kinds, lambda: None, log)
    session.go_through(plan([A, B], kinds, rounds=2, scale=1.0, quick=False))
    assert run.left_out == ["kafka cannot run here: lame did not start: no memory"]
    assert len(run.measurements) == 4
    assert not session.broke
    assert FakePeer.running == []


def test_a_broker_that_came_up_before_is_tried_again() -> None:
    kinds: dict[str, type[Peer]] = {"kafka": Lame}
    run, log = Run(ABOUT, [Measurement(1, "kafka", "a", 3.0, {"MB/s": 7.0})]), Log()
    Session(run, kinds, lambda: None, log).go_through(plan([A], kinds, rounds=3, scale=1.0, quick=False))
    assert log.begun == [(2, "a", "kafka"), (3, "a", "kafka")]


def test_nothing_is_begun_that_would_end_too_late() -> None:
    clock = Clock()

    def takes_40_s(peer: Peer, scale: float) -> Figures:
        clock.now += 40
        return {"MB/s": 1.0}

    loads = [Load("first", takes_40_s, "Theme", seconds=10), Load("second", takes_40_s, "Theme", seconds=10)]
    run, log = Run(ABOUT), Log()
    session = Session(run, {"minibroker": FakePeer}, lambda: None, log, clock)
    session.go_through(plan(loads, {"minibroker": FakePeer}, rounds=2, scale=1.0, quick=False), minutes=1)
    assert log.begun == [(1, "first", "minibroker")]
    assert log.passed == [(0.0, 40.0)]
    assert run.left_out == ["3 measurements would have exceeded 1 minutes. Without any figure: second."]


def test_how_far_a_run_is() -> None:
    clock = Clock()

    def takes_10_s(peer: Peer, scale: float) -> Figures:
        clock.now += 10
        return {"MB/s": 1.0}

    log = Log()
    session = Session(Run(ABOUT), {"minibroker": FakePeer}, lambda: None, log, clock)
    steps = plan([Load("a", takes_10_s, "Theme", seconds=20)], {"minibroker": FakePeer}, rounds=4, scale=1.0, quick=False)
    session.go_through(steps, minutes=0.6)
    assert log.passed == [(0.0, 36.0), (10 / 36, 26.0), (20 / 36, 16.0)]  # the fourth would end after 40 s


def test_time_left_is_a_guess_until_something_has_been_measured() -> None:
    first, other, big = (Step(1, A, "minibroker", 1.0), Step(1, A, "kafka", 1.0), Step(1, B, "kafka", 1.0))
    estimate = Estimate()
    assert estimate.seconds([first, other, big]) == 40
    estimate.learn(first, 30.0)
    assert estimate.seconds([Step(2, A, "minibroker", 1.0)]) == 30
    assert estimate.seconds([big]) == 60  # guesses are worth three times what they say


def test_estimate_uses_earlier_measurements() -> None:
    assert Estimate([Measurement(1, "kafka", "a", 7.0, {})]).seconds([Step(2, A, "kafka", 1.0)]) == 7


def test_a_small_scale_still_starts_brokers() -> None:
    assert Estimate().seconds([Step(1, A, "kafka", 0.01)]) == pytest.approx(measure.FIXED_S + 0.06)


def test_a_broker_that_cannot_be_had_is_left_out_with_a_line() -> None:
    seen: list[str] = []
    found, left_out = available({"minibroker": FakePeer, "tansu": Absent}, seen.append)
    assert list(found) == ["minibroker"]
    assert left_out == ["tansu cannot run here: not here"]
    assert seen == ["minibroker", "tansu"]
    assert FakePeer.running == []


def test_a_quick_run_is_kept_apart(tmp_path: Path) -> None:
    assert measure.results_path(tmp_path, quick=True).name.endswith("_quick.json")
    assert measure.results_path(tmp_path, quick=False).parent == tmp_path
