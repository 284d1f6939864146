"""The two jobs: a report of what is in the topic now, and a stream that keeps the topic `revenue` up to date."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from orders_spark.revenue import as_records, bad, read_orders, revenue

ORDERS = "orders"
REVENUE = "revenue"
BAD = "bad-orders"


def report(spark: SparkSession, bootstrap_servers: str) -> DataFrame:
    """Revenue by product and hour of all orders that are in the topic."""
    source = spark.read.format("kafka").options(**_source(bootstrap_servers))
    return revenue(read_orders(source.load())).orderBy("product", "hour")


def start_stream(spark: SparkSession, bootstrap_servers: str, checkpoint: str, *, once: bool = False) -> list[StreamingQuery]:
    """Two queries: revenue as it grows, and what is no order. They go on where the checkpoint says; `once`: up to what is there now."""
    source = spark.readStream.format("kafka").options(**_source(bootstrap_servers))
    orders = read_orders(source.load())
    results = {REVENUE: as_records(revenue(orders)), BAD: bad(orders)}
    queries = []
    for topic, records in results.items():
        sink = records.writeStream.format("kafka").option("kafka.bootstrap.servers", bootstrap_servers).option("topic", topic)
        sink = sink.outputMode("update").option("checkpointLocation", f"{checkpoint}/{topic}").queryName(topic)
        queries.append((sink.trigger(availableNow=True) if once else sink.trigger(processingTime="5 seconds")).start())
    return queries


def _source(bootstrap_servers: str) -> dict[str, str]:
    """Of a topic that transactions write, what is committed."""
    return {
        "kafka.bootstrap.servers": bootstrap_servers,
        "subscribe": ORDERS,
        "startingOffsets": "earliest",
        "kafka.isolation.level": "read_committed",
    }
