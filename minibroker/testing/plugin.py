"""pytest plugin: a Kafka broker for a test, empty when the test begins.

    minibroker            Surface: the session's broker, with nothing in it but what minibroker_seed puts there
    minibroker_async      AsyncSurface: the same, awaited
    minibroker_topic      name of a new topic with one partition, of this test alone
    minibroker_bootstrap  HOST:PORT, for fixtures of the whole session
    minibroker_session    Surface: the broker without a reset; started by the first test that asks for any of these
    minibroker_options    override it: arguments of the broker, {"topics": {"orders": 3}, "config": {...}}
    minibroker_seed       override it: a function that fills the empty broker; what it leaves is there when each test begins

    --minibroker-bootstrap HOST:PORT    run the same tests against that Kafka; what only minibroker can do skips its test
    --minibroker-keep-data FOLDER       data in FOLDER/<xdist worker>, to be looked at when the run is over

    minibroker_form = thread | process          in pytest's ini file: where the broker runs
    minibroker_config = NAME=VALUE              a line for each of its properties
    minibroker_request_lines = 50               of its request log in the report of a failed test; 0: none

Each worker of pytest-xdist has a broker of its own; a given Kafka is shared, so tests that want it empty take turns. This module imports
nothing but pytest: a run that uses no broker pays for no broker.
"""

from __future__ import annotations

import itertools
import os
import re
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

import pytest

if TYPE_CHECKING:
    from minibroker.testing.async_surface import AsyncSurface
    from minibroker.testing.surface import Surface

    Seed = Callable[[Surface], None]

_FIXTURES: Final = {"minibroker", "minibroker_async", "minibroker_topic", "minibroker_bootstrap", "minibroker_session"}
_FORMS: Final = ("thread", "process")
_NAME_MAX: Final = 80

_session_key: Final = pytest.StashKey["_Session"]()
_began_key: Final = pytest.StashKey[int]()
_numbers: Final = itertools.count(1)


class _Session:
    """The broker of this test process, and how it is emptied."""

    def __init__(self, broker: Surface, exclusively: Callable[[], Any]) -> None:
        self.broker = broker
        self.exclusively = exclusively  #: a context in which nobody else empties this cluster
        self.empty: Callable[[], None] = broker.reset


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of the command line and of the ini file."""
    group = parser.getgroup("minibroker", "a Kafka broker for tests")
    group.addoption(
        "--minibroker-bootstrap",
        metavar="HOST:PORT",
        help="run the tests against this Kafka instead of a minibroker; a cluster for tests alone: what they create is deleted",
    )
    group.addoption("--minibroker-keep-data", metavar="FOLDER", help="keep the broker's data in FOLDER/<xdist worker> instead of in memory")
    parser.addini("minibroker_form", "where the broker runs: thread (of the test process) or process", default="thread")
    parser.addini("minibroker_config", "properties of the broker: a line NAME=VALUE for each", type="linelist")
    parser.addini("minibroker_request_lines", "lines of the broker's request log in the report of a failed test", default="50")


# -- fixtures -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def minibroker_options() -> Mapping[str, Any]:
    """Arguments of the broker (BrokerThread's): override it in a conftest.py."""
    return {}


@pytest.fixture(scope="session")
def minibroker_seed() -> Seed | None:
    """A function that fills the empty broker: override it in a conftest.py. It is called once, and again for each test on a given Kafka."""
    return None


@pytest.fixture(scope="session")
def minibroker_session(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    minibroker_options: Mapping[str, Any],
    minibroker_seed: Seed | None,
) -> Iterator[Surface]:
    """The broker of this test session (of each xdist worker), as its tests leave it."""
    config = request.config
    given = config.getoption("--minibroker-bootstrap")
    session = _given(given, tmp_path_factory) if given else _own(config, minibroker_options)
    with session.broker as broker:
        config.stash[_session_key] = session
        try:
            if minibroker_seed is not None:
                _plant(session, minibroker_seed, is_given=bool(given))
            yield broker
        finally:
            del config.stash[_session_key]


@pytest.fixture(scope="session")
def minibroker_bootstrap(minibroker_session: Surface) -> str:
    """HOST:PORT of the broker: what a client calls bootstrap.servers."""
    return minibroker_session.bootstrap_servers


@pytest.fixture
def minibroker(minibroker_session: Surface, request: pytest.FixtureRequest) -> Iterator[Surface]:
    """The broker with nothing in it but what minibroker_seed puts there."""
    session = request.config.stash[_session_key]
    with session.exclusively():
        session.empty()
        yield minibroker_session
        if request.config.getoption("--minibroker-bootstrap"):
            minibroker_session.reset()


@pytest.fixture
def minibroker_async(minibroker: Surface) -> AsyncSurface:
    """The fixture `minibroker` for tests that await."""
    from minibroker.testing.async_surface import AsyncSurface  # noqa: PLC0415  see the module

    return AsyncSurface(minibroker)


@pytest.fixture
def minibroker_topic(minibroker_session: Surface, request: pytest.FixtureRequest) -> Iterator[str]:
    """Name of a new topic with one partition; beside the fixture `minibroker` it is made in the empty broker."""
    if "minibroker" in request.fixturenames:
        request.getfixturevalue("minibroker")
    from minibroker.errors import KafkaError  # noqa: PLC0415  see the module
    from minibroker.testing.given_cluster import KEPT_PREFIX  # noqa: PLC0415

    readable = re.sub(r"[^a-zA-Z0-9._-]+", "-", request.node.name).strip("-")[:_NAME_MAX]
    name = minibroker_session.create_topic(f"{KEPT_PREFIX}{readable}-{os.getpid()}-{next(_numbers)}")
    yield name
    with suppress(KafkaError):  # the test has deleted it
        minibroker_session.delete_topic(name)


# -- the session's broker -------------------------------------------------------------------------------------------------


def _own(config: pytest.Config, options: Mapping[str, Any]) -> _Session:
    form = config.getini("minibroker_form")
    if form not in _FORMS:
        raise pytest.UsageError(f"minibroker_form={form}: use thread or process")
    arguments = dict(options)
    arguments["config"] = _ini_config(config) | dict(arguments.get("config") or {})
    kept = config.getoption("--minibroker-keep-data")
    if kept:
        folder = Path(kept).absolute() / os.environ.get("PYTEST_XDIST_WORKER", "main")
        folder.mkdir(parents=True, exist_ok=True)
        arguments["data_dir"] = folder
    return _Session(_form_of(form)(**arguments), nullcontext)


def _form_of(name: str) -> Callable[..., Surface]:
    """One of them alone: this process has no use for the modules of a broker that runs in another one."""
    if name == "thread":
        from minibroker.testing.broker_thread import BrokerThread  # noqa: PLC0415  see the module

        return BrokerThread
    from minibroker.testing.broker_process import BrokerProcess  # noqa: PLC0415  see the module

    return BrokerProcess


def _ini_config(config: pytest.Config) -> dict[str, str]:
    found = {}
    for line in config.getini("minibroker_config"):
        name, sign, value = line.partition("=")
        if not sign:
            raise pytest.UsageError(f"minibroker_config: {line!r} is not NAME=VALUE")
        found[name.strip()] = value.strip()
    return found


def _given(bootstrap_servers: str, tmp_path_factory: pytest.TempPathFactory) -> _Session:
    from minibroker.testing.given_cluster import GivenCluster  # noqa: PLC0415  see the module

    is_worker = "PYTEST_XDIST_WORKER" in os.environ
    shared = tmp_path_factory.getbasetemp().parent if is_worker else tmp_path_factory.getbasetemp()

    @contextmanager
    def exclusively() -> Iterator[None]:
        import fcntl  # noqa: PLC0415  not on every platform

        with (shared / "minibroker.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    with exclusively():
        broker = GivenCluster(bootstrap_servers, unsupported=_skip, baseline=shared / "minibroker-baseline.json")
        broker.start()
    return _Session(broker, exclusively)


def _skip(reason: str) -> NoReturn:
    pytest.skip(reason)


def _plant(session: _Session, seed: Seed, *, is_given: bool) -> None:
    broker = session.broker
    if is_given:

        def again() -> None:
            broker.reset()
            seed(broker)

        session.empty = again
    else:
        seed(broker)
        planted = broker.snapshot()
        session.empty = lambda: broker.restore(planted)


# -- reports ------------------------------------------------------------------------------------------------------------


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Remember when a test began: what was asked before is not its concern."""
    item.stash[_began_key] = time.time_ns() // 1_000_000


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add what the broker was asked to the report of a test that failed."""
    report = yield
    if report.failed and _session_key in item.config.stash and not _FIXTURES.isdisjoint(getattr(item, "fixturenames", ())):
        text = _requests(item.config, item.stash.get(_began_key, 0))
        if text:
            report.sections.append(("minibroker requests", text))
    return report


def _requests(config: pytest.Config, began_ms: int) -> str:
    most = int(config.getini("minibroker_request_lines"))
    if most <= 0 or config.getoption("--minibroker-bootstrap"):
        return ""
    from minibroker.testing.errors import BrokerError  # noqa: PLC0415  see the module
    from minibroker.testing.request_log import RequestLog  # noqa: PLC0415

    try:
        log = config.stash[_session_key].broker.request_log
    except BrokerError as error:
        return str(error)
    return "\n".join(RequestLog(each for each in log if each.time_ms >= began_ms).lines(most)) or "none"
