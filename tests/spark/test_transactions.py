"""Spark reads topics with committed, aborted and open transactions: under read_committed exactly the committed rows.

Proved against Apache Kafka, too: `pytest tests/spark/test_transactions.py --bootstrap-server HOST:PORT`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.clients.adapters import CLIENTS, Sent
from tests.spark.test_batch import offsets_by_partition, read
from tests.spark.test_streaming import Pipeline
from tests.support.broker_process import BrokerProcess
from tests.support.transactional_writer import TransactionalWriter

COMMITTED = {"kafka.isolation.level": "read_committed"}
UNCOMMITTED = {"kafka.isolation.level": "read_uncommitted"}
#: Half an hour from now: the markers have the broker's time, and must not be what a look-up by timestamp finds.
T = int(time.time() * 1000) + 1_800_000


def values_of(prefix: str, count: int) -> list[bytes]:
    return [b"%s-%d" % (prefix.encode(), number) for number in range(count)]


class Filled(NamedTuple):
    """A topic with transactions of all kinds; see the offsets below."""

    topic: str
    writer: TransactionalWriter  #: of the transaction that is open


#: Partition 0 (`*` is a marker): 0-4 committed 5*, 6-10 aborted 11*, 12-16 without, 17-19 committed 20*, 21-23 open, 24-26 without.
COMMITTED_0 = [*range(5), *range(12, 20)]
DATA_0 = [*range(5), *range(6, 11), *range(12, 20), *range(21, 27)]
#: Partition 1: two producers in turn, then the abort of the one, more of the other, its commit.
COMMITTED_1 = [0, 2, 4, 6, 9, 10]
DATA_1 = [*range(8), 9, 10]


@pytest.fixture(scope="module")
def filled(bootstrap: str) -> Iterator[Filled]:
    from confluent_kafka.admin import NewTopic

    from tests.support.confluent import AdminClient

    topic = f"spark-transactions-{datetime.now(UTC):%H%M%S%f}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, 2, 1, config={"retention.ms": "-1"})])[topic].result(timeout=60)
    one, other = (TransactionalWriter(bootstrap, f"{topic}-{name}") for name in ("one", "other"))
    assert one.committed(topic, values_of("committed", 5), timestamp=T) == [*range(5)]
    assert other.aborted(topic, values_of("aborted", 5), timestamp=T + 6) == [*range(6, 11)]
    without(bootstrap, topic, values_of("without", 5), timestamp=T + 12)
    assert one.committed(topic, values_of("again", 3), timestamp=T + 17) == [*range(17, 20)]

    one.begin()
    other.begin()
    for number in range(4):
        assert one.send(topic, [b"one-%d" % number], partition=1) == [2 * number]
        assert other.send(topic, [b"other-%d" % number], partition=1) == [2 * number + 1]
    other.abort()
    assert one.send(topic, values_of("rest", 2), partition=1) == [9, 10]
    one.commit()

    other.begin()
    assert other.send(topic, values_of("open", 3), timestamp=T + 21) == [*range(21, 24)]
    without(bootstrap, topic, values_of("behind", 3), timestamp=T + 24)
    yield Filled(topic, other)
    other.abort()


def without(bootstrap: str, topic: str, values: list[bytes], timestamp: int = T) -> None:
    """Records outside any transaction."""
    rows = [Sent(None, value, (), timestamp + number) for number, value in enumerate(values)]
    CLIENTS["confluent-kafka"].write(bootstrap, topic, rows)


def test_exactly_the_committed_rows(spark: Any, kafka: dict[str, str], filled: Filled) -> None:
    found = read(spark, kafka, subscribe=filled.topic, **COMMITTED).selectExpr("partition", "offset", "cast(value as string) value")
    values = [values_of("committed", 5) + values_of("without", 5) + values_of("again", 3), values_of("one", 4) + values_of("rest", 2)]
    expected = [
        (partition, offset, value.decode())
        for partition, offsets in enumerate((COMMITTED_0, COMMITTED_1))
        for offset, value in zip(offsets, values[partition], strict=True)
    ]
    assert sorted((row.partition, row.offset, row.value) for row in found.collect()) == expected


def test_uncommitted_rows_are_all_but_the_markers(spark: Any, kafka: dict[str, str], filled: Filled) -> None:
    for options in ({}, UNCOMMITTED):  # it is the default
        frame = read(spark, kafka, subscribe=filled.topic, **options)
        assert offsets_by_partition(frame) == {0: DATA_0, 1: DATA_1}


def test_ranges_that_start_and_end_anywhere(spark: Any, kafka: dict[str, str], filled: Filled) -> None:
    """On committed rows, markers and aborted rows, of several rows and of none."""
    ranges = [(0, 6), (4, 5), (5, 6), (5, 13), (6, 12), (7, 9), (8, 18), (10, 12), (11, 21), (19, 21), (20, 21), (21, 21)]
    frame = None
    for start, end in ranges:
        bounds = {"startingOffsets": json.dumps({filled.topic: {"0": start}}), "endingOffsets": json.dumps({filled.topic: {"0": end}})}
        one = read(spark, kafka, assign=json.dumps({filled.topic: [0]}), **bounds, **COMMITTED)
        one = one.selectExpr(f"{start} as start", f"{end} as end", "offset")
        frame = one if frame is None else frame.union(one)
    assert frame is not None
    found: dict[tuple[int, int], list[int]] = {each: [] for each in ranges}
    for row in frame.collect():
        found[row.start, row.end].append(row.offset)
    assert {each: sorted(offsets) for each, offsets in found.items()} == {
        (start, end): [offset for offset in COMMITTED_0 if start <= offset < end] for start, end in ranges
    }


def test_an_aborted_transaction_that_began_before_the_range(spark: Any, kafka: dict[str, str], filled: Filled) -> None:
    start = json.dumps({filled.topic: {"1": 5}})
    frame = read(spark, kafka, assign=json.dumps({filled.topic: [1]}), startingOffsets=start, **COMMITTED)
    assert offsets_by_partition(frame) == {1: [6, 9, 10]}


def test_split_ranges(spark: Any, kafka: dict[str, str], filled: Filled) -> None:
    frame = read(spark, kafka, subscribe=filled.topic, minPartitions="12", **COMMITTED)
    assert frame.rdd.getNumPartitions() >= 12
    assert offsets_by_partition(frame) == {0: COMMITTED_0, 1: COMMITTED_1}


@pytest.mark.parametrize(
    ("isolation", "starting", "ending", "expected"),
    [
        (COMMITTED, 8, 18, [*range(12, 18)]),  # an aborted row is found by its timestamp like any other
        (COMMITTED, 18, 22, [18, 19]),  # no timestamp beyond the last stable offset: to the end of what is committed
        (UNCOMMITTED, 18, 22, [18, 19, 21]),
        (COMMITTED, 22, 26, []),
        (UNCOMMITTED, 22, 26, [*range(22, 26)]),
    ],
)
def test_offsets_by_timestamp(
    spark: Any, kafka: dict[str, str], filled: Filled, isolation: dict[str, str], starting: int, ending: int, expected: list[int]
) -> None:
    bounds = {"startingTimestamp": str(T + starting), "endingTimestamp": str(T + ending), "startingOffsetsByTimestampStrategy": "latest"}
    frame = read(spark, kafka, assign=json.dumps({filled.topic: [0]}), **bounds, **isolation)
    assert offsets_by_partition(frame).get(0, []) == expected


def test_large_transactions_over_several_segments(spark: Any, kafka: dict[str, str], bootstrap: str, new_topic: Callable[..., str]) -> None:
    """More than one Fetch long (1 MiB a partition), and longer than a segment: each Fetch must tell of the abort, however far it is."""
    topic = new_topic(**{"segment.bytes": "1048576", "retention.ms": "-1"})
    writers = [TransactionalWriter(bootstrap, f"{topic}-{number}") for number in range(2)]
    for writer in writers:
        writer.begin()
    kept: list[int] = []
    for step in range(12):
        kept += writers[0].send(topic, [b"%d" % step * 100_000] * 3)
        writers[1].send(topic, [b"x" * 100_000] * 3)
    writers[1].abort()
    writers[0].commit()
    options = {"subscribe": topic, **COMMITTED}
    found = read(spark, kafka, **options).selectExpr("offset", "substring(cast(value as string), 1, 1) as first").collect()
    assert sorted((row.offset, row.first) for row in found) == [(offset, str(number // 3)[0]) for number, offset in enumerate(kept)]
    middle = read(spark, kafka, startingOffsets=json.dumps({topic: {"0": 40}}), minPartitions="5", **options)
    assert offsets_by_partition(middle) == {0: [offset for offset in kept if offset >= 40]}


class Stream:
    """A running query; each batch by its range of offsets and its rows."""

    def __init__(self, spark: Any, kafka: dict[str, str], topic: str, folder: Path, **options: str) -> None:
        self._rows: dict[int, list[str]] = {}
        self._seen = -1
        settings = {**kafka, "subscribe": topic, "startingOffsets": "earliest", **COMMITTED, **options}
        stream = spark.readStream.format("kafka").options(**settings).load()
        writing = stream.selectExpr("offset", "cast(value as string) as value").writeStream.foreachBatch(self._take)
        self._topic = topic
        self.query = writing.option("checkpointLocation", str(folder / "checkpoint")).start()

    def _take(self, frame: Any, batch_id: int) -> None:
        self._rows[batch_id] = [row.value for row in sorted(frame.collect())]

    def batches(self) -> list[tuple[int, int, list[str]]]:
        """Those since the last call, when all that is there has been read: (offset from, to, values)."""
        self.query.processAllAvailable()
        found: dict[int, tuple[int, int, list[str]]] = {}
        for progress in self.query.recentProgress:
            batch_id, (source,) = progress["batchId"], json.loads(progress.json)["sources"]
            start, end = ((source[name] or {}).get(self._topic, {"0": 0})["0"] for name in ("startOffset", "endOffset"))
            if batch_id > self._seen and start != end:
                found[batch_id] = (start, end, self._rows[batch_id])
        self._seen = max(found, default=self._seen)
        return [batch for _, batch in sorted(found.items())]


@pytest.mark.timeout(600)
def test_micro_batches_through_markers_and_aborts(spark: Any, kafka: dict[str, str], bootstrap: str, topic: str, tmp_path: Path) -> None:
    """Batches of at most three offsets: without any row, starting or ending on what is no committed row, with a gap inside."""
    writer = TransactionalWriter(bootstrap, topic)
    stream = Stream(spark, kafka, topic, tmp_path, maxOffsetsPerTrigger="3")
    try:
        assert stream.batches() == []
        writer.begin()
        writer.send(topic, [b"%d" % i for i in range(5)])
        assert stream.batches() == []
        writer.commit()
        assert stream.batches() == [(0, 3, ["0", "1", "2"]), (3, 6, ["3", "4"])]  # five records and a marker: the latest offset is 6
        writer.aborted(topic, [b"%d" % i for i in range(5, 10)])
        assert stream.batches() == [(6, 9, []), (9, 12, [])]
        writer.committed(topic, [b"%d" % i for i in range(10, 15)])
        assert stream.batches() == [(12, 15, ["10", "11", "12"]), (15, 18, ["13", "14"])]
        writer.committed(topic, [b"15"])
        writer.aborted(topic, [b"16"])
        writer.committed(topic, [b"17"])
        assert [each for batch in stream.batches() for each in batch[2]] == ["15", "17"]
        other = TransactionalWriter(bootstrap, f"{topic}-other")
        for each in (writer, other):
            each.begin()
        for number in range(18, 21):
            assert writer.send(topic, [b"%d" % number]) < other.send(topic, [b"aborted"])
        other.abort()
        assert stream.batches() == []
        writer.commit()
        without(bootstrap, topic, [b"21"])
        found = stream.batches()
        assert (found[0][0], found[-1][1]) == (24, 33)
        assert [each for batch in found for each in batch[2]] == ["18", "19", "20", "21"]
    finally:
        stream.query.stop()


def test_a_restarted_query_waits_for_the_open_transaction(
    spark: Any, kafka: dict[str, str], bootstrap: str, topic: str, tmp_path: Path
) -> None:
    pipeline = Pipeline(spark, kafka, topic, tmp_path, **COMMITTED)
    writers = [TransactionalWriter(bootstrap, f"{topic}-{number}") for number in range(2)]
    without(bootstrap, topic, [b"0"])
    writers[0].begin()
    assert writers[0].send(topic, [b"1"]) == [1]
    assert writers[1].committed(topic, [b"2"]) == [2]
    pipeline.run()
    assert pipeline.rows() == [(0, 0, "0")]
    writers[0].commit()
    pipeline.run()
    assert pipeline.rows() == [(0, 0, "0"), (0, 1, "1"), (0, 2, "2")]
    writers[0].aborted(topic, [b"3"])
    pipeline.run()  # ends on a marker
    writers[1].committed(topic, [b"4"])
    pipeline.run()
    assert pipeline.rows() == [(0, 0, "0"), (0, 1, "1"), (0, 2, "2"), (0, 7, "4")]


def test_a_broker_killed_in_the_middle_of_a_transaction(spark: Any, tmp_path: Path) -> None:
    """What is open holds the reader back also after the restart, and no longer once it is ended: nothing is stuck, nothing is lost."""
    with BrokerProcess(tmp_path) as broker:
        options = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": "killed", **COMMITTED}
        writer = TransactionalWriter(broker.bootstrap, "killed")
        writer.committed("killed", [b"0", b"1"])
        writer.begin()
        writer.send("killed", [b"lost"])
        without(broker.bootstrap, "killed", [b"behind"])
        broker.kill()
        broker.restart()
        assert offsets_by_partition(read(spark, options)) == {0: [0, 1]}
        again = TransactionalWriter(broker.bootstrap, "killed")
        assert offsets_by_partition(read(spark, options)) == {0: [0, 1, 4]}
        again.committed("killed", [b"2"])
        assert offsets_by_partition(read(spark, options)) == {0: [0, 1, 4, 6]}
