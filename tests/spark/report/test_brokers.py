"""Reports of minibroker and of Apache Kafka, from the brokers and from their files, against what was written."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

pytest.importorskip("pyarrow")

from minibroker.records.any_format import split_batches
from minibroker.spark.failures import SourceError
from minibroker.spark.report import OffsetReport, PartitionInfo, report
from minibroker.spark.report.results import bucket_text
from tests.spark.report import filling
from tests.spark.report.filling import CHANGES, GROUP, NOTHING, ORDERS, START, Filled
from tests.spark.report.models import DAY_MS, HOUR_MS, Model
from tests.support.becoming import wait_until
from tests.support.broker_process import BrokerProcess
from tests.support.java import GET_OFFSET_SHELL, run_tool
from tests.support.kafka_process import KafkaProcess

pytestmark = [pytest.mark.timeout(600)]

SETTINGS = {
    "log.cleaner.backoff.ms": "100",
    "log.initial.task.delay.ms": "100",
    "log.retention.check.interval.ms": "100000000",
    "log.flush.start.offset.checkpoint.interval.ms": "100",
}
COMMITTED, UNCOMMITTED = "read_committed", "read_uncommitted"
TIMES = (START + DAY_MS, START - DAY_MS, START + 400 * DAY_MS)
GAPS = 1000


class Broker(NamedTuple):
    """A broker full of topics, and the report of everything, from it and from its files."""

    bootstrap: str
    data_dir: Path
    filled: Filled
    found: OffsetReport
    from_files: OffsetReport


@pytest.fixture(scope="module", params=["minibroker", pytest.param("apache-kafka", marks=pytest.mark.java)])
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, spark: Any) -> Iterator[Broker]:
    folder = tmp_path_factory.mktemp(request.param)
    started: BrokerProcess | KafkaProcess
    if request.param == "minibroker":
        started = BrokerProcess(folder, *[word for name, value in SETTINGS.items() for word in ("--set", f"{name}={value}")])
    else:
        started = KafkaProcess(folder, settings=SETTINGS)
    with started:
        filled = filling.fill(started.bootstrap)
        starts = started.data_dir / "log-start-offset-checkpoint"  # until then the files know nothing of DeleteRecords
        wait_until(lambda: f"{ORDERS} 0 {filling.DELETED}" in starts.read_text(), "checkpoint of log start offsets")
        found = report(spark, bootstrap_servers=started.bootstrap, times=TIMES, gaps=GAPS, now_ms=lambda: START)
        from_files = report(spark, data_dir=str(started.data_dir), times=TIMES, gaps=GAPS, now_ms=lambda: START)
        yield Broker(started.bootstrap, started.data_dir, filled, found, from_files)


def partition_of(found: OffsetReport, topic: str, partition: int) -> PartitionInfo:
    (info,) = [each for one in found.topics if one.topic == topic for each in one.partitions if each.partition == partition]
    return info


def check_contents(info: PartitionInfo, model: Model, bucket_ms: int = DAY_MS, *, is_compacted: bool = False) -> None:
    contents = info.contents
    assert contents is not None
    reasons = model.reasons()
    absent = (reasons["absent"], 0) if is_compacted else (0, reasons["absent"])
    assert (contents.start_offset, contents.end_offset, contents.records) == (model.start, model.end, len(model.records))
    assert (contents.key_bytes, contents.value_bytes, contents.header_bytes) == model.bytes()
    assert contents.bytes == sum(model.bytes())
    assert (contents.control, contents.aborted, contents.compacted, contents.missing) == (reasons["control"], reasons["aborted"], *absent)
    assert contents.gap_count == len(model.gaps())
    assert [(gap.first_offset, gap.last_offset + 1, gap.control, gap.aborted) for gap in contents.gaps] == model.gaps()
    expected = {bucket_text(number, bucket_ms): counts for number, counts in model.buckets(bucket_ms).items() if number is not None}
    assert {bucket.start: (bucket.records, bucket.bytes) for bucket in contents.buckets} == expected
    times = model.times()
    assert contents.first_timestamp == min((timestamp for timestamp, _ in times), default=None)
    assert contents.last_timestamp == max((timestamp for timestamp, _ in times), default=None)
    assert list(contents.record_cells) == model.cells(contents.cell_size, model.records)


def test_what_was_counted_is_what_was_written(broker: Broker) -> None:
    assert broker.filled.committed[ORDERS, 1].gaps()
    for found in (broker.found, broker.from_files):
        assert [topic.topic for topic in found.topics] == [CHANGES, NOTHING, ORDERS]
        assert found.notes == ()
        for (topic, partition), model in broker.filled.committed.items():
            check_contents(partition_of(found, topic, partition), model, is_compacted=topic == CHANGES)


def test_batches_are_those_of_the_files(broker: Broker) -> None:
    for partition in range(2):
        model = broker.filled.committed[ORDERS, partition]
        data = b"".join(path.read_bytes() for path in sorted((broker.data_dir / f"{ORDERS}-{partition}").glob("*.log")))
        batches = [each for each in split_batches(data) if each.last_offset >= model.start and each.base_offset < model.end]
        for found in (broker.found, broker.from_files):
            contents = partition_of(found, ORDERS, partition).contents
            assert contents is not None
            assert (contents.batches, contents.batch_bytes) == (len(batches), sum(each.size for each in batches))
            assert contents.codecs == Counter(each.compression.name.lower() for each in batches)
            assert partition_of(found, ORDERS, partition).size == len(data)


def test_uncommitted_readers_by_hour_and_a_part_of_it(spark: Any, broker: Broker) -> None:
    both: dict[str, Any] = {"isolation_level": UNCOMMITTED, "bucket": "hour", "gaps": GAPS, "topics": [ORDERS]}
    starts, ends = {0: 9, 1: 13, 2: 0}, {0: 222, 1: 55, 2: 0}
    part: dict[str, Any] = {"starting": json.dumps({ORDERS: starts}), "ending": json.dumps({ORDERS: ends})}
    cluster: dict[str, Any] = {"bootstrap_servers": broker.bootstrap}
    files: dict[str, Any] = {"data_dir": str(broker.data_dir)}
    for source, more in ((cluster, {}), (files, part)):
        found = report(spark, **both, **source, **more)
        for partition in range(3):
            model = broker.filled.uncommitted[ORDERS, partition]
            assert partition_of(found, ORDERS, partition).high_watermark == model.end
            counted = model.within(starts[partition], ends[partition]) if more else model
            check_contents(partition_of(found, ORDERS, partition), counted, HOUR_MS)


def test_sparks_own_connector_counts_the_same(spark: Any, broker: Broker) -> None:
    options = {"kafka.bootstrap.servers": broker.bootstrap, "kafka.isolation.level": COMMITTED, "includeHeaders": "true"}
    frame = spark.read.format("kafka").options(**options, subscribe=f"{ORDERS},{CHANGES}").load()
    size = "coalesce(octet_length(key), 0) + coalesce(octet_length(value), 0)"
    headers = "coalesce(aggregate(headers, 0, (sum, each) -> sum + octet_length(each.key) + coalesce(octet_length(each.value), 0)), 0)"
    rows = (
        frame.selectExpr("topic", "partition", "date_format(timestamp, 'yyyy-MM-dd') as day", f"{size} + {headers} as size")
        .groupBy("topic", "partition", "day")
        .agg({"size": "sum", "*": "count"})
        .collect()
    )
    expected = {(row["topic"], row["partition"], row["day"]): (row["count(1)"], row["sum(size)"]) for row in rows}
    found = broker.found.bucket_frame(spark).collect()
    assert {(row["topic"], row["partition"], row["day"]): (row["records"], row["bytes"]) for row in found} == expected


def test_bounds_and_times_are_what_other_clients_hear(broker: Broker) -> None:
    from confluent_kafka import IsolationLevel, TopicPartition
    from confluent_kafka.admin import OffsetSpec

    from tests.support.confluent import AdminClient

    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    keys = list(broker.filled.committed)

    def told(spec: Any, isolation: Any = IsolationLevel.READ_UNCOMMITTED) -> dict[tuple[str, int], tuple[int, int]]:
        requests = {TopicPartition(*key): spec for key in keys}
        answers = admin.list_offsets(requests, isolation_level=isolation)
        return {(each.topic, each.partition): (one.result(60).offset, one.result(60).timestamp) for each, one in answers.items()}

    def mine(name: str) -> dict[tuple[str, int], int]:
        return {key: getattr(partition_of(broker.found, *key), name) for key in keys}

    assert mine("log_start_offset") == {key: each[0] for key, each in told(OffsetSpec.earliest()).items()}
    assert mine("high_watermark") == mine("log_end_offset") == {key: each[0] for key, each in told(OffsetSpec.latest()).items()}
    assert mine("last_stable_offset") == {key: each[0] for key, each in told(OffsetSpec.latest(), IsolationLevel.READ_COMMITTED).items()}
    assert mine("last_stable_offset")[ORDERS, 1] == broker.filled.open_from < mine("high_watermark")[ORDERS, 1]
    largest = told(OffsetSpec.max_timestamp())
    for key in keys:
        info = partition_of(broker.found, *key)
        assert (_number(info.max_timestamp_offset), _number(info.max_timestamp)) == largest[key]
    for index, time in enumerate(TIMES):
        for key, answer in told(OffsetSpec.for_timestamp(time), IsolationLevel.READ_COMMITTED).items():
            found = partition_of(broker.found, *key).offsets_by_timestamp[index]
            assert (found.timestamp, _number(found.offset), _number(found.found_timestamp)) == (time, *answer)


def _number(value: int | None) -> int:
    return -1 if value is None else value


def test_get_offset_shell_agrees(broker: Broker) -> None:
    text = run_tool(GET_OFFSET_SHELL, "--bootstrap-server", broker.bootstrap, "--exclude-internal-topics", "--time", "latest")
    found = re.findall(r"^(.+):(\d+):(\d+)$", text, re.MULTILINE)
    expected = {key: partition_of(broker.found, *key).high_watermark for key in broker.filled.committed}
    assert {(topic, int(partition)): int(offset) for topic, partition, offset in found} == expected


def test_producers_transactions_and_groups(broker: Broker) -> None:
    for found in (broker.found, broker.from_files):
        producers = {each.transactional_id: each for each in partition_of(found, ORDERS, 1).producers if each.transactional_id}
        assert producers["orders-other"].current_txn_start_offset == broker.filled.open_from
        assert producers["orders-one"].current_txn_start_offset is None
        assert producers["orders-one"].last_sequence == 4 * 10 - 1
        states = {each.transactional_id: (each.state, each.partitions) for each in found.transactions}
        assert states == {"orders-one": ("CompleteCommit", ()), "orders-other": ("Ongoing", (f"{ORDERS}-1",))}
        offsets = {(each.group, each.topic, each.partition): (each.committed_offset, each.lag) for each in found.groups}
        end = partition_of(found, ORDERS, 1).high_watermark
        assert offsets == {(GROUP, ORDERS, 0): (100, 200), (GROUP, ORDERS, 1): (3, end - 3)}


def test_files_tell_what_the_broker_tells(broker: Broker) -> None:
    """But for leaders and the states of groups, which only it knows."""
    assert without_nature(broker.from_files) == without_nature(broker.found)
    quick = report(bootstrap_servers=broker.bootstrap, times=TIMES, scan=False, now_ms=lambda: START)
    assert without_nature(quick, counted=False) == without_nature(broker.found, counted=False)
    quick = report(data_dir=str(broker.data_dir), times=TIMES, scan=False, now_ms=lambda: START)
    assert without_nature(quick, counted=False) == without_nature(broker.found, counted=False)


def without_nature(found: OffsetReport, *, counted: bool = True) -> OffsetReport:
    topics = []
    for topic in found.topics:
        partitions = [replace(each, leader=None, contents=each.contents if counted else None) for each in topic.partitions]
        topics.append(replace(topic, partitions=tuple(partitions)))
    groups = tuple(replace(each, state=None) for each in found.groups)
    return replace(found, source="", topics=tuple(topics), groups=groups, is_scanned=counted)


SEEN: list[OffsetReport] = []


def test_both_brokers_give_one_report(broker: Broker) -> None:
    """The same was written to both; ids, clocks of markers, sizes of batches and how often a broker was asked to compact differ."""
    SEEN.append(own_things_out(broker.found))
    if len(SEEN) < 2:
        pytest.skip("the other broker comes next")
    assert SEEN[0] == SEEN[1]


def own_things_out(found: OffsetReport) -> OffsetReport:
    topics = []
    for topic in found.topics:
        if topic.topic == CHANGES:
            continue
        partitions = []
        for each in topic.partitions:
            times = tuple(replace(time, found_timestamp=None) for time in each.offsets_by_timestamp)
            producers = tuple(replace(one, producer_id=0, last_timestamp=0) for one in each.producers if one.transactional_id)
            assert each.contents is not None
            contents = replace(each.contents, batches=0, batch_bytes=0, codecs={})
            partitions.append(
                replace(
                    each,
                    leader=None,
                    size=0,
                    contents=contents,
                    max_timestamp=None,
                    max_timestamp_offset=None,
                    offsets_by_timestamp=times,
                    producers=producers,
                )
            )
        topics.append(replace(topic, topic_id="", partitions=tuple(partitions)))
    transactions = tuple(replace(each, producer_id=0, start_timestamp=0) for each in found.transactions)
    return replace(found, source="", cluster_id="", topics=tuple(topics), transactions=transactions)


def test_as_json_and_as_frames(spark: Any, broker: Broker) -> None:
    read = json.loads(broker.found.to_json())
    assert read["schema_version"] == 1
    orders = next(each for each in read["topics"] if each["topic"] == ORDERS)
    assert orders["partitions"][1]["contents"]["records"] == len(broker.filled.committed[ORDERS, 1].records)
    rows = {(row["topic"], row["partition"]): row for row in broker.found.frame(spark).collect()}
    assert {key: row["records"] for key, row in rows.items()} == {key: len(model.records) for key, model in broker.filled.committed.items()}
    assert rows[ORDERS, 1]["high_watermark"] == broker.filled.uncommitted[ORDERS, 1].end


def test_what_is_wrong_is_told(spark: Any, broker: Broker, tmp_path: Path) -> None:
    cluster: dict[str, Any] = {"bootstrap_servers": broker.bootstrap}
    files: dict[str, Any] = {"data_dir": str(broker.data_dir)}
    wrong: list[tuple[dict[str, Any], str]] = [
        ({**cluster, "topics": ["nobody"]}, "no topic nobody"),
        ({**files, "topics": ["nobody"]}, "nobody: no such topic"),
        ({"data_dir": str(tmp_path)}, "is not a Kafka log directory"),
        ({**cluster, "topics": [ORDERS], "ending": json.dumps({ORDERS: {0: 5000, 1: -1, 2: -1}})}, "orders-0 has no offset 5000"),
        ({**cluster, "topics": [ORDERS], "starting": json.dumps({ORDERS: {0: 1, 1: -2, 2: -2}})}, "older ones were deleted"),
        ({**cluster, **files}, "either bootstrap servers or a log directory"),
        ({**cluster, "bucket": "week"}, "must be day or hour"),
        ({**cluster, "gaps": -1}, "gaps must be at least 0"),
        ({**cluster, "isolation_level": "all"}, "got 'all'"),
    ]
    for arguments, words in wrong:
        with pytest.raises(SourceError, match=words) as caught:
            report(spark, **arguments)
        assert "\n" not in str(caught.value)
    with pytest.raises(SourceError, match="needs a Spark session"):
        report(**cluster)
