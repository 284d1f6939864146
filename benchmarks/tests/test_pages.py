from __future__ import annotations

import re
from pathlib import Path

import click
import pytest
from figures_of_runs import ABOUT, a_run, three_brokers
from reporting import pages, tables, terminal
from reporting.ratios import rows
from reporting.results import OURS, Measurement, Run, Spread
from reporting.targets import TARGETS

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.0123456, "0.0123"), (9.876, "9.88"), (23.45, "23.4"), (99.96, "100"), (1234.5, "1,234"), (1e6, "1,000,000")],
)
def test_numbers_have_three_digits_that_count(value: float, text: str) -> None:
    assert tables.number(value) == text


def test_short_numbers() -> None:
    assert [tables.short(value) for value in (999, 9999, 37_389)] == ["999", "9,999", "37.4k"]


def test_a_cell_has_a_range_where_rounds_differ() -> None:
    assert tables.cell(Spread(2, 1, 3)) == "2 (1-3)"
    assert tables.cell(Spread(2, 2, 2)) == "2"
    assert tables.cell(None) == "-"


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_the_table_has_each_broker_and_the_ratios() -> None:
    lines = tables.figures(three_brokers()).splitlines()
    assert cells(lines[0]) == ["load", "figure", "minibroker", "kafka", "kfake", "by kafka's", "by kfake's"]
    assert cells(lines[2]) == ["start", "cold start ms", "200", "4,000", "-", "0.05", "-"]
    assert cells(lines[3]) == ["produce 64 x 1 kB", "MB/s", "600 (500-700)", "200 (190-210)", "450", "3.00", "1.33"]


def test_synced_loads_have_their_own_table() -> None:
    run = a_run(("minibroker", "latency, synced", "p50 us", [900]), ("minibroker", "latency", "p50 us", [50]))
    assert "synced" not in tables.figures(run)
    assert [cells(line)[0] for line in tables.figures(run, synced=True).splitlines()[2:]] == ["latency, synced"]


def test_curve_points_are_only_in_their_own_table() -> None:
    run = a_run(
        ("minibroker", "growth", "CPU us/request @ 1 partitions", [20]), ("minibroker", "growth", "CPU us/request @ 10 partitions", [30])
    )
    assert tables.figures(run) == ""
    heading, _, head, _, row = tables.growth(run).splitlines()
    assert heading == "**growth**"
    assert cells(head) == ["partitions", "broker", "1", "10", "last by first", ""]
    assert cells(row) == ["CPU us/request", "minibroker", "20", "30", "1.50", "✗ not met (<= 1.15)"]


def test_the_verdict_counts_and_doubts() -> None:
    text = tables.verdicts(three_brokers())
    assert text.startswith(f"2 of {len(TARGETS)} targets met, 1 NOT met, {len(TARGETS) - 3} not measured.")
    (line,) = [line for line in text.splitlines() if "produce latency p50" in line]
    assert cells(line) == ["produce latency p50", "<= 0.6", "0.50", "<= 0.8", "**1.11** (1 of 3 rounds meet it)", "✗ not met"]


def test_no_targets_are_printed_if_none_was_measured() -> None:
    run = a_run(("minibroker", "latency", "acknowledged p50 us", [50]))
    assert tables.verdicts(run) == terminal.verdicts(run) == ""
    assert "Targets" not in pages.page(run)
    assert terminal.bars(run) == ""


def test_longer_is_better_in_every_row_of_the_picture() -> None:
    found = {row.load: row for row in rows(three_brokers())}
    assert found["produce 64 x 1 kB"].ours.median == 3
    assert found["latency"].ours.median == 2
    assert found["latency"].target == pytest.approx(1 / 0.6)
    assert found["start"].ours.median == 20
    assert found["latency"].kfake == pytest.approx(100 / 45)
    assert found["latency"].summary == "50 µs, Kafka 100"
    assert found["produce 64 x 1 kB"].summary == "600 MB/s, Kafka 200"
    assert found["latency"].ours.low <= 2 <= found["latency"].ours.high


def test_bars_in_a_terminal_go_to_the_better_side() -> None:
    run = a_run(
        ("minibroker", "produce 64 x 1 kB", "MB/s", [800]),
        ("kafka", "produce 64 x 1 kB", "MB/s", [200]),
        ("minibroker", "produce 1 x 100 B", "requests/s", [100]),
        ("kafka", "produce 1 x 100 B", "requests/s", [400]),
    )
    _, _, better, worse = click.unstyle(terminal.bars(run, 120)).splitlines()
    assert "4.00 x  800 MB/s, Kafka 200" in better
    assert "0.25 x  100 requests/s, Kafka 400" in worse
    kafka_line = worse.index("│")
    assert worse.rindex("█") == kafka_line - 1
    assert better.index("█") == kafka_line


@pytest.mark.parametrize("width", [40, 80, 110, 300])
def test_bars_fit_any_terminal(width: int) -> None:
    lines = click.unstyle(terminal.bars(three_brokers(), width)).splitlines()[1:]
    assert all(len(line) <= max(width, 110) for line in lines)
    assert all(re.search(r"\d x  ", line) for line in lines if line.startswith("  "))


def test_the_terminal_shows_table_picture_and_verdict() -> None:
    shown = click.unstyle(terminal.overview(three_brokers()))
    assert (
        shown.index("cold start ms")
        < shown.index("times as good as")
        < shown.index("produce latency p50")
        < shown.index(f"2 of {len(TARGETS)} targets met")
    )


def test_skipped_peers_are_listed() -> None:
    run = three_brokers()
    run.left_out.append("tansu cannot run here: no tansu on this machine")
    assert "## Left out\n\n- tansu cannot run here" in pages.page(run)


def test_heading_contains_the_facts_of_the_run() -> None:
    head = tables.heading(three_brokers())
    for fact in ("2026-11-21 23:40 UTC", "abc1234", "`make bench`", "3 rounds", "A processor, 2 cores", "kafka (4.3.1)"):
        assert fact in head
    assert "full size" not in head


def test_only_text_between_the_markers_is_replaced() -> None:
    text = "before\n<!-- benchmark: said -->\nold\nolder\n<!-- end -->\nafter\n<!-- benchmark: other -->\nkept\n<!-- end -->\n"
    made = pages.replaced(text, "said", lambda: r"new \1")
    assert made == text.replace("old\nolder", r"new \1")
    assert pages.replaced(made, "said", lambda: r"new \1") == made


@pytest.mark.parametrize("file", ["README.md", "BENCHMARKS.md"])
def test_the_pages_have_their_places_and_pictures(file: str) -> None:
    text = (ROOT / file).read_text()
    named = re.findall(r"<!-- benchmark: ([\w ]+) -->", text)
    assert {"README.md": {"picture", "said"}, "BENCHMARKS.md": {"targets", "figures", "synced", "growth"}}[file] <= set(named)
    assert text.count("<!-- end -->") == len(named)
    shown = re.findall(r'(?:src|srcset)="([^"]+)"', text)
    assert shown
    assert [path for path in shown if not (ROOT / path).exists()] == []


def test_pictures_are_drawn_for_light_and_dark_pages(tmp_path: Path) -> None:
    growing = a_run(
        *[
            (peer, "growth", f"CPU us/request @ {place} partitions", [cost])
            for peer, cost in ((OURS, 20.0), ("kafka", 60.0))
            for place in (1, 1000)
        ]
    )
    run = Run(ABOUT, three_brokers().measurements + growing.measurements)
    written = pages.write(run, tmp_path / "run.json")
    names = [path.name for path in written]
    assert names[0] == "run.md"
    assert sorted(names[1:]) == [f"run-{kind}-{page}.png" for kind in ("growth", "ratios") for page in ("dark", "light")]
    for path in written[1:]:
        data = path.read_bytes()
        assert data.startswith(b"\x89PNG\r\n\x1a\n")
        assert 10_000 < len(data) < 200_000
    assert "![run-ratios-light](run-ratios-light.png)" in written[0].read_text()


def test_equal_figures_give_equal_pictures(tmp_path: Path) -> None:
    drawn = []
    for folder in (tmp_path / "one", tmp_path / "other"):
        folder.mkdir()
        drawn.append([path.read_bytes() for path in pages.write(three_brokers(), folder / "run.json")[1:]])
    assert drawn[0] == drawn[1]


def test_server_cost_of_a_load() -> None:
    run = three_brokers()
    assert tables.servers(run) == ""
    run.measurements += [
        Measurement(number, "kafka", "restart", 1.0, {}, {"CPU s": cpu, "memory MB": 800.0}) for number, cpu in ((1, 9.0), (2, 11.0))
    ]
    head, _, row = tables.servers(run).splitlines()
    assert cells(head)[1:3] == ["minibroker, CPU s", "kafka, CPU s"]
    assert cells(row) == ["restart", "-", "10", "-", "-", "800", "-"]


def test_where_another_broker_is_better() -> None:
    lines = tables.losses(three_brokers()).splitlines()
    assert [cells(line) for line in lines[2:]] == [["kfake", "latency", "acknowledged p50 us", "50 (36-60)", "45", "1.11"]]
    assert tables.losses(a_run(("minibroker", "latency", "acknowledged p50 us", [50]))) == ""
