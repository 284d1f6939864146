"""How many random cases tests try, and with which seed.

`make test` tries a few cases, the same in each run, so that a run does not fail by chance. `make check` tries a quarter of them.
With MINIBROKER_SOAK=1 tests try as many as one wants before a release, with a new seed each time.
"""

from __future__ import annotations

import os
from random import Random, SystemRandom

IS_SOAK = os.environ.get("MINIBROKER_SOAK", "0") not in {"", "0"}
USUAL_SEED = 9


class _Run:
    """Set before test modules are imported."""

    is_check = False


def set_check() -> None:
    """Make `times` return fewer cases from now on: for `make check`."""
    _Run.is_check = True


def times(usual: int, *, soak: int) -> int:
    """Return `usual`, a quarter of it in `make check`, or `soak` with MINIBROKER_SOAK=1."""
    return soak if IS_SOAK else max(1, usual // 4) if _Run.is_check else usual


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
