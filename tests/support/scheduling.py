"""Which files pytest-xdist's workers take, and in which order: `make test` gives each worker a file at a time.

All files whose tests share the Spark session (tests/spark/conftest.py) go to one worker: a session is a JVM of a gigabyte, its start
costs more than most of the tests, and so does compiling in a second JVM what the first one has compiled already. They go first; behind
them those files that take long, so that no worker is left alone with one of them at the end.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from xdist.scheduler import LoadFileScheduling

TESTS = Path(__file__).parents[1]
SPARK = "tests/spark"
#: Folders of which single files run for minutes.
LONG = ("crash", "clients", "benchmarks", "spark", "demo", "differential", "cli", "cluster", "coordinator")


_USES_SESSION = re.compile(r"\b(spark: Any|pipelines: Commands)\b")  #: the fixtures, as parameters


@cache
def shares_spark(path: Path) -> bool:
    """Whether tests of a file use the session. Seen in its text: who shares out the work does not know the fixtures of tests."""
    return path.is_relative_to(TESTS / "spark") and _USES_SESSION.search(path.read_text()) is not None


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
