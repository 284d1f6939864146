"""Replay with Spark, to minibroker and to Apache Kafka; what it wrote is read by Java's, librdkafka's and our own clients."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")

import pyarrow as pa
import pyarrow.parquet as pq

from minibroker.client import producer
from minibroker.client.client import Client
from minibroker.client.group_offsets import CommittedOffset, committed_offsets
from minibroker.client.topics import alter_configs, create_topics, delete_topics, describe_configs
from minibroker.spark.failures import SourceError
from minibroker.spark.replay import Creation, ReplayError, ReplayResult, Tuning, read_mapping, replay
from minibroker.spark.replay.frame import hash_int
from minibroker.spark.sources.positions import parse_position
from tests.cli.conftest import Commands
from tests.clients.adapters import CLIENTS
from tests.conftest import NO_RETENTION
from tests.support.broker_process import BrokerProcess
from tests.support.kafka_process import KafkaProcess

pytestmark = [pytest.mark.timeout(600)]

T = 1_600_000_000_000  #: long ago: a broker with its default retention would delete it
COUNT = 1200
SCHEMA = pa.schema(
    [
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))),
        pa.field("timestamp", pa.timestamp("us", tz="UTC")),
        pa.field("timestampType", pa.int32()),
    ]
)
SMALL = Tuning(batch_bytes=4_000, transaction_bytes=1)


@pytest.fixture(scope="module", params=["minibroker", pytest.param("apache-kafka", marks=pytest.mark.java)])
def bootstrap(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp(request.param)
    broker: BrokerProcess | KafkaProcess
    with BrokerProcess(folder, *NO_RETENTION) if request.param == "minibroker" else KafkaProcess(folder) as broker:
        yield broker.bootstrap


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with BrokerProcess(tmp_path_factory.mktemp("ours"), *NO_RETENTION) as broker:
        yield broker.bootstrap


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Three partitions; from the 200th record on each second offset is missing, as behind compaction."""
    path = tmp_path_factory.mktemp("table") / "flights"
    path.mkdir()
    rows = [row_of(number) for number in range(COUNT)]
    for index in range(3):
        pq.write_table(pa.Table.from_pylist(rows[index::4] + (rows[3::4] if index == 1 else []), SCHEMA), path / f"{index}.parquet")
    return str(path)


def row_of(number: int) -> dict[str, Any]:
    headers = [[{"key": "\u00e4", "value": None}, {"key": "b", "value": b"%d" % number}], None, []]
    return {
        "topic": "flights",
        "partition": number % 3,
        "offset": number // 3 * (1 if number < 600 else 2),
        "key": None if number % 5 == 0 else b"key-%d" % (number % 17),
        "value": [None, b""][number % 11] if number % 11 < 2 else b"value %d" % number * (number % 30),
        "headers": headers[number % 7] if number % 7 < 3 else headers[0],
        "timestamp": (T + number) * 1000,
        "timestampType": 0,
    }


def topic_rows(spark: Any, bootstrap: str, topic: str) -> Any:
    options = {
        "kafka.bootstrap.servers": bootstrap,
        "subscribe": topic,
        "includeHeaders": "true",
        "kafka.isolation.level": "read_committed",
        "startingOffsets": "earliest",
    }
    return spark.read.format("kafka").options(**options).load()


def check_copy(spark: Any, bootstrap: str, source: Any, target: str, name: str) -> None:
    """Each record of the source is where the mapping says, with everything that it had; and nothing else is there."""
    each = "inline(transform(sequence(0L, records - 1), i -> struct(old_first + i AS offset, new_first + i AS new_offset)))"
    mapping = read_mapping(spark, bootstrap_servers=bootstrap, name=name).where(f"topic = '{target}'")
    moved = mapping.selectExpr("source_topic AS topic", "source_partition AS partition", each)
    content = "struct(key, value, coalesce(headers, array()) AS headers, unix_millis(timestamp) AS timestamp)"
    expected = source.join(moved, ["topic", "partition", "offset"], "full").selectExpr("partition", "new_offset", f"{content} AS content")
    found = topic_rows(spark, bootstrap, target).selectExpr("partition", "offset AS new_offset", f"{content} AS found")
    joined = expected.join(found, ["partition", "new_offset"], "full")
    assert joined.where("NOT (content <=> found) OR new_offset IS NULL").take(3) == []
    assert joined.count() == source.count()


def test_a_table_arrives_whole_and_goes_on(spark: Any, bootstrap: str, table: str) -> None:
    def run(source: Any) -> ReplayResult:
        arguments: dict[str, Any] = {
            "timestamps": "keep",
            "rename": {"flights": "again"},
            "creation": Creation(partitions=4),
            "tuning": SMALL,
        }
        return replay(spark, source=source, bootstrap_servers=bootstrap, name="copy", **arguments)

    rows = spark.read.parquet(table).select("topic", "partition", "offset", "key", "value", "headers", "timestamp")
    result = run(rows.where("offset < 500"))
    assert (result.run, result.resumed, result.records) == (1, False, 750)
    assert [(each.partition, each.records, each.old_first) for each in result.partitions] == [(index, 250, 0) for index in range(3)]
    assert all(each.new_last > each.records for each in result.partitions)  # there are markers between
    check_copy(spark, bootstrap, rows.where("offset < 500"), "again", "copy")
    result = run(rows)
    assert (result.run, result.resumed, result.records) == (2, True, COUNT - 750)
    check_copy(spark, bootstrap, rows, "again", "copy")
    result = run(rows)
    assert (result.run, result.resumed, result.records, result.partitions) == (3, True, 0, ())
    with Client(bootstrap) as client:
        committed = committed_offsets(client, ["minibroker-replay-copy"])["minibroker-replay-copy"]
        assert isinstance(committed, dict)
        ends = {key: each.offset for key, each in committed.items() if isinstance(each, CommittedOffset)}
        assert ends == {("again", index): 799 for index in range(3)} | {("minibroker-replay-copy", 0): 3}
        (configs,) = describe_configs(client, ["again"]).values()
        assert {each.name: each.value for each in configs}["retention.ms"] == "-1"
    found = {each.offset: each.record for each in CLIENTS["confluent-kafka"].read(bootstrap, "again", count=COUNT // 3, partition=1)}
    assert [found[offset].timestamp for offset in sorted(found)] == [T + number for number in range(1, COUNT, 3)]  # in order
    assert found[0].headers == ()


def test_a_frame_without_partitions_goes_where_keys_say(spark: Any, bootstrap: str) -> None:
    frame = spark.range(500).selectExpr("if(id % 4 = 0, null, concat('k', id % 50)) AS key", "concat('v', id) AS value", "id AS number")

    def run(name: str, topic: str, **options: Any) -> ReplayResult:
        return replay(spark, source=frame, bootstrap_servers=bootstrap, name=name, topic=topic, creation=Creation(partitions=3), **options)

    assert run("ordered", "by-key", order_by="number", compression="zstd").records == 500
    for row in topic_rows(spark, bootstrap, "by-key").collect():
        number = int(row.value[1:])
        assert bytes(row.key or b"") == (b"" if number % 4 == 0 else b"k%d" % (number % 50))
        expected = number % 3 if row.key is None else (producer.murmur2(bytes(row.key)) & 0x7FFFFFFF) % 3
        assert row.partition == expected
    assert (run("ordered", "by-key", order_by="number").records, run("plain", "unordered", compression="none").records) == (0, 500)
    assert topic_rows(spark, bootstrap, "unordered").distinct().count() == 500
    with pytest.raises(
        ReplayError, match="replay plain has written records already, and without offsets in the source it cannot know which"
    ):
        run("plain", "unordered")


def test_places_of_tasks_are_sparks(spark: Any) -> None:
    numbers = [0, 1, 42, 2**31 - 1, 65_536]
    assert [row[0] for row in spark.createDataFrame([(n,) for n in numbers], "n int").selectExpr("hash(n)").collect()] == [
        hash_int(number) for number in numbers
    ]


def failing(spark: Any, ours: str, source: Any, *, name: str = "failing", **options: Any) -> str:
    with pytest.raises(SourceError) as failure:
        replay(spark, source=source, bootstrap_servers=ours, name=name, **options)
    words = str(failure.value)
    assert "\n" not in words
    return words


def test_what_cannot_be_is_told_before_anything_is_written(spark: Any, ours: str, table: str, tmp_path: Path) -> None:
    rows = spark.read.parquet(table)
    with Client(ours) as client:
        create_topics(client, ["narrow"], partition_count=2)
        create_topics(client, ["stamping"], partition_count=3, configs={"message.timestamp.type": "LogAppendTime"})
    output = failing(spark, ours, rows, topic="narrow")
    assert output.startswith("topic narrow has 2 partitions, and the source has records of partition 2: 'minibroker topics alter narrow")
    assert "topic stamping overwrites timestamps" in failing(spark, ours, rows, topic="stamping", timestamps="keep")
    assert "topic absent does not exist" in failing(spark, ours, rows, topic="absent", creation=Creation(is_allowed=False))
    nulls = rows.limit(5).selectExpr("topic", "null AS partition", "offset", "value")
    assert failing(spark, ours, nulls).startswith("5 records of topic flights have a null partition")
    nulls = rows.limit(5).selectExpr("topic", "partition", "cast(null AS long) AS offset", "value")
    assert "have a null offset" in failing(spark, ours, nulls)
    both = rows.where("offset < 2").unionByName(rows.where("offset < 2").selectExpr("* EXCEPT (topic)", "'others' AS topic"))
    assert "records of flights and others would both go to one, in no defined order" in failing(spark, ours, both, topic="one")
    assert "no column topic" in failing(spark, ours, rows.drop("topic"))
    assert "no column value" in failing(spark, ours, rows.drop("value"))
    assert "the column value is of type int" in failing(spark, ours, rows.selectExpr("topic", "partition AS value"))
    assert "the column headers is of type int" in failing(spark, ours, rows.selectExpr("topic", "value", "partition AS headers"))
    assert "the condition 'nothing = 1' is invalid" in failing(spark, ours, rows, where="nothing = 1")
    assert "cannot be" not in failing(spark, ours, f"{tmp_path}/nowhere")
    assert "timestamps must be" in failing(spark, ours, rows, timestamps="old")
    assert "unknown compression type 'rar'" in failing(spark, ours, rows, compression="rar")
    (tmp_path / "mine").mkdir()
    assert "exists and is not an offset mapping" in failing(spark, ours, rows, mapping=f"{tmp_path}/mine")
    with Client(ours) as client:
        topics = {str(topic.name): len(topic.partitions) for topic in client.metadata(None).topics}
    assert set(topics) - {"narrow", "stamping", "minibroker-replay-failing", "__consumer_offsets", "__transaction_state"} == set()


def test_what_is_found_on_the_way_ends_the_run_and_what_was_committed_stays(spark: Any, ours: str, table: str) -> None:
    rows = spark.read.parquet(table).where("partition = 0").select("topic", "partition", "offset", "value")
    twice = rows.where("offset < 50").unionByName(rows.where("offset = 40"))
    with pytest.raises(Exception, match="the source has offset 40 of flights-0 twice: each offset must occur once"):
        replay(spark, source=twice, bootstrap_servers=ours, name="twice", topic="twice")
    with Client(ours) as client:
        create_topics(client, ["small"], partition_count=1, configs={"max.message.bytes": "2000"})
    large = rows.where("offset < 50").selectExpr(
        "topic", "partition", "offset", "if(offset = 45, cast(repeat(uuid(), 100) AS binary), value) AS value"
    )
    tuning = Tuning(transaction_bytes=1)

    def run(source: Any) -> ReplayResult:
        return replay(spark, source=source, bootstrap_servers=ours, name="large", topic="small", tuning=tuning, compression="none")

    with pytest.raises(Exception, match=r"the record at offset 45 is too large for small-0: .* the topic's max.message.bytes is 2000"):
        run(large)
    committed = topic_rows(spark, ours, "small").count()
    assert 0 < committed <= 45
    with Client(ours) as client:
        alter_configs(client, "small", {"max.message.bytes": "10000"})
    assert (run(large).records, topic_rows(spark, ours, "small").count()) == (50 - committed, 50)


def test_a_name_stands_for_one_replay(spark: Any, ours: str, table: str) -> None:
    def run(source: Any = table, **options: Any) -> ReplayResult:
        arguments: dict[str, Any] = {"topic": "once", "where": "offset < 5"} | options
        return replay(spark, source=source, bootstrap_servers=ours, name="named", **arguments)

    run()
    for options, words in (
        ({"topic": "twice-as"}, "was started with topic once, not twice-as: take another name"),
        ({"where": None}, "was started with condition offset < 5, not unset"),
        ({"starting": parse_position("@1600000000100")}, "was started with start unset, not @1600000000100"),
        ({"source": spark.read.parquet(table)}, r"was started with the source .*flights, not a DataFrame"),
    ):
        with pytest.raises(ReplayError, match=words):
            run(**options)
    with Client(ours) as client:
        delete_topics(client, ["once"])
    with pytest.raises(ReplayError, match="topic once was deleted since replay named wrote to it: take another name"):
        run()
    with Client(ours) as client:
        create_topics(client, ["once"], partition_count=3)
    with pytest.raises(ReplayError, match=r"topic once was deleted and recreated \(it was .*\) since replay named"):
        run()


def test_the_command(spark: Any, ours: str, table: str, pipelines: Commands, tmp_path: Path) -> None:
    mapping = f"{tmp_path}/mapping"
    words = ("replay", table, "--name", "told", "-b", ours, "--to", "told", "--starting", f"@{T + 300}", "--where", "partition < 2")
    result = pipelines(*words, "--mapping", mapping, "--rate", "100000", "-z", "gzip", "-o", "json")
    found = json.loads(result.out)
    assert (found["name"], found["records"], found["resumed"], found["ledger"]) == ("told", 600, False, "minibroker-replay-told")
    assert [(each["topic"], each["partition"], each["records"], each["old_first"]) for each in found["partitions"]] == [
        ("told", 0, 300, 100),
        ("told", 1, 300, 100),
    ]
    rows = spark.read.parquet(mapping).collect()
    assert sum(row.records for row in rows) == 600
    again = pipelines(*words, "--mapping", mapping, "-o", "table")
    assert "0 records replayed" in again.err
    assert "after those of 1 earlier runs" in again.err
    assert spark.read.parquet(mapping).count() == len(rows)
    refused = pipelines("replay", table, "--name", "a/b", "-b", ours, code=1)
    assert refused.err.startswith("Error: the replay's name must be")
    assert "is not NAME=VALUE" in pipelines("replay", table, "--name", "x", "--rename", "a", code=2).err
