"""The functions alone: no broker."""

from __future__ import annotations

from datetime import datetime

from pyspark.sql import DataFrame, SparkSession

from orders_spark.revenue import as_records, bad, read_orders, revenue

COLUMNS = "value binary, topic string, partition int, offset long, timestamp timestamp"


def rows(spark: SparkSession, *values: str) -> DataFrame:
    """As Kafka's source has them, one a quarter of an hour."""
    times = [datetime(2026, 3, 1, 9 + number // 4, 15 * (number % 4)) for number in range(len(values))]  # noqa: DTZ001  Spark's own are so
    return spark.createDataFrame(
        [(value.encode(), "orders", 0, number, time) for number, (value, time) in enumerate(zip(values, times, strict=True))], COLUMNS
    )


def test_orders_are_counted_by_product_and_hour(spark: SparkSession) -> None:
    order = '{"order_id": "o", "product": "%s", "quantity": %d, "price_cents": 50}'
    orders = read_orders(rows(spark, *(order % (product, 2) for product in ("pears", "apples", "pears", "pears", "pears"))))
    found = sorted(as_records(revenue(orders)).collect())
    assert [row.key for row in found] == ["apples@2026-03-01T09Z", "pears@2026-03-01T09Z", "pears@2026-03-01T10Z"]
    assert found[1].value == '{"product":"pears","hour":"2026-03-01T09Z","orders":3,"cents":300}'


def test_what_is_no_order_is_told_apart(spark: SparkSession) -> None:
    orders = read_orders(
        rows(
            spark,
            '{"order_id": "o", "product": "pears", "quantity": 0, "price_cents": 5}',
            "nonsense",
            '{"order_id": "o", "product": "pears", "quantity": 1, "price_cents": 5}',
            '{"order_id": "o", "product": "pears", "quantity": "many", "price_cents": 5}',
        )
    )
    assert [row.key for row in bad(orders).collect()] == ["orders-0@0: no quantity", "orders-0@1: not an order", "orders-0@3: not an order"]
    assert [row.cents for row in revenue(orders).collect()] == [5]
