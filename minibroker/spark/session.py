"""Start a Spark session that can read Kafka: connector, jars, addresses and this package on executors.

A session that is configured by hand often fails in one of these ways:

* The connector must have Spark's own version, or a query fails with an obscure error.
* Spark looks for jars in the user's local Maven repository first. A repository with descriptions but
  without jars, which other builds leave, stops it. Here resolution uses its own home.
* The driver binds to the host's name, which does not resolve on many laptops and containers. Here it
  binds to loopback.
* Spark prints pages on standard error when it starts, and the exception of a failed start has no
  reason. With `log` the pages go to a file, and the error of a failed start is one line.
* Python processes of a local Spark are the `python3` on the PATH. Here they are the interpreter that
  created the session.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import socket
import sys
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import minibroker
from minibroker.extras import install_command
from minibroker.spark.failures import reason_in_log

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


#: a package that must have the version of Spark; `spark_package` returns its coordinate
CONNECTOR = "spark-sql-kafka-0-10"

#: dependencies of the connector that Spark brings itself: 54 MB to fetch once and to copy at every start
PROVIDED = (
    "at.yawk.lz4:lz4-java",
    "com.google.code.findbugs:jsr305",
    "org.apache.hadoop:hadoop-client-api",
    "org.apache.hadoop:hadoop-client-runtime",
    "org.lz4:lz4-java",
    "org.scala-lang.modules:scala-parallel-collections_2.13",
    "org.slf4j:slf4j-api",
    "org.xerial.snappy:snappy-java",
)
CONNECT_TIMEOUT_S = 5.0
#: local-cluster is for tests
MASTER = re.compile(r"(local(\[(\*|\d+)(,\s*\d+)?\])?|local-cluster\[.*\]|yarn|k8s://\S+|spark://[^\s,]+:\d{1,5}(,[^\s,]+:\d{1,5})*)$")


class SparkUnavailableError(Exception):
    """Spark cannot start on this machine; the message says what to install."""


def cache_home() -> Path:
    """Return the folder for the connector's jars: MINIBROKER_SPARK_HOME, or one in the user's cache folder."""
    named = os.environ.get("MINIBROKER_SPARK_HOME")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "minibroker" / "spark"


def missing() -> str | None:
    """Return in one line what Spark lacks on this machine; None if it can start."""
    if shutil.which("java") is None and not os.environ.get("JAVA_HOME"):
        return "Spark needs Java 17 or 21: install a JRE, or set JAVA_HOME"
    if find_spec("pyspark") is None:
        return f"PySpark is not installed: {install_command('spark')}"
    return None


def spark_package(name: str) -> str:
    """Return the Maven coordinate of a package that belongs to Spark, such as `spark-avro`, in the version of PySpark."""
    spark = version("pyspark")
    scala = "2.12" if spark.startswith("3.") else "2.13"  # of the jars in PySpark
    return f"org.apache.spark:{name}_{scala}:{spark}"


def kafka_session(
    app_name: str,
    *,
    master: str = "local[*]",
    home: Path | None = None,
    conf: Mapping[str, str] | None = None,
    packages: Sequence[str] = (),
    log: Path | None = None,
) -> SparkSession:
    """Return a session with Spark's Kafka connector; on a cluster, executors get this package.

    Args:
        app_name: shown in Spark's user interface and logs.
        master: where Spark runs.
        home: folder for the connector's jars, which are fetched once. Default: `cache_home()`.
        conf: Spark properties that override the defaults; `spark.jars.packages` is added to them.
        packages: Maven coordinates of more packages to load.
        log: file for the output of Spark's processes, instead of standard output and standard error.

    Returns:
        The session, which is new unless this process has one.

    Raises:
        SparkUnavailableError: no Java, no PySpark, no such master, or Spark did not start. The message is one
            line that says what to do.
    """
    problem = missing() or unusable(master)
    if problem:
        raise SparkUnavailableError(problem)
    from pyspark.sql import SparkSession  # noqa: PLC0415  heavy, and an extra

    home = home or cache_home()
    home.mkdir(parents=True, exist_ok=True)
    properties = {**_defaults(home, master), **(conf or {})}
    user_packages = (conf or {}).get("spark.jars.packages", "").split(",")
    properties["spark.jars.packages"] = ",".join(
        dict.fromkeys(name for name in (spark_package(CONNECTOR), *packages, *user_packages) if name)
    )
    properties |= {"spark.app.name": app_name, "spark.master": master}
    if is_here(master):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # read when the JVM starts
    builder = SparkSession.builder
    for name, value in properties.items():
        builder = builder.config(name, value)
    with _own_user_home(home), _alone_at_first(home, properties["spark.jars.packages"]):
        if log is not None:
            _start_jvm(properties, log)
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    if not master.startswith("local"):
        session.sparkContext.addPyFile(str(package_zip(home)))
    return session


def _start_jvm(properties: Mapping[str, str], log: Path) -> None:
    """Start Spark's JVM unless it runs; the JVM and its Python workers write to `log`."""
    from pyspark import SparkConf, SparkContext, errors, java_gateway  # noqa: PLC0415  heavy, and an extra

    if SparkContext._gateway is not None:  # noqa: SLF001  PySpark has no public way to see that a JVM runs
        return
    log.parent.mkdir(parents=True, exist_ok=True)
    conf = SparkConf(loadDefaults=False)
    for name, value in properties.items():
        conf.set(name, value)
    with log.open("ab") as out:
        try:
            gateway = java_gateway.launch_gateway(conf, {"stdout": out, "stderr": out})  # type: ignore[no-untyped-call]
        except errors.PySparkRuntimeError as error:
            reason = reason_in_log(log) or "Spark did not start"
            raise SparkUnavailableError(f"{reason} (Spark's log: {log})") from error
    SparkContext._ensure_initialized(gateway=gateway)  # noqa: SLF001  as getOrCreate does with its own gateway


def is_here(master: str) -> bool:
    """Return whether Spark's executors are on this machine."""
    return master.startswith("local") or any(host in {"localhost", "127.0.0.1"} for host, _ in _masters(master))


def unusable(master: str) -> str | None:
    """Check that a master can be used. Spark itself would try for a minute to reach a standalone master.

    Args:
        master: the address of the master, such as `local[*]` or `spark://HOST:PORT`.

    Returns:
        The reason why it cannot be used, in one line; None if it can.
    """
    if not MASTER.match(master):
        return f"{master!r} is not a master of Spark: local[N], spark://HOST:PORT, yarn or k8s://URL"
    masters = _masters(master)
    for address in masters:
        try:
            with socket.create_connection(address, timeout=CONNECT_TIMEOUT_S):
                return None
        except OSError:
            continue
    return f"no master of Spark answers at {master}" if masters else None


def _masters(master: str) -> list[tuple[str, int]]:
    """Return the addresses of `spark://HOST:PORT,HOST:PORT`; an empty list for other masters."""
    if not master.startswith("spark://"):
        return []
    places = [place.rpartition(":") for place in master.removeprefix("spark://").split(",")]
    return [(host.strip("[]"), int(port)) for host, _, port in places]


def _defaults(home: Path, master: str) -> dict[str, str]:
    defaults = {
        "spark.jars.ivy": str(home / "ivy"),
        "spark.jars.excludes": ",".join(PROVIDED),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # With Spark's default of 200, few records make 200 tasks.
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.pyspark.jvmStacktrace.enabled": "false",
        # By default Spark adds the jars of packages to the path of Python workers, and Python 3.11 lists all
        # of their files before each task.
        "spark.submit.pyFiles": "",
        # Spark shows options of readers in plans and logs: hide those of client configurations, which some plans show as one text.
        "spark.redaction.regex": "(?i)secret|password|token|access[.]?key|jaas|keystore[.]key",
        "spark.redaction.string.regex": (
            r"(?is)password\s*=\s*(?:\"(?:[^\"\\]|\\.)*\"|'[^']*'|[^\s;,]+)|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?PRIVATE KEY-----"
        ),
        "spark.sql.redaction.options.regex": "(?i)url|secret|password|token|jaas|keystore[.]key",
    }
    if is_here(master):
        defaults |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    return defaults


@contextmanager
def _alone_at_first(home: Path, packages: str) -> Iterator[None]:
    """Let one process at a time fetch jars, since two would corrupt Ivy's cache. Do not wait if all jars are there."""
    done = home / "fetched" / hashlib.sha256(packages.encode()).hexdigest()[:16]
    if done.exists() and (home / "ivy" / "jars").is_dir():
        yield
        return
    with (home / "fetch.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
        done.parent.mkdir(exist_ok=True)
        done.touch()


@contextmanager
def _own_user_home(home: Path) -> Iterator[None]:
    """Start the JVM with `home` as the user's home, so that it does not use the local Maven repository."""
    before = os.environ.get("SPARK_SUBMIT_OPTS")
    os.environ["SPARK_SUBMIT_OPTS"] = f"{before or ''} -Duser.home={home}".strip()
    try:
        yield
    finally:
        if before is None:
            del os.environ["SPARK_SUBMIT_OPTS"]
        else:
            os.environ["SPARK_SUBMIT_OPTS"] = before


FOLDER = "artifacts"


class Leftovers:
    """Remove the folders `artifacts/spark-UUID` that Spark 4.0 leaves in the working directory.

    Spark creates one for each session, for files that sessions share with executors. It deletes the inner
    folder when its process stops, and never the outer one. Their place cannot be configured.

    Create this object before Spark starts: `remove` only removes folders that are newer and empty.
    """

    def __init__(self, working_directory: Path) -> None:
        self._folder = working_directory / FOLDER
        self._was_there = self._folder.exists()
        self._before = set(self._inner())

    def remove(self) -> None:
        """Remove the new empty folders; call this after Spark has stopped."""
        for path in self._inner():
            if path not in self._before:
                with suppress(OSError):
                    path.rmdir()
        if not self._was_there:
            with suppress(OSError):
                self._folder.rmdir()

    def _inner(self) -> list[Path]:
        return list(self._folder.glob("spark-*"))


#: the earliest time that zip can store; the same sources give the same file
_EPOCH = (1980, 1, 1, 0, 0, 0)


def package_zip(home: Path) -> Path:
    """Write this package to a zip file for executors on other machines.

    Executors then run the same code as the driver. Its compiled dependencies (pyarrow, zstandard, ...) must be
    installed where executors run.

    Args:
        home: the folder of the file, `home/packages/minibroker-HASH.zip`. A file that exists is not written again.

    Returns:
        The path of the file.
    """
    root = Path(minibroker.__file__).parent
    contents = {f"minibroker/{path.relative_to(root).as_posix()}": path.read_bytes() for path in sorted(root.rglob("*.py"))}
    digest = hashlib.sha256()
    for name, content in contents.items():
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    target = home / "packages" / f"minibroker-{digest.hexdigest()[:16]}.zip"
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_suffix(f".{os.getpid()}")
    with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in contents.items():
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), content)
    partial.replace(target)
    return target
