"""How many random cases tests try in each tier, and with which seed. All tests take their numbers from here.

    tier                 Hypothesis examples   sampled positions   seed
    check                a tenth               every 4 * n-th      fixed
    test, full           half                  every n-th          fixed
    MINIBROKER_SOAK=1    four times            all                 new in each run

A fixed seed means that a run fails because of a change, not by chance. Tests that damage each byte of a file, or crash before
each change of the disk, take a sample of these positions (`stride`, `every`); only a soak tries all of them.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from random import Random, SystemRandom
from typing import Any, TypeVar

import hypothesis

IS_SOAK = os.environ.get("MINIBROKER_SOAK", "0") not in {"", "0"}
USUAL_SEED = 9
EXAMPLES = 100  #: of a Hypothesis test that does not ask for another number

T = TypeVar("T")


class _Run:
    """Set before test modules are imported."""

    is_check = False


def set_tier(*, is_check: bool) -> None:
    """Choose the numbers of `make check` or of the other tiers, and load Hypothesis' profile. Call it before test modules are imported."""
    _Run.is_check = is_check
    hypothesis.settings.register_profile("tests", deadline=None, derandomize=not IS_SOAK, max_examples=_examples(EXAMPLES))
    hypothesis.settings.load_profile("tests")


def _examples(count: int) -> int:
    return 4 * count if IS_SOAK else max(5, count // 10) if _Run.is_check else max(5, count // 2)


def examples(count: int = EXAMPLES, **settings: Any) -> hypothesis.settings:
    """Return Hypothesis settings with `count` examples, scaled by the tier."""
    return hypothesis.settings(max_examples=_examples(count), **settings)


def times(usual: int, *, soak: int) -> int:
    """Return how often to repeat something: `usual`, a quarter of it in `make check`, or `soak` in a soak."""
    return soak if IS_SOAK else max(1, usual // 4) if _Run.is_check else usual


def stride(usual: int) -> int:
    """Return the distance between positions that a test tries: `usual`, four times that in `make check`, or 1 in a soak."""
    return 1 if IS_SOAK else 4 * usual if _Run.is_check else usual


def every(usual: int, positions: Sequence[T]) -> list[T]:
    """Return each `stride(usual)`-th of the positions, from a random one on, and the last one."""
    found = list(positions[first_of(stride(usual)) :: stride(usual)])
    return found if found and found[-1] == positions[-1] else [*found, *positions[-1:]]


def seed(variable: str = "CRASH_SEED") -> int:
    """Return the seed of a test's random cases, and print it: the one in the environment, the usual one, or a new one for a soak."""
    found = int(os.environ.get(variable, "0")) or (SystemRandom().randrange(1, 1_000_000) if IS_SOAK else USUAL_SEED)
    print(f"{variable}={found}")
    return found


def first_of(stride: int) -> int:
    """Return the random start of a walk by this stride, below the stride."""
    return Random(seed()).randrange(stride)


def report_header() -> str:
    """Return the line of pytest's header that says how many random cases run."""
    return "random cases: all, with a new seed" if IS_SOAK else "random cases: few, with a fixed seed; MINIBROKER_SOAK=1 runs more"
