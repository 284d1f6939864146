"""Colours of light and dark pages, and SVG that follows its reader's page.

Such an SVG has the light colours, and CSS rules that replace each with its dark one. The rules match colours in
the file, so all colours of a theme differ. Programs without support for these rules show the light page.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from typing import Any

import matplotlib as mpl


@dataclass(frozen=True)
class Theme:
    """The colours of a page."""

    page: str
    text: str
    faint: str
    grid: str
    track: str  #: offsets without a record
    records: str
    uncounted: str  #: records that were not counted
    aborted: str
    open: str  #: after the start of an open transaction
    bytes: str
    group_1: str
    group_2: str
    group_3: str
    other_groups: str

    @property
    def groups(self) -> tuple[str, ...]:
        """The colours of the groups that have their own."""
        return self.group_1, self.group_2, self.group_3


LIGHT = Theme(
    page="#ffffff",
    text="#1f2328",
    faint="#59636e",
    grid="#d8dee4",
    track="#e4e8ec",
    records="#0f8a7e",
    uncounted="#9fd2cc",
    aborted="#d9663f",
    open="#c99a06",
    bytes="#6f7f95",
    group_1="#0550ae",
    group_2="#8250df",
    group_3="#bf3989",
    other_groups="#3d444d",
)
DARK = Theme(
    page="#0d1117",
    text="#e6edf3",
    faint="#9198a1",
    grid="#2a313c",
    track="#262d37",
    records="#2fb8a8",
    uncounted="#1c5a54",
    aborted="#f0825a",
    open="#e3b341",
    bytes="#7d8fa9",
    group_1="#79c0ff",
    group_2="#c297ff",
    group_3="#ff8fc7",
    other_groups="#c9d1d9",
)
THEMES = {"light": LIGHT, "dark": DARK}


@contextmanager
def style(theme: Theme) -> Iterator[None]:
    """Make matplotlib draw in these colours."""
    settings: dict[Any, Any] = {
        "font.family": "sans-serif",
        "font.size": 9,
        "figure.facecolor": theme.page,
        "savefig.facecolor": theme.page,
        "axes.facecolor": theme.page,
        "axes.edgecolor": theme.grid,
        "axes.labelcolor": theme.faint,
        "text.color": theme.text,
        "xtick.color": theme.faint,
        "ytick.color": theme.faint,
        "hatch.color": theme.faint,
        "legend.labelcolor": theme.text,
        "svg.hashsalt": "minibroker",
    }
    with mpl.rc_context(settings):
        yield


def follow_reader(svg: str) -> str:
    """Return the SVG of a light page with rules for readers that prefer dark pages."""
    rules = []
    for light, dark in zip(astuple(LIGHT), astuple(DARK), strict=True):
        rules += [f'[style*="{name}: {light}"]{{{name}:{dark} !important}}' for name in ("fill", "stroke")]
    text = f"<style>@media (prefers-color-scheme: dark){{{''.join(rules)}}}</style>"
    head, defs, rest = svg.partition("<defs>")
    return f"{head}{text}{defs}{rest}"
