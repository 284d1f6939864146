"""One Spark session for all tests of this folder: starting it costs more than any of them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from minibroker.spark import session as spark_session


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    problem = spark_session.missing()
    if problem:
        pytest.skip(problem)
    logging.getLogger("py4j").setLevel(logging.WARNING)
    conf = {
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.memory": "1g",
        "spark.sql.streaming.stopTimeout": "20s",
    }
    session = spark_session.kafka_session("minibroker-tests", master="local[2]", conf=conf)
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture
def kafka(bootstrap: str) -> dict[str, str]:
    """Options of every Kafka source and sink."""
    return {"kafka.bootstrap.servers": bootstrap}
