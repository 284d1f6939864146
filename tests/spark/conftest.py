"""One Spark session for all tests of this folder: starting it costs more than any of them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from minibroker.cli.spark import options
from minibroker.spark import session as spark_session
from tests.cli.conftest import Commands


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    problem = spark_session.missing()
    if problem:
        pytest.skip(problem)
    logging.getLogger("py4j").setLevel(logging.WARNING)
    conf = {
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.memory": "1g",
        "spark.sql.streaming.stopTimeout": "120s",
    }
    packages = [spark_session.spark_package("spark-avro")]
    session = spark_session.kafka_session("minibroker-tests", master="local[2]", conf=conf, packages=packages)
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


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
