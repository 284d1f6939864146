from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from figures_of_runs import ABOUT, a_run, three_brokers
from reporting.results import SEVERAL_RUNS, Measurement, Run, Spread, UnlikeRuns, merge, read

ROOT = Path(__file__).parents[2]


def test_results_round_trip(tmp_path: Path) -> None:
    run = three_brokers()
    run.left_out.append("tansu cannot run here: no tansu on this machine")
    run.write(tmp_path / "results" / "run.json")
    assert read(tmp_path / "results" / "run.json") == run
    assert [path.name for path in (tmp_path / "results").iterdir()] == ["run.json"]


def test_a_file_has_a_line_a_measurement(tmp_path: Path) -> None:
    run = three_brokers()
    run.write(tmp_path / "run.json")
    lines = (tmp_path / "run.json").read_text().splitlines()
    assert sum('"figures"' in line for line in lines) == len(run.measurements)


@pytest.mark.parametrize("path", sorted((ROOT / "benchmarks" / "results").glob("*.json")), ids=lambda path: path.stem)
def test_every_file_that_is_kept_can_be_read(path: Path) -> None:
    run = read(path)
    assert "minibroker" in run.peers()
    assert run.loads()


def test_a_file_of_the_first_format_has_its_rounds(tmp_path: Path) -> None:
    figures = [
        {"broker": "minibroker", "load": "latency", "figure": "p50 us", "values": [3, 1, 2]},
        {"broker": "minibroker", "load": "latency", "figure": "p99 us", "values": [30, 10]},
    ]
    (tmp_path / "2026-11-21_1140.json").write_text(
        json.dumps({"machine": "2026-11-21, commit f00, 2 cores, x86_64, Python 3.11.7", "figures": figures})
    )
    run = read(tmp_path / "2026-11-21_1140.json")
    assert run.spread("minibroker", "latency", "p50 us") == Spread(2, 1, 3)
    assert run.by_round("minibroker", "latency", "p99 us") == {1: 30, 2: 10}
    assert (run.about.date, run.about.commit, run.about.rounds) == ("2026-11-21 1140", "f00", 3)


def test_medians_and_ratios() -> None:
    run = three_brokers()
    assert run.spread("kafka", "produce 64 x 1 kB", "MB/s") == Spread(200, 190, 210)
    ratio = run.ratio("kafka", "produce 64 x 1 kB", "MB/s")
    assert ratio is not None
    assert ratio.median == 3.0
    assert (ratio.low, ratio.high) == (500 / 210, 700 / 190)
    assert run.ratio("kfake", "start", "cold start ms") is None


def test_a_ratio_is_that_of_neighbours() -> None:
    """The machine was slow in the second round, for both."""
    run = a_run(("minibroker", "start", "cold start ms", [100, 300, 110]), ("kafka", "start", "cold start ms", [1000, 3000, 2200]))
    assert run.ratio("kafka", "start", "cold start ms") == Spread(0.1, 0.05, 0.1)


def test_ratio_to_zero_is_undefined() -> None:
    run = a_run(("minibroker", "transactions", "asked again", [0.0]), ("kafka", "transactions", "asked again", [0.0]))
    assert run.ratio("kafka", "transactions", "asked again") is None


def test_minibroker_comes_first_and_loads_in_the_order_of_the_plan() -> None:
    run = three_brokers()
    run.measurements.reverse()
    assert run.peers() == ["minibroker", "kafka", "kfake"]
    assert run.loads() == ["start", "produce 64 x 1 kB", "latency"]


def test_rounds_are_counted_a_load() -> None:
    run = three_brokers()
    run.measurements.append(Measurement(4, "minibroker", "latency", 1.0, {"acknowledged p50 us": 1.0}))
    assert run.rounds() == (3, 4)
    assert Run(ABOUT).rounds() == (0, 0)


def test_runs_of_one_day_become_one() -> None:
    first = a_run(("minibroker", "latency", "p50 us", [10, 20]), ("kafka", "latency", "p50 us", [100, 100]))
    second = a_run(
        ("minibroker", "latency", "p50 us", [30]),
        ("kafka", "latency", "p50 us", [100]),
        about=replace(ABOUT, date="2026-11-21 23:59", commit="def5678", loads=("latency", "restart"), rounds=1),
    )
    merged = merge([second, first])
    assert merged.by_round("minibroker", "latency", "p50 us") == {1: 10, 2: 20, 3: 30}
    assert merged.about.date == "2026-11-21 23:59"
    assert merged.about.commit == "abc1234, def5678"
    assert merged.about.loads == ("start", "produce 64 x 1 kB", "latency", "restart")
    assert merged.about.rounds == 4
    assert (merged.about.command, merge([first]).about.command) == (SEVERAL_RUNS, first.about.command)


@pytest.mark.parametrize("unlike", [{"scale": 0.1}, {"machine": {"processor": "another"}}, {"quick": True}])
def test_runs_that_do_not_compare_do_not_become_one(unlike: dict[str, Any]) -> None:
    with pytest.raises(UnlikeRuns, match=next(iter(unlike))):
        merge([three_brokers(), Run(replace(ABOUT, **unlike))])
