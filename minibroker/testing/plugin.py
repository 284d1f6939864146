"""pytest plugin: a Kafka broker for a test, empty when the test starts.

    minibroker            Surface: the session's broker, with only what minibroker_seed puts there
    minibroker_async      AsyncSurface: the same broker, awaited
    minibroker_topic      name of a new topic with one partition for this test
    minibroker_bootstrap  HOST:PORT, for fixtures of the whole session
    minibroker_session    Surface: the broker without a reset; the first test that uses any of these starts it
    minibroker_options    override it: arguments of the broker, {"topics": {"orders": 3}, "config": {...}}
    minibroker_seed       override it: a function that fills the empty broker; each test starts with what it leaves
    minibroker_secure     Surface: another broker, empty, with TLS, logins and access control; the marker of that name has its arguments
    minibroker_secure_options    override it: arguments of minibroker.secure for tests without the marker
    @pytest.mark.minibroker_schemas(FOLDER or {SUBJECT: FILE})    schemas that this test finds in the registry, besides those of all tests

    --minibroker-bootstrap HOST:PORT    run the same tests against that Kafka; tests of what only minibroker can do are skipped
    --minibroker-brokers N              show N brokers to clients
    --minibroker-like-kafka             behave as Apache Kafka does wherever minibroker deliberately differs
    --minibroker-keep-data FOLDER       keep the data in FOLDER/<xdist worker>, to look at them after the run

    minibroker_form = thread | process          in pytest's ini file: where the broker runs
    minibroker_brokers = 1                      brokers that clients see; the option above and minibroker_options override it
    minibroker_like_kafka = true                as the option above; minibroker_options override it
    minibroker_config = NAME=VALUE              a line for each property; minibroker_options override it
    minibroker_schemas = FOLDER                 schemas that each test finds in the registry; minibroker_options override it
    minibroker_request_lines = 50               lines of the request log in the report of a failed test; 0: none

Each worker of pytest-xdist has its own broker. A given Kafka is shared, so that tests that need it
empty take turns. If a test has stopped or killed the broker, it is started again for the next one.
A test gets the minibroker_seed nearest to it; minibroker_options are those of the whole run. This
module imports only pytest, and `testing` imports a name at its first use: a run without a broker
does not pay for one.
"""

from __future__ import annotations

import itertools
import os
import re
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

import pytest

from minibroker import testing

if TYPE_CHECKING:
    from minibroker.testing.data import Snapshot
    from minibroker.testing.surface import AsyncSurface, Surface

    Seed = Callable[[Surface], None]

_FIXTURES: Final = {"minibroker", "minibroker_async", "minibroker_topic", "minibroker_bootstrap", "minibroker_session"}
_SECURE: Final = "minibroker_secure"  #: a fixture and a marker
_SCHEMAS: Final = "minibroker_schemas"  #: a marker and a setting of the ini file
_SECURED_MAX: Final = 3  #: brokers that are kept for further tests with the same arguments
_FORMS: Final = ("thread", "process")
_NAME_MAX: Final = 80
_OTHER_OPTIONS: Final = (
    "minibroker_options differ from those with which this run's broker was started: run these tests separately, "
    "or override the fixture in one conftest.py at the top"
)

_session_key: Final = pytest.StashKey["_Session"]()
_start_key: Final = pytest.StashKey[int]()
_secured_key: Final = pytest.StashKey["Surface"]()
_numbers: Final = itertools.count(1)


class _Settings(NamedTuple):
    """Settings of the ini file and the command line, checked."""

    form: str
    brokers: int | None  #: None: not set
    are_brokers_an_option: bool  #: on the command line, which overrides minibroker_options
    config: dict[str, str]
    schemas: Path | None  #: the folder of minibroker_schemas
    request_lines: int
    bootstrap_servers: str | None  #: of another cluster
    data_folder: str | None
    is_like_kafka: bool


class _Session:
    """The broker of this test process, which is emptied for each test."""

    def __init__(self, broker: Surface, exclusively: Callable[[], Any], options: Mapping[str, Any], *, is_given: bool) -> None:
        self.broker = broker
        self.exclusively = exclusively  #: a context in which no other process empties this cluster
        self.options = options
        self._is_given = is_given
        self._snapshots: dict[int, tuple[Seed, Snapshot]] = {}  #: by id(seed); the seed is kept, so that its id stays its own

    def start_again(self) -> None:
        """Start the broker if the last test has stopped or killed it; its snapshots may be lost."""
        if not self.broker.is_running:
            self._snapshots.clear()
            self.broker.start()

    def empty(self, seed: Seed | None) -> None:
        """Remove everything, and run the seed."""
        if seed is None or not self._restore(seed):
            self.broker.reset()
            self.run_seed(seed)

    def _restore(self, seed: Seed) -> bool:
        """Restore what the seed made; False: it has not run yet, or a test has stopped the process that had the snapshot."""
        _, made = self._snapshots.get(id(seed), (None, None))
        if made is None:
            return False
        try:
            self.broker.restore(made)
        except testing.BrokerError:
            del self._snapshots[id(seed)]
            return False
        return True

    def run_seed(self, seed: Seed | None) -> None:
        """Run the seed, and keep a snapshot of what it made."""
        if seed is not None:
            seed(self.broker)
            if not self._is_given:
                self._snapshots[id(seed)] = seed, self.broker.snapshot()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add options of the command line and of the ini file."""
    group = parser.getgroup("minibroker", "a Kafka broker for tests")
    group.addoption(
        "--minibroker-bootstrap",
        metavar="HOST:PORT",
        help="run the tests against this Kafka instead of a minibroker; use a cluster for tests only: what they create is deleted",
    )
    group.addoption("--minibroker-brokers", metavar="N", type=int, help="show N brokers to clients; nothing is replicated")
    group.addoption(
        "--minibroker-like-kafka", action="store_true", default=False, help="behave as Apache Kafka does, see docs/differences.md"
    )
    group.addoption("--minibroker-keep-data", metavar="FOLDER", help="keep the broker's data in FOLDER/<xdist worker> instead of in memory")
    parser.addini("minibroker_form", "where the broker runs: thread (of the test process) or process", default="thread")
    parser.addini("minibroker_brokers", "how many brokers clients see", default="")
    parser.addini("minibroker_like_kafka", "whether the broker behaves as Apache Kafka does", type="bool", default=False)
    parser.addini("minibroker_config", "properties of the broker: a line NAME=VALUE for each", type="linelist")
    parser.addini("minibroker_schemas", "folder with schemas that each test finds in the registry, relative to the ini file", default="")
    parser.addini("minibroker_request_lines", "lines of the broker's request log in the report of a failed test", default="50")


def pytest_configure(config: pytest.Config) -> None:
    """Report wrong settings before any test runs."""
    config.addinivalue_line(
        "markers",
        f"{_SECURE}(users=..., acls=..., super_users=..., mtls=..., ...): arguments of minibroker.secure for the fixture {_SECURE}",
    )
    config.addinivalue_line("markers", f"{_SCHEMAS}(source): schemas to register for the test: a folder, or files by subject")
    _settings(config)


def pytest_report_header(config: pytest.Config) -> str | None:
    """Show the settings on which the results depend."""
    settings = _settings(config)
    if settings.bootstrap_servers:
        return f"minibroker: the tests run on {settings.bootstrap_servers}"
    return f"minibroker: {settings.brokers} brokers" if settings.are_brokers_an_option else None


def _settings(config: pytest.Config) -> _Settings:
    form = config.getini("minibroker_form")
    if form not in _FORMS:
        raise pytest.UsageError(f"minibroker_form={form}: use thread or process")
    properties = {}
    for line in config.getini("minibroker_config"):
        name, sign, value = line.partition("=")
        if not sign:
            raise pytest.UsageError(f"minibroker_config: {line!r} is not NAME=VALUE")
        properties[name.strip()] = value.strip()
    bootstrap_servers, broker_count = config.getoption("--minibroker-bootstrap"), config.getoption("--minibroker-brokers")
    if bootstrap_servers and broker_count is not None:
        raise pytest.UsageError("--minibroker-brokers: the number of brokers of --minibroker-bootstrap cannot be changed")
    ini_count = config.getini("minibroker_brokers")
    brokers = broker_count if broker_count is not None else _number("minibroker_brokers", ini_count) if ini_count else None
    if brokers is not None and brokers < 1:
        raise pytest.UsageError(f"brokers must be at least 1, got {brokers}")
    lines = _number("minibroker_request_lines", config.getini("minibroker_request_lines"))
    is_like_kafka = config.getoption("--minibroker-like-kafka") or config.getini("minibroker_like_kafka")
    is_option = broker_count is not None
    folder = config.getoption("--minibroker-keep-data")
    schemas = _beside_ini(config, config.getini("minibroker_schemas")) if config.getini("minibroker_schemas") else None
    return _Settings(form, brokers, is_option, properties, schemas, lines, bootstrap_servers, folder, is_like_kafka)


def _beside_ini(config: pytest.Config, path: str) -> Path:
    return (config.rootpath if config.inipath is None else config.inipath.parent) / path


def _number(name: str, text: str) -> int:
    if not text.isdecimal():
        raise pytest.UsageError(f"{name}={text}: give a number")
    return int(text)


# Fixtures


@pytest.fixture(scope="session")
def minibroker_options() -> Mapping[str, Any]:
    """Arguments of the broker (those of BrokerThread): override it in a conftest.py."""
    return {}


@pytest.fixture(scope="session")
def minibroker_seed() -> Seed | None:
    """A function that fills the empty broker: override it in a conftest.py.

    It runs once; on a given Kafka, for each test.
    """
    return None


@pytest.fixture(scope="session")
def minibroker_session(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    minibroker_options: Mapping[str, Any],
    minibroker_seed: Seed | None,
) -> Iterator[Surface]:
    """The broker of this test session (one for each xdist worker), as its tests leave it."""
    config, settings = request.config, _settings(request.config)
    options = dict(minibroker_options)
    session = (
        _session_of_cluster(settings.bootstrap_servers, options, tmp_path_factory)
        if settings.bootstrap_servers
        else _own_session(settings, options)
    )
    with session.broker as broker:
        config.stash[_session_key] = session
        try:
            if not settings.bootstrap_servers:
                session.run_seed(minibroker_seed)
            yield broker
        finally:
            del config.stash[_session_key]


@pytest.fixture(scope="session")
def minibroker_bootstrap(minibroker_session: Surface) -> str:
    """HOST:PORT of the broker, for bootstrap.servers."""
    return minibroker_session.bootstrap_servers


@pytest.fixture
def minibroker(
    minibroker_session: Surface,
    minibroker_options: Mapping[str, Any],
    minibroker_seed: Seed | None,
    request: pytest.FixtureRequest,
) -> Iterator[Surface]:
    """The broker with only what minibroker_seed puts there."""
    session = request.config.stash[_session_key]
    if dict(minibroker_options) != session.options:
        pytest.fail(_OTHER_OPTIONS, pytrace=False)
    with session.exclusively():
        session.start_again()
        session.empty(minibroker_seed)
        _register_schemas(request, minibroker_session)
        yield minibroker_session
        if request.config.getoption("--minibroker-bootstrap"):
            minibroker_session.reset()


@pytest.fixture
def minibroker_async(minibroker: Surface) -> AsyncSurface:
    """The fixture `minibroker` for tests that await."""
    return testing.AsyncSurface(minibroker)


@pytest.fixture
def minibroker_topic(minibroker_session: Surface, request: pytest.FixtureRequest) -> Iterator[str]:
    """Name of a new topic with one partition; with the fixture `minibroker` it is created in the empty broker."""
    if "minibroker" in request.fixturenames:
        request.getfixturevalue("minibroker")
    else:
        request.config.stash[_session_key].start_again()
    from minibroker.errors import KafkaError  # noqa: PLC0415  see the module
    from minibroker.testing.given_cluster import KEPT_PREFIX  # noqa: PLC0415  see the module

    readable = re.sub(r"[^a-zA-Z0-9._-]+", "-", request.node.name).strip("-")[:_NAME_MAX]
    name = minibroker_session.create_topic(f"{KEPT_PREFIX}{readable}-{os.getpid()}-{next(_numbers)}")
    yield name
    with suppress(KafkaError, testing.BrokerError):  # the test has deleted it, or stopped the broker
        minibroker_session.delete_topic(name)


@pytest.fixture(scope="session")
def minibroker_secure_options() -> Mapping[str, Any]:
    """Arguments of minibroker.secure for the fixture minibroker_secure: override it in a conftest.py.

    A test's marker comes before them.
    """
    return {}


@pytest.fixture
def minibroker_secure(
    request: pytest.FixtureRequest, _secured_brokers: dict[str, Surface], minibroker_secure_options: Mapping[str, Any]
) -> Surface:
    """An empty broker with TLS, logins and access control."""
    settings = _settings(request.config)
    if settings.bootstrap_servers:
        _skip(f"{_SECURE}: the users and certificates of --minibroker-bootstrap are not known")
    marker = request.node.get_closest_marker(_SECURE)
    options = dict(minibroker_secure_options) | (marker.kwargs if marker else {})
    arguments = _arguments(settings, options) | {"form": settings.form}
    name = repr(sorted(arguments.items()))
    broker = _secured_brokers.pop(name, None)
    if broker is None:
        while len(_secured_brokers) >= _SECURED_MAX:
            _secured_brokers.pop(next(iter(_secured_brokers))).close()
        broker = testing.secure(**arguments)
    _secured_brokers[name] = broker  # the last one used is closed last
    if not broker.is_running:
        broker.start()
    broker.reset()  # data in memory survive a stop
    _register_schemas(request, broker)
    request.node.stash[_secured_key] = broker
    return broker


@pytest.fixture(scope="session")
def _secured_brokers() -> Iterator[dict[str, Surface]]:
    """The brokers of minibroker_secure by their arguments, the last one used last."""
    brokers: dict[str, Surface] = {}
    yield brokers
    for broker in brokers.values():
        broker.close()


def _register_schemas(request: pytest.FixtureRequest, broker: Surface) -> None:
    """Register the schemas of the test's markers, those of its module and class first."""
    for marker in reversed([*request.node.iter_markers(_SCHEMAS)]):
        if len(marker.args) != 1 or marker.kwargs:
            pytest.fail(f"{_SCHEMAS} takes one argument: a folder, or files by subject", pytrace=False)
        (source,) = marker.args
        folder = request.path.parent  # relative names are those of the test's folder
        broker.registry.load({name: folder / path for name, path in source.items()} if isinstance(source, Mapping) else folder / source)


# The session's broker


def _own_session(settings: _Settings, options: dict[str, Any]) -> _Session:
    arguments = _arguments(settings, options)
    if settings.data_folder:
        folder = Path(settings.data_folder).absolute() / os.environ.get("PYTEST_XDIST_WORKER", "main")
        folder.mkdir(parents=True, exist_ok=True)
        arguments["data_dir"] = folder
    return _Session(_form_of(settings.form)(**arguments), nullcontext, options, is_given=False)


def _arguments(settings: _Settings, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a broker with the settings of the command line and the ini file."""
    arguments = {**options, "config": settings.config | dict(options.get("config") or {})}
    if settings.brokers is not None and (settings.are_brokers_an_option or "brokers" not in arguments):
        arguments["brokers"] = settings.brokers
    if settings.is_like_kafka:
        arguments.setdefault("like_kafka", True)
    if settings.schemas is not None:
        arguments.setdefault("schemas", settings.schemas)
    return arguments


def _form_of(name: str) -> Callable[..., Surface]:
    """Import one form only: this process does not need the modules of a broker that runs in another one."""
    return testing.BrokerThread if name == "thread" else testing.BrokerProcess


def _session_of_cluster(bootstrap_servers: str, options: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> _Session:
    from minibroker.client.errors import ClientError, describe  # noqa: PLC0415  see the module
    from minibroker.errors import KafkaError  # noqa: PLC0415  see the module

    is_worker = "PYTEST_XDIST_WORKER" in os.environ
    shared = tmp_path_factory.getbasetemp().parent if is_worker else tmp_path_factory.getbasetemp()

    @contextmanager
    def exclusively() -> Iterator[None]:
        import fcntl  # noqa: PLC0415  not on every platform

        with (shared / "minibroker.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    failure = ""
    with exclusively():
        broker = testing.GivenCluster(bootstrap_servers, unsupported=_skip, baseline=shared / "minibroker-baseline.json")
        try:
            broker.start()
        except (ClientError, KafkaError) as error:
            failure = describe(error)
    if failure:  # outside of the except clause, so that pytest does not print the causes
        pytest.fail(f"--minibroker-bootstrap={bootstrap_servers}: {failure}", pytrace=False)
    return _Session(broker, exclusively, options, is_given=True)


def _skip(reason: str) -> NoReturn:
    pytest.skip(reason)


# Reports


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Note when a test starts: its report leaves out earlier requests."""
    item.stash[_start_key] = time.time_ns() // 1_000_000


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the requests of clients to the report of a failed test."""
    report = yield
    if report.failed:
        brokers = [item.stash[_secured_key]] if _secured_key in item.stash else []
        if _session_key in item.config.stash and not _FIXTURES.isdisjoint(getattr(item, "fixturenames", ())):
            brokers.append(item.config.stash[_session_key].broker)
        for broker in brokers:
            text = _requests(item.config, broker, item.stash.get(_start_key, 0))
            if text:
                report.sections.append(("minibroker requests", text))
    return report


def _requests(config: pytest.Config, broker: Surface, start_ms: int) -> str:
    settings = _settings(config)
    if not settings.request_lines or settings.bootstrap_servers:
        return ""
    try:
        log = broker.request_log
    except testing.BrokerError as error:
        return str(error)
    return "\n".join(testing.RequestLog(each for each in log if each.time_ms >= start_ms).lines(settings.request_lines)) or "none"
