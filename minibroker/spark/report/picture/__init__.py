"""A report as a picture, PNG or SVG, for light and for dark pages.

    page      the whole of it         strips    offsets of partitions        calendar  days, or weeks, months, years of them
    theme     colours

Needs matplotlib, which is drawn with directly: no window, no global state.
"""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

from minibroker.spark.report.results import OffsetReport
from minibroker.spark.sources.errors import SourceError

PNG_DPI = 144
ENDINGS = (".png", ".svg")


def check(path: str | Path, theme: str | None) -> None:
    """SourceError where `draw` would raise it, as far as that can be known before there is a report."""
    if Path(path).suffix.lower() not in ENDINGS:
        raise SourceError(f"{path}: a picture is a .png or an .svg")
    if theme not in {None, "light", "dark"}:
        raise SourceError(f"the theme of a picture is light or dark, not {theme!r}")
    if not Path(path).absolute().parent.is_dir():
        raise SourceError(f"{path}: there is no folder {Path(path).absolute().parent}")
    try:
        import matplotlib  # noqa: F401, ICN001, PLC0415  an extra
    except ImportError:
        raise SourceError("a picture needs matplotlib: pip install 'minibroker[spark]'") from None


def draw(report: OffsetReport, path: str | Path, *, theme: str | None = None) -> None:
    """Write the picture; see OffsetReport.draw."""
    check(path, theme)
    if not report.topics:
        raise SourceError(f"{path}: a report without topics has no picture")
    from minibroker.spark.report.picture.page import make_figure  # noqa: PLC0415  only who draws pays for it
    from minibroker.spark.report.picture.theme import LIGHT, THEMES, follow_reader, style  # noqa: PLC0415

    chosen = LIGHT if theme is None else THEMES[theme]
    is_svg = Path(path).suffix.lower() == ".svg"
    drawn = BytesIO()
    with style(chosen):
        figure = make_figure(report, chosen)
        if is_svg:
            figure.savefig(drawn, format="svg", metadata={"Date": None, "Creator": "minibroker"})
        else:
            figure.savefig(drawn, format="png", dpi=PNG_DPI, metadata={"Software": "minibroker"})
    data = drawn.getvalue()
    if is_svg and theme is None:
        data = follow_reader(data.decode()).encode()
    try:
        Path(path).write_bytes(data)
    except OSError as error:
        raise SourceError(f"{path}: {error.strerror or error}") from error
