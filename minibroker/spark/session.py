"""A Spark session that can read Kafka: the connector's coordinates, its jars' folder, and an address that works everywhere.

Four things go wrong when one writes this by hand, so it is written once, here:

* The connector must be of Spark's own version, or it fails deep inside a query.
* Spark resolves jars through the local Maven repository of the user first; one with descriptions but no jars (left by other
  builds) stops it. Resolution happens in a home of our own.
* The driver binds to the host's name, which on laptops and containers often leads nowhere. It binds to loopback.
* Python processes of a local Spark are whatever `python3` is on the PATH. Here they are the interpreter that made the session.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Spark and its connector have one version; later ones need artifacts that not every mirror carries.
SPARK_VERSION = "4.0.0"
CONNECTOR = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{SPARK_VERSION}"


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
    try:
        import pyspark  # noqa: F401, PLC0415  the extra may be absent, and is heavy
    except ImportError:
        return "PySpark is not installed: pip install 'minibroker[spark]'"
    return None


def kafka_session(
    app_name: str,
    *,
    master: str = "local[*]",
    home: Path | None = None,
    conf: Mapping[str, str] | None = None,
) -> SparkSession:
    """A session with Spark's Kafka connector.

    Args:
        app_name: shown in Spark's user interface and logs.
        master: where Spark runs; the same code runs on a cluster.
        home: folder for the connector's jars, fetched once; `cache_home()` when absent.
        conf: Spark properties that win over ours.

    Raises:
        SparkUnavailableError: no Java or no PySpark; one line that says what to install.
    """
    problem = missing()
    if problem:
        raise SparkUnavailableError(problem)
    from pyspark.sql import SparkSession  # noqa: PLC0415  heavy, and an extra

    home = home or cache_home()
    home.mkdir(parents=True, exist_ok=True)
    builder = SparkSession.builder.appName(app_name).master(master)
    for name, value in {**_defaults(home), **(conf or {})}.items():
        builder = builder.config(name, value)
    if master.startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # read when the JVM starts
    with _own_user_home(home):
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def _defaults(home: Path) -> dict[str, str]:
    return {
        "spark.jars.packages": CONNECTOR,
        "spark.jars.ivy": str(home / "ivy"),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # Spark's default of 200 makes 200 tasks of a few records each.
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.session.timeZone": "UTC",
    }


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
