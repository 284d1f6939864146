"""One Spark session for all tests, and a broker whose registry has the first version of an order's schema."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from pyspark.sql import SparkSession

from minibroker.spark import session as spark_session
from minibroker.testing import Surface

SCHEMAS = Path(__file__).parents[1] / "schemas" / "orders-value"


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    packages = [spark_session.spark_package("spark-avro")]
    session = spark_session.kafka_session("orders-archive-tests", master="local[2]", packages=packages)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def minibroker_seed() -> Callable[[Surface], None]:
    def seed(broker: Surface) -> None:
        broker.create_topic("orders")

    return seed


@pytest.fixture
def place(minibroker: Surface) -> Callable[..., None]:
    """Write an order with one version of the schema: `place(1, order_id="o1", ...)`."""
    client = SchemaRegistryClient({"url": minibroker.registry.url})

    def place(version: int, **order: Any) -> None:
        serialize = AvroSerializer(client, (SCHEMAS / f"{version}.avsc").read_text())
        minibroker.produce("orders", serialize(order, SerializationContext("orders", MessageField.VALUE)))

    return place
