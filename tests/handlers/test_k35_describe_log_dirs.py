"""DescribeLogDirs: golden frames of real clients; which partitions are answered, as by Apache Kafka 4.3.1 to the same requests (raw frames,
one KRaft node, 2026-11-21)."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from minibroker.schemas import k35_describe_log_dirs as schema
from minibroker.storage.files import RealFiles
from tests.golden import all_golden, golden
from tests.handlers.kafka_answers import differences
from tests.support.broker_in_memory import BrokerInMemory, records
from tests.support.golden_exchange import answer_of, kafka_like

REQUESTS = sorted(name for name, frame in all_golden().items() if frame.stem == "k35_describe_log_dirs" and frame.direction == "request")
MADE = {"kafka-python", "golden"}


class UnknownVolumes(RealFiles):
    def volume(self, path: str) -> tuple[int, int]:
        raise OSError(5, "Input/output error", path)


def ask(broker: BrokerInMemory, topics: dict[str, list[int]] | None, version: int = 5) -> schema.Response:
    topic = None if topics is None else [schema.Topic(topic=name, partitions=indexes) for name, indexes in topics.items()]
    answer: schema.Response = broker.ask(schema.Request(topics=topic), version)
    return answer


def partitions(result: schema.LogDirResult) -> dict[str, list[int]]:
    return {topic.name: [partition.partition_index for partition in topic.partitions] for topic in result.topics}


@pytest.mark.parametrize("name", REQUESTS)
def test_golden_requests_match_kafka(name: str) -> None:
    """Of the topics that the clients' programs had made: Kafka's directory had more."""
    request = golden(name)
    expected = answer_of(request)
    counts = {topic: len(indexes) for topic, indexes in partitions(expected.results[0]).items() if topic in MADE}
    broker = kafka_like(topics=counts)

    answer = broker.ask(request.decode(), request.version)

    assert answer.error_code == expected.error_code == 0
    (ours,), (theirs,) = answer.results, expected.results
    assert partitions(ours) == {topic: sorted(indexes) for topic, indexes in partitions(theirs).items() if topic in MADE}
    assert (ours.error_code, ours.is_cordoned) == (theirs.error_code, theirs.is_cordoned)
    assert (ours.total_bytes == -1, ours.usable_bytes == -1) == (theirs.total_bytes == -1, theirs.usable_bytes == -1)


def test_sizes_match_the_log_files() -> None:
    broker = BrokerInMemory(topics={"orders": 2})
    broker.append("orders", 1, records(10))

    (result,) = ask(broker, {"orders": [0, 1]}).results

    size = (broker.folder / "orders-1" / "00000000000000000000.log").stat().st_size
    assert size > 0
    assert result.topics == [
        schema.TopicResult(
            name="orders",
            partitions=[
                schema.PartitionResult(partition_index=0, partition_size=0, offset_lag=0, is_future_key=False),
                schema.PartitionResult(partition_index=1, partition_size=size, offset_lag=0, is_future_key=False),
            ],
        )
    ]


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (None, {"d1": [0, 1, 2], "d2": [0, 1]}),
        ({}, {}),
        ({"nope": [0]}, {}),
        ({"d1": [7, -1]}, {}),
        ({"d1": []}, {}),
        ({"__cluster_metadata": [0]}, {}),
        ({"d1": [2, 0, 0], "nope": [0], "d2": [1]}, {"d1": [0, 2], "d2": [1]}),
    ],
    ids=["null", "empty", "unknown topic", "unknown partitions", "no partitions", "metadata log", "some"],
)
def test_requested_partitions(asked: dict[str, list[int]] | None, expected: dict[str, list[int]]) -> None:
    (result,) = ask(BrokerInMemory(topics={"d1": 3, "d2": 2}), asked).results
    assert result.error_code == 0
    assert partitions(result) == expected


def test_topic_listed_twice() -> None:
    broker = BrokerInMemory(topics={"d1": 3})
    topics = [schema.Topic(topic="d1", partitions=[2]), schema.Topic(topic="d1", partitions=[1])]
    (result,) = broker.ask(schema.Request(topics=topics)).results
    assert partitions(result) == {"d1": [1, 2]}


@pytest.mark.parametrize("version", range(6))
def test_volume_size_is_returned_from_version_4(version: int) -> None:
    broker = BrokerInMemory()
    (result,) = ask(broker, None, version).results
    if version < 4:
        assert (result.total_bytes, result.usable_bytes) == (-1, -1)
    else:
        assert result.total_bytes == shutil.disk_usage(broker.folder).total
        assert 0 < result.usable_bytes <= result.total_bytes
    assert result.is_cordoned is False


def test_every_directory_under_its_absolute_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    broker = BrokerInMemory(topics={"orders": 3}, folder=tmp_path, config={"log.dirs": "first,second"})

    results = ask(broker, None).results

    assert [result.log_dir for result in results] == [os.fspath(tmp_path / "first"), os.fspath(tmp_path / "second")]
    assert sorted(index for result in results for index in partitions(result)["orders"]) == [0, 1, 2]
    assert [partitions(result) for result in ask(broker, {}).results] == [{}, {}]


def test_deleted_topics_are_not_listed() -> None:
    broker = BrokerInMemory(topics={"orders": 1, "gone": 1})
    broker.cluster.delete_topic("gone")
    (result,) = ask(broker, None).results
    assert partitions(result) == {"orders": [0]}


def test_unreadable_volume() -> None:
    broker = BrokerInMemory(topics={"orders": 1}, files=UnknownVolumes())
    answer = ask(broker, None)
    assert answer.error_code == 0
    (result,) = answer.results
    assert (result.error_code, result.topics, result.total_bytes, result.usable_bytes) == (56, [], -1, -1)
    assert result.log_dir == os.fspath(broker.folder)


def test_scenario_matches_apache_kafka() -> None:
    assert differences("k35_describe_log_dirs") == []
