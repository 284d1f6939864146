"""One Spark session for all tests of this folder: starting it costs more than any of them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from minibroker.cli.spark import options
from minibroker.spark import session as spark_session
from tests.cli.conftest import Commands

_session = pytest.StashKey[Any]()


@pytest.fixture(scope="session")
def spark(request: pytest.FixtureRequest) -> Iterator[Any]:
    problem = spark_session.missing()
    if problem:
        pytest.skip(problem)
    logging.getLogger("py4j").setLevel(logging.WARNING)
    session = request.config.stash[_session] = start_session()
    yield session
    del request.config.stash[_session]
    session.stop()


def start_session() -> Any:
    conf = {
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.memory": "1g",
        "spark.sql.streaming.stopTimeout": "120s",
    }
    packages = [spark_session.spark_package("spark-avro")]
    session = spark_session.kafka_session("minibroker-tests", master="local[2]", conf=conf, packages=packages)
    session.sparkContext.setLogLevel("OFF")
    return session


def pytest_exception_interact(node: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """After a time-out, replace the session.

    The time-out interrupts a call into the JVM. py4j keeps the connection, and the next call would read the answer to this one.
    """
    session = node.config.stash.get(_session, None)
    if session is not None and call.excinfo is not None and is_unusable(call.excinfo.value):
        replace_session(session)


def is_unusable(error: BaseException) -> bool:
    """Return whether the session cannot be used after this error: pytest-timeout raised it, or the JVM ended."""
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway
    return isinstance(error, pytest.fail.Exception) or gateway.proc.poll() is not None


def replace_session(session: Any) -> None:
    """End the JVM and start another one. `session` becomes its session: fixtures of other scopes hold the object."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    gateway: Any = SparkContext._gateway
    jvm = gateway.proc
    jvm.kill()
    jvm.wait()
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = SparkSession._activeSession = None
    vars(session).update(vars(start_session()))
    SparkSession._instantiatedSession = SparkSession._activeSession = session


@pytest.fixture
def kafka(bootstrap: str) -> dict[str, str]:
    """Options of every Kafka source and sink."""
    return {"kafka.bootstrap.servers": bootstrap}


@pytest.fixture
def pipelines(spark: Any, monkeypatch: pytest.MonkeyPatch) -> Commands:
    """`minibroker spark ...` in this process, with the session that tests share: `pipelines("archive", "-b", bootstrap, code=1)`."""
    monkeypatch.setattr(options, "open_session", lambda app_name, **settings: spark)
    monkeypatch.setattr(options, "close_session", lambda session: None)
    return Commands("127.0.0.1:1", before=("spark",))
