"""A stream that follows files while a broker writes them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")

from minibroker.spark.kafka_log.source import register
from tests.clients.adapters import CLIENTS, Sent
from tests.conftest import NO_RETENTION
from tests.support.broker_process import BrokerProcess
from tests.support.transactional_writer import TransactionalWriter

pytestmark = [pytest.mark.timeout(600)]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path, *NO_RETENTION) as process:  # records have timestamps of long ago
        yield process


class Follower:
    """A query from a directory into Parquet, with a checkpoint; each run takes what is there and ends."""

    def __init__(self, spark: Any, broker: BrokerProcess, folder: Path, **options: str) -> None:
        register(spark)
        self._spark = spark
        self._data_dir = broker.data_dir
        self._options = {"startingOffsets": "earliest", **options}
        self._folder = folder

    def run(self, **options: str) -> list[dict[str, Any]]:
        """The batches that had rows."""
        stream = self._spark.readStream.format("kafka-log").options(**{**self._options, **options}).load(str(self._data_dir))
        writing = stream.selectExpr("partition", "offset", "cast(value as string) as value").writeStream.format("parquet")
        writing = writing.option("path", str(self._folder / "out")).option("checkpointLocation", str(self._folder / "checkpoint"))
        query = writing.trigger(availableNow=True).start()
        try:
            assert query.awaitTermination(200)
            return [progress for progress in query.recentProgress if progress["numInputRows"]]
        finally:
            query.stop()

    def rows(self) -> list[tuple[int, int, str]]:
        found = self._spark.read.parquet(str(self._folder / "out")).collect()
        return sorted((row.partition, row.offset, row.value) for row in found)


def put(broker: BrokerProcess, values: range, partition: int = 0) -> None:
    CLIENTS["confluent-kafka"].write(broker.bootstrap, "growing", [Sent(None, b"%d" % value) for value in values], partition=partition)


def test_a_restart_goes_on_where_it_stopped(spark: Any, broker: BrokerProcess, tmp_path: Path) -> None:
    follower = Follower(spark, broker, tmp_path, subscribe="growing")
    put(broker, range(50))
    follower.run()
    put(broker, range(50, 120))
    follower.run()
    assert follower.run() == []
    assert follower.rows() == [(0, offset, str(offset)) for offset in range(120)]


def test_committed_records_alone(spark: Any, broker: BrokerProcess, tmp_path: Path) -> None:
    writer = TransactionalWriter(broker.bootstrap, "growing")
    follower = Follower(spark, broker, tmp_path, subscribe="growing", isolationLevel="read_committed")
    put(broker, range(1))
    writer.begin()
    writer.send("growing", [b"1"])
    put(broker, range(2, 3))
    follower.run()
    assert follower.rows() == [(0, 0, "0")]
    writer.commit()
    writer.aborted("growing", [b"void"])
    follower.run()
    assert follower.rows() == [(0, 0, "0"), (0, 1, "1"), (0, 2, "2")]


def test_lost_data_is_told_or_passed_over(spark: Any, broker: BrokerProcess, tmp_path: Path) -> None:
    from confluent_kafka import TopicPartition

    from tests.support.confluent import AdminClient

    follower = Follower(spark, broker, tmp_path, subscribe="growing")
    put(broker, range(10))
    follower.run()
    put(broker, range(10, 60))
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    (future,) = admin.delete_records([TopicPartition("growing", 0, 30)]).values()
    future.result(timeout=60)
    broker.stop()  # the checkpoint of log start offsets is written now at the latest
    with pytest.raises(Exception, match="data was lost"):
        follower.run()
    follower.run(failOnDataLoss="false")
    assert follower.rows() == [(0, offset, str(offset)) for offset in [*range(10), *range(30, 60)]]
