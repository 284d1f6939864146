"""The picture of a run by several interpreters: how many times as good as the first one each is, load by load."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from loads.figures import Better, better

from reporting.ratios import SHOWN
from reporting.results import Run, Spread
from reporting.tables import times

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from reporting.plots import Theme

ROW_INCHES = 0.29


class Bar(NamedTuple):
    """One figure by one interpreter."""

    what: str
    peer: str
    ratio: Spread  #: times as good as by the interpreter that runs the benchmark


def bars(run: Run) -> list[Bar]:
    """Return the bars of all loads, those of one figure together."""
    return [
        Bar(what, peer, ratio)
        for _, what, load, figure in SHOWN
        for peer in run.about.interpreters
        if (ratio := _ratio(run, peer, load, figure))
    ]


def _ratio(run: Run, peer: str, load: str, figure: str) -> Spread | None:
    """Return how many times as good a figure is. `Run.ratio` is ours by theirs."""
    ratio = run.ratio(peer, load, figure)
    if ratio is None or not ratio.low:
        return None
    return ratio if better(figure) is Better.LOWER else Spread(1 / ratio.median, 1 / ratio.high, 1 / ratio.low)


def picture(run: Run, found: list[Bar], theme: Theme) -> Figure:
    """Draw a horizontal bar for each interpreter and figure, from the line of the first interpreter on."""
    from matplotlib.figure import Figure  # noqa: PLC0415  takes a second, and is an extra

    height = len(found) * ROW_INCHES + 1.2
    figure = Figure(figsize=(10, height))
    axes = figure.add_axes((0.52, 0.4 / height, 0.42, 1 - 1.2 / height))
    peers = list(run.about.interpreters)
    for place, bar in enumerate(found):
        colour = theme.ours if bar.ratio.median >= 1 else theme.worse
        axes.barh(place, bar.ratio.median - 1, left=1, height=0.62, color=colour, alpha=1 - 0.5 * peers.index(bar.peer) / len(peers))
        axes.plot([bar.ratio.low, bar.ratio.high], [place, place], color=theme.text, linewidth=1, alpha=0.55)
        axes.text(1.08, place, times(bar.ratio.median), transform=axes.get_yaxis_transform(), ha="right", va="center", color=theme.text)
    axes.set_yticks(range(len(found)), [f"{bar.what}, {bar.peer}" for bar in found])
    axes.set_ylim(len(found) - 0.4, -0.6)
    axes.axvline(1, color=theme.kafka, linewidth=1.4)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    figure.text(0.02, 1 - 0.33 / height, "minibroker by interpreter", size=15, weight="bold", va="center")
    base = f"times as good as by Python {run.about.machine.get('Python', '')}; longer is better. {run.about.date} UTC"
    figure.text(0.02, 1 - 0.6 / height, base, size=10, color=theme.faint, va="center")
    return figure
