"""The jobs on a broker: the same on minibroker and on Apache Kafka."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from minibroker.testing import Surface
from orders_spark.jobs import report, start_stream
from orders_spark.tests.conftest import at, place


def stream(spark: SparkSession, broker: Surface, checkpoint: Path) -> None:
    """Up to what is there now."""
    for query in start_stream(spark, broker.bootstrap_servers, str(checkpoint), once=True):
        query.awaitTermination()


def newest(broker: Surface) -> dict[str, int]:
    """Cents by product and hour, as the topic says last."""
    return {(record.key or b"").decode(): record.json()["cents"] for record in broker.records("revenue")}


def test_the_report_has_all_orders(minibroker: Surface, spark: SparkSession) -> None:
    for partition in (0, 1):
        place(minibroker, "pears", 2, at(9), partition=partition)
        place(minibroker, "apples", 1, at(10, partition), partition=partition)
    minibroker.produce("orders", "nonsense")
    found = report(spark, minibroker.bootstrap_servers).collect()
    assert [(row.product, row.hour.hour, row.orders, row.cents) for row in found] == [("apples", 10, 2, 200), ("pears", 9, 2, 400)]


def test_a_stream_goes_on_where_it_ended_and_passes_over_what_comes_too_late(
    minibroker: Surface, spark: SparkSession, tmp_path: Path
) -> None:
    place(minibroker, "pears", 2, at(9))
    place(minibroker, "apples", 1, at(14))
    minibroker.produce("orders", "nonsense", partition=0)
    stream(spark, minibroker, tmp_path)
    assert newest(minibroker) == {"pears@2026-03-01T09Z": 200, "apples@2026-03-01T14Z": 100}
    assert len(minibroker.records("bad-orders")) == 1

    place(minibroker, "pears", 7, at(9, 30))
    place(minibroker, "pears", 1, at(13))
    place(minibroker, "apples", 1, at(14, 30))
    stream(spark, minibroker, tmp_path)
    assert newest(minibroker) == {"pears@2026-03-01T09Z": 200, "pears@2026-03-01T13Z": 100, "apples@2026-03-01T14Z": 200}
    assert len(minibroker.records("bad-orders")) == 1
