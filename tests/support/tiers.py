"""Which tier a test belongs to, found from what its code starts.

    tier    command        its tests
    check   make check     run in pytest's own process
    test    make test      also start child processes: brokers, commands, clients in Python
    full    make test-all  also need a JVM, Spark, kcat or containers, kill brokers, or take long

The code of a test and of its fixtures is searched, with all functions and classes of `tests` that it names. A test that names
`subprocess` gets the marker `process`, one that names tests/support/java.py the marker `java`. So no test file has to say so.
While `make check` runs, an attempt to start a process fails the test (`ProcessGuard`): a wrong tier cannot stay unnoticed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final

import pytest

TESTS: Final = Path(__file__).parents[1]
#: Modules whose use tells what a test starts: module -> marker.
STARTERS: Final = {
    "subprocess": "process",
    "multiprocessing": "process",
    "concurrent.futures.process": "process",
    "minibroker.testing.broker_process": "process",
    "minibroker.testing.secured": "process",
    "minibroker.server.worker_processes": "process",
    "minibroker.server.loop_background": "process",  # starts worker processes
    "minibroker.demo.__main__": "process",
    "minibroker.registry.protobuf_schema": "process",  # runs protoc
    "minibroker.registry.protoc": "process",
    "tests.support.java": "java",
    "tests.support.kafka_process": "java",
    "tests.support.spark_cluster": "spark",
    "minibroker.spark.session": "spark",
    "pyspark": "spark",
}
#: Folders and files whose tests all have a marker. `slow` ones search long in this process: every moment of a crash, every kind of
#: damage, the largest requests.
PLACES: Final = {
    "benchmarks": "slow",
    "cli/test_storage_check.py": "process",
    "clients": "process",
    "console/test_browser.py": "browser",
    "console/test_search_process.py": "process",
    "cluster/directories/test_compaction_crashes.py": "slow",
    "cluster/directories/test_crash_points.py": "slow",
    "cluster/directories/test_damage.py": "slow",
    "cluster/directories/test_internal_topic_damage.py": "slow",
    "cluster/directories/test_power_loss.py": "slow",
    "cluster/directories/test_replica_moves.py": "slow",
    "cluster/metadata/test_snapshot_crashes.py": "slow",
    "cluster/directories/test_storage_checking_crashes.py": "slow",
    "coordinator/transaction/test_crash_points.py": "slow",
    "crash": "crash",
    "demo": "spark",
    "dispatch/test_worst_frames.py": "slow",
    "docker": "docker",
    "examples": "process",
    "handlers/test_many_topics.py": "slow",
    "log/test_swapping.py": "slow",
    "records/test_long_batch.py": "slow",
    "server/test_cost_growth.py": "slow",
    "registry/test_topic.py": "process",  # runs protoc
    "spark/decoding/test_protobuf_files.py": "process",  # likewise
    "spark/report/test_picture.py": "process",  # matplotlib asks fc-list for fonts
    "test_compiled.py": "slow",
    "test_spark_classes.py": "spark",
    "testing/test_docs.py": "process",
    "testing/test_like_kafka.py": "process",
    "testing/test_plugin.py": "process",
}
#: Fixtures that start brokers of several kinds; their parameters have the marker of each kind.
PARAMETRIZED: Final = {"cluster": "process"}
#: Markers of the tier `full`, unless a test is marked `smoke`.
FULL: Final = {"java", "spark", "kcat", "docker", "crash", "slow", "browser"}
#: What Python's audit events call the start of a process.
STARTS: Final = {"subprocess.Popen", "os.posix_spawn", "os.fork", "os.forkpty", "os.system"}


def mark(item: pytest.Item) -> None:
    """Add the markers of what a test starts, and then the one of its tier."""
    for name in sorted({*_markers_of(item)}):
        item.add_marker(name)
    names = {marker.name for marker in item.iter_markers()}
    tier = "test" if "process" in names else "check"
    if names & FULL:
        tier = "test" if "smoke" in names else "full"
    item.add_marker(tier)


def _markers_of(item: pytest.Item) -> Iterator[str]:
    yield from _markers_of_place(item.path)
    function = getattr(item, "function", None)
    if function is not None:
        yield from started_by(function)
    for value in getattr(getattr(item, "callspec", None), "params", {}).values():
        yield from (marker for each in _flat(value) for marker in started_by(each))
    fixtures = getattr(item, "_fixtureinfo", None)
    for name, definitions in getattr(fixtures, "name2fixturedefs", {}).items():
        if name in PARAMETRIZED:
            yield PARAMETRIZED[name]
        elif name in item.fixturenames:  # type: ignore[attr-defined]  # a Function has them
            for definition in definitions:
                yield from started_by(definition.func)


def place_of(path: Path) -> Path:
    """Return where a test file is: in `tests`, or in another folder of the repository."""
    return path.relative_to(TESTS if path.is_relative_to(TESTS) else TESTS.parent)


@cache
def _markers_of_place(path: Path) -> list[str]:
    inside = place_of(path)
    return [PLACES[place] for place in (inside.parts[0], inside.as_posix()) if place in PLACES]


@cache
def started_by(start: Any) -> frozenset[str]:
    """Markers of everything that `start`, a function, can reach."""
    found: set[str] = set()
    seen: set[int] = set()
    waiting = [start]
    while waiting:
        value = waiting.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        marker = STARTERS.get(value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None) or "")
        if marker is not None:
            found.add(marker)
        elif value is start or (getattr(value, "__module__", None) or "").startswith("tests."):
            waiting += _named_by(value)
    return frozenset(found)


@cache
def _named_by(value: Any) -> list[Any]:
    """Functions, classes and modules that a function or a class names."""
    value = getattr(value, "__wrapped__", value)
    if isinstance(value, type):
        members = [getattr(each, "__func__", getattr(each, "fget", each)) for each in vars(value).values()]
        return [*value.__bases__, *(each for each in members if isinstance(each, FunctionType))]
    function = getattr(value, "__func__", value)
    if not isinstance(function, FunctionType):
        return []
    found = [function.__globals__.get(name, sys.modules.get(name)) for name in _names_in(function.__code__)]
    return [each for value in found for each in _flat(value)]


def _flat(value: Any) -> list[Any]:
    """A function, class or module, or those in a container such as a table of clients; nothing else."""
    if isinstance(value, dict):
        return [each for inner in value.values() for each in _flat(inner)]
    if isinstance(value, list | tuple):
        return [each for inner in value for each in _flat(inner)]
    return [value] if isinstance(value, FunctionType | type | ModuleType) or hasattr(value, "__wrapped__") else []


@cache
def _names_in(code: CodeType) -> frozenset[str]:
    inner = [_names_in(each) for each in code.co_consts if isinstance(each, CodeType)]
    return frozenset(code.co_names).union(*inner)


class ProcessStartError(AssertionError):
    """A test of the tier `check` started a process."""


class ProcessGuard:
    """Fails a test of the tier `check` that starts a process; `current` is the test that runs."""

    def __init__(self) -> None:
        self.current: str | None = None
        sys.addaudithook(self._on_event)

    def _on_event(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in STARTS and self.current is not None:
            test, self.current = self.current, None  # only once: what cleans up after the test may start processes
            raise ProcessStartError(f"{test} is of the tier `check` and may not start a process (tests/support/tiers.py): {arguments[0]}")
