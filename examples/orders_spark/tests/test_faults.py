"""What may go wrong on the way; only minibroker can be told so, and on another Kafka this skips."""

from __future__ import annotations

from pyspark.sql import SparkSession

from minibroker.testing import Surface
from orders_spark.jobs import report
from orders_spark.tests.conftest import at, place


def test_a_report_misses_nothing_when_a_leader_moves_and_a_connection_breaks(minibroker: Surface, spark: SparkSession) -> None:
    moved = minibroker.faults.inject("Fetch", "NOT_LEADER_OR_FOLLOWER", topic="orders", partition=0).times(2)
    broken = minibroker.faults.disconnect("Fetch", when="after", topic="orders", partition=1).once()
    for partition in (0, 1):
        place(minibroker, "pears", 1, at(9, partition), partition=partition)
    (row,) = report(spark, minibroker.bootstrap_servers).collect()
    assert (row.orders, row.cents) == (2, 200)
    assert (moved.hits, broken.hits) == (2, 1)
