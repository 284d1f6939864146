"""How often tests hit a random moment, or try a case that chance made: a few times in each run, whose seed is new each time.

With MINIBROKER_SOAK=1 as often as one wants it before a release, or behind a change of what they are about.
"""

from __future__ import annotations

import os
from random import Random, SystemRandom

IS_SOAK = os.environ.get("MINIBROKER_SOAK", "0") not in {"", "0"}


def times(usual: int, *, soak: int) -> int:
    """`usual`, or `soak` where that was asked for."""
    return soak if IS_SOAK else usual


def first_of(stride: int) -> int:
    """Where a walk by this stride begins: anywhere within the first one. Prints its seed; CRASH_SEED repeats that of a run."""
    seed = int(os.environ.get("CRASH_SEED", "0")) or SystemRandom().randrange(1, 1_000_000)
    print(f"CRASH_SEED={seed}")
    return Random(seed).randrange(stride)


def told() -> str:
    """For the head of pytest's report."""
    return "random moments and cases: all that a soak tries" if IS_SOAK else "random moments and cases: a few; MINIBROKER_SOAK=1 tries more"
