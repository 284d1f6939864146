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

    def rect(kind: str, first: int, after_last: int, *, y: int = 4, height: int = 20, tip: str = "") -> str:
        left = x(first)
        width = max(x(after_last) - left, _LEAST)
        place = f'class="{kind}" x="{min(left, _WIDTH - _LEAST):.1f}" y="{y}" width="{width:.1f}" height="{height}"'
        return f"<rect {place}><title>{tip}</title></rect>" if tip else f"<rect {place}/>"

    def transaction(each: dict[str, Any]) -> str:
        """Return the range of a transaction. The lower one of two heights, not its colour alone, says that it was aborted."""
        y, height = (13, 11) if each["kind"] == "aborted" else (4, 20)
        tip = f"{each['kind']}: {_offsets(each['first'], each['last'])}"
        return rect(each["kind"], each["first"], each["last"] + 1, y=y, height=height, tip=tip)

    parts = [f'<rect class="track" x="0" y="4" width="{_WIDTH}" height="20"/>']
    if end > start:
        parts.append(rect("plain", start, end))
    for each in strip["ranges"]:
        parts += [rect("track", each["first"], each["last"] + 1), transaction(each)]
    parts += [rect("marker", offset, offset + 1, tip=f"marker: {_offsets(offset, offset)}") for offset in strip["markers"]]
    high_watermark, stable = strip["high_watermark"], strip["last_stable_offset"]
    if high_watermark < end:
        parts.append(rect("hidden", high_watermark, end, tip=f"above the high watermark: {_offsets(high_watermark, end - 1)}"))
    if stable < high_watermark:
        parts.append(rect("stable", stable, stable, y=0, height=_HEIGHT, tip=f"last stable offset: {stable:,}"))
    parts += [rect("segment", offset, offset, y=24, height=4) for offset in strip["segments"] if offset > start]
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


def _offsets(first: int, last: int) -> str:
    return f"offset {first:,}" if first == last else f"offsets {first:,} to {last:,}"


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
