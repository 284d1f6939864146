"""Draw the left of a picture: a strip per partition, from its first offset to its last, with the offsets of groups.

The filled height is the share of offsets that have records, so a full strip was never compacted. Aborted offsets
are drawn on top.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from matplotlib.collections import PolyCollection
from matplotlib.ticker import FuncFormatter, MaxNLocator

from minibroker.spark.progress import size_text
from minibroker.spark.report.picture.theme import Theme
from minibroker.spark.report.results import Contents, GroupOffset, PartitionInfo, TopicInfo

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MANY = 40  #: with more partitions, rows are too thin for labels
WIDELY_APART = 4  #: if offsets spread over this multiple of the longest strip, all strips start at the left
STRIP_HEIGHT = 0.72  #: of a row
LEAST_OPEN = 0.004  #: of the width: the least for an open transaction, so that it is visible
SHORTENED_FROM = 4_000_000  #: with this many offsets on an axis, ticks are in millions
LONG_NUMBER = 100_000_000  #: for larger numbers, few ticks have room
LETTER, GAP, START = 0.068, 0.13, 0.12  #: inches: of a letter, between columns, before the first


class Row(NamedTuple):
    """A partition, its row, and the shift of its offsets."""

    info: PartitionInfo
    place: int
    shift: int


def draw_strips(axes: Axes, topic: TopicInfo, groups: Sequence[GroupOffset], colours: Mapping[str, str], theme: Theme) -> None:
    """Draw all partitions of a topic; `colours` are those of groups."""
    infos = topic.partitions
    low, high = min(each.log_start_offset for each in infos), max(each.high_watermark for each in infos)
    longest = max(1, *(each.offsets for each in infos))
    is_shifted = high - low > WIDELY_APART * longest
    rows = [Row(each, place, each.log_start_offset if is_shifted else 0) for place, each in enumerate(infos)]
    start, width = (0, longest) if is_shifted else (low, max(high - low, 1))
    axes.set_xlim(start - width * 0.004, start + width * 1.004)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    shapes = Shapes({}, width)
    for row in rows:
        _strip(shapes, row, theme)
        if not row.info.offsets and len(rows) <= MANY:
            _nothing(axes, row, theme)
    for colour in (theme.uncounted, theme.track, theme.records, theme.aborted, theme.open, theme.faint):  # later ones are drawn above
        if colour in shapes.by_colour:
            axes.add_collection(PolyCollection(shapes.by_colour[colour], facecolors=colour, linewidths=0))
    _times(axes, rows, theme)
    _groups(axes, rows, groups, colours, theme)
    _names(axes, rows)
    axes.set_xlabel("offsets from the log start offset of each partition" if is_shifted else "offset", fontsize=8, labelpad=3)
    _ticks(axes, theme)


@dataclass
class Shapes:
    """Polygons by colour, each an array of points, so that thousands of strips are drawn at once. `width`: of the axes, in offsets."""

    by_colour: dict[str, list[np.ndarray]]
    width: int

    def add(self, colour: str, xs: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> None:
        """Add the area between two lines over the same xs."""
        points = np.concatenate([np.column_stack([xs, lower]), np.column_stack([xs, upper])[::-1]])
        self.by_colour.setdefault(colour, []).append(points)

    def add_bar(self, colour: str, first: float, end: float, bottom: float) -> None:
        """Add a rectangle as high as a strip."""
        self.add(colour, np.array([first, end]), np.full(2, bottom), np.full(2, bottom - STRIP_HEIGHT))


def _strip(shapes: Shapes, row: Row, theme: Theme) -> None:
    info, shift = row.info, row.shift
    bottom = row.place + STRIP_HEIGHT / 2
    first, stable, end = (offset - shift for offset in (info.log_start_offset, info.last_stable_offset, info.high_watermark))
    if first == end:
        shapes.add_bar(theme.faint, first, first + shapes.width * LEAST_OPEN / 2, bottom)
        return
    if not is_whole(info):
        shapes.add_bar(theme.uncounted, first, end, bottom)
    if info.contents is not None:
        _fill(shapes, info.contents, shift, bottom, theme)
    if stable < end:
        shapes.add_bar(theme.open, min(stable, end - int(shapes.width * LEAST_OPEN)), end, bottom)


def _nothing(axes: Axes, row: Row, theme: Theme) -> None:
    words = f"empty, next offset {row.info.log_start_offset:,}"
    place = (row.info.log_start_offset - row.shift, row.place)
    axes.annotate(words, place, xytext=(7, 0), textcoords="offset points", va="center", fontsize=8, color=theme.faint)


def is_whole(info: PartitionInfo) -> bool:
    """Return whether all offsets were counted that a reader can read."""
    found = info.contents
    return found is not None and found.start_offset <= info.log_start_offset and found.end_offset >= info.last_stable_offset


def _fill(shapes: Shapes, contents: Contents, shift: int, bottom: float, theme: Theme) -> None:
    """Draw two stacked areas, cell by cell: records, and offsets of aborted transactions."""
    count = len(contents.record_cells)
    if not count:
        return
    edges = np.minimum(contents.start_offset + np.arange(count + 1) * contents.cell_size, contents.end_offset) - shift
    if contents.records == contents.end_offset - contents.start_offset:
        shapes.add_bar(theme.records, float(edges[0]), float(edges[-1]), bottom)
        return
    shapes.add_bar(theme.track, float(edges[0]), float(edges[-1]), bottom)
    sizes = np.maximum(np.diff(edges), 1)
    records = np.array(contents.record_cells) / sizes * STRIP_HEIGHT
    aborted = np.array(contents.aborted_cells) / sizes * STRIP_HEIGHT
    changes = np.flatnonzero((np.diff(records) != 0) | (np.diff(aborted) != 0)) + 1
    firsts = np.concatenate([[0], changes])  # of cells with equal values
    edges, records, aborted = edges[np.concatenate([firsts, [count]])], records[firsts], aborted[firsts]
    for lower, upper, colour in ((np.zeros(len(records)), records, theme.records), (records, records + aborted, theme.aborted)):
        if (upper > lower).any():
            shapes.add(colour, np.repeat(edges, 2)[1:-1], bottom - np.repeat(lower, 2), bottom - np.repeat(upper, 2))


def _times(axes: Axes, rows: Sequence[Row], theme: Theme) -> None:
    places = [(found.offset - row.shift, row.place) for row in rows for found in row.info.offsets_by_timestamp if found.offset is not None]
    xs, ys = [offset for offset, _ in places], [place for _, place in places]
    axes.vlines(xs, [y - 0.5 for y in ys], [y + 0.5 for y in ys], color=theme.text, linewidth=1.1, zorder=4)


def _groups(axes: Axes, rows: Sequence[Row], groups: Sequence[GroupOffset], colours: Mapping[str, str], theme: Theme) -> None:
    """Draw a mark at each group's committed offset."""
    by_partition = {row.info.partition: row for row in rows}
    is_roomy = len(rows) <= MANY
    for group, colour in colours.items():
        found = [(by_partition[each.partition], each) for each in groups if each.group == group and each.partition in by_partition]
        xs = [each.committed_offset - row.shift for row, each in found]
        if is_roomy:
            ys = [row.place - STRIP_HEIGHT / 2 for row, _ in found]
            axes.scatter(xs, ys, marker="v", s=30, color=colour, edgecolors=theme.page, linewidths=0.6, zorder=5, clip_on=False)
        else:
            axes.vlines(xs, [row.place - 0.5 for row, _ in found], [row.place + 0.5 for row, _ in found], color=colour, linewidth=1.6)


def _names(axes: Axes, rows: Sequence[Row]) -> None:
    """Label partitions with their numbers; only some of them if there are many."""
    step = 1 if len(rows) <= MANY else 10 ** (len(str(len(rows) // 25)))
    axes.set_yticks([row.place for row in rows[::step]], [str(row.info.partition) for row in rows[::step]])
    axes.tick_params(axis="y", length=0, labelsize=8, pad=4)


def _ticks(axes: Axes, theme: Theme) -> None:
    low, high = axes.get_xlim()
    is_short = high - low > SHORTENED_FROM
    name = short_number if is_short else lambda value: f"{value:,.0f}"
    axes.xaxis.set_major_locator(MaxNLocator(5 if is_short or high < LONG_NUMBER else 3, integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: name(value)))
    axes.tick_params(axis="x", length=0, labelsize=8)
    axes.grid(visible=True, axis="x", color=theme.grid, linewidth=0.7)
    axes.set_axisbelow(True)
    for side in ("top", "right", "left", "bottom"):
        axes.spines[side].set_visible(False)


def write_columns(axes: Axes, columns: Sequence[tuple[str, Sequence[str]]], *, width: float, theme: Theme, start: float = START) -> None:
    """Write columns beside the rows of `axes`, which is `width` inches wide; each is as wide as its longest word.

    The first one starts `start` inches after the right edge.
    """
    left = start
    for name, words in columns:
        left += _column_width(name, words)
        place: dict[str, Any] = {
            "xycoords": axes.get_yaxis_transform(),
            "ha": "right",
            "va": "center",
            "fontsize": 8,
            "annotation_clip": False,
        }
        axes.annotate(name, (1 + left / width, -0.5), xytext=(0, 9), textcoords="offset points", color=theme.faint, **place)
        for row, word in enumerate(words):
            axes.annotate(word, (1 + left / width, row), **place)


def columns_width(columns: Sequence[tuple[str, Sequence[str]]]) -> float:
    """Return the inches that columns take beside the strips."""
    return START + sum(_column_width(name, words) for name, words in columns)


def _column_width(name: str, words: Sequence[str]) -> float:
    return max(map(len, (name, *words))) * LETTER + GAP


def columns_of(infos: Sequence[PartitionInfo], groups: Sequence[GroupOffset]) -> list[tuple[str, list[str]]]:
    """Return header and cells of each column: counts, or else offsets and sizes; and the largest lag of a group."""
    found: list[tuple[str, list[str]]] = []
    if any(info.contents for info in infos):
        found.append(("records", [f"{info.contents.records:,}" if info.contents else "" for info in infos]))
        found.append(("bytes", [size_text(info.contents.bytes) if info.contents else "" for info in infos]))
    else:
        found.append(("offsets", [f"{info.offsets:,}" for info in infos]))
        found.append(("on disk", ["" if info.size is None else size_text(info.size) for info in infos]))
    if groups:
        lags = largest_lags(groups)
        found.append(("lag", [f"{lags[info.partition]:,}" if info.partition in lags else "" for info in infos]))
    return found


def largest_lags(groups: Sequence[GroupOffset]) -> dict[int, int]:
    """Return the largest lag of any group, by partition."""
    found: dict[int, int] = {}
    for each in groups:
        found[each.partition] = max(found.get(each.partition, 0), each.lag or 0)
    return found


def short_number(value: float) -> str:
    """Return a number for axes: 1,200 unchanged, then 1.2 M and 1.2 bn."""
    for limit, unit in ((1e12, "tn"), (1e9, "bn"), (1e6, "M")):
        if abs(value) >= limit:
            return f"{value / limit:,.3f}".rstrip("0").rstrip(".") + f" {unit}"
    return f"{value:,.0f}"
