from __future__ import annotations

import io

import pytest
from loads.declaration import Load
from measure import Step
from progress import Progress, bar, duration
from reporting.results import Measurement


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("seconds", "text"), [(0.2, "1 s"), (89, "89 s"), (91, "2 min"), (5000, "83 min"), (7380, "2 h 03 min")])
def test_durations_in_words(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(("part", "text"), [(-1, "░" * 20), (0, "░" * 20), (0.5, "█" * 10 + "░" * 10), (1, "█" * 20), (2, "█" * 20)])
def test_a_bar_is_as_full_as_its_part(part: float, text: str) -> None:
    assert bar(part) == text


def load(name: str) -> Load:
    return Load(name, lambda peer, scale: {}, "Theme")


def watch(out: io.StringIO) -> None:
    progress = Progress(1, out)
    for peer, value in (("minibroker", 600.0), ("kafka", 300.0)):
        step = Step(1, load("produce"), peer, 1.0)
        progress.begins(step, 0.25, 300.0)
        progress.measured(step, Measurement(1, peer, "produce", 1.0, {"MB/s": value, "CPU s/GB": 1.0}))
    progress.begins(Step(1, load("fetch"), "minibroker", 1.0), 0.75, 100.0)
    progress.left_out("fetch, minibroker: no java on this machine")
    progress.close()


def test_each_load_has_a_line_with_its_first_figure_of_each_broker() -> None:
    out = io.StringIO()
    watch(out)
    first, produce, left_out = out.getvalue().splitlines()
    assert first == "round 1 of 1"
    assert " ".join(produce.split()) == "produce MB/s minibroker 600, kafka 300 2.00 x Kafka's (5 min left)"
    assert left_out == "  left out: fetch, minibroker: no java on this machine"


def test_a_terminal_has_a_line_that_lives() -> None:
    out = Terminal()
    watch(out)
    assert "█" in out.getvalue()
    assert "25%, 5 min left: produce, kafka ..." in out.getvalue()
    assert "min left)" not in out.getvalue()
