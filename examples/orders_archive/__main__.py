"""Run the pipeline: `python -m orders_archive archive|revenue --to FOLDER`."""

from __future__ import annotations

import argparse
import os

from minibroker.spark.session import kafka_session, spark_package
from orders_archive.pipeline import archive_orders, read_orders, revenue, undecodable


def main() -> None:
    """Archive what is new, or print the revenue of all archived orders."""
    parser = argparse.ArgumentParser(prog="python -m orders_archive", description=__doc__)
    parser.add_argument("job", choices=["archive", "revenue"])
    parser.add_argument("--to", default="./orders-archive", help="the folder of the archive (default: ./orders-archive)")
    parser.add_argument("-b", "--bootstrap-servers", default=os.environ.get("KAFKA_BOOTSTRAP_SERVERS", "localhost:9092"))
    parser.add_argument("--registry", default="http://localhost:8081", help="the schema registry (default: http://localhost:8081)")
    given = parser.parse_args()
    spark = kafka_session("orders-archive", packages=[spark_package("spark-avro")])
    if given.job == "archive":
        done = archive_orders(spark, given.bootstrap_servers, given.registry, given.to)
        print(f"{done.record_count} records archived in {done.path}")
    else:
        orders = read_orders(spark, given.to)
        revenue(orders).show(truncate=False)
        print(f"{undecodable(orders).count()} values could not be decoded")


if __name__ == "__main__":
    main()
