"""How often a fault happens."""

from __future__ import annotations

from typing import Any

import pytest

from minibroker.testing import BrokerError
from minibroker.testing.faults.rule import FaultFrequency


def hits(said: dict[str, Any], calls: int = 6) -> list[bool]:
    often = FaultFrequency(said)
    found = [often.hits_now() for _ in range(calls)]
    assert (often.calls, often.hits) == (calls, sum(found))
    return found


def test_each_form_of_frequency() -> None:
    assert hits({}) == [True] * 6
    assert hits({"times": 2}) == [True, True, False, False, False, False]
    assert hits({"call": 3}) == [False, False, True, False, False, False]
    assert hits({"probability": 0}) == [False] * 6
    assert hits({"probability": 1}) == [True] * 6


def test_the_same_seed_hits_the_same_calls() -> None:
    fields = {"probability": 0.3, "seed": 7}
    assert hits(fields, 1000) == hits(fields, 1000) != hits({"probability": 0.3, "seed": 8}, 1000)
    assert 200 < sum(hits(fields, 1000)) < 400


@pytest.mark.parametrize(("said", "over"), [({"times": 1}, [False, True, True]), ({"call": 2}, [False, False, True]), ({}, [False] * 3)])
def test_when_it_is_over(said: dict[str, Any], over: list[bool]) -> None:
    often = FaultFrequency(said)
    found = []
    for _ in range(3):
        found.append(often.is_over)
        often.hits_now()
    assert found == over


@pytest.mark.parametrize(
    "said",
    [
        {"times": 0},
        {"times": "2"},
        {"times": True},
        {"call": -1},
        {"probability": 1.1},
        {"probability": "x"},
        {"probability": 0.5, "seed": "x"},
        {"seed": 1},
        {"times": 1, "call": 1},
        {"often": 1},
    ],
)
def test_nonsense_is_refused(said: dict[str, Any]) -> None:
    with pytest.raises(BrokerError):
        FaultFrequency(said)
