"""Audits of real topics: minibroker against Apache Kafka, a log directory against a cluster, a table against what retention left."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

pytest.importorskip("pyarrow")

from minibroker.cli.spark.audit import _lines
from minibroker.spark.archive import archive
from minibroker.spark.audit import audit
from minibroker.spark.audit.result import DUPLICATE_RIGHT
from minibroker.spark.replay import replay
from minibroker.spark.sources.cluster import ClusterSource
from minibroker.spark.sources.log_directory import LogDirectorySource
from tests.cli.conftest import Commands
from tests.clients.adapters import CLIENTS, Sent
from tests.conftest import NO_RETENTION
from tests.support.broker_process import BrokerProcess
from tests.support.kafka_process import KafkaProcess
from tests.support.transactional_writer import TransactionalWriter

pytestmark = [pytest.mark.timeout(600)]

T = 1_700_000_000_000
COUNT = 50
SIZE = 16
FIRST_COMMITTED = 5  #: of partition 0 of "orders": before it an aborted transaction and its marker


class Clusters(NamedTuple):
    ours: str
    kafka: str
    data_dir: Path  #: of ours


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clusters]:
    """Both with the same topic `orders`; ours has a copy of it without transactions, with a repeated record, too."""
    folders = [tmp_path_factory.mktemp(name) for name in ("ours", "kafka")]
    with BrokerProcess(folders[0], *NO_RETENTION) as ours, KafkaProcess(folders[1]) as kafka:
        for bootstrap in (ours.bootstrap, kafka.bootstrap):
            create(bootstrap, "orders", 2)
            writer = TransactionalWriter(bootstrap, "audit")
            writer.aborted("orders", [b"void"] * (FIRST_COMMITTED - 1), timestamp=T)
            write(bootstrap, "orders", sent(), partition=0)
            writer.committed("orders", [b"%d" % number for number in range(COUNT)], partition=1, timestamp=T)
            write(bootstrap, "orders", sent(), partition=1)
        create(ours.bootstrap, "again", 2)
        rows = [Sent(None, b"%d" % number, (), T + number) for number in range(COUNT)] + sent()
        write(ours.bootstrap, "again", sent(), partition=0)
        write(ours.bootstrap, "again", [*rows[: COUNT + 7], *rows[COUNT + 4 :]], partition=1)
        yield Clusters(ours.bootstrap, kafka.bootstrap, ours.data_dir)


def create(bootstrap: str, topic: str, partitions: int) -> None:
    from confluent_kafka.admin import NewTopic

    from tests.support.confluent import AdminClient

    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, partitions, 1, config={"retention.ms": "-1"})])[topic].result(timeout=60)


def sent() -> list[Sent]:
    """With nulls and headers."""
    return [
        Sent(
            None if number % 7 == 0 else b"k%d" % number,
            None if number % 5 == 0 else b"v%d" % number,
            (("h", b"%d" % number), ("h", None))[: number % 3],
            T + number,
        )
        for number in range(COUNT)
    ]


def write(bootstrap: str, topic: str, records: list[Sent], *, partition: int = 0) -> None:
    CLIENTS["confluent-kafka"].write(bootstrap, topic, records, partition=partition)


def test_the_same_on_minibroker_and_on_apache_kafka(pipelines: Commands, clusters: Clusters) -> None:
    result = pipelines("audit", clusters.ours, clusters.kafka, "-t", "orders", "--range-size", "16")
    assert result.out.splitlines() == [
        f"left   cluster {clusters.ours}",
        f"right  cluster {clusters.kafka}",
        "TOPIC      PARTITION  LEFT OFFSETS    RIGHT OFFSETS      LEFT COUNT    RIGHT COUNT    RANGES    DIFFERENT RANGES  EQUAL",
        "orders             0  0..55           0..55                      50             50         4                   0  yes",
        "orders             1  0..101          0..101                    100            100         7                   0  yes",
        "Equal: 150 records, by key, value, headers, timestamp",
    ]


def test_a_log_directory_and_a_cluster(spark: Any, clusters: Clusters) -> None:
    files = LogDirectorySource(str(clusters.data_dir))
    result = audit(spark, files, clusters.kafka, topics=["orders"], starting='{"orders": {"0": 7, "1": -2}}', range_size=SIZE)
    assert result.is_equal
    assert (result.left_count, result.right_count) == (148, 148)


def test_a_replayed_topic_by_order(spark: Any, clusters: Clusters) -> None:
    result = audit(spark, clusters.kafka, clusters.ours, topics=["orders"], rename={"orders": "again"}, match="order", range_size=SIZE)
    first, second = result.partitions
    assert first.is_equal
    assert (first.left_start_offset, first.left_end_offset, first.right_end_offset) == (0, 55, 50)
    assert (second.left_count, second.right_count) == (100, 103)
    found = second.first_difference
    assert found is not None
    assert (found.kind, found.position, found.count) == (DUPLICATE_RIGHT, COUNT + 7, 3)
    assert found.left is not None
    assert (found.left.offset, found.left.key) == (COUNT + 1 + 7, None)
    assert found.right is not None
    assert (found.right.offset, found.right.key) == (COUNT + 7, b"k4")


def test_an_archive_that_was_replayed(spark: Any, clusters: Clusters, tmp_path: Path) -> None:
    place = str(tmp_path / "archive")
    archive(spark, clusters.kafka, place, ["orders"])
    replay(spark, source=place, bootstrap_servers=clusters.ours, name="audited", rename={"orders": "replayed"}, timestamps="keep")
    result = audit(spark, place, clusters.ours, rename={"orders": "replayed"}, match="order", range_size=SIZE)
    assert result.is_equal
    assert (result.left_count, result.right_count) == (150, 150)
    assert [(each.left_start_offset, each.left_end_offset) for each in result.partitions] == [(0, 55), (0, 101)]


def test_planted_differences(spark: Any, clusters: Clusters) -> None:
    create(clusters.ours, "planted", 6)
    create(clusters.kafka, "planted", 7)
    rows = sent()
    at, changes = 20, {0: {"value": b"other"}, 1: {"headers": (("h", b""),)}, 2: {"timestamp": T}}
    for partition in range(6):
        write(clusters.ours, "planted", rows, partition=partition)
    for partition, change in changes.items():
        write(clusters.kafka, "planted", [*rows[:at], rows[at]._replace(**change), *rows[at + 1 :]], partition=partition)  # type: ignore[arg-type]
    write(clusters.kafka, "planted", rows[:45], partition=3)
    write(clusters.kafka, "planted", [*rows[:10], *rows[11:]], partition=4)
    write(clusters.kafka, "planted", rows, partition=5)
    write(clusters.kafka, "planted", rows[:1], partition=6)
    result = audit(spark, clusters.ours, clusters.kafka, topics=["planted"], range_size=SIZE, whole=True)
    assert [each.is_equal for each in result.partitions] == [False] * 5 + [True, False]
    found = result.as_dict()
    firsts = [each["first_difference"] for each in found["partitions"]]
    assert [(each["kind"], each["position"], each["count"], each["columns"]) if each else None for each in firsts] == [
        ("changed", 20, 1, ["value"]),
        ("changed", 20, 1, ["headers"]),
        ("changed", 20, 1, ["timestamp"]),
        ("missing right", 45, 3, []),
        ("changed", 10, 6, ["key", "value", "headers", "timestamp"]),
        None,
        ("missing left", 0, 1, []),
    ]
    assert [firsts[0][side]["value"] for side in ("left", "right")] == [None, "other"]
    assert [firsts[1][side]["headers"] for side in ("left", "right")] == [[["h", "20"], ["h", None]], [["h", ""]]]
    assert firsts[2]["left"]["timestamp"] == "2023-11-14T22:13:20.020Z"
    assert firsts[3]["right"] is None
    assert found["partitions"][6]["left"] == {"start_offset": None, "end_offset": None, "count": 0}
    assert found["different_ranges"][0] == {
        "topic": "planted", "partition": 0, "start": 16, "end": 32, "left_count": 16, "right_count": 16,
    }  # fmt: skip
    lines = list(_lines(result))
    assert "planted-0: first difference at offset 20: changed: value (1 difference in offsets 16 up to 32)" in lines
    assert '  left   offset 20, key "k20", value null, headers h="20" h=null, 2023-11-14T22:13:20.020Z' in lines
    assert lines[-1] == "Different: 300 records left, 295 right; ranges that differ: 10"


def test_a_table_and_what_retention_left(pipelines: Commands, spark: Any, clusters: Clusters, tmp_path: Path) -> None:
    from confluent_kafka import TopicPartition

    from tests.support.confluent import AdminClient

    create(clusters.ours, "old", 1)
    write(clusters.ours, "old", sent())
    source = ClusterSource(clusters.ours)
    table = str(tmp_path / "table")
    source.frame(spark, source.resolve(["old"]).ranges).write.partitionBy("topic").parquet(table)
    admin = AdminClient({"bootstrap.servers": clusters.ours})
    gone = TopicPartition("old", 0, 30)
    admin.delete_records([gone])[gone].result(timeout=60)
    lines = pipelines("audit", "-b", clusters.ours, table).out.splitlines()
    assert lines[0] == f"left   cluster {clusters.ours}"
    assert lines[3].split() == ["old", "0", "30..50", "30..50", "20", "20", "1", "0", "yes"]
    assert lines[4:] == [
        "old-0: not compared: offsets 0 up to 30, which only the right side has",
        "Equal: 20 records, by key, value, headers, timestamp",
    ]
    found = json.loads(pipelines("audit", "-b", clusters.ours, table, "-t", "old", "--whole", "-o", "json", code=1).out)
    assert (found["equal"], found["left_count"], found["right_count"]) == (False, 20, 50)
    assert found["partitions"][0]["first_difference"]["kind"] == "missing left"


def test_what_is_wrong_is_told_before_spark_starts(clusters: Clusters) -> None:
    """Without the fixture `pipelines`: Spark would really start."""
    offline = Commands("127.0.0.1:1", before=("spark",))
    assert "no topic nothing" in offline("audit", clusters.ours, clusters.kafka, "-t", "nothing", code=1).err
    assert "no topic again" in offline("audit", clusters.ours, clusters.kafka, "-t", "orders", "--rename", "orders=again", code=1).err
    assert "has two sides" in offline("audit", "a", "b", "c", code=2).err
    assert (
        "has no offset 900"
        in offline("audit", clusters.ours, clusters.kafka, "-t", "orders", "--ending", '{"orders": {"0": 900, "1": 1}}', code=1).err
    )
