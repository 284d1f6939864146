"""A short run of the fuzzer, the same one each time, and every finding of the past; `make soak` runs a million frames."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.findings import corpus
from tests.fuzz.run import Run
from tests.support.soak import seed, times

FRAMES = times(12_000, soak=200_000)
CONVERSATIONS = times(1500, soak=50_000)


@pytest.mark.timeout(3600)
def test_mutated_requests_of_every_api(tmp_path: Path) -> None:
    outcome = Run(tmp_path, seed("FUZZ_SEED")).fuzz(FRAMES, corpus())
    assert outcome.findings == [], "\n".join(outcome.lines())
    assert outcome.frames >= FRAMES
    assert outcome.settled["answered"] > FRAMES / 2  # most requests are sound enough to be answered
    assert outcome.settled["closed"] > FRAMES / 50  # and others are not


@pytest.mark.timeout(3600)
def test_mutated_logins(tmp_path: Path) -> None:
    outcome = Run(tmp_path, seed("FUZZ_SEED"), logins=True).fuzz(CONVERSATIONS)
    assert outcome.findings == [], "\n".join(outcome.lines())
    assert outcome.frames >= CONVERSATIONS
    assert outcome.settled["answered"] > CONVERSATIONS / 5
    assert outcome.settled["closed"] > CONVERSATIONS / 20
    assert outcome.settled["torn records"] > CONVERSATIONS / 20


def test_there_are_findings_to_replay() -> None:
    assert len(corpus()) >= 4
