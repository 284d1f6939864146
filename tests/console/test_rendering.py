"""How pages write numbers, times, bytes and offsets."""

from __future__ import annotations

import re
from typing import Any

import pytest

from minibroker.console.annotated import annotated
from minibroker.console.pages.configs import plain_text
from minibroker.console.rendering import FOLDER, hex_lines, moment, number, rate, span
from minibroker.console.svg import chart_svg, strip_svg
from minibroker.records.any_format import read_batch
from minibroker.records.builder import build_batch
from minibroker.records.record import Record

STRIP: dict[str, Any] = {
    "partition": 0, "log_start_offset": 0, "last_stable_offset": 8, "high_watermark": 9, "log_end_offset": 10, "segments": [0, 5],
    "markers": [7], "ranges": [{"kind": "committed", "first": 1, "last": 2}, {"kind": "aborted", "first": 6, "last": 6}],
}  # fmt: skip


@pytest.mark.parametrize(
    "value, text", [(None, "\u2013"), (1234567, "1,234,567"), (3.0, "3"), (0.999932, "0.9999"), (1234.5678, "1,234.57"), (-1, "-1")]
)
def test_numbers_have_separators_and_no_useless_digits(value: float | None, text: str) -> None:
    assert number(value) == text


def test_descriptions_of_kafka_lose_their_html_and_no_placeholder() -> None:
    text = 'See <a href="https://kafka.apache.org">here</a>. <code>x = y</code>, or <ul><li><default></li></ul> <b>not</b> <base>.'
    assert plain_text(text) == "See here. x = y, or <default> not <base>."


@pytest.mark.parametrize(
    "duration_ms, text", [(None, "\u2013"), (0.25, "0.2 ms"), (60_000, "60 s"), (61_500, "61.5 s"), (7_500_000, "2 h 5 min")]
)
def test_durations_have_units_that_read_well(duration_ms: float | None, text: str) -> None:
    assert span(duration_ms) == text


def test_values_of_charts_have_their_unit() -> None:
    assert (rate(2_500.0, " B/s"), rate(2.5, "/s"), rate(None, " ms")) == ("2.5 kB/s", "2.5/s", "\u2013")


def test_times_that_no_calendar_has_are_numbers() -> None:
    assert ">2026-01-31 12:00:00.005<" in moment(1_769_860_800_005)
    assert moment(2**62) == str(2**62)
    assert moment(-1) == "\u2013"


def test_bytes_are_lines_of_16_with_their_positions_and_letters() -> None:
    assert hex_lines("00 41", 8) == "<pre><i>0008</i>  00 41</pre>"
    assert hex_lines("", 0) == "<pre></pre>"
    first, second = hex_lines(b"<b>&amp;01234567890".hex(" ") + " ...", 61).replace("  </span>", "|").replace("<span>", "").split("\n")[:2]
    assert first == "<pre><i>003d</i>  3c 62 3e 26 61 6d 70 3b|30 31 32 33 34 35 36 37|<i>&lt;b&gt;&amp;amp;01234567</i>"
    assert second == f"<i>004d</i>  38 39 30{' ' * 15}|{' ' * 23}|<i>890</i>"


def test_timestamps_in_bytes_have_their_time_beside_them() -> None:
    data = bytes(build_batch([Record(0, 5, b"k", b"v")]))
    values = {line["name"]: line["value"] for line in annotated(data, read_batch(data))}
    assert values["base_timestamp"] == "5 (1970-01-01 00:00:00.005)"


def test_strips_name_what_the_mouse_points_at() -> None:
    tips = re.findall("<title>(.*?)</title>", strip_svg("orders", STRIP))
    assert tips == [
        "committed: offsets 1 to 2", "aborted: offset 6", "marker: offset 7", "above the high watermark: offset 9", "last stable offset: 8",
    ]  # fmt: skip


def test_aborted_ranges_differ_by_more_than_their_colour() -> None:
    heights = dict(re.findall('class="(committed|aborted)".*?height="([0-9]+)"', strip_svg("orders", STRIP)))
    assert heights["aborted"] < heights["committed"]


def test_charts_leave_gaps() -> None:
    assert chart_svg("Sent", [1.0, 2.0, None, 3.0, 4.0]).count("<polyline") == 2
    assert chart_svg("Sent", []).count("<polyline") == 0


def test_the_style_sheet_is_small() -> None:
    assert len((FOLDER / "static" / "console.css").read_bytes()) < 20_000
