"""One Spark session for all tests; the jobs' topics in each."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import pytest
from pyspark.sql import SparkSession

from minibroker.spark import session as spark_session
from minibroker.testing import Surface


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = spark_session.kafka_session("orders-spark-tests", master="local[2]", conf={"spark.sql.shuffle.partitions": "2"})
    yield session
    session.stop()


@pytest.fixture(scope="session")
def minibroker_seed() -> Callable[[Surface], None]:
    def seed(broker: Surface) -> None:
        broker.create_topic("orders", partitions=2, retention_ms=-1)  # times of tests are of any year
        broker.create_topic("revenue", cleanup_policy="compact")
        broker.create_topic("bad-orders")

    return seed


def at(hour: int, minute: int = 0) -> int:
    """Epoch milliseconds of a moment of a day."""
    return int(datetime(2026, 3, 1, hour, minute, tzinfo=UTC).timestamp() * 1000)


def place(broker: Surface, product: str, quantity: int, time_ms: int, partition: int | None = None) -> None:
    order = {"order_id": f"{product}-{time_ms}", "product": product, "quantity": quantity, "price_cents": 100}
    broker.produce("orders", json.dumps(order), timestamp_ms=time_ms, partition=partition)
