"""The pipeline on a broker with a registry: a schema that evolves between two runs, and a value that no schema decodes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

from minibroker.testing import Surface
from orders_archive.pipeline import archive_orders, read_orders, revenue, undecodable


def test_orders_of_two_versions_and_a_value_without_a_schema(
    minibroker: Surface, spark: SparkSession, place: Callable[..., None], tmp_path: Path
) -> None:
    path = str(tmp_path / "archive")

    def run() -> int:
        return archive_orders(spark, minibroker.bootstrap_servers, minibroker.registry.url, path).record_count

    place(1, order_id="o1", product="pears", quantity=2, price_cents=120)
    assert run() == 1
    assert revenue(read_orders(spark, path)).collect() == [("pears", "EUR", 240)]

    place(2, order_id="o2", product="pears", quantity=1, price_cents=100, currency="CHF")
    place(1, order_id="o3", product="pears", quantity=1, price_cents=60)
    minibroker.produce("orders", "no schema")
    assert run() == 3
    orders = read_orders(spark, path)
    assert revenue(orders).collect() == [("pears", "CHF", 100), ("pears", "EUR", 300)]
    assert undecodable(orders).collect() == [(0, 3, b"no schema")]
