"""Draw a whole picture: a head, a section per topic (strips on the left, bars on the right), a legend."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator

from minibroker.spark.progress import size_text
from minibroker.spark.report.picture.calendar import Bars, bars_of
from minibroker.spark.report.picture.strips import (
    MANY,
    columns_of,
    columns_width,
    draw_strips,
    is_whole,
    largest_lags,
    short_number,
    write_columns,
)
from minibroker.spark.report.picture.theme import LIGHT, THEMES, Theme, follow_reader, style
from minibroker.spark.report.results import GroupOffset, ReportValues, TopicInfo, time_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PNG_DPI = 144
WIDTH = 12.0  #: inches, like the next ones
HEAD, FOOT, LEGEND_LINE = 0.85, 0.2, 0.24
TITLE, AXIS = 0.66, 0.56  #: above and below the strips of a section
ROW, THIN_ROW, MOST_ROWS = 0.25, 0.18, 7.0
BARS_LEAST, BARS_MOST = 1.55, 3.6
MOST_TOPICS = 8
LISTED = 8  #: partitions named in a list if there are too many for labels
DOT = "  \u00b7  "
LEFT, STRIPS_RIGHT, STRIPS_ALONE, RIGHT = 0.045, 0.45, 0.75, 0.985  #: of the width
BARS_AXIS = 0.075  #: of the width, for the figures at the left of bars
BYTES_SHARE = 0.3  #: of the height of bars


@dataclass(frozen=True)
class Page:
    """A figure that is being drawn, with its height in inches."""

    figure: Figure
    report: ReportValues
    theme: Theme
    colours: Mapping[str, str]  #: of groups
    height: float

    def box(self, left: float, bottom: float, right: float, top: float) -> tuple[float, float, float, float]:
        """Return a box for `add_axes`; left and right are parts of the width, bottom and top inches."""
        return left, bottom / self.height, right - left, (top - bottom) / self.height

    def text(self, x: float, y: float, words: str, **options: Any) -> None:
        """Write text at a height in inches."""
        self.figure.text(x, y / self.height, words, va="center", **options)


def render(report: ReportValues, theme: str | None, *, is_svg: bool) -> bytes:
    """Return the file of a picture. Without a theme a PNG is light, and an SVG follows its reader's page."""
    chosen = LIGHT if theme is None else THEMES[theme]
    drawn = BytesIO()
    with style(chosen):
        figure = make_figure(report, chosen)
        if is_svg:
            figure.savefig(drawn, format="svg", metadata={"Date": None, "Creator": "minibroker"})
        else:
            figure.savefig(drawn, format="png", dpi=PNG_DPI, metadata={"Software": "minibroker"})
    data = drawn.getvalue()
    return follow_reader(data.decode()).encode() if is_svg and theme is None else data


def make_figure(report: ReportValues, theme: Theme) -> Figure:
    """Return the picture as a figure."""
    shown = sorted(report.topics, key=lambda each: -sum(one.offsets for one in each.partitions))[:MOST_TOPICS]
    shown.sort(key=lambda each: each.topic)
    colours = group_colours(report.groups, theme)
    legend = legend_lines(report, shown, colours, theme)
    heights = [_section_height(topic) for topic in shown]
    height = HEAD + sum(heights) + FOOT + LEGEND_LINE * len(legend)
    page = Page(Figure(figsize=(WIDTH, height)), report, theme, colours, height)
    _head(page, shown)
    top = height - HEAD
    for topic, each in zip(shown, heights, strict=True):
        _section(page, topic, top)
        top -= each
    for number, entries in enumerate(reversed(legend)):
        page.figure.legend(
            handles=entries,
            loc="lower left",
            bbox_to_anchor=(0.012, (0.05 + number * LEGEND_LINE) / height),
            ncols=len(entries),
            frameon=False,
            fontsize=8.5,
            handlelength=1.3,
            columnspacing=1.6,
            handletextpad=0.5,
            borderaxespad=0,
            borderpad=0.2,
        )
    return page.figure


def group_colours(groups: Sequence[GroupOffset], theme: Theme) -> dict[str, str]:
    """Return a colour for each group: the groups that lag most have their own, the others share one."""
    lags: dict[str, int] = defaultdict(int)
    for each in groups:
        lags[each.group] += each.lag or 0
    names = sorted(lags, key=lambda name: (-lags[name], name))
    return {name: theme.groups[place] if place < len(theme.groups) else theme.other_groups for place, name in enumerate(names)}


def _rows_height(topic: TopicInfo) -> float:
    count = len(topic.partitions)
    return min(count * (ROW if count <= 16 else THIN_ROW), MOST_ROWS)


def _section_height(topic: TopicInfo) -> float:
    rows = _rows_height(topic)
    return TITLE + AXIS + max(rows, BARS_LEAST if topic.by_bucket() else 0)


def _head(page: Page, shown: Sequence[TopicInfo]) -> None:
    report = page.report
    title = f"Offsets of {shown[0].topic}" if len(report.topics) == 1 else f"Offsets of {len(report.topics)} topics"
    page.text(0.015, page.height - 0.3, title, size=15, weight="bold")
    facts = [report.source, f"cluster {report.cluster_id}" if report.cluster_id else ""]
    facts.append(f"{time_text(report.taken_at)[:16].replace('T', ' ')} UTC")
    if report.is_scanned:
        facts.append(f"counted as a {report.isolation_level} reader")
    if len(shown) < len(report.topics):
        facts.append(f"the {len(shown)} largest are shown")
    page.text(0.015, page.height - 0.6, DOT.join(each for each in facts if each), size=9, color=page.theme.faint)


def _section(page: Page, topic: TopicInfo, top: float) -> None:
    """Draw a topic, from `top` downwards."""
    theme, rows, infos = page.theme, _rows_height(topic), topic.partitions
    page.figure.add_artist(Line2D((0.015, RIGHT), (top / page.height,) * 2, color=theme.grid, linewidth=1))
    page.text(0.015, top - 0.17, topic.topic, size=11.5, weight="bold")
    page.text(RIGHT, top - 0.17, _facts(topic), size=9, color=theme.faint, ha="right")
    groups = [each for each in page.report.groups if each.topic == topic.topic]
    bars = bars_of(topic.by_bucket().items(), page.report.bucket)
    right = STRIPS_RIGHT if page.report.is_scanned else STRIPS_ALONE
    strips = page.figure.add_axes(page.box(LEFT, top - TITLE - rows, right, top - TITLE))
    draw_strips(strips, topic, groups, page.colours, theme)
    left = right + BARS_AXIS
    if len(infos) <= MANY:
        columns = columns_of(infos, groups)
        write_columns(strips, columns, width=(right - LEFT) * WIDTH, theme=theme)
        left += columns_width(columns) / WIDTH
    height = min(max(rows, BARS_LEAST), BARS_MOST)
    if bars is not None:
        _bars(page, bars, left, top - TITLE, height)
    if len(infos) > MANY:
        _largest(page, topic, groups, left, top - TITLE - (height + 0.95 if bars is not None else 0))


def _largest(page: Page, topic: TopicInfo, groups: Sequence[GroupOffset], left: float, top: float) -> None:
    """List the partitions with most records and those that lag most, if strips are too thin for labels."""
    lags = largest_lags(groups)
    by_size = sorted(topic.partitions, key=lambda each: -(each.contents.records if each.contents else each.offsets))
    by_lag = sorted((each for each in topic.partitions if lags.get(each.partition)), key=lambda each: -lags[each.partition])
    for place, (name, infos) in enumerate((("largest partitions", by_size), ("largest lags", by_lag))):
        chosen = infos[:LISTED]
        if not chosen:
            continue
        start = left + place * (RIGHT - left) / 2
        axes = page.figure.add_axes(page.box(start, top - len(chosen) * ROW, start + 0.03, top))
        axes.set_axis_off()
        axes.set_ylim(len(chosen) - 0.5, -0.5)
        page.text(start, top + 0.36, name, size=8, color=page.theme.faint)
        columns = [("partition", [str(each.partition) for each in chosen]), *columns_of(chosen, groups)]
        write_columns(axes, columns, width=0.03 * WIDTH, start=-0.4, theme=page.theme)


def _facts(topic: TopicInfo) -> str:
    """Return the figures of a topic in one line."""
    facts = [f"{len(topic.partitions):,} partition{'s' * (len(topic.partitions) != 1)}"]
    found = topic.contents
    if found:
        facts += [
            f"{sum(each.records for each in found):,} records",
            f"{size_text(sum(each.bytes for each in found))} of keys, values and headers",
        ]
        for name in ("aborted", "compacted", "missing"):
            count = sum(getattr(each, name) for each in found)
            if count:
                facts.append(f"{count:,} {name}")
    sizes = [each.size for each in topic.partitions if each.size is not None]
    if sizes:
        facts.append(f"{size_text(sum(sizes))} on disk")
    return DOT.join(facts)


def _bars(page: Page, bars: Bars, left: float, top: float, height: float) -> None:
    """Draw records above and bytes below, on one time axis."""
    gap = max(0.14 * height, 0.24)
    low = (height - gap) * BYTES_SHARE
    upper = page.figure.add_axes(page.box(left, top - height + low + gap, RIGHT, top))
    lower = page.figure.add_axes(page.box(left, top - height, RIGHT, top - height + low))
    title = f"records by {bars.unit}"
    if bars.without_time:
        title += f" ({bars.without_time:,} without a timestamp)"
    _bar_chart(upper, bars.records, title, page.theme.records, page.theme, whole=True)
    _bar_chart(lower, bars.bytes, "bytes", page.theme.bytes, page.theme, whole=False)
    upper.set_xticks([])
    lower.set_xticks(list(bars.labels), list(bars.labels.values()))
    lower.tick_params(axis="x", length=0, labelsize=8, pad=3)


def _bar_chart(axes: Axes, values: Sequence[int], title: str, colour: str, theme: Theme, *, whole: bool) -> None:
    count = len(values)
    axes.bar(range(count), values, width=0.82 if count < 60 else 0.9, color=colour, linewidth=0)
    spread = max(count, 8)  # few bars stay slim
    axes.set_xlim(-0.6 - (spread - count) * 0.02, count - 0.4 + (spread - count))
    axes.set_ylim(0, max(*values, 1) * 1.08)
    axes.set_title(title, loc="left", fontsize=8, color=theme.faint, pad=4)
    axes.yaxis.set_major_locator(MaxNLocator(4 if whole else 2, integer=True))
    axes.yaxis.set_major_formatter(
        FuncFormatter(
            lambda value, _: (
                short_number(value) if whole else size_text(int(value)).replace(".0 ", " ").replace(".00 ", " ") if value else ""
            )
        )
    )
    axes.tick_params(axis="y", length=0, labelsize=8)
    axes.grid(visible=True, axis="y", color=theme.grid, linewidth=0.7)
    axes.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)


def legend_lines(report: ReportValues, shown: Sequence[TopicInfo], colours: Mapping[str, str], theme: Theme) -> list[list[Any]]:
    """Return the legend of what is in the picture: colours, then marks."""
    infos = [each for topic in shown for each in topic.partitions]
    found = [each.contents for each in infos if each.contents is not None]
    patches = [Patch(color=theme.records, label="records")] if found else []
    if any(each.aborted for each in found):
        patches.append(Patch(color=theme.aborted, label="aborted"))
    if any(each.gap_count for each in found):
        patches.append(Patch(color=theme.track, label="no record: compacted, markers of transactions"))
    if any(not is_whole(each) for each in infos):
        patches.append(Patch(color=theme.uncounted, label="not counted"))
    if any(each.last_stable_offset < each.high_watermark for each in infos):
        patches.append(Patch(color=theme.open, label="after the start of an open transaction"))
    return [line for line in (patches, _marks(report, shown, colours, theme)) if line]


def _marks(report: ReportValues, shown: Sequence[TopicInfo], colours: Mapping[str, str], theme: Theme) -> list[Any]:
    """Return the legend of groups and times."""
    names = {topic.topic for topic in shown}
    lags: dict[str, int] = defaultdict(int)
    for each in report.groups:
        if each.topic in names:
            lags[each.group] += each.lag or 0
    marks = []
    for place, (name, colour) in enumerate((name, colour) for name, colour in colours.items() if name in lags):
        if place < len(theme.groups):
            marks.append(_mark("v", colour, f"group {_short(name)}, lag {lags[name]:,}"))
        elif place == len(theme.groups):
            marks.append(_mark("v", colour, "other groups"))
    times = sorted({each.timestamp for topic in shown for info in topic.partitions for each in info.offsets_by_timestamp})
    if times:
        words = time_text(times[0])[:19].replace("T", " ") + (f" and {len(times) - 1} more times" if len(times) > 1 else "")
        marks.append(_mark("|", theme.text, f"first offset at {words}"))
    return marks


def _mark(marker: str, colour: str, label: str) -> Any:
    return Line2D([], [], color=colour, marker=marker, linestyle="none", markersize=9 if marker == "|" else 6, label=label)


def _short(name: str) -> str:
    return name if len(name) <= 24 else f"{name[:22]}..."
