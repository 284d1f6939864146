"""Tests get their tier from what their code starts."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.tiers import PLACES, STARTERS, TESTS, started_by

TABLE = {"run": subprocess.run}


def helper() -> None:
    TABLE["run"](["true"], check=True)


def starts_by_a_table_in_a_helper() -> None:
    helper()


class Starter:
    def start(self) -> None:
        inner = [lambda: subprocess.run(["true"], check=True)]
        inner[0]()


def starts_by_a_method_of_a_class() -> None:
    Starter()


def starts_a_jvm() -> None:
    from tests.support.java import run_tool

    run_tool("")


def starts_nothing() -> None:
    sys.getsizeof(STARTERS)


@pytest.mark.parametrize(
    ("function", "markers"),
    [
        (starts_by_a_table_in_a_helper, {"process"}),
        (starts_by_a_method_of_a_class, {"process"}),
        (starts_a_jvm, {"java"}),
        (starts_nothing, set()),
    ],
)
def test_markers_of_a_function(function: object, markers: set[str]) -> None:
    assert started_by(function) == markers


def test_every_place_is_there() -> None:
    """A file that moved would silently get another tier."""
    assert [place for place in PLACES if not (TESTS / place).exists() and not (TESTS.parent / place).exists()] == []


FILES = {
    "handlers/test_k02_list_offsets.py": {"check"},
    "server/test_serve.py": {"test"},
    "clients/test_moving_to_kafka.py": {"full"},
    "clients/test_java.py": {"full", "test"},  # one of its tests is marked `smoke`
    "cli/test_topics.py": {"check", "full", "test"},  # without a broker, on Apache Kafka, and on ours
    "spark/kafka_log/test_planner.py": {"check"},
    "spark/test_streaming.py": {"full"},
}


def test_tiers_of_files() -> None:
    found: dict[str, set[str]] = {file: set() for file in FILES}
    for tier in ("check", "test", "full"):
        command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", tier, "-p", "no:cacheprovider"]
        shown = subprocess.run(
            [*command, *(str(TESTS / file) for file in FILES)], capture_output=True, text=True, cwd=TESTS.parent, check=False
        )
        for file in FILES:
            if f"tests/{file}::" in shown.stdout:
                found[file].add(tier)
    assert found == FILES


def test_a_process_in_the_tier_check_is_an_error() -> None:
    code = "import subprocess; from tests.support.tiers import ProcessGuard; ProcessGuard().current = 'a test'; subprocess.run(['true'])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=TESTS.parent, check=False)
    assert shown.returncode == 1
    assert "ProcessStartError: a test is of the tier `check`" in shown.stderr
