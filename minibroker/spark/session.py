"""A Spark session that can read Kafka: the connector's coordinates, its jars' folder, and an address that works everywhere.

Five things go wrong when one writes this by hand, so it is written once, here:

* The connector must be of Spark's own version, or it fails deep inside a query.
* Spark resolves jars through the local Maven repository of the user first; one with descriptions but no jars (left by other
  builds) stops it. Resolution happens in a home of our own.
* The driver binds to the host's name, which on laptops and containers often leads nowhere. It binds to loopback.
* Spark tells of its start in pages on standard error, and what it says of a failure is not in the exception. With `log` the pages
  go to a file, and a failed start is one line.
* Python processes of a local Spark are whatever `python3` is on the PATH. Here they are the interpreter that made the session.
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
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import minibroker
from minibroker.spark.failures import reason_in_log

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


#: Spark and its connector have one version; later ones need artifacts that not every mirror carries.
SPARK_VERSION = "4.0.0"
CONNECTOR = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{SPARK_VERSION}"

#: what the connector asks for and Spark has itself, in these versions: 54 MB that would be fetched once and copied at every start
PROVIDED = (
    "com.google.code.findbugs:jsr305",
    "org.apache.hadoop:hadoop-client-api",
    "org.apache.hadoop:hadoop-client-runtime",
    "org.lz4:lz4-java",
    "org.scala-lang.modules:scala-parallel-collections_2.13",
    "org.slf4j:slf4j-api",
    "org.xerial.snappy:snappy-java",
)
CONNECT_TIMEOUT_S = 5.0
#: local-cluster is Spark's own, for tests
MASTER = re.compile(r"(local(\[(\*|\d+)(,\s*\d+)?\])?|local-cluster\[.*\]|yarn|k8s://\S+|spark://[^\s,]+:\d{1,5}(,[^\s,]+:\d{1,5})*)$")


class SparkUnavailableError(Exception):
    """Spark cannot start here; the message says what to install."""


def cache_home() -> Path:
    """The folder that keeps the connector's jars: MINIBROKER_SPARK_HOME, or one in the user's cache folder."""
    named = os.environ.get("MINIBROKER_SPARK_HOME")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "minibroker" / "spark"


def missing() -> str | None:
    """What keeps Spark from starting on this machine, as one line for the user; None when nothing does."""
    if shutil.which("java") is None and not os.environ.get("JAVA_HOME"):
        return "Spark needs Java 17 or 21: install a JRE, or set JAVA_HOME"
    if find_spec("pyspark") is None:
        return "PySpark is not installed: pip install 'minibroker[spark]'"
    return None


def kafka_session(
    app_name: str,
    *,
    master: str = "local[*]",
    home: Path | None = None,
    conf: Mapping[str, str] | None = None,
    packages: Sequence[str] = (),
    log: Path | None = None,
) -> SparkSession:
    """A session with Spark's Kafka connector; on a cluster, with this package on its executors.

    Args:
        app_name: shown in Spark's user interface and logs.
        master: where Spark runs; the same code runs on a cluster.
        home: folder for the connector's jars, fetched once; `cache_home()` when absent.
        conf: Spark properties that win over ours; its `spark.jars.packages` come beside ours.
        packages: Maven coordinates of more that Spark shall load.
        log: the file for what Spark's processes write, instead of our standard output and error.

    Raises:
        SparkUnavailableError: no Java, no PySpark, no such master, or Spark did not start; one line that says what to do.
    """
    problem = missing() or unusable(master)
    if problem:
        raise SparkUnavailableError(problem)
    from pyspark.sql import SparkSession  # noqa: PLC0415  heavy, and an extra

    home = home or cache_home()
    home.mkdir(parents=True, exist_ok=True)
    properties = {**_defaults(home, master), **(conf or {})}
    asked = (conf or {}).get("spark.jars.packages", "").split(",")
    properties["spark.jars.packages"] = ",".join(dict.fromkeys(name for name in (CONNECTOR, *packages, *asked) if name))
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
    """Start Spark's process, unless it runs, with a file for all that it and its Python workers write."""
    from pyspark import SparkConf, SparkContext, errors, java_gateway  # noqa: PLC0415  heavy, and an extra

    if SparkContext._gateway is not None:  # noqa: SLF001  PySpark has no other word for "it runs"
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
    SparkContext._ensure_initialized(gateway=gateway)  # noqa: SLF001  what getOrCreate would do with a gateway of its own


def is_here(master: str) -> bool:
    """Whether Spark's executors are on this machine."""
    return master.startswith("local") or any(host in {"localhost", "127.0.0.1"} for host, _ in _masters(master))


def unusable(master: str) -> str | None:
    """Why a master cannot be it, as one line. Spark tells the same late: a standalone master it would try to reach for a minute."""
    if not MASTER.match(master):
        return f"{master!r} is no master of Spark: local[N], spark://HOST:PORT, yarn or k8s://URL"
    masters = _masters(master)
    for address in masters:
        try:
            with socket.create_connection(address, timeout=CONNECT_TIMEOUT_S):
                return None
        except OSError:
            continue
    return f"no master of Spark answers at {master}" if masters else None


def _masters(master: str) -> list[tuple[str, int]]:
    """The addresses of `spark://HOST:PORT,HOST:PORT`; none of other masters."""
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
        # Spark's default of 200 makes 200 tasks of a few records each.
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.pyspark.jvmStacktrace.enabled": "false",
        # Spark hands jars of packages to Python workers as if they held modules; Python 3.11 lists all of their files before each task.
        "spark.submit.pyFiles": "",
    }
    if is_here(master):
        defaults |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    return defaults


@contextmanager
def _alone_at_first(home: Path, packages: str) -> Iterator[None]:
    """Let one process at a time fetch jars: two that fill Ivy's cache at once break each other's. With all jars there, nobody waits."""
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
    """Start the JVM with `home` as the user's, so that nobody's local Maven repository takes part in resolution."""
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
    """Made before Spark starts; takes away what is new since then, as far as it is empty."""

    def __init__(self, working_directory: Path) -> None:
        self._folder = working_directory / FOLDER
        self._was_there = self._folder.exists()
        self._before = set(self._inner())

    def remove(self) -> None:
        """After Spark has stopped; whatever holds a file stays, and so does what was there before."""
        for path in self._inner():
            if path not in self._before:
                with suppress(OSError):
                    path.rmdir()
        if not self._was_there:
            with suppress(OSError):
                self._folder.rmdir()

    def _inner(self) -> list[Path]:
        return list(self._folder.glob("spark-*"))


#: zip has no time before this one; the same sources make the same file
_EPOCH = (1980, 1, 1, 0, 0, 0)


def package_zip(home: Path) -> Path:
    """Write `home/packages/minibroker-HASH.zip`, unless it is there, and return its path."""
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
