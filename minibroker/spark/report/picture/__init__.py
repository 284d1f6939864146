"""Draw a report as a picture, PNG or SVG, for light and for dark pages.

    page      the whole picture       strips    offsets of partitions       calendar  bars by day, week, month or year
    theme     colours

The pictures need matplotlib, which is called without its global state and opens no window.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from minibroker.extras import install_command
from minibroker.spark.failures import SourceError
from minibroker.spark.report.results import ReportValues

ENDINGS = (".png", ".svg")


def check(path: str | Path, theme: str | None) -> None:
    """Raise the SourceError of `draw`, as far as it can be known before there is a report."""
    if Path(path).suffix.lower() not in ENDINGS:
        raise SourceError(f"{path}: a picture is a .png or an .svg")
    if theme not in {None, "light", "dark"}:
        raise SourceError(f"the theme of a picture is light or dark, not {theme!r}")
    if not Path(path).absolute().parent.is_dir():
        raise SourceError(f"{path}: there is no folder {Path(path).absolute().parent}")
    if find_spec("matplotlib") is None:
        raise SourceError(f"a picture needs matplotlib: {install_command('spark')}")


def draw(report: ReportValues, path: str | Path, *, theme: str | None = None) -> None:
    """Write the picture; see OffsetReport.draw."""
    check(path, theme)
    if not report.topics:
        raise SourceError(f"{path}: a report without topics has no picture")
    from minibroker.spark.report.picture import page  # noqa: PLC0415  matplotlib takes a second to import

    data = page.render(report, theme, is_svg=Path(path).suffix.lower() == ".svg")
    try:
        Path(path).write_bytes(data)
    except OSError as error:
        raise SourceError(f"{path}: {error.strerror or error}") from error
