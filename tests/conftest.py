"""Fixtures for tests that need a broker over a socket, and the choice of which broker that is."""

from __future__ import annotations

import gc
import itertools
import logging
import os
import re
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.broker_process import BrokerProcess
from tests.support.memory_folders import memory_folder, remove_memory_folder
from tests.support.reports import use_fewer_reports
from tests.support.scheduling import TogetherOrByFile, rank
from tests.support.soak import report_header, set_tier
from tests.support.spark_classes import spare_cpu
from tests.support.tiers import FULL, ProcessGuard, mark

_guard = pytest.StashKey[ProcessGuard]()
_numbers = itertools.count(1)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--bootstrap-server",
        default=os.environ.get("MINIBROKER_TEST_BOOTSTRAP"),
        help="run the tests of clients against this broker, e.g. an Apache Kafka, instead of a minibroker of their own",
    )


@pytest.hookimpl(tryfirst=True)  # before pytest selects by -m
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test with its tier, and put files that take long first."""
    for item in items:
        mark(item)
    items.sort(key=lambda item: rank(item.path))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> TogetherOrByFile | None:
    """Return the scheduler of `--dist loadfile`."""
    return TogetherOrByFile(config, log) if config.getoption("dist") == "loadfile" else None


def pytest_configure(config: pytest.Config) -> None:
    """Prepare this process.

    A shell lets programs in the background ignore SIGINT, and their children inherit that. Tests of Ctrl-C need it.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    spare_cpu()
    use_fewer_reports(config)
    # All this comes before test modules are imported, which derive their own settings from these.
    is_check = config.option.markexpr == "check"
    set_tier(is_check=is_check)
    if is_check:
        config.stash[_guard] = ProcessGuard()


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """Keep the garbage collector away from test modules and from thousands of tests: they stay until the end."""
    gc.disable()
    result = yield
    gc.freeze()
    gc.enable()
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Give tests that run in this process temporary folders in memory; in `make check`, forbid them to start a process."""
    guard = item.config.stash.get(_guard, None)
    if guard is not None:
        guard.current = item.nodeid
    if _is_of_one_process(item):
        tempfile.tempdir = str(memory_folder() or "") or None
    result = yield
    tempfile.tempdir = None
    if guard is not None:
        guard.current = None
    return result


def _is_of_one_process(item: pytest.Item) -> bool:
    names = {marker.name for marker in item.iter_markers()}
    return "check" in names or names.isdisjoint({"process", *FULL - {"slow"}})


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder for the test: pytest's, or one in memory. Those in memory stay until pytest ends: brokers may still write to them."""
    name = re.sub(r"\W", "_", request.node.name)[:30]
    memory = memory_folder() if _is_of_one_process(request.node) else None
    if memory is None:
        return tmp_path_factory.mktemp(name)
    return Path(tempfile.mkdtemp(prefix=name, suffix="_", dir=memory))  # a fixed last character: tests make a "b/" in it fail


def pytest_unconfigure() -> None:
    remove_memory_folder()


_threads_before = pytest.StashKey[set[threading.Thread]]()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Note the threads that earlier tests left."""
    item.stash[_threads_before] = {*threading.enumerate()} - {threading.current_thread()}


@pytest.fixture
def caplog(caplog: pytest.LogCaptureFixture, request: pytest.FixtureRequest) -> Iterator[pytest.LogCaptureFixture]:
    """Capture only what loggers of minibroker write, and not in threads that earlier tests left."""

    def is_of_this_test(record: logging.LogRecord) -> bool:
        return record.name.partition(".")[0] == "minibroker" and threading.current_thread() not in request.node.stash[_threads_before]

    caplog.handler.addFilter(is_of_this_test)
    yield caplog
    caplog.handler.removeFilter(is_of_this_test)


@pytest.fixture(scope="module", autouse=True)
def _clients_end_with_their_file() -> Iterator[None]:
    """Collect clients that the traceback of an exception holds: they would try to reach their broker while other tests run."""
    before = _thread_count()
    yield
    if _thread_count() > before:
        gc.collect()


def _thread_count() -> int:
    """Count the threads, on Linux also those that no Python started."""
    tasks = Path("/proc/self/task")
    return len(list(tasks.iterdir())) if tasks.exists() else threading.active_count()


def pytest_report_header() -> str:
    return report_header()


#: Timestamps in these tests are years old. (A real Kafka looks every five minutes.)
NO_RETENTION = ("--set", "log.initial.task.delay.ms=100000000", "--set", "log.retention.check.interval.ms=100000000")


@pytest.fixture(scope="session")
def bootstrap(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """HOST:PORT of the broker under test; ours lives as long as the session."""
    given = request.config.getoption("--bootstrap-server")
    if given:
        yield given
        return
    broker = BrokerProcess(tmp_path_factory.mktemp("broker"), *NO_RETENTION)
    with broker:
        yield broker.bootstrap
        assert broker.stop() == 0, broker.output


@pytest.fixture
def admin(bootstrap: str) -> Any:
    """confluent-kafka's AdminClient; must outlive the futures that it returns."""
    from tests.support.confluent import AdminClient

    return AdminClient({"bootstrap.servers": bootstrap})


@pytest.fixture
def new_topic(admin: Any, request: pytest.FixtureRequest) -> Callable[..., str]:
    """Create a topic of a name not used before: `new_topic(partitions=3, **{"retention.ms": "-1"})`."""
    from confluent_kafka.admin import NewTopic

    def create(partitions: int = 1, **config: str) -> str:
        readable = re.sub(r"[^a-zA-Z0-9._-]+", "-", request.node.name).strip("-")[:80]
        name = f"{readable}-{os.getpid()}-{next(_numbers)}"
        admin.create_topics([NewTopic(name, partitions, 1, config=config)])[name].result(timeout=60)
        return name

    return create


@pytest.fixture
def topic(new_topic: Callable[..., str]) -> str:
    """A fresh topic with one partition that keeps records of any age."""
    return new_topic(**{"retention.ms": "-1"})
