"""Turn the data of pages into HTML: the templates, and the functions that they use."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

from minibroker.console.pace import LIVE_SLICE_S, Pace
from minibroker.console.svg import chart_svg, strip_svg
from minibroker.console.times import time_text
from minibroker.telemetry.payload import PREFIX

FOLDER: Final = Path(__file__).parent
_HEX_LINE: Final = 16  #: bytes
_SIZES: Final = ("B", "kB", "MB", "GB", "TB")

_NONE: Final = "\u2013"  #: shown where there is no value


class Templates:
    """The templates of all pages. Everything that they show is escaped."""

    def __init__(self) -> None:
        self._compiled: dict[str, Template] = {}
        self._environment = Environment(
            loader=FileSystemLoader(FOLDER / "templates"), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
        )
        self._environment.globals |= {
            "url": url,
            "strip_svg": strip_svg,
            "chart_svg": chart_svg,
            "hex_lines": hex_lines,
            "metric_prefix": PREFIX,
        }
        self._environment.filters |= {
            "number": number,
            "size": size,
            "moment": moment,
            "span": span,
            "pretty": pretty,
            "clock": clock,
            "compact": compact,
            "rate": rate,
        }
        self._environment.globals["ui"] = self._environment.get_template("macros.html").module

    async def page(self, name: str, data: Mapping[str, Any]) -> str:
        """Return a page."""
        template = await self._template(name)
        return "".join([part async for part in _paced(template.generate(data), Pace())])

    async def block(self, name: str, block: str, data: Mapping[str, Any]) -> str:
        """Return one block of a page, which follows changes."""
        template = await self._template(name)
        parts = template.blocks[block](template.new_context(dict(data)))
        return "".join([part async for part in _paced(parts, Pace(LIVE_SLICE_S))])

    def part(self, name: str, data: Mapping[str, Any]) -> str:
        """Return a small template."""
        return self._environment.get_template(name).render(data)

    async def _template(self, name: str) -> Template:
        """Return a template. It is compiled at its first use, off the loop's thread."""
        if name not in self._compiled:
            self._compiled[name] = await asyncio.to_thread(self._environment.get_template, name)
        return self._compiled[name]


async def _paced(parts: Any, pace: Pace) -> AsyncIterator[str]:
    for number_, part in enumerate(parts):
        if number_ % 20 == 0:
            await pace.keep()
        yield part


def url(path: str, **query: Any) -> str:
    """Return an address of the console. Parameters that are None or empty are left out."""
    chosen = {name.rstrip("_"): value for name, value in query.items() if value is not None and value != ""}
    return f"{path}?{urlencode(chosen)}" if chosen else path


def number(value: int | float | None) -> str:
    """Return a number with separators; a dash for none."""
    if value is None:
        return _NONE
    if isinstance(value, float):
        return f"{value:,.0f}" if value.is_integer() else f"{value:,.2f}" if abs(value) >= 100 else f"{value:.4g}"
    return f"{value:,}"


def size(value: float | None) -> str:
    """Return bytes in a unit that reads well."""
    if value is None:
        return _NONE
    amount = float(value)
    for unit in _SIZES[:-1]:
        if amount < 1000:
            return f"{amount:.0f} {unit}" if unit == "B" or amount >= 100 else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} {_SIZES[-1]}"


def moment(time_ms: int | None) -> Markup:
    """Return a time as a `time` element, in UTC."""
    if time_ms is None or time_ms < 0:
        return Markup("{}").format(_NONE)
    text = time_text(time_ms)
    if text.isdecimal():
        return Markup("{}").format(text)
    return Markup(f'<time datetime="{text.replace(" ", "T")}Z" title="{time_ms} ms, UTC">{text}</time>')  # noqa: S704  digits and signs


def clock(time_ms: int) -> Markup:
    """Return a time of the last hours without its day."""
    whole = moment(time_ms).striptags()
    return Markup('<time title="{}">{}</time>').format(whole, whole[11:])


def rate(value: float | None, unit: str) -> str:
    """Return a value with its unit; a dash for none."""
    if value is None:
        return _NONE
    return f"{size(value)}/s" if unit == " B/s" else f"{number(value)}{unit}"


def span(duration_ms: float | None) -> str:
    """Return a duration in a unit that reads well."""
    if duration_ms is None:
        return _NONE
    if duration_ms < 1_000:
        return f"{duration_ms:.1f} ms" if duration_ms < 10 else f"{duration_ms:.0f} ms"
    seconds = duration_ms / 1000
    if seconds < 120:
        return f"{seconds:.3g} s"
    minutes = int(seconds // 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min" if minutes < 2_880 else f"{minutes // 1_440} d"


def compact(value: Any) -> str:
    """Return JSON in one line, to be escaped. Jinja's `tojson` would not be: its result does not belong into an attribute."""
    return json.dumps(value, ensure_ascii=False)


def hex_lines(octets: str, position: int) -> Markup:
    """Return bytes in hexadecimal as lines of 16: the position of the first, the bytes, and the letters that they are in ASCII."""
    pieces = octets.removesuffix(" ...").split()
    lines = []
    for start in range(0, len(pieces), _HEX_LINE):
        piece = pieces[start : start + _HEX_LINE]
        letters = "".join(chr(code) if 0x20 <= (code := int(each, 16)) < 0x7F else "." for each in piece)
        halves = " ".join(piece[:8]), " ".join(piece[8:])
        if len(pieces) > 8:
            lines.append(
                Markup("<i>{:04x}</i>  <span>{:<23}  </span><span>{:<23}  </span><i>{}</i>").format(position + start, *halves, letters)
            )
        else:
            lines.append(Markup("<i>{:04x}</i>  {}").format(position + start, halves[0]))
    if octets.endswith("..."):
        lines.append(Markup("<i>...</i>"))
    return Markup("<pre>{}</pre>").format(Markup("\n").join(lines))


def pretty(value: Any) -> str:
    """Return JSON with indents, to be escaped."""
    return json.dumps(value, indent=2, ensure_ascii=False)
