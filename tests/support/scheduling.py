"""Which files pytest-xdist's workers take, and in which order: `make test` gives each worker a file at a time.

All files whose tests share the Spark session (tests/spark/conftest.py) go to one worker: a session is a JVM of a gigabyte, its start
costs more than most of the tests, and so does compiling in a second JVM what the first one has compiled already. They go first; behind
them those files that take long, so that no worker is left alone with one of them at the end.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from xdist.scheduler import LoadFileScheduling

TESTS = Path(__file__).parents[1]
SPARK = "tests/spark"
#: Folders of which single files run for minutes.
LONG = ("crash", "clients", "benchmarks", "spark", "demo", "differential", "cli", "cluster", "coordinator")


@cache
def shares_spark(path: Path) -> bool:
    """Whether a file of tests says that it needs Spark, and lies where the session is."""
    return path.is_relative_to(TESTS / "spark") and "mark.spark" in path.read_text()


def rank(path: Path) -> int:
    """Where a file of tests stands in line; those of one rank stay as they were."""
    if shares_spark(path):
        return -1
    folder = path.relative_to(TESTS).parts[0]
    return LONG.index(folder) if folder in LONG else len(LONG)


class OneForSpark(LoadFileScheduling):  # type: ignore[misc]  # xdist publishes no types
    """A file at a time, and all that share Spark at one time."""

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        return SPARK if shares_spark(TESTS.parent / file) else file
