"""README.md of this folder: every fault that it lists has tests, and they are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROWS = [line.split("|") for line in (Path(__file__).parent / "README.md").read_text().splitlines() if re.match(r"\| \d+ \|", line)]
TESTS = {row[1].strip(): re.findall(r"`(tests/\S+\.py)::(test_\w+)`", row[4]) for row in ROWS}


@pytest.mark.parametrize("number", TESTS)
def test_every_fault_has_its_tests(number: str) -> None:
    assert TESTS[number]
    for file, name in TESTS[number]:
        assert re.search(rf"def {name}\(", (ROOT / file).read_text()), f"{file} has no {name}"


def test_the_faults_of_storage_are_all_there() -> None:
    assert {str(number) for number in (*range(1, 9), 20)} <= TESTS.keys()
