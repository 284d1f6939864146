"""Tables of a run in GitHub's markdown: the verdict on the targets, every figure with its range, how cost grows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby

from loads.declaration import AT, SYNCED
from loads.figures import Better, better
from tabulate import tabulate

from reporting.results import OURS, Run, Spread
from reporting.targets import Comparison, Curve, Outcome, Verdict, curves, judge, with_targets

#: Peers with a column of ratios, if they are in the run.
RATIOS_TO = ("kafka", "kfake")
LOSS = 1.01
SERVER = ("CPU s", "memory MB")
MARKS = {Outcome.MET: "✓ met", Outcome.MISSED: "✗ not met", Outcome.UNKNOWN: "- not measured"}


def heading(run: Run) -> str:
    """Return two or three lines: date, command, machine and size of the run."""
    about = run.about
    least, most = run.rounds()
    rounds = f"{least}" if least == most else f"{least} to {most}"
    size = "" if about.scale == 1.0 and not about.quick else f", {'quick sizes' if about.quick else f'{about.scale:g} of the full size'}"
    lines = [
        f"{about.date} UTC, commit {about.commit}, `{about.command}`, {rounds} round{'s' * (rounds != '1')}{size}.",
        "Machine: " + ", ".join(f"{value}" if name == "processor" else f"{name} {value}" for name, value in about.machine.items()) + ".",
    ]
    if about.versions:
        lines.append("Brokers: " + ", ".join(f"{name} ({version})" for name, version in about.versions.items()) + ".")
    return "\n".join(lines)


def verdicts(run: Run) -> str:
    """Return the targets table after a line with its sum, or "" if no target was measured."""
    if all(verdict.outcome is Outcome.UNKNOWN for verdict in judge(run)) and not with_targets(run):
        return ""
    rows = [[verdict.target.what, *_side(verdict, "kafka"), *_side(verdict, "kfake"), MARKS[verdict.outcome]] for verdict in judge(run)]
    headers = ["minibroker's figure by the other's", "Kafka: target", "measured", "kfake on disk: target", "measured", ""]
    return f"{summary(run)}\n\n{_table(rows, headers)}"


def summary(run: Run) -> str:
    """Return how many targets are met, those of growth included."""
    outcomes = [verdict.outcome for verdict in judge(run)] + [curve.outcome for curve in with_targets(run)]
    counts = {outcome: outcomes.count(outcome) for outcome in Outcome}
    parts = [f"{counts[Outcome.MET]} of {len(outcomes)} targets met"]
    parts += [f"{counts[outcome]} {outcome.value}" for outcome in (Outcome.MISSED, Outcome.UNKNOWN) if counts[outcome]]
    return ", ".join(parts) + "."


def _side(verdict: Verdict, peer: str) -> list[str]:
    found = next((each for each in verdict.comparisons if each.peer == peer), None)
    return ["", ""] if found is None else [found.bound_text, _measured(found)]


def _measured(comparison: Comparison) -> str:
    """Return the ratio, and how many rounds agree with the median if not all do."""
    if comparison.ratio is None:
        return "-"
    missed = comparison.rounds - comparison.rounds_met
    agree = comparison.rounds_met if comparison.outcome is Outcome.MET else missed
    doubt = f" ({comparison.rounds_met} of {comparison.rounds} rounds meet it)" if agree < comparison.rounds else ""
    sure = f"{comparison.ratio.median:.2f}"
    return (f"**{sure}**" if comparison.outcome is Outcome.MISSED else sure) + doubt


def figures(run: Run, *, synced: bool = False) -> str:
    """Return one row per figure: each broker's median with its range, minibroker's ratios to Kafka and kfake; or ""."""
    return _figures(run, lambda load: load.endswith(SYNCED) == synced)


def _figures(run: Run, selects: Callable[[str], bool]) -> str:
    names = run.peers()
    ratios = [name for name in RATIOS_TO if name in names and OURS in names]
    rows, before = [], ""
    for load in filter(selects, run.loads()):
        for figure in run.figures(load):
            if AT in figure:
                continue
            cells = [cell(run.spread(name, load, figure)) for name in names]
            rows.append(["" if load == before else load, figure, *cells, *(_ratio(run, name, load, figure) for name in ratios)])
            before = load
    if not rows:
        return ""
    return _table(rows, ["load", "figure", *names, *(f"by {name}'s" for name in ratios)])


def servers(run: Run) -> str:
    """Return the total cost of each load for the servers: CPU seconds from start to end, and memory at the end; or ""."""
    names = run.peers()
    rows = [[load, *(_server(run, name, load, figure) for figure in SERVER for name in names)] for load in run.loads()]
    rows = [row for row in rows if set(row[1:]) != {"-"}]
    return _table(rows, ["load", *(f"{name}, {figure}" for figure in SERVER for name in names)]) if rows else ""


def _server(run: Run, name: str, load: str, figure: str) -> str:
    spread = run.server(name, load, figure)
    return "-" if spread is None else number(spread.median)


def losses(run: Run) -> str:
    """Return the figures in which another broker's median is more than 1% better, the worst first; or ""."""
    found: list[tuple[float, list[str]]] = []
    for load in run.loads():
        for figure in run.figures(load):
            for name in run.peers()[1:]:
                ours, theirs, ratio = run.spread(OURS, load, figure), run.spread(name, load, figure), run.ratio(name, load, figure)
                if AT in figure or ratio is None or not ratio.median or better(figure) is Better.NEITHER:
                    continue
                factor = 1 / ratio.median if better(figure) is Better.HIGHER else ratio.median
                if factor > LOSS:
                    found.append((factor, [name, load, figure, cell(ours), cell(theirs), f"{ratio.median:.2f}"]))
    found.sort(key=lambda each: ([*RATIOS_TO, each[1][0]].index(each[1][0]), -each[0]))
    return _table([row for _, row in found], ["better", "load", "figure", OURS, "the other", "ratio"]) if found else ""


def growth(run: Run) -> str:
    """Return the points of all curves, a table per load, and whether they stay flat; or ""."""
    blocks = []
    for (load, axis), those in groupby(curves(run), key=lambda curve: (curve.load, curve.axis)):
        grown = list(those)
        places = sorted({place for curve in grown for points in curve.points.values() for place in points})
        rows = [_points(curve, name, places) for curve in grown for name in run.peers() if name in curve.points]
        headers = [axis, "broker", *(f"{place:,.0f}" for place in places), "last by first", ""]
        blocks.append(f"**{load}**\n\n{_table(rows, headers)}")
    return "\n\n".join(blocks)


def _points(curve: Curve, name: str, places: Sequence[float]) -> list[str]:
    """Return a broker's row; only minibroker's has a verdict."""
    points = curve.points[name]
    medians = [points[place].median for place in places if place in points]
    grown = f"{medians[-1] / medians[0]:.2f}" if len(medians) > 1 and medians[0] else "-"
    judged = name == OURS and curve.may_grow is not None
    verdict = f"{MARKS[curve.outcome]} (<= {curve.may_grow:.2f})" if judged else ""
    return [curve.figure if name == OURS else "", name, *(cell(points.get(place)) for place in places), grown, verdict]


def cell(spread: Spread | None) -> str:
    """Return a median, with its range if rounds differ."""
    if spread is None:
        return "-"
    low, median, high = number(spread.low), number(spread.median), number(spread.high)
    return median if low == high else f"{median} ({low}-{high})"


def number(value: float) -> str:
    """Format a number with three significant digits, without an exponent."""
    if value == 0 or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def times(value: float) -> str:
    """Format a ratio: 0.67 x, 2.36 x, 13 x."""
    return f"{value:.2f} x" if value < 10 else f"{value:.0f} x"


def short(value: float) -> str:
    """Format a number for little space: 37.4k."""
    return f"{value / 1000:.3g}k" if abs(value) >= 10_000 else number(value)


def _ratio(run: Run, peer: str, load: str, figure: str) -> str:
    """Return the unit, or None if the figure only explains others."""
    ratio = run.ratio(peer, load, figure)
    return "-" if ratio is None or better(figure) is Better.NEITHER else f"{ratio.median:.2f}"


def _table(rows: list[list[str]], headers: list[str]) -> str:
    """Align the columns of figures to the right."""
    columns = list(zip(*rows, strict=True))
    aligned = ["right" if any(cell[:1].isdigit() or cell[:3] == "**0" for cell in column) else "left" for column in columns]
    aligned[:2] = ["left"] * len(aligned[:2])
    return tabulate(rows, headers=headers, tablefmt="github", disable_numparse=True, colalign=aligned)
