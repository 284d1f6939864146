"""The options of all pipeline commands, and SparkRun: the Spark session, progress, log and failures of one command.

@click.command(epilog=...)
@click.argument("topics", nargs=-1, required=True)
@spark_command("table", "json")                     # --master --conf --spark-log -b -o
def archive(run: SparkRun, topics: tuple[str, ...], output: str) -> None:
    ...                                             # checks that need no Spark come first, to report errors early
    result = api.archive(run.session(), ...)        # Spark starts here, and progress is shown
    run.finish()                                    # progress is no longer shown: now print
    emit(...)
"""

from __future__ import annotations

import functools
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import click

from minibroker.cli.options import bootstrap_option, client_properties, output_option, pairs
from minibroker.extras import install_command
from minibroker.spark import session as spark_session
from minibroker.spark.failures import SourceError, explain, is_sparks, jvm_errors
from minibroker.spark.progress import Progress, phase
from minibroker.spark.session import Leftovers
from minibroker.spark.sources.positions import Position, parse_position

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Command = Callable[..., Any]

#: packages of the extra `spark`; some are needed before Spark starts
EXTRA = frozenset({"pyspark", "py4j", "pyarrow", "pandas", "numpy", "numba", "matplotlib"})
KEPT_LOGS = 20
CLOSE_TIMEOUT_S = 10.0  #: the longest wait after Ctrl-C


def open_session(app_name: str, **settings: Any) -> SparkSession:
    """Start Spark; tests replace this function by their shared session (fixture `pipelines` of tests/spark)."""
    return spark_session.kafka_session(app_name, **settings)


def close_session(spark: SparkSession) -> None:
    """Stop Spark, unless its JVM is gone."""
    try:
        spark.sparkContext.cancelAllJobs()
        spark.stop()
    except jvm_errors():
        return


class SparkRun:
    """One run of a command: its session, its progress, its log."""

    def __init__(  # noqa: PLR0917  `spark_command` has them from the command line
        self,
        app_name: str,
        master: str,
        conf: Mapping[str, str],
        bootstrap_server: str,
        client_config: Mapping[str, str],
        log: Path | None,
    ) -> None:
        self.bootstrap_server = bootstrap_server
        self.client_config = client_config  #: how to connect to the cluster
        self._app_name = app_name
        self._master = master
        self._conf = conf
        self._keeps_log = log is not None
        self.log = log or _log_path(app_name)
        self._progress = Progress(sys.stderr)
        self._session: SparkSession | None = None
        self._leftovers = Leftovers(Path.cwd())
        self._logging: logging.Handler = logging.NullHandler()  #: for log lines of PySpark, in the same file as those of Java

    def session(self, *, packages: Sequence[str] = (), conf: Mapping[str, str] | None = None) -> SparkSession:
        """Start Spark once. `packages` are more Maven coordinates, `conf` more properties; the user's properties override them."""
        if self._session is None:
            self.log.parent.mkdir(parents=True, exist_ok=True)
            if not self._keeps_log:
                _delete_old_logs(self.log.parent)
            self._logging = logging.FileHandler(self.log, delay=True)
            logging.getLogger().addHandler(self._logging)
            self._progress.start()
            with phase("starting Spark"):
                self._session = open_session(
                    self._app_name, master=self._master, conf={**(conf or {}), **self._conf}, packages=packages, log=self.log
                )
            _take_back_interrupts()
            self._progress.watch(self._session.sparkContext)
        return self._session

    def finish(self) -> None:
        """Stop showing progress; call this before printing."""
        self._progress.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.finish()
        failure = self._failure(error) if error is not None else None
        names_log = isinstance(error, spark_session.SparkUnavailableError) or (failure is not None and str(self.log) in failure.message)
        try:
            if self._session is not None:
                _close(self._session, CLOSE_TIMEOUT_S if isinstance(error, KeyboardInterrupt) else None)
        finally:
            self._leftovers.remove()
            logging.getLogger().removeHandler(self._logging)
            self._logging.close()
            if not names_log and not self._keeps_log:
                self.log.unlink(missing_ok=True)
        if failure is not None:
            raise failure from error

    def _failure(self, error: BaseException) -> click.ClickException | None:
        """Return an exception of Spark as one line, with the log's path if the log has more; None for other exceptions."""
        if isinstance(error, ModuleNotFoundError) and (package := (error.name or "").partition(".")[0]) in EXTRA:
            return click.ClickException(f"{package} is not installed: {install_command('spark')}")
        if not is_sparks(error):
            return None
        reason = explain(error)
        if reason.is_whole or not self.log.exists():
            return click.ClickException(reason.words)
        return click.ClickException(f"{reason.words} (Spark's log: {self.log})")


def is_here(path: str) -> bool:
    """Return whether a path is local, so that it can be checked without Spark; Hadoop may be configured otherwise."""
    return path.startswith("file:") or ("://" not in path and "HADOOP_CONF_DIR" not in os.environ)


def require_folder(path: str) -> None:
    """Raise SourceError before Spark starts if a local folder does not exist; only Spark can check other file systems."""
    from minibroker.spark.archive.files import local_path  # noqa: PLC0415  --help needs no PySpark

    if is_here(path) and not Path(local_path(path)).exists():
        raise SourceError(f"{path} does not exist")


def _take_back_interrupts() -> None:
    """Restore Python's handler for Ctrl-C: PySpark's handler calls Java on a connection that waits for another answer."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _close(spark: SparkSession, timeout_s: float | None) -> None:
    """Stop Spark in another thread: after Ctrl-C, this thread's connection to Java still waits for an answer.

    After the time-out, Spark's process stops by itself, together with this one.
    """
    closing = threading.Thread(target=close_session, args=(spark,), name="closing", daemon=True)
    closing.start()
    closing.join(timeout_s)


def _log_path(app_name: str) -> Path:
    """Return the log file of this run, which is removed unless the run fails."""
    name = f"{time.strftime('%Y%m%d-%H%M%S')}-{app_name.replace(' ', '-')}-{os.getpid()}.log"
    return spark_session.cache_home() / "logs" / name


def _delete_old_logs(folder: Path) -> None:
    """Delete all but the newest logs of failed runs; their names start with a time."""
    for log in sorted(folder.glob("*.log"))[:-KEPT_LOGS]:
        log.unlink(missing_ok=True)


def spark_command(*formats: str) -> Callable[[Command], Command]:
    """Add the options of all pipelines to a command, and pass it a SparkRun. `formats` are for -o; the first is the default."""

    def decorate(function: Command) -> Command:
        @click.option(
            "--master",
            envvar="MINIBROKER_SPARK_MASTER",
            show_envvar=True,
            default="local[*]",
            show_default=True,
            metavar="URL",
            help="Where Spark runs: local[N], spark://HOST:PORT, yarn, k8s://...",
        )
        @click.option("--conf", "conf", multiple=True, metavar="NAME=VALUE", help="Set a property of Spark; may be given several times.")
        @click.option(
            "--spark-log",
            type=click.Path(dir_okay=False, path_type=Path),
            metavar="FILE",
            help="Write Spark's log to this file.  [default: a file that is removed unless Spark fails]",
        )
        @bootstrap_option
        @functools.wraps(function)
        def run(*args: Any, master: str, conf: tuple[str, ...], spark_log: Path | None, bootstrap_server: str, **options: Any) -> Any:
            settings = pairs(conf, "--conf")
            for name in settings:
                if not name.startswith("spark."):
                    raise click.BadParameter(f"{name!r}: names of Spark's properties start with 'spark.'", param_hint="--conf")
            logging.getLogger("SQLQueryContextLogger").propagate = False  # it has its own handler for standard error
            logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL + 1)
            app_name = click.get_current_context().command_path
            with SparkRun(app_name, master, settings, bootstrap_server, client_properties(), spark_log) as spark_run:
                return function(spark_run, *args, **options)

        return output_option(*formats)(run) if formats else run

    return decorate


class PositionParam(click.ParamType[Position]):
    """A position of minibroker.spark.sources.positions."""

    name = "position"

    def convert(self, value: str | Position, param: click.Parameter | None, ctx: click.Context | None) -> Position:
        """Return the position; fail for an invalid text."""
        if not isinstance(value, str):
            return value
        try:
            return parse_position(value)
        except SourceError as error:
            self.fail(str(error), param, ctx)


def position_options(function: Command) -> Command:
    """Add --starting and --ending to a command, as Positions."""
    for option in (
        click.option(
            "--ending",
            type=PositionParam(),
            default="latest",
            show_default=True,
            metavar="POSITION",
            help="The end, exclusive; in the same form as --starting.",
        ),
        click.option(
            "--starting",
            type=PositionParam(),
            default="earliest",
            show_default=True,
            metavar="POSITION",
            help='The start: earliest, latest, @TIME (ISO, or epoch ms), or JSON of offsets: {"orders": {"0": 23, "1": -2}}.',
        ),
    ):
        function = option(function)
    return function


def range_options(function: Command) -> Command:
    """Add --starting, --ending and --isolation-level to a command."""
    isolation_level = click.option(
        "--isolation-level",
        type=click.Choice(["read_committed", "read_uncommitted"]),
        default="read_committed",
        show_default=True,
        help="Whether to read records of aborted and open transactions.",
    )
    return position_options(isolation_level(function))
