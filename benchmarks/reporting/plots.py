"""The pictures of a run as PNG, each for light and for dark pages: how many times as good as Apache Kafka, and how cost grows."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reporting import interpreter_plot
from reporting.ratios import Row, rows
from reporting.results import OURS, Run
from reporting.tables import number, times
from reporting.targets import FLAT, Curve, curves

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DPI = 160
COLOURS = 64
WIDTH_INCHES = 10.0
ROW_INCHES = 0.29
COLUMNS, MOST_COLUMNS = 3, 4  #: columns in the picture of curves
LONGEST_COMMAND = 48
NAMES = {"kafka": "Apache Kafka", "kfake": "kfake on disk", "kfake-memory": "kfake in memory", "mock": "librdkafka mock", "tansu": "Tansu"}


@dataclass(frozen=True)
class Theme:
    """The colours of a page."""

    name: str
    page: str
    text: str
    faint: str
    grid: str
    ours: str
    worse: str
    kafka: str
    kfake: str
    target: str

    def of(self, peer: str) -> str:
        """Return the colour of a broker's line."""
        return {OURS: self.ours, "kafka": self.kafka, "kfake": self.kfake}.get(peer, self.faint)


THEMES = (
    Theme("light", "#ffffff", "#1f2328", "#59636e", "#d8dee4", "#0f8a7e", "#d1603d", "#59636e", "#8250df", "#1f2328"),
    Theme("dark", "#0d1117", "#e6edf3", "#9198a1", "#2a313c", "#2fc4b2", "#f0825a", "#9198a1", "#b690ff", "#e6edf3"),
)


def draw(run: Run, stem: Path) -> list[Path]:
    """Write STEM-ratios-light.png and so on, without empty pictures. Needs matplotlib (ImportError)."""
    made = []
    found, grown = rows(run), [curve for curve in curves(run) if OURS in curve.points]
    for theme in THEMES:
        with _style(theme):
            if found:
                made.append(_save(_ratios(run, found, theme), stem.with_name(f"{stem.name}-ratios-{theme.name}.png")))
            if run.about.interpreters and (compared := interpreter_plot.bars(run)):
                picture = interpreter_plot.picture(run, compared, theme)
                made.append(_save(picture, stem.with_name(f"{stem.name}-interpreters-{theme.name}.png")))
            if grown:
                made.append(_save(_growth(run, grown, theme), stem.with_name(f"{stem.name}-growth-{theme.name}.png")))
    return made


@contextmanager
def _style(theme: Theme) -> Iterator[None]:
    import matplotlib as mpl  # noqa: PLC0415  takes a second, and is an extra

    settings: dict[Any, Any] = {
        "font.family": "sans-serif",
        "font.size": 9.5,
        "figure.facecolor": theme.page,
        "axes.facecolor": theme.page,
        "axes.edgecolor": theme.grid,
        "text.color": theme.text,
        "axes.labelcolor": theme.faint,
        "xtick.color": theme.faint,
        "ytick.color": theme.text,
        "svg.hashsalt": "minibroker",
    }
    with mpl.rc_context(settings):
        yield


def _save(figure: Figure, path: Path) -> Path:
    """Save with few colours, as the file is committed; the same figures give the same file."""
    from PIL import Image  # noqa: PLC0415  matplotlib brings it

    whole = BytesIO()
    figure.savefig(whole, dpi=DPI)
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.open(whole).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)
    return path


def _ratios(run: Run, found: Sequence[Row], theme: Theme) -> Figure:
    """Draw horizontal bars on a logarithmic axis, from Kafka's line to the right where minibroker is better."""
    from matplotlib.figure import Figure  # noqa: PLC0415

    places, headings = _places(found)
    depth = max(places) + 1.4
    height = depth * ROW_INCHES + 1.5
    figure = Figure(figsize=(WIDTH_INCHES, height))
    axes = figure.add_axes((0.275, 0.75 / height, 0.455, 1 - 1.5 / height))
    axes.set_xscale("log", base=2)
    low = min(0.5, *(row.ours.low for row in found), *(row.kfake for row in found if row.kfake))
    high = max(4.0, *(row.ours.high for row in found))
    axes.set_xlim(low / 1.15, high * 1.15)
    axes.set_ylim(depth, -0.6)
    _scale(axes, low, high, theme)
    for place, row in zip(places, found, strict=True):
        _bar(axes, place, row, theme)
    for place, heading in headings:
        axes.text(-0.562, place, heading, transform=axes.get_yaxis_transform(), va="center", weight="bold", color=theme.text)
    axes.axvline(1, color=theme.kafka, linewidth=1.4, zorder=3)
    _legend(axes, found, theme)
    title = ("minibroker beside Apache Kafka", "times as good as Apache Kafka; longer is better (logarithmic axis)")
    _titles(figure, height, title, run, theme)
    return figure


def _places(found: Sequence[Row]) -> tuple[list[float], list[tuple[float, str]]]:
    """Return the place of each row, and of each heading above its rows."""
    places: list[float] = []
    headings: list[tuple[float, str]] = []
    at = 0.0
    for theme, those in groupby(found, key=lambda row: row.theme):
        headings.append((at, theme))
        at += 1
        for _ in those:
            places.append(at)
            at += 1
        at += 0.35
    return places, headings


def _scale(axes: Axes, low: float, high: float, theme: Theme) -> None:
    """Set ticks at powers of two with plain labels."""
    powers = [power for power in range(-6, 10) if low / 1.15 <= 2.0**power <= high * 1.15]
    axes.set_xticks([2.0**power for power in powers], [f"{2**power} x" if power >= 0 else f"1/{2**-power}" for power in powers])
    axes.minorticks_off()
    axes.set_yticks([])
    axes.grid(visible=True, axis="x", color=theme.grid, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(length=0)
    for side in ("top", "right", "left", "bottom"):
        axes.spines[side].set_visible(False)


def _bar(axes: Axes, place: float, row: Row, theme: Theme) -> None:
    colour = theme.ours if row.ours.median >= 1 else theme.worse
    axes.barh(place, row.ours.median - 1, left=1, height=0.62, color=colour, zorder=2)
    axes.plot([row.ours.low, row.ours.high], [place, place], color=theme.text, linewidth=1, alpha=0.55, zorder=4, solid_capstyle="butt")
    if row.target is not None:
        axes.plot(
            [row.target, row.target], [place - 0.45, place + 0.45], color=theme.target, linewidth=1.6, linestyle=(0, (1.6, 1.1)), zorder=5
        )
    if row.kfake is not None:
        axes.plot([row.kfake], [place], marker="D", markersize=5, color=theme.kfake, markeredgecolor=theme.page, zorder=6, linestyle="none")
    beside = axes.get_yaxis_transform()
    axes.text(-0.025, place, row.what, transform=beside, ha="right", va="center")
    axes.text(1.11, place, times(row.ours.median), transform=beside, ha="right", va="center", weight="bold", color=colour)
    axes.text(1.13, place, row.summary, transform=beside, va="center", color=theme.faint, size=8.5)


def _legend(axes: Axes, found: Sequence[Row], theme: Theme) -> None:
    from matplotlib.lines import Line2D  # noqa: PLC0415
    from matplotlib.patches import Patch  # noqa: PLC0415

    entries: list[Line2D | Patch] = [Patch(color=theme.ours, label="minibroker")]
    if any(row.ours.median < 1 for row in found):
        entries.append(Patch(color=theme.worse, label="minibroker, where it loses"))
    entries.append(Line2D([], [], color=theme.kafka, linewidth=1.4, label="Apache Kafka"))
    if any(row.kfake is not None for row in found):
        entries.append(Line2D([], [], marker="D", linestyle="none", markersize=5, color=theme.kfake, label="kfake on disk"))
    if any(row.target is not None for row in found):
        entries.append(Line2D([], [], color=theme.target, linewidth=1.6, linestyle=(0, (1.6, 1.1)), label="target"))
    entries.append(Line2D([], [], color=theme.text, linewidth=1, alpha=0.55, label="range of rounds"))
    axes.legend(
        handles=entries, loc="upper center", bbox_to_anchor=(0.45, 0), ncols=len(entries), frameon=False, borderaxespad=2.2, fontsize=8.5
    )


def _titles(figure: Figure, height: float, title: tuple[str, str], run: Run, theme: Theme) -> None:
    """Write the title above and the run below."""
    figure.text(0.02, 1 - 0.33 / height, title[0], size=15, weight="bold", va="center")
    figure.text(0.02, 1 - 0.62 / height, title[1], size=10, color=theme.faint, va="center")
    least, most = run.rounds()
    rounds = f"{least}" if least == most else f"{least} to {most}"
    machine = run.about.machine.get("processor", "")
    kafka = f"Apache Kafka {version}" if (version := run.about.versions.get("kafka")) else "Apache Kafka"
    command = textwrap.shorten(run.about.command, LONGEST_COMMAND, placeholder=" ...")
    caption = f"{run.about.date} UTC, {command}, medians of {rounds} round{'s' * (rounds != '1')}, {kafka}, {machine}"
    figure.text(0.02, 0.14 / height, caption, size=8, color=theme.faint, va="center")


def _growth(run: Run, grown: Sequence[Curve], theme: Theme) -> Figure:
    """Draw a small picture per curve on two logarithmic axes, where a flat cost is flat for every broker."""
    from matplotlib.figure import Figure  # noqa: PLC0415

    columns = min(MOST_COLUMNS if len(grown) > 6 else COLUMNS, len(grown))
    lines = -(-len(grown) // columns)
    height = lines * 2.3 + 1.5
    figure = Figure(figsize=(WIDTH_INCHES, height))
    grid = figure.subplots(lines, columns, squeeze=False)
    figure.subplots_adjust(left=0.055, right=0.985, top=1 - 1.3 / height, bottom=0.75 / height, hspace=0.68, wspace=0.3)
    for axes, curve in zip(grid.flat, grown, strict=False):
        _curve(axes, curve, theme)
    for axes in list(grid.flat)[len(grown) :]:
        axes.set_visible(False)
    title = ("How cost grows", "flatter and lower is better; the band is what minibroker may differ from its first point")
    _titles(figure, height, title, run, theme)
    handles, labels = grid.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="upper right", bbox_to_anchor=(0.99, 1 - 0.1 / height), frameon=False, fontsize=8.5)
    return figure


def _curve(axes: Axes, curve: Curve, theme: Theme) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter  # noqa: PLC0415

    axes.set_xscale("log")
    axes.set_yscale("log")
    for peer, points in curve.points.items():
        places = sorted(points)
        medians = [points[place].median for place in places]
        width = 2.2 if peer == OURS else 1.4
        axes.plot(places, medians, color=theme.of(peer), marker="o", markersize=3.5, linewidth=width, label=NAMES.get(peer, peer))
    ours = curve.points[OURS]
    first = ours[min(ours)].median
    if curve.may_grow is not None:
        axes.fill_between(
            [min(ours), max(ours)],
            first / (1 + FLAT),
            [first * (1 + FLAT), first * max(curve.may_grow, 1 + FLAT)],
            color=theme.ours,
            alpha=0.16,
            lw=0,
        )
    medians = [spread.median for points in curve.points.values() for spread in points.values()]
    axes.set_ylim(min(medians) / 1.6, max(medians) * 1.6)
    places = sorted({place for points in curve.points.values() for place in points})
    axes.set_xticks(places, [f"{place:,.0f}" for place in places])
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: number(value)))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_title(f"{curve.figure}\n{curve.along}".replace("us", "µs"), loc="left", size=8.5, color=theme.text)
    axes.grid(visible=True, axis="y", color=theme.grid, linewidth=0.8)
    axes.tick_params(which="both", length=0, labelcolor=theme.faint, labelsize=8)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
