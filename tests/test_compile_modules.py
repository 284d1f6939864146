"""The first start after `make setup` finds everything compiled."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.compile_modules import compiled_at_a_start

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("kept_from_writing", ["1", ""])
def test_a_start_compiles_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept_from_writing: str) -> None:
    """With bytecode of its own, which is empty before: as where nothing was ever imported, not even of Python's library."""
    monkeypatch.setenv("PYTHONPYCACHEPREFIX", str(tmp_path))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", kept_from_writing)
    before = compiled_at_a_start()
    assert any("click" in path.parts for path in before)
    assert sum("minibroker" in path.parts for path in before) > 150  # fewer in a compiled build
    subprocess.run([sys.executable, "-m", "tests.support.compile_modules"], cwd=ROOT, check=True)
    assert compiled_at_a_start() == []


def test_it_is_part_of_the_setup() -> None:
    ran = subprocess.run(
        ["make", "--dry-run", "--always-make", "setup"], cwd=ROOT, capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL
    )
    assert "bin/python -m tests.support.compile_modules\n" in ran.stdout
