"""Spark's Kafka source, batch: every way to say where to start and end, and the sink."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.clients.adapters import CLIENTS, Sent

T = 1_700_000_000_000
COUNT = 20


@pytest.fixture(scope="module")
def filled(bootstrap: str) -> str:
    """A topic of three partitions with 20 records each; record i of each has the timestamp T + 1000 * i."""
    from confluent_kafka.admin import NewTopic

    from tests.support.confluent import AdminClient

    name = f"spark-batch-{datetime.now(UTC):%H%M%S%f}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(name, 3, 1, config={"retention.ms": "-1"})])[name].result(timeout=60)
    for partition in range(3):
        CLIENTS["confluent-kafka"].write(bootstrap, name, records_of(partition), partition=partition)
    return name


def records_of(partition: int) -> list[Sent]:
    return [
        Sent(None if i == 3 else b"k%d" % i, None if i == 4 else b"%d-%d" % (partition, i), (("h", b"%d" % i),), T + 1000 * i)
        for i in range(COUNT)
    ]


def read(spark: Any, kafka: dict[str, str], **options: str) -> Any:
    return spark.read.format("kafka").options(**kafka, **options).load()


def offsets_by_partition(frame: Any) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for row in frame.select("partition", "offset").collect():
        found.setdefault(row.partition, []).append(row.offset)
    return {partition: sorted(offsets) for partition, offsets in sorted(found.items())}


def span(start: int, end: int) -> list[int]:
    return list(range(start, end))


@pytest.mark.smoke
def test_everything_from_earliest_to_latest(spark: Any, kafka: dict[str, str], filled: str) -> None:
    rows = read(spark, kafka, subscribe=filled, includeHeaders="true", startingOffsets="earliest", endingOffsets="latest").collect()

    def bytes_of(value: bytearray | None) -> bytes | None:
        return None if value is None else bytes(value)

    found = {
        (row.partition, row.offset): (
            bytes_of(row.key),
            bytes_of(row.value),
            [(h.key, bytes(h.value)) for h in row.headers],
            row.timestamp.timestamp(),
        )
        for row in rows
    }
    assert found == {
        (partition, i): (r.key, r.value, list(r.headers), r.timestamp / 1000)
        for partition in range(3)
        for i, r in enumerate(records_of(partition))
    }
    assert {(row.topic, row.timestampType) for row in rows} == {(filled, 0)}


def test_json_offsets(spark: Any, kafka: dict[str, str], filled: str) -> None:
    start, end = json.dumps({filled: {"0": -2, "1": 5, "2": 18}}), json.dumps({filled: {"0": 3, "1": 8, "2": -1}})
    frame = read(spark, kafka, subscribe=filled, startingOffsets=start, endingOffsets=end)
    assert offsets_by_partition(frame) == {0: span(0, 3), 1: span(5, 8), 2: [18, 19]}


def test_a_start_at_the_very_end_reads_nothing(spark: Any, kafka: dict[str, str], filled: str) -> None:
    start = json.dumps({filled: {"0": COUNT, "1": COUNT, "2": COUNT}})
    assert read(spark, kafka, subscribe=filled, startingOffsets=start).count() == 0


def test_offsets_by_timestamp(spark: Any, kafka: dict[str, str], filled: str) -> None:
    start = json.dumps({filled: {"0": T + 4_500, "1": T + 5_000, "2": 0}})
    end = json.dumps({filled: {"0": T + 10_000, "1": T + 10_001, "2": T + 2_000}})
    frame = read(spark, kafka, subscribe=filled, startingOffsetsByTimestamp=start, endingOffsetsByTimestamp=end)
    assert offsets_by_partition(frame) == {0: span(5, 10), 1: span(5, 11), 2: span(0, 2)}


def test_one_timestamp_for_all(spark: Any, kafka: dict[str, str], filled: str) -> None:
    frame = read(spark, kafka, subscribe=filled, startingTimestamp=str(T + 18_000), endingTimestamp=str(T + 19_000))
    assert offsets_by_partition(frame) == {0: [18], 1: [18], 2: [18]}


def test_a_timestamp_behind_everything(spark: Any, kafka: dict[str, str], filled: str) -> None:
    late = {"startingTimestamp": str(T + 1_000_000)}
    assert read(spark, kafka, subscribe=filled, **late, startingOffsetsByTimestampStrategy="latest").count() == 0
    with pytest.raises(Exception, match=r"(?i)no offset matched|timestamp"):
        read(spark, kafka, subscribe=filled, **late, startingOffsetsByTimestampStrategy="error").count()


def test_pattern_and_assignment(spark: Any, kafka: dict[str, str], filled: str) -> None:
    everything = {partition: span(0, COUNT) for partition in range(3)}
    assert offsets_by_partition(read(spark, kafka, subscribePattern=filled[:-1] + ".")) == everything
    assigned = read(spark, kafka, assign=json.dumps({filled: [0, 2]}))
    assert offsets_by_partition(assigned) == {0: span(0, COUNT), 2: span(0, COUNT)}


def test_a_pattern_that_matches_nothing(spark: Any, kafka: dict[str, str], filled: str) -> None:
    assert read(spark, kafka, subscribePattern="no-topic-is-called-this.*").count() == 0


def test_min_partitions_split_ranges(spark: Any, kafka: dict[str, str], filled: str) -> None:
    frame = read(spark, kafka, subscribe=filled, minPartitions="6")
    assert frame.rdd.getNumPartitions() >= 6
    assert offsets_by_partition(frame) == {partition: span(0, COUNT) for partition in range(3)}


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_isolation_levels(spark: Any, kafka: dict[str, str], filled: str, isolation: str) -> None:
    frame = read(spark, kafka, subscribe=filled, **{"kafka.isolation.level": isolation})
    assert offsets_by_partition(frame) == {partition: span(0, COUNT) for partition in range(3)}


def test_several_topics_at_once(spark: Any, kafka: dict[str, str], filled: str, bootstrap: str, topic: str) -> None:
    CLIENTS["aiokafka"].write(bootstrap, topic, [Sent(b"k", b"other")])
    frame = read(spark, kafka, subscribe=f"{filled},{topic}")
    assert {(row.topic, row["count"]) for row in frame.groupBy("topic").count().collect()} == {(filled, 60), (topic, 1)}


def test_an_unknown_topic_fails_at_once(spark: Any, kafka: dict[str, str]) -> None:
    with pytest.raises(Exception, match="UnknownTopicOrPartition"):
        read(spark, kafka, subscribe="no-such-topic-anywhere").count()


def test_what_spark_writes_others_read(spark: Any, kafka: dict[str, str], bootstrap: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic(partitions=2)
    rows = [
        (b"k", b"v", topic, 0, [("h", b"x")]),
        (None, b"no key", topic, 0, None),
        (b"", None, topic, 0, None),
        (b"p", b"other", topic, 1, None),
    ]
    schema = "key binary, value binary, topic string, partition int, headers array<struct<key: string, value: binary>>"
    frame = spark.createDataFrame(rows, schema).coalesce(1)
    frame.write.format("kafka").options(**kafka, includeHeaders="true").save()
    found = CLIENTS["kafka-python"].read(bootstrap, topic, count=3)
    assert [(r.offset, r.record.key, r.record.value, r.record.headers) for r in found] == [
        (0, b"k", b"v", (("h", b"x"),)),
        (1, None, b"no key", ()),
        (2, b"", None, ()),
    ]
    assert [r.record.value for r in CLIENTS["kafka-python"].read(bootstrap, topic, partition=1, count=1)] == [b"other"]


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_codecs_of_spark(spark: Any, kafka: dict[str, str], bootstrap: str, topic: str, codec: str) -> None:
    frame = spark.range(1000).selectExpr("cast(id as string) as key", "repeat(cast(id as string), 5) as value").coalesce(1)
    frame.write.format("kafka").options(**kafka, topic=topic, **{"kafka.compression.type": codec}).save()
    found = CLIENTS["confluent-kafka"].read(bootstrap, topic, count=1000)
    assert [(r.offset, r.record.key, r.record.value) for r in found] == [(i, b"%d" % i, b"%d" % i * 5) for i in range(1000)]
    summed = read(spark, kafka, subscribe=topic).selectExpr("sum(cast(cast(key as string) as int)) as total").collect()
    assert summed[0].total == 499_500


def test_large_messages(spark: Any, kafka: dict[str, str], bootstrap: str, topic: str) -> None:
    CLIENTS["aiokafka"].write(bootstrap, topic, [Sent(b"k", bytes([65 + i]) * 900_000) for i in range(5)])
    frame = read(spark, kafka, subscribe=topic).selectExpr("offset", "length(value) size", "substring(cast(value as string), 900000) last")
    assert sorted((r.offset, r["size"], r["last"]) for r in frame.collect()) == [(i, 900_000, chr(65 + i)) for i in range(5)]
