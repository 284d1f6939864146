"""What keeps Spark from starting, said before it starts; and the package that goes to executors."""

from __future__ import annotations

import fcntl
import socket
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import requires
from pathlib import Path
from types import SimpleNamespace

import pytest
from packaging.requirements import Requirement

from minibroker.spark import session
from minibroker.spark.session import package_zip
from tests.spark import conftest


def test_the_extra_has_what_pyspark_requires_for_arrow() -> None:
    """`pip install pyspark` does not install it, and `mapInArrow` raises an error without it."""
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    declared = {each.name: each.specifier for each in map(Requirement, project["optional-dependencies"]["spark"])}
    for needed in map(Requirement, requires("pyspark") or ()):
        if needed.name in {"pandas", "pyarrow"} and needed.marker is not None and needed.marker.evaluate({"extra": "sql"}):
            assert next(iter(declared[needed.name])).version in needed.specifier


@pytest.mark.parametrize("master", ["local", "local[*]", "local[2]", "local[4, 2]", "yarn", "k8s://https://x:443"])
def test_masters_that_can_be(master: str) -> None:
    assert session.unusable(master) is None


@pytest.mark.parametrize("master", ["", "locale", "local[x]", "nonsense", "spark://", "spark://host", "spark://host:port"])
def test_masters_that_cannot_be(master: str) -> None:
    assert session.unusable(master) == f"{master!r} is not a master of Spark: local[N], spark://HOST:PORT, yarn or k8s://URL"


def test_a_standalone_master_must_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert session.unusable(f"spark://127.0.0.1:1,127.0.0.1:{port}") is None
    assert session.unusable("spark://127.0.0.1:1") == "no master of Spark answers at spark://127.0.0.1:1"


def test_executors_that_share_this_machine() -> None:
    assert [session.is_here(master) for master in ("local[2]", "spark://localhost:7077", "spark://other:7077", "yarn")] == [
        True,
        True,
        False,
        False,
    ]


def test_packages_are_those_of_the_installed_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for spark in ("3.5.7", "4.0.0", "4.2.0"):
        monkeypatch.setattr(session, "version", lambda _, spark=spark: spark)
        found.append(session.spark_package("spark-avro"))
    assert found == [f"org.apache.spark:spark-avro_{each}" for each in ("2.12:3.5.7", "2.13:4.0.0", "2.13:4.2.0")]


def test_spark_without_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(session.SparkUnavailableError, match="Spark needs Java 17 or 21"):
        session.kafka_session("x")


def test_a_jvm_that_does_not_start_is_one_line_and_a_log(tmp_path: Path) -> None:
    """In a process of its own: this one may have a JVM."""
    pytest.importorskip("pyspark")
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\necho 'Error: x java.lang.UnsupportedClassVersionError: org/apache/spark/launcher/Main' >&2\nexit 1\n")
    java.chmod(0o755)
    program = "from minibroker.spark.session import kafka_session as k; from pathlib import Path; k('x', log=Path('log'))"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PATH": "/usr/bin:/bin", "JAVA_HOME": str(tmp_path / "jdk"), "HOME": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == ""
    assert done.stderr.endswith("SparkUnavailableError: Spark 4 needs Java 17 or 21: this Java is too old (Spark's log: log)\n"), (
        done.stderr
    )
    assert "UnsupportedClassVersionError" in (tmp_path / "log").read_text()


def test_a_session_that_timed_out_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """With `sleep` as the JVM: a real one would cost ten seconds."""
    pyspark = pytest.importorskip("pyspark")
    sql = pytest.importorskip("pyspark.sql")
    jvm = subprocess.Popen(["sleep", "600"])
    monkeypatch.setattr(pyspark.SparkContext, "_gateway", SimpleNamespace(proc=jvm))
    for owner, name in [
        (pyspark.SparkContext, "_jvm"),
        (pyspark.SparkContext, "_active_spark_context"),
        (sql.SparkSession, "_instantiatedSession"),
        (sql.SparkSession, "_activeSession"),
    ]:
        monkeypatch.setattr(owner, name, "old")

    def start() -> SimpleNamespace:
        assert pyspark.SparkContext._gateway is pyspark.SparkContext._active_spark_context is None
        assert sql.SparkSession._instantiatedSession is None
        return SimpleNamespace(jvm="new")

    monkeypatch.setattr(conftest, "start_session", start)
    assert not conftest.is_unusable(AssertionError())
    assert conftest.is_unusable(pytest.fail.Exception("Timeout"))
    session = SimpleNamespace(jvm="old")
    conftest.replace_session(session)
    assert jvm.returncode is not None
    assert session.jvm == "new"
    assert sql.SparkSession._activeSession is session
    monkeypatch.setattr(pyspark.SparkContext, "_gateway", SimpleNamespace(proc=jvm))
    assert conftest.is_unusable(AssertionError())


def test_one_process_at_a_time_fetches_jars(tmp_path: Path) -> None:
    """Until it has them; one that failed has not."""

    def others_wait() -> bool:
        with (tmp_path / "fetch.lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
            return False

    (tmp_path / "ivy" / "jars").mkdir(parents=True)
    with pytest.raises(RuntimeError), session._alone_at_first(tmp_path, "a:b:1"):
        raise RuntimeError
    for packages, waiting in [("a:b:1", True), ("a:b:1", False), ("a:b:1,c:d:2", True)]:
        with session._alone_at_first(tmp_path, packages):
            assert others_wait() is waiting
        assert not others_wait()


def test_the_package_as_a_zip(tmp_path: Path) -> None:
    """Another interpreter imports the data source from the zip alone; the same sources are the same file."""
    made = package_zip(tmp_path)
    assert package_zip(tmp_path) == made
    assert [path.name for path in made.parent.iterdir()] == [made.name]
    with zipfile.ZipFile(made) as archive:
        assert "minibroker/spark/kafka_log/source.py" in archive.namelist()
    program = f"import sys; sys.path.insert(0, {str(made)!r}); import minibroker.spark.kafka_log.fields as s; print(s.__file__)"
    result = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert result.stdout.startswith(str(made))
