"""The schedule of faults finds brokers that are wrong: it is played on each mutation of tests/support/mutations.py until it complains.

Only in a soak (MINIBROKER_SOAK=1): half a minute for each, and a seed may well not meet what a mutation broke.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

import pytest

from tests.support.fault_round import Clients, play
from tests.support.faulted_makes import all_makes
from tests.support.mutations import MUTATIONS, mutated
from tests.support.soak import IS_SOAK

SEEDS: Final = 12  #: at the most


@pytest.fixture(scope="module")
def makes() -> Iterator[Mapping[str, Clients]]:
    with all_makes() as found:
        yield found


@pytest.mark.skipif(not IS_SOAK, reason="MINIBROKER_SOAK=1 plays it: it says nothing of the broker, but of the tests")
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", MUTATIONS)
def test_a_broker_that_is_wrong_is_found(name: str, makes: Mapping[str, Clients]) -> None:
    for seed in range(SEEDS):
        with mutated(name):
            complaints = play(seed, 1 if seed % 2 == 0 else 3, makes).complaints
        found = [each for each in complaints if re.search(MUTATIONS[name].shows_as, each)]
        if found:
            print(f"seed {seed}: {found[0][:200]}")
            return
    pytest.fail(f"{SEEDS} schedules were played on a broker where {name}, and nothing was found")
