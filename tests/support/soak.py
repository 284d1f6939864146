"""How often tests hit a random moment, or try a case that chance made: a few times in each run, the same ones, so that a run
fails for what was changed and not by chance.

With MINIBROKER_SOAK=1 as often as one wants it before a release, or behind a change of what they are about, and others each time.
"""

from __future__ import annotations

import os
from random import Random, SystemRandom

IS_SOAK = os.environ.get("MINIBROKER_SOAK", "0") not in {"", "0"}
USUAL_SEED = 9


def times(usual: int, *, soak: int) -> int:
    """`usual`, or `soak` where that was asked for."""
    return soak if IS_SOAK else usual


def seed(variable: str = "CRASH_SEED") -> int:
    """Of a test's chance: the environment's, or the usual one, or any where a soak was asked for. It is printed: it repeats that run."""
    found = int(os.environ.get(variable, "0")) or (SystemRandom().randrange(1, 1_000_000) if IS_SOAK else USUAL_SEED)
    print(f"{variable}={found}")
    return found


def first_of(stride: int) -> int:
    """Where a walk by this stride begins: anywhere within the first one."""
    return Random(seed()).randrange(stride)


def told() -> str:
    """For the head of pytest's report."""
    return (
        "random moments and cases: all that a soak tries"
        if IS_SOAK
        else "random moments and cases: a few, the usual ones; MINIBROKER_SOAK=1 tries more, and others"
    )
