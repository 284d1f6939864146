"""Pictures: what stands in them, in which colours, and that every kind of report has one."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import astuple, replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("matplotlib")

from hypothesis import given
from hypothesis import strategies as st

from minibroker.spark.failures import SourceError
from minibroker.spark.progress import size_text
from minibroker.spark.report import Bucket, Contents, GroupOffset, OffsetReport, PartitionInfo, TimeOffset, TopicInfo
from minibroker.spark.report.picture.calendar import MOST_BARS, bars_of, days_of
from minibroker.spark.report.picture.page import make_figure
from minibroker.spark.report.picture.strips import short_number
from minibroker.spark.report.picture.theme import DARK, LIGHT, style
from minibroker.spark.report.results import DAY_MS, HOUR_MS, bucket_text, civil_date, time_text
from minibroker.spark.report.runs import cell_size

NOW = 1_795_358_186_000


def contents_of(start: int, end: int, days: int = 3, aborted: int = 0) -> Contents:
    size = cell_size(end - start)
    cells = [min(size, end - start - index * size) for index in range(-(-(end - start) // size))]
    cut = [min(aborted, cell) for cell in cells]
    records = sum(cells) - sum(cut)
    buckets = tuple(Bucket(bucket_text(20_000 + day, DAY_MS), records // days, 10 * records) for day in range(days))
    left = tuple(cell - gone for cell, gone in zip(cells, cut, strict=True))
    none: dict[str, Any] = dict.fromkeys(("first_timestamp", "last_timestamp", "last_timestamp_offset"))
    counts = dict.fromkeys(("key_bytes", "value_bytes", "header_bytes", "batches", "batch_bytes", "control", "compacted", "missing"), 0)
    return Contents(
        start_offset=start,
        end_offset=end,
        records=records,
        bytes=100 * records,
        codecs={},
        aborted=sum(cut),
        gap_count=int(aborted > 0),
        gaps=(),
        buckets=buckets if records else (),
        cell_size=size,
        record_cells=left,
        aborted_cells=tuple(cut),
        **counts,
        **none,
    )


def partition_of(number: int, start: int, stable: int, end: int, contents: Contents | None) -> PartitionInfo:
    times = (TimeOffset(NOW, start + 1, NOW),) if start < end else ()
    return PartitionInfo(number, 1, start, stable, end, end, 1000, NOW, start, times, contents, ())


def report_of(*topics: TopicInfo, groups: tuple[GroupOffset, ...] = (), is_scanned: bool = True) -> OffsetReport:
    return OffsetReport("localhost:9092", "cluster", "read_committed", NOW, "day", is_scanned, topics, groups, (), ())


def topic_of(name: str, count: int, *, days: int = 3, aborted: int = 0) -> TopicInfo:
    partitions = [
        partition_of(
            number, 10 * number, 1000 + number, 1000 + number + 50 * (number == 1), contents_of(10 * number, 1000 + number, days, aborted)
        )
        for number in range(count)
    ]
    return TopicInfo(name, "", None, tuple(partitions))


def words_of(report: OffsetReport) -> set[str]:
    with style(LIGHT):
        figure = make_figure(report, LIGHT)
    found = {each.get_text() for each in figure.texts}
    found |= {each.get_text() for axes in figure.axes for each in (*axes.texts, axes.xaxis.label, *axes.get_yticklabels())}
    found |= {axes.get_title(loc="left") for axes in figure.axes}
    return found | {each.get_text() for legend in figure.legends for each in legend.get_texts()}


GROUPS = tuple(
    GroupOffset(f"group-{name}", "classic", "Empty", "orders", 0, 500, lag) for name, lag in zip("abcde", (1, 20_000, 3, 4, 5), strict=True)
)


def test_what_stands_in_it() -> None:
    words = words_of(report_of(topic_of("orders", 3, aborted=1), groups=GROUPS))
    assert {
        "Offsets of orders",
        "records by day",
        "bytes",
        "offset",
        "records",
        "aborted",
        "after the start of an open transaction",
    } <= words
    assert {"group group-b, lag 20,000", "group group-e, lag 5", "group group-d, lag 4", "other groups"} <= words
    assert "group group-c, lag 3" not in words
    assert {"0", "1", "2", "20,000"} <= words
    words = words_of(report_of(topic_of("orders", 3)))
    assert not any("aborted" in each or "no record" in each or "not counted" in each for each in words)


def test_many_partitions_are_told_in_part() -> None:
    topic = topic_of("clicks", 300)
    words = words_of(report_of(topic, groups=(GroupOffset("g", None, None, "clicks", 123, 9, 1234),)))
    assert {"largest partitions", "largest lags", "1,234", "0", "200"} <= words
    assert {"largest partitions", "57", "58"} - words == {"57", "58"}


def test_offsets_far_apart_begin_at_the_left() -> None:
    far = partition_of(1, 10**12, 10**12 + 5, 10**12 + 5, contents_of(10**12, 10**12 + 5))
    topic = TopicInfo("orders", "", None, (partition_of(0, 0, 1000, 1000, contents_of(0, 1000)), far))
    assert "offsets from the log start offset of each partition" in words_of(report_of(topic))


def test_topics_beyond_the_largest_are_counted() -> None:
    words = words_of(report_of(*(topic_of(f"topic-{number}", number + 1) for number in range(12))))
    assert "Offsets of 12 topics" in words
    assert "topic-11" in words
    assert "topic-0" not in words
    assert any("the 8 largest are shown" in each for each in words)


EVERY_KIND = {
    "plain": report_of(topic_of("orders", 3, aborted=1), groups=GROUPS),
    "empty": report_of(TopicInfo("nothing", "", None, (partition_of(0, 5, 5, 5, contents_of(5, 5)),))),
    "not scanned": report_of(TopicInfo("orders", "", None, (partition_of(0, 0, 5, 9, None),)), is_scanned=False),
    "thousand partitions": report_of(topic_of("clicks", 1000, days=2)),
    "centuries": report_of(replace(topic_of("orders", 1, days=30_000))),
}


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_every_kind_of_report_has_pictures(kind: str, tmp_path: Path) -> None:
    """A PNG, and an SVG in which every colour has a rule for dark pages."""
    EVERY_KIND[kind].draw(tmp_path / "a.png", theme="dark")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    EVERY_KIND[kind].draw(tmp_path / "a.svg")
    text = (tmp_path / "a.svg").read_text()
    assert ET.fromstring(text).tag.endswith("svg")  # noqa: S314  our own file
    head, _, body = text.partition("</style>")
    assert "prefers-color-scheme: dark" in head
    assert set(re.findall(r"#[0-9a-f]{6}", body)) <= set(astuple(LIGHT))


def test_the_same_report_gives_the_same_file(tmp_path: Path) -> None:
    for name in ("a.svg", "b.svg"):
        EVERY_KIND["plain"].draw(tmp_path / name, theme="dark")
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    assert "prefers-color-scheme" not in (tmp_path / "a.svg").read_text()


def test_colours_of_a_theme_are_all_different() -> None:
    for theme in (LIGHT, DARK):
        assert len(set(astuple(theme))) == len(astuple(theme))


@pytest.mark.parametrize(
    ("path", "theme", "words"),
    [("a.pdf", None, r"is a \.png or an \.svg"), ("a.png", "blue", "light or dark"), ("no/such/folder/a.png", None, "there is no folder")],
)
def test_what_cannot_be_drawn(path: str, theme: str | None, words: str, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=words):
        EVERY_KIND["plain"].draw(tmp_path / path, theme=theme)
    with pytest.raises(SourceError, match="no picture"):
        report_of().draw(tmp_path / "a.png")
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(SourceError, match=r"folder\.png: Is a directory"):
        EVERY_KIND["plain"].draw(tmp_path / "folder.png")


# The calendar


@given(st.integers(-700_000, 2_900_000))
def test_dates_are_those_of_the_calendar(days: int) -> None:
    expected = date(1970, 1, 1) + timedelta(days=days)
    assert civil_date(days) == (expected.year, expected.month, expected.day)
    assert days_of(*civil_date(days)) == days


@given(st.integers(0, 10**11))
def test_dates_beyond_the_calendar(days: int) -> None:
    assert days_of(*civil_date(days)) == days


def test_times_as_text() -> None:
    assert time_text(0) == "1970-01-01T00:00:00.000Z"
    assert time_text(NOW + 7) == "2026-11-22T14:36:26.007Z"
    assert time_text(10**15) == "33658-09-27T01:46Z"
    assert bucket_text(NOW // HOUR_MS, HOUR_MS) == "2026-11-22T14"
    assert [size_text(size) for size in (0, 999, 1000, 12_345, 999_499, 999_500, 1_234_000_000)] == [
        "0 B",
        "999 B",
        "1.00 kB",
        "12.3 kB",
        "999 kB",
        "1.00 MB",
        "1.23 GB",
    ]
    assert [short_number(value) for value in (0, 1500, 2_500_000, 3e9, 1e12)] == ["0", "1,500", "2.5 M", "3 bn", "1 tn"]


@given(st.dictionaries(st.integers(-1000, 4_000_000), st.tuples(st.integers(1, 1000), st.integers(0, 10**9)), min_size=1), st.booleans())
def test_bars_lose_nothing(counts: dict[int, tuple[int, int]], hourly: bool) -> None:
    bucket_ms = HOUR_MS if hourly else DAY_MS
    found = bars_of([(bucket_text(number, bucket_ms), count) for number, count in counts.items()], "hour" if hourly else "day")
    assert found is not None
    assert 1 <= len(found.records) == len(found.bytes) <= MOST_BARS
    assert sum(found.records) == sum(records for records, _ in counts.values())
    assert sum(found.bytes) == sum(size for _, size in counts.values())
    assert found.records[0]
    assert found.records[-1]


def test_bars_of_days_weeks_months_and_years() -> None:
    first = days_of(2026, 11, 22)

    def bars(days: int) -> tuple[str, int, list[str]]:
        found = bars_of([(bucket_text(first + day, DAY_MS), (1, 1)) for day in range(days)], "day")
        assert found is not None
        return found.unit, len(found.records), list(found.labels.values())

    assert bars(1) == ("day", 1, ["22 Nov\n2026"])
    assert bars(75)[:2] == ("day", 75)
    assert bars(76) == ("week", 12, ["16 Nov\n2026", "7 Dec\n2026", "28 Dec\n2026", "18 Jan\n2027"])
    assert bars(700)[0] == "month"
    assert bars(5000)[0] == "quarter"
    assert bars(10_000) == ("year", 29, ["2026", "2034", "2042", "2050"])
    assert bars(100_000)[0] == "10 years"
    assert bars_of([(None, (3, 1))], "day") is None
    with_and_without = bars_of([(None, (3, 1)), ("2026-11-22T14", (1, 1))], "hour")
    assert with_and_without is not None
    assert (with_and_without.unit, with_and_without.without_time) == ("hour", 3)
