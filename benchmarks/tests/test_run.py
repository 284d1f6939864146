"""`make bench` in small: every load runs against a real broker process and gives its figures, and a run is kept, shown and gone on with."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from loads import LOADS
from loads.figures import FIGURES
from peers import Need
from reporting.results import read

BENCHMARKS = Path(__file__).parents[1]
SCALE = "0.004"
THEMES = sorted({load.theme for load in LOADS.values() if Need.CLIENTS not in load.needs})


def run(*options: str, script: str = "run.py") -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(BENCHMARKS / script), *options], capture_output=True, text=True, timeout=280, check=False)


def small(*options: str) -> subprocess.CompletedProcess[str]:
    return run("--peer", "minibroker", "--rounds", "1", "--scale", SCALE, "--no-save", *options)


@pytest.mark.parametrize("theme", THEMES)
def test_every_load_gives_its_figures(theme: str) -> None:
    names = [load.name for load in LOADS.values() if load.theme == theme and Need.CLIENTS not in load.needs]
    done = small(*(part for name in names for part in ("--load", name)))
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    for name in names:
        assert any(line.startswith((f"| {name} ", f"**{name}")) for line in lines), done.stdout
    tables = done.stdout.partition("## What it cost")[0].splitlines()
    figures = {line.split("|")[2].strip() for line in tables if line.startswith("| ") and line.count("|") == 4} - {"figure"}
    assert {figure for figure in figures if figure not in FIGURES} == set()


def test_an_unknown_load_is_refused() -> None:
    done = run("--load", "magic")
    assert done.returncode == 2
    assert "'magic' is not one of" in done.stderr


def test_a_peer_takes_only_the_loads_that_mean_something_to_it() -> None:
    options = ["--peer", "mock", "--rounds", "1", "--scale", SCALE, "--no-save", "--load", "produce 1 x 100 B", "--load", "group of 20"]
    done = run(*options)
    assert done.returncode == 0, done.stderr
    assert "| produce 1 x 100 B" in done.stdout
    assert "| group of 20" not in done.stdout


def test_the_listing_shows_every_load() -> None:
    done = run("--list")
    assert all(name in done.stdout for name in LOADS)


def test_a_run_is_kept_gone_on_with_and_shown_again(tmp_path: Path) -> None:
    script = f"import sys, run; from pathlib import Path; run.RESULTS = Path({str(tmp_path)!r}); run.main()"
    command = [sys.executable, "-c", script, "--peer", "minibroker", "--rounds", "2", "--scale", SCALE, "--load", "start"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=BENCHMARKS)
    assert done.returncode == 0, done.stderr
    (path,) = tmp_path.glob("*.json")
    kept = read(path)
    assert [each.round for each in kept.measurements] == [1, 2]
    assert kept.about.machine["processor"]

    document = json.loads(path.read_text())
    lost = document["measurements"].pop()
    path.write_text(json.dumps(document))
    assert run("--resume", str(path)).returncode == 0
    assert [each.round for each in read(path).measurements] == [1, lost["round"]]

    shown = run(str(path), script="report.py")
    assert shown.returncode == 0, shown.stderr
    assert "| start" in shown.stdout
    assert path.with_suffix(".md").read_text() == shown.stdout.removesuffix("\n")
