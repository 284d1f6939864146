from __future__ import annotations

import pytest
from figures_of_runs import a_run, three_brokers
from loads import LOADS
from loads.declaration import AT
from loads.figures import FIGURES, Better
from reporting.ratios import SHOWN
from reporting.targets import TARGETS, Outcome, Target, curves, judge, with_targets


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.what)
def test_a_target_is_about_a_load_that_there_is(target: Target) -> None:
    assert target.load in LOADS
    assert FIGURES[target.figure].better is not Better.NEITHER


@pytest.mark.parametrize("row", SHOWN, ids=lambda row: row[1])
def test_a_row_of_the_picture_is_about_a_load_that_there_is(row: tuple[str, str, str, str]) -> None:
    _, _, load, figure = row
    assert load in LOADS
    assert FIGURES[figure].better is not Better.NEITHER


def test_every_target_is_in_the_picture() -> None:
    assert {(target.load, target.figure) for target in TARGETS} <= {(load, figure) for _, _, load, figure in SHOWN}


def of(run_or_load: str) -> dict[str, tuple[Outcome, str, int, int]]:
    (verdict,) = [each for each in judge(three_brokers()) if each.target.what == run_or_load]
    return {each.peer: (each.outcome, each.bound_text, each.rounds, each.rounds_met) for each in verdict.comparisons}


def test_more_is_better() -> None:
    assert of("produce 64 x 1 kB, MB/s") == {"kafka": (Outcome.MET, ">= 2.7", 3, 2), "kfake": (Outcome.MET, ">= 1.2", 3, 2)}


def test_less_is_better() -> None:
    assert of("produce latency p50") == {"kafka": (Outcome.MET, "<= 0.6", 3, 3), "kfake": (Outcome.MISSED, "<= 0.8", 3, 1)}


def test_one_missed_comparison_misses_the_target() -> None:
    outcomes = {verdict.target.what: verdict.outcome for verdict in judge(three_brokers())}
    assert outcomes["produce 64 x 1 kB, MB/s"] is Outcome.MET
    assert outcomes["produce latency p50"] is Outcome.MISSED
    assert outcomes["cold start"] is Outcome.MET
    assert outcomes["idle memory"] is Outcome.UNKNOWN


def growing(load: str, figure: str, *points: tuple[str, float]) -> list[tuple[str, str, str, list[float]]]:
    return [("minibroker", load, f"{figure}{AT}{place}", [value]) for place, value in points]


def test_a_curve_is_read_from_the_names_of_its_points() -> None:
    points = [("1,000 partitions", 22.0), ("1 partitions", 20.0), ("100 partitions", 21.0)]
    (curve,) = curves(a_run(*growing("growth, partitions", "CPU us/request", *points)))
    assert (curve.load, curve.figure, curve.axis) == ("growth, partitions", "CPU us/request", "partitions")
    assert {place: spread.median for place, spread in curve.points["minibroker"].items()} == {1: 20, 100: 21, 1000: 22}
    assert curve.growth == pytest.approx(1.1)


@pytest.mark.parametrize(("last", "outcome"), [(22.9, Outcome.MET), (23.1, Outcome.MISSED)])
def test_cost_stays_flat(last: float, outcome: Outcome) -> None:
    run = a_run(*growing("growth, segments", "CPU us/request", ("1 segments", 20.0), ("100 segments", last)))
    assert [curve.outcome for curve in with_targets(run)] == [outcome]


@pytest.mark.parametrize(("last", "outcome"), [(28.9, Outcome.MET), (29.1, Outcome.MISSED)])
def test_a_look_up_by_timestamp_may_grow_with_the_logarithm(last: float, outcome: Outcome) -> None:
    run = a_run(*growing("growth, timestamps", "by timestamp CPU us/request", ("1 MB", 20.0), ("1,000 MB", last)))
    assert [curve.outcome for curve in with_targets(run)] == [outcome]


def test_only_cpu_curves_have_growth_targets() -> None:
    run = a_run(*growing("partitions", "created s", ("100 partitions", 1.0), ("5,000 partitions", 50.0)))
    assert with_targets(run) == []
    assert len(curves(run)) == 1
