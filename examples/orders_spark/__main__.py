"""`python -m orders_spark report|stream -b HOST:PORT`: the jobs, on the machine itself or where --master says."""

from __future__ import annotations

import argparse
import os

from pyspark.sql import SparkSession

from orders_spark.jobs import report, start_stream

CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"


def main() -> None:
    """Report once, or stream until it is told to end."""
    parser = argparse.ArgumentParser(prog="python -m orders_spark", description=__doc__)
    parser.add_argument("job", choices=["report", "stream"])
    parser.add_argument("-b", "--bootstrap-servers", default=os.environ.get("KAFKA_BOOTSTRAP_SERVERS", "localhost:9092"))
    parser.add_argument("--checkpoint", default="./checkpoint", help="the stream's memory (default: ./checkpoint)")
    parser.add_argument("--once", action="store_true", help="end when the stream has what is there now")
    parser.add_argument("--master", default="local[*]")
    given = parser.parse_args()
    builder = SparkSession.builder.appName("orders").master(given.master).config("spark.jars.packages", CONNECTOR)
    spark = builder.config("spark.sql.session.timeZone", "UTC").config("spark.sql.shuffle.partitions", "4").getOrCreate()
    if given.job == "report":
        report(spark, given.bootstrap_servers).show(truncate=False)
    else:
        for query in start_stream(spark, given.bootstrap_servers, given.checkpoint, once=given.once):
            query.awaitTermination()


if __name__ == "__main__":
    main()
