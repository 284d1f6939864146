"""From orders to revenue: functions on DataFrames, the same for a batch and for a stream. They know nothing of Kafka but its columns.

read_orders   rows of Kafka's source -> orders, and among them what is none: its `problem` says so
revenue       orders -> cents by product and hour
as_records    revenue -> key and value for Kafka's sink: the key is product and hour, so the last record of a key is what counts
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

ORDER = "order_id string, product string, quantity int, price_cents int"
LATE = "2 hours"  #: an order that comes later than this behind the newest one is counted no more by a stream


def read_orders(rows: DataFrame) -> DataFrame:
    """Columns order_id, product, cents, time, and origin and problem: null where a row is an order."""
    order = f.from_json(f.col("value").cast("string"), ORDER)
    origin = f.concat_ws("-", "topic", f.concat_ws("@", "partition", "offset"))
    parsed = rows.select(order.alias("order"), f.col("timestamp").alias("time"), "value", origin.alias("origin"))
    cents = f.col("order.quantity") * f.col("order.price_cents")
    problem = f.when(cents.isNull() | f.col("order.product").isNull(), "not an order").when(f.col("order.quantity") < 1, "no quantity")
    return parsed.select("order.order_id", "order.product", cents.alias("cents"), "time", "value", "origin", problem.alias("problem"))


def good(orders: DataFrame) -> DataFrame:
    """Those that are orders."""
    return orders.where("problem is null")


def bad(orders: DataFrame) -> DataFrame:
    """What is none, as records for Kafka's sink: what it was, and under `key` where it was and why it is none."""
    return orders.where("problem is not null").select(f.concat_ws(": ", "origin", "problem").alias("key"), "value")


def revenue(orders: DataFrame) -> DataFrame:
    """Columns product, hour, orders, cents. Of a stream, hours are forgotten when nothing of theirs is counted any more."""
    by_hour = good(orders).withWatermark("time", LATE).groupBy("product", f.window("time", "1 hour").alias("window"))
    sums = by_hour.agg(f.count("*").alias("orders"), f.sum("cents").alias("cents"))
    return sums.select("product", f.col("window.start").alias("hour"), "orders", "cents")


def as_records(found: DataFrame) -> DataFrame:
    """Key and value."""
    hour = f.date_format("hour", "yyyy-MM-dd'T'HH'Z'")
    value = f.struct("product", hour.alias("hour"), "orders", "cents")
    return found.select(f.concat_ws("@", "product", hour).alias("key"), f.to_json(value).alias("value"))
