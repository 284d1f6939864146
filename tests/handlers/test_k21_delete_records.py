"""DeleteRecords: against a golden frame, the answers of Apache Kafka, and a log that has moved."""

from __future__ import annotations

import pytest

from minibroker.errors import OffsetOutOfRange
from minibroker.log.results import IsolationLevel
from minibroker.schemas import k21_delete_records as schema
from tests.golden import golden
from tests.handlers.kafka_answers import answered_versions, differences
from tests.support.broker_in_memory import BrokerInMemory, records


def request(offset: int) -> schema.Request:
    partition = schema.Partition(partition_index=0, offset=offset)
    return schema.Request(topics=[schema.Topic(name="orders", partitions=[partition])], timeout_ms=0)


def test_request_reads_as_the_java_client_meant_it() -> None:
    frame = golden("k21_delete_records_v2_request_java_4.3.1").decode()
    assert [partition.offset for topic in frame.topics for partition in topic.partitions] == [1]


def test_answers_as_apache_kafka_does() -> None:
    assert differences("k21_delete_records") == []


def test_every_version_is_answered() -> None:
    assert answered_versions("k21_delete_records") == {0, 1, 2}


@pytest.mark.parametrize(
    ("offset", "low_watermark", "error_code"),
    [(5, 5, 0), (-1, 10, 0), (0, 0, 0), (11, -1, 1), (-2, -1, 1)],
    ids=["inside", "high watermark", "start", "above the end", "senseless"],
)
def test_moves_log_start_offset(offset: int, low_watermark: int, error_code: int) -> None:
    broker = BrokerInMemory(topics={"orders": 1})
    broker.append("orders", 0, records(10))

    answer = broker.ask(request(offset))

    expected = schema.PartitionResult(partition_index=0, low_watermark=low_watermark, error_code=error_code)
    assert answer.topics[0].partitions[0] == expected


def test_never_moves_back() -> None:
    broker = BrokerInMemory(topics={"orders": 1})
    broker.append("orders", 0, records(10))
    broker.ask(request(7))
    assert broker.ask(request(3)).topics[0].partitions[0].low_watermark == 7


@pytest.mark.parametrize("clean", [True, False], ids=["clean stop", "killed after a checkpoint"])
def test_survives_a_restart(clean: bool) -> None:
    broker = BrokerInMemory(topics={"orders": 1})
    broker.append("orders", 0, records(10))
    broker.ask(request(5))
    broker.clock.advance(60_000)  # log.flush.offset.checkpoint.interval.ms

    log = broker.restart(clean=clean).cluster.partition("orders", 0).log

    assert (log.log_start_offset, log.log_end_offset) == (5, 10)
    with pytest.raises(OffsetOutOfRange):
        log.read(4, 100, isolation=IsolationLevel.READ_UNCOMMITTED)
