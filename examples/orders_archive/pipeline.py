"""Archive the topic `orders` with decoded values beside their bytes, and query the archive.

The values are Avro with the schemas of a registry. Each run decodes with the versions that exist when it starts, so an
archive has files with and without the newest fields.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from minibroker.spark.archive import ArchiveResult, archive
from minibroker.spark.decoding import SchemaRegistry, from_registry

ORDERS = "orders"


def archive_orders(spark: SparkSession, bootstrap_servers: str, registry_url: str, path: str) -> ArchiveResult:
    """Archive the orders that are not yet in the archive.

    A value that cannot be decoded does not stop the archive: its bytes are archived, and `order` has no fields.
    """
    registry = SchemaRegistry(registry_url)

    def columns() -> dict[str, Column]:
        return {"order": from_registry("value", registry, f"{ORDERS}-value", mode="PERMISSIVE")}

    return archive(spark, bootstrap_servers, path, [ORDERS], columns=columns)


def read_orders(spark: SparkSession, path: str) -> DataFrame:
    """Return the archive's rows. `order` has the fields of all versions; a field that is newer than a row is null."""
    return spark.read.option("mergeSchema", "true").parquet(path)


def revenue(orders: DataFrame) -> DataFrame:
    """Return the cents by product and currency. Orders without a currency were written before there was one: in EUR."""
    known = orders.where("order.order_id is not null").select("order.*")
    currency = f.coalesce("currency", f.lit("EUR")) if "currency" in known.columns else f.lit("EUR")
    cents = f.sum(f.col("quantity") * f.col("price_cents")).alias("cents")
    return known.groupBy("product", currency.alias("currency")).agg(cents).orderBy("product", "currency")


def undecodable(orders: DataFrame) -> DataFrame:
    """Return the place and bytes of each value that is not an order."""
    return (
        orders.where("value is not null and order.order_id is null").select("partition", "offset", "value").orderBy("partition", "offset")
    )
