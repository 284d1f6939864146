"""Which files pytest-xdist's workers take, and in which order: `make test` gives each worker a file at a time.

Files that share what takes long to start go to one worker together, which then has it once:

    tests/spark   the Spark session: a JVM of a gigabyte; a second one would also compile all that the first one has compiled already
    tests/docker  the container image, which is built for them
    tests/cli     the two brokers that commands speak to: with a file at a time an Apache Kafka would be started for each file

Spark goes first; behind it those files that take long, so that no worker is left alone with one of them at the end.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from xdist.scheduler import LoadFileScheduling

from tests.support.tiers import place_of

TESTS = Path(__file__).parents[1]
#: Files that run for a minute or more, then folders of which single files do, or those that go together.
LONG = (
    "spark/test_standalone_cluster.py",
    "spark/archive/test_delta.py",
    "test_compiled.py",
    "docker",
    "crash",
    "examples",
    "clients",
    "cli",
    "benchmarks",
    "demo",
    "testing",
    "spark",
    "differential",
    "cluster",
    "golden",
    "coordinator",
)
#: By folder: the fixtures of its conftest.py that are shared, as parameters of a test or of a fixture.
SHARED = {
    "spark": re.compile(r"\b(spark: Any|pipelines: Commands)\b"),
    "cli": re.compile(r"\b(cli: Commands|cluster: Cluster)\b"),
    "docker": re.compile(r"\b(image|compose): str\b"),
}


@cache
def shared_by(path: Path) -> str | None:
    """The folder whose shared fixtures a file of tests uses; seen in its text, for who gives out the work knows tests by name alone."""
    folder = place_of(path).parts[0]
    return folder if folder in SHARED and SHARED[folder].search(path.read_text()) else None


@cache
def rank(path: Path) -> int:
    """Where a file of tests stands in line; those of one rank stay as they were."""
    if shared_by(path) == "spark":
        return -1
    inside = place_of(path)
    places = (LONG.index(name) for name in (inside.as_posix(), inside.parts[0]) if name in LONG)
    return next(places, len(LONG))


class TogetherOrByFile(LoadFileScheduling):  # type: ignore[misc]  # xdist publishes no types
    """A file at a time, and those that share something at one time."""

    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        return shared_by(TESTS.parent / file) or file
