"""Spark's Kafka source and sink, streaming: AvailableNow, restarts from a checkpoint, lost data, new partitions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.clients.adapters import CLIENTS, Sent


class Pipeline:
    """A query from a topic into a folder of Parquet files, with a checkpoint; each run takes what is there and ends."""

    def __init__(self, spark: Any, kafka: dict[str, str], topic: str, folder: Path, **options: str) -> None:
        self._spark = spark
        self._options = {**kafka, "subscribe": topic, "startingOffsets": "earliest", **options}
        self._folder = folder

    def run(self, **more: str) -> list[dict[str, Any]]:
        """Run to the end; what the batches say of themselves."""
        stream = self._spark.readStream.format("kafka").options(**{**self._options, **more}).load()
        query = (
            stream.selectExpr("partition", "offset", "cast(value as string) as value")
            .writeStream.format("parquet")
            .option("path", str(self._folder / "out"))
            .option("checkpointLocation", str(self._folder / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        try:
            assert query.awaitTermination(200), "still running after minutes"
            return [progress for progress in query.recentProgress if progress["numInputRows"]]
        finally:
            query.stop()

    def rows(self) -> list[tuple[int, int, str]]:
        found = self._spark.read.parquet(str(self._folder / "out")).collect()
        return sorted((row.partition, row.offset, row.value) for row in found)


def fill(bootstrap: str, topic: str, values: range, partition: int = 0) -> None:
    CLIENTS["confluent-kafka"].write(bootstrap, topic, [Sent(None, b"%d" % i) for i in values], partition=partition)


def delete_records(admin: Any, topic: str, before: int) -> None:
    from confluent_kafka import TopicPartition

    (future,) = admin.delete_records([TopicPartition(topic, 0, before)]).values()
    assert future.result(timeout=60).low_watermark == before


def test_a_restart_goes_on_where_it_stopped(spark: Any, kafka: dict[str, str], bootstrap: str, topic: str, tmp_path: Path) -> None:
    pipeline = Pipeline(spark, kafka, topic, tmp_path)
    fill(bootstrap, topic, range(100))
    pipeline.run()
    fill(bootstrap, topic, range(100, 250))
    pipeline.run()
    pipeline.run()  # nothing new
    assert pipeline.rows() == [(0, i, str(i)) for i in range(250)]


def test_batches_are_as_small_as_asked(
    spark: Any, kafka: dict[str, str], bootstrap: str, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic = new_topic(partitions=2)
    for partition in range(2):
        fill(bootstrap, topic, range(50), partition)
    pipeline = Pipeline(spark, kafka, topic, tmp_path, maxOffsetsPerTrigger="40")
    assert [progress["numInputRows"] for progress in pipeline.run()] == [40, 40, 20]
    assert pipeline.rows() == [(partition, i, str(i)) for partition in range(2) for i in range(50)]


def test_added_partitions_are_read_from_their_start(
    spark: Any, kafka: dict[str, str], bootstrap: str, admin: Any, topic: str, tmp_path: Path
) -> None:
    from confluent_kafka.admin import NewPartitions

    pipeline = Pipeline(spark, kafka, topic, tmp_path)
    fill(bootstrap, topic, range(10))
    pipeline.run()
    admin.create_partitions([NewPartitions(topic, 2)])[topic].result(timeout=60)
    fill(bootstrap, topic, range(5), partition=1)
    pipeline.run()
    assert pipeline.rows() == [(0, i, str(i)) for i in range(10)] + [(1, i, str(i)) for i in range(5)]


def test_a_topic_made_again_with_fewer_records_is_noticed(
    spark: Any, kafka: dict[str, str], bootstrap: str, admin: Any, topic: str, tmp_path: Path
) -> None:
    from confluent_kafka.admin import NewTopic

    pipeline = Pipeline(spark, kafka, topic, tmp_path)
    fill(bootstrap, topic, range(50))
    pipeline.run()
    admin.delete_topics([topic])[topic].result(timeout=60)
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(timeout=60)
    fill(bootstrap, topic, range(10))
    with pytest.raises(Exception, match=r"(?i)data loss|failOnDataLoss|may have been missed"):
        pipeline.run()


def test_deleted_records_fail_a_query_that_minds(
    spark: Any, kafka: dict[str, str], bootstrap: str, admin: Any, topic: str, tmp_path: Path
) -> None:
    pipeline = Pipeline(spark, kafka, topic, tmp_path)
    fill(bootstrap, topic, range(10))
    pipeline.run()
    fill(bootstrap, topic, range(10, 60))
    delete_records(admin, topic, 30)
    with pytest.raises(Exception, match=r"(?i)data loss|failOnDataLoss|may have been missed|lost"):
        pipeline.run()


def test_deleted_records_are_passed_over_when_allowed(
    spark: Any, kafka: dict[str, str], bootstrap: str, admin: Any, topic: str, tmp_path: Path
) -> None:
    pipeline = Pipeline(spark, kafka, topic, tmp_path, failOnDataLoss="false")
    fill(bootstrap, topic, range(10))
    pipeline.run()
    fill(bootstrap, topic, range(10, 60))
    delete_records(admin, topic, 30)
    pipeline.run()
    assert pipeline.rows() == [(0, i, str(i)) for i in [*range(10), *range(30, 60)]]


def test_from_topic_to_topic(spark: Any, kafka: dict[str, str], bootstrap: str, new_topic: Callable[..., str], tmp_path: Path) -> None:
    source, target = new_topic(partitions=2), new_topic()
    for partition in range(2):
        fill(bootstrap, source, range(100), partition)
    stream = spark.readStream.format("kafka").options(**kafka, subscribe=source, startingOffsets="earliest").load()
    query = (
        stream.selectExpr("cast(partition as string) as key", "value")
        .writeStream.format("kafka")
        .options(**kafka, topic=target, checkpointLocation=str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(200)
    found = CLIENTS["aiokafka"].read(bootstrap, target, count=200)
    assert [r.offset for r in found] == list(range(200))
    for partition in range(2):
        assert [r.record.value for r in found if r.record.key == b"%d" % partition] == [b"%d" % i for i in range(100)]
