"""Pictures of a page as SVG, made of numbers alone: offset strips and line charts. Colours are classes of the style sheet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from markupsafe import Markup, escape

_WIDTH: Final = 1000
_HEIGHT: Final = 28
_LEAST: Final = 3.0  #: width of the smallest range
_CHART_HEIGHT: Final = 120


def strip_svg(topic: str, strip: dict[str, Any]) -> Markup:
    """Return the offset strip of a partition (strip.py)."""
    start, end = strip["log_start_offset"], strip["log_end_offset"]
    span = max(end - start, 1)

    def x(offset: int) -> float:
        return float(min(max(offset - start, 0) / span, 1.0) * _WIDTH)

    def rect(kind: str, first: int, after_last: int, y: int = 4, height: int = 20) -> str:
        left = x(first)
        width = max(x(after_last) - left, _LEAST)
        return f'<rect class="{kind}" x="{min(left, _WIDTH - _LEAST):.1f}" y="{y}" width="{width:.1f}" height="{height}"/>'

    parts = [f'<rect class="track" x="0" y="4" width="{_WIDTH}" height="20"/>']
    if end > start:
        parts.append(rect("plain", start, end))
    parts += [rect(each["kind"], each["first"], each["last"] + 1) for each in strip["ranges"]]
    for offset in strip["markers"]:
        parts += [rect("track", offset, offset + 1), rect("marker", offset, offset)]
    high_watermark, stable = strip["high_watermark"], strip["last_stable_offset"]
    if high_watermark < end:
        parts.append(rect("hidden", high_watermark, end))
    if stable < high_watermark:
        parts.append(rect("stable", stable, stable, 0, _HEIGHT))
    parts += [rect("segment", offset, offset, 24, 4) for offset in strip["segments"] if offset > start]
    kinds = [each["kind"] for each in strip["ranges"]]
    words = ", ".join(f"{kinds.count(kind)} {kind}" for kind in ("committed", "aborted", "open") if kind in kinds)
    label = (
        f"{topic}-{strip['partition']}: offsets {start} to {end}, last stable offset {stable}, high watermark {high_watermark}, "
        f"{words or 'no'} ranges of transactions, {len(strip['markers'])} markers"
    )
    return Markup('<svg class="strip" viewBox="0 0 {} {}" preserveAspectRatio="none" role="img" aria-label="{}">{}</svg>').format(
        _WIDTH,
        _HEIGHT,
        label,
        Markup("".join(parts)),  # noqa: S704  numbers and our own words
    )


def chart_svg(label: str, values: Sequence[float | None], unit: str = "") -> Markup:
    """Return a line chart of samples at equal distances; None is a gap."""
    known = [each for each in values if each is not None]
    top = max(known, default=0.0) or 1.0
    step = _WIDTH / max(len(values) - 1, 1)
    lines: list[list[str]] = [[]]
    for index, value in enumerate(values):
        if value is None:
            lines.append([])
        else:
            lines[-1].append(f"{index * step:.1f},{_CHART_HEIGHT - value / top * (_CHART_HEIGHT - 8):.1f}")
    paths = "".join(f'<polyline points="{" ".join(line)}"/>' for line in lines if len(line) > 1)
    areas = "".join(
        f'<polygon points="{line[0].split(",")[0]},{_CHART_HEIGHT} {" ".join(line)} {line[-1].split(",")[0]},{_CHART_HEIGHT}"/>'
        for line in lines
        if len(line) > 1
    )
    last = known[-1] if known else 0.0
    text = f"{label}: {last:,.1f}{unit} now, {max(known, default=0.0):,.1f}{unit} at most in the last 15 minutes"
    return Markup('<svg class="chart" viewBox="0 0 {} {}" preserveAspectRatio="none" role="img" aria-label="{}">{}</svg>').format(
        _WIDTH,
        _CHART_HEIGHT,
        escape(text),
        Markup(areas + paths),  # noqa: S704  numbers alone
    )
