"""Row for row what Spark's Kafka connector gives, on directories of minibroker and of Apache Kafka, while the broker runs and behind it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from functools import reduce
from pathlib import Path
from typing import Any, NamedTuple

import pytest

pytest.importorskip("pyarrow")

from minibroker.spark.kafka_log.source import register
from tests.clients.adapters import CLIENTS, Sent
from tests.support.broker_process import BrokerProcess
from tests.support.kafka_process import KafkaProcess
from tests.support.transactional_writer import TransactionalWriter

pytestmark = [pytest.mark.timeout(600)]

#: An hour from now, for markers have the broker's time.
T = int(time.time() * 1000) + 3_600_000
TOPIC = "orders"
COMMITTED = "read_committed"
UNCOMMITTED = "read_uncommitted"


class Filled(NamedTuple):
    """A broker with a topic of two partitions, full of everything; a transaction is open at the end of partition 1."""

    bootstrap: str
    data_dir: Path


@pytest.fixture(scope="module", params=["minibroker", pytest.param("apache-kafka", marks=pytest.mark.java)])
def filled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Filled]:
    folder = tmp_path_factory.mktemp(request.param)
    broker: BrokerProcess | KafkaProcess
    with BrokerProcess(folder) if request.param == "minibroker" else KafkaProcess(folder) as broker:
        fill(broker.bootstrap)
        yield Filled(broker.bootstrap, broker.data_dir)


def fill(bootstrap: str) -> None:
    from confluent_kafka.admin import NewTopic

    from tests.support.confluent import AdminClient

    config = {"retention.ms": "-1", "segment.bytes": str(1 << 20), "message.timestamp.after.max.ms": str(1 << 40)}
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(TOPIC, 2, 1, config=config)])[TOPIC].result(timeout=60)
    for partition in range(2):
        for number, codec in enumerate(["none", "gzip", "snappy", "lz4", "zstd"]):
            rows = [sent(number * 100 + index) for index in range(40)]
            CLIENTS["confluent-kafka"].write(bootstrap, TOPIC, rows, compression=codec, partition=partition)
    one, other = (TransactionalWriter(bootstrap, f"{TOPIC}-{name}") for name in ("one", "other"))
    for step in range(3):
        one.begin()
        other.begin()
        for number in range(6):
            one.send(TOPIC, [b"%d" % number * 30_000, b"1"], partition=1, timestamp=T + 1000 + step)
            other.send(TOPIC, [b"%d" % number * 30_000], partition=1, timestamp=T + 1000 + step)
        one.commit() if step != 1 else one.abort()
        other.abort()
    other.begin()
    other.send(TOPIC, [b"open"], partition=1, timestamp=T + 2000)
    CLIENTS["confluent-kafka"].write(bootstrap, TOPIC, [sent(3000)], partition=1)


def sent(number: int) -> Sent:
    headers: list[tuple[str, bytes | None]] = [("h", b"%d" % number), ("h", None), ("\u00fc", b"")]
    return Sent(
        None if number % 7 == 0 else b"k%d" % number,
        None if number % 5 == 0 else b"%d," % number * (number % 50),
        tuple(headers[: number % 4]),
        T + number - 3 * (number % 11),
    )


def connector(spark: Any, filled: Filled, isolation: str, *cases: dict[str, str]) -> list[Any]:
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", filled.bootstrap)
    return rows([reader.options(**options_of(isolation, case)).load() for case in cases or [{}]])


def files(spark: Any, filled: Filled, isolation: str, *cases: dict[str, str]) -> list[Any]:
    register(spark)
    return rows(
        [spark.read.format("kafka-log").options(**options_of(isolation, case)).load(str(filled.data_dir)) for case in cases or [{}]]
    )


def options_of(isolation: str, case: dict[str, str]) -> dict[str, str]:
    return {"subscribe": TOPIC, "includeHeaders": "true", "kafka.isolation.level": isolation, **case}


def rows(frames: list[Any]) -> list[Any]:
    """Of all frames by one job: number of the frame, and the row."""
    from pyspark.sql.functions import lit

    one = reduce(
        lambda before, frame: before.unionAll(frame), [frame.withColumn("case", lit(number)) for number, frame in enumerate(frames)]
    )
    return sorted(one.collect(), key=lambda row: (row.case, row.topic, row.partition, row.offset))


@pytest.mark.parametrize("isolation", [UNCOMMITTED, COMMITTED])
def test_everything(spark: Any, filled: Filled, isolation: str) -> None:
    expected = connector(spark, filled, isolation)
    assert len(expected) > 400
    found = files(spark, filled, isolation, {}, {"minPartitions": "9"})
    assert found[: len(expected)] == expected
    assert [row[:-1] for row in found[len(expected) :]] == [row[:-1] for row in expected]


def test_the_schema_is_the_same(spark: Any, filled: Filled) -> None:
    register(spark)
    for options in ({"subscribe": TOPIC}, {"subscribe": TOPIC, "includeHeaders": "true"}):
        its = spark.read.format("kafka").options(**options).option("kafka.bootstrap.servers", filled.bootstrap).load().schema
        ours = spark.read.format("kafka-log").options(**options).load(str(filled.data_dir)).schema
        assert [(field.name, field.dataType) for field in ours] == [(field.name, field.dataType) for field in its]


@pytest.mark.parametrize("isolation", [UNCOMMITTED, COMMITTED])
def test_ranges_and_times(spark: Any, filled: Filled, isolation: str) -> None:
    cases = [
        {
            "startingOffsets": json.dumps({TOPIC: dict(zip("01", start, strict=True))}),
            "endingOffsets": json.dumps({TOPIC: dict(zip("01", end, strict=True))}),
        }
        for start, end in [((0, 200), (10, 240)), ((100, 210), (101, 215)), ((-2, 203), (-1, 230)), ((77, 199), (200, 200))]
    ]
    cases += [
        {"startingTimestamp": str(start), "endingTimestamp": str(end), "startingOffsetsByTimestampStrategy": "latest"}
        for start, end in [(T, T + 200), (T + 150, T + 1001), (T + 1001, T + 2001), (T - 10_000_000, T + 420), (T + 2000, T + 5000)]
    ]
    expected = connector(spark, filled, isolation, *cases)
    assert len({row.case for row in expected}) >= 7
    assert files(spark, filled, isolation, *cases) == expected


def test_projection_and_filters(spark: Any, filled: Filled) -> None:
    register(spark)
    frame = spark.read.format("kafka-log").schema("offset long, value binary").option("subscribe", TOPIC).load(str(filled.data_dir))
    assert frame.columns == ["offset", "value"]
    expected = [row.value for row in connector(spark, filled, UNCOMMITTED) if row.offset == 42]
    assert sorted(row.value for row in frame.where("offset = 42").collect()) == sorted(expected)
    with pytest.raises(Exception, match=r"no column 'nothing'"):
        spark.read.format("kafka-log").schema("nothing int").load(str(filled.data_dir)).count()


def test_what_is_wrong_is_told(spark: Any, filled: Filled, tmp_path: Path) -> None:
    register(spark)
    for path, options, words in [
        (tmp_path, {}, "is not a Kafka log directory"),
        (tmp_path / "nowhere", {}, "does not exist"),
        (filled.data_dir, {"subscribe": "nobody"}, "nobody: no such topic or partition"),
        (filled.data_dir, {"subscribe": TOPIC, "startingTimestamp": str(T * 2)}, "is at or after"),
    ]:
        with pytest.raises(Exception, match=words):
            spark.read.format("kafka-log").options(**options).load(str(path)).count()
