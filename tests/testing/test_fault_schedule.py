"""Random faults under clients of four makes: read_committed reads the acknowledged records, exactly once and in order.

Each make writes idempotently and in transactions, by turns, while its requests fail, are late, and lose their answers, leaders move,
brokers stop or are killed; groups of the same make read along. What must be there behind it: tests/support/fault_model.py; how it is
played: fault_round.py beside it. That this finds what is wrong with a broker, test_fault_mutations.py shows.

`MINIBROKER_FAULT_SEED` draws a schedule again (clients and their threads have a time of their own: play it some times). A failing run says
all that happened.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest

from tests.support.fault_round import Clients, play
from tests.support.faulted_makes import all_makes
from tests.support.soak import IS_SOAK

USUAL_SEED: Final = 311
SOAK_ROUNDS: Final = 5


@pytest.fixture(scope="module")
def makes() -> Iterator[Mapping[str, Clients]]:
    with all_makes() as found:
        yield found


def seeds() -> list[int]:
    """Return the seeds: that of the environment, new ones in a soak, else one whose faults hit each client."""
    requested = os.environ.get("MINIBROKER_FAULT_SEED")
    if requested:
        return [int(requested)]
    return [secrets.randbelow(10**6) for _ in range(SOAK_ROUNDS)] if IS_SOAK else [USUAL_SEED]


@pytest.mark.timeout(1800 if IS_SOAK else 900)
@pytest.mark.parametrize("nodes", [1, 3])
def test_acknowledged_records_are_read_exactly_once(nodes: int, makes: Mapping[str, Clients], tmp_path: Path) -> None:
    for seed in seeds():
        found = play(seed, nodes, makes)
        print(f"MINIBROKER_FAULT_SEED={seed}", *found.summary, sep="\n")
        if found.complaints or IS_SOAK:
            (tmp_path / f"{seed}.txt").write_text(found.told)
        if found.complaints:
            pytest.fail("\n".join([*found.complaints, f"MINIBROKER_FAULT_SEED={seed}", found.told]), pytrace=False)
