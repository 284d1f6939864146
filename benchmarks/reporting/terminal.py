"""The picture of a run in a terminal: bars on a logarithmic scale, to the right of Apache Kafka's line where minibroker is better."""

from __future__ import annotations

import math
import shutil
from itertools import groupby

import click
from loads.declaration import AT
from loads.figures import Better, better
from tabulate import tabulate

from reporting.ratios import Row, rows
from reporting.results import OURS, Run
from reporting.tables import MARKS, RATIOS_TO, number, summary, times
from reporting.targets import Outcome, Verdict, judge, with_targets

WHAT = 34
LEAST_BAR, MOST_BAR = 24, 56
EIGHTHS = " ▏▎▍▌▋▊▉█"
COLOURS = {Outcome.MET: "green", Outcome.UNKNOWN: "yellow", Outcome.MISSED: "red"}


def bars(run: Run, width: int | None = None) -> str:
    """Return every row of the picture, or "" if nothing can be compared."""
    found = rows(run)
    if not found:
        return ""
    size = max(LEAST_BAR, min(MOST_BAR, (width or shutil.get_terminal_size((110, 24)).columns) - WHAT - 42))
    low = min(1.0, *(row.ours.median for row in found)) / 1.05
    high = max(2.0, *(row.ours.median for row in found)) * 1.02
    zero = round(size * math.log(1 / low) / math.log(high / low))
    lines = [click.style("times as good as Apache Kafka (│), logarithmic; ◆ kfake, ╎ target", bold=True)]
    for theme, those in groupby(found, key=lambda row: row.theme):
        lines.append(click.style(theme, bold=True))
        lines += [_line(row, low, high, zero, size) for row in those]
    return "\n".join(lines)


def _line(row: Row, low: float, high: float, zero: int, size: int) -> str:
    wins = row.ours.median >= 1
    cells = _bar(row.ours.median, low, high, zero, size)
    for value, mark in ((row.target, "╎"), (row.kfake, "◆")):
        if value is not None and low <= value <= high:
            cells[min(size - 1, int(_place(value, low, high, size)))] = mark
    if cells[zero] == " ":
        cells[zero] = "│"
    misses = row.target is not None and row.ours.median < row.target
    drawn = click.style("".join(cells), fg="red" if not wins else "yellow" if misses else "green")
    return f"  {row.what:{WHAT}} {drawn} {times(row.ours.median):>7}  {row.summary}"


def _bar(value: float, low: float, high: float, zero: int, size: int) -> list[str]:
    """Return the cells from Kafka's line to the value, the last one in eighths."""
    cells = [" "] * (size + 1)
    place = _place(value, low, high, size)
    if place >= zero:
        whole, rest = divmod(round((place - zero) * 8), 8)
        cells[zero : zero + whole] = "█" * whole
        if rest and zero + whole < size:
            cells[zero + whole] = EIGHTHS[rest]
    else:
        first = min(int(place), zero - 1)
        cells[first:zero] = "█" * (zero - first)
    return cells


def _place(value: float, low: float, high: float, size: int) -> float:
    return size * math.log(value / low) / math.log(high / low)


def verdicts(run: Run) -> str:
    """Return a line per target, with the missed ones last, and then the sum."""
    lines = [(verdict.outcome, [verdict.target.what, _said(verdict, "kafka"), _said(verdict, "kfake")]) for verdict in judge(run)]
    lines += [(curve.outcome, [curve.title, f"x {curve.growth:.2f} (<= {curve.may_grow:.2f})", ""]) for curve in with_targets(run)]
    if all(outcome is Outcome.UNKNOWN for outcome, _ in lines):
        return ""
    lines.sort(key=lambda line: list(COLOURS).index(line[0]))
    rows = [[click.style(MARKS[outcome], fg=COLOURS[outcome]), *cells] for outcome, cells in lines]
    headers = ["target", "minibroker's figure", "by Kafka's", "by kfake's"]
    return f"{tabulate(rows, headers=headers, tablefmt='simple', disable_numparse=True)}\n\n{click.style(summary(run), bold=True)}"


def _said(verdict: Verdict, peer: str) -> str:
    return next((f"{each.ratio.median:.2f} ({each.bound_text})" for each in verdict.comparisons if each.peer == peer and each.ratio), "")


def table(run: Run) -> str:
    """Return medians and ratios only, to fit a screen; the stored page has the ranges."""
    peers = run.peers()
    ratios = [peer for peer in RATIOS_TO if peer in peers and OURS in peers]
    lines: list[list[str]] = []
    for load in run.loads():
        for number_of, figure in enumerate(figure for figure in run.figures(load) if AT not in figure):
            medians = [run.spread(peer, load, figure) for peer in peers]
            texts = [number(spread.median) if spread else "-" for spread in medians]
            lines.append(["" if number_of else load, figure, *texts, *(_coloured(run, peer, load, figure) for peer in ratios)])
    headers = ["load", "figure", *peers, *(f"by {peer}'s" for peer in ratios)]
    return tabulate(
        lines, headers=headers, tablefmt="simple", disable_numparse=True, colalign=["left"] * 2 + ["right"] * (len(headers) - 2)
    )


def _coloured(run: Run, peer: str, load: str, figure: str) -> str:
    ratio, direction = run.ratio(peer, load, figure), better(figure)
    if ratio is None or direction is Better.NEITHER:
        return "-"
    return click.style(f"{ratio.median:.2f}", fg="green" if (ratio.median >= 1) == (direction is Better.HIGHER) else "red")


def overview(run: Run) -> str:
    """Return what a terminal shows at the end of a run: table, picture, verdict."""
    return "\n\n".join(text for text in (table(run), bars(run), verdicts(run)) if text)
