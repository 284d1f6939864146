"""AlterReplicaLogDirs: the answers of Apache Kafka (tests/golden/captures/log_dirs.py), and what DescribeLogDirs shows meanwhile."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from minibroker.schemas import k34_alter_replica_log_dirs as schema
from minibroker.schemas import k35_describe_log_dirs as k35
from tests.golden import all_golden
from tests.golden.captures.log_dirs import FILE, SCENES, TOPICS, codes, request
from tests.support.broker_in_memory import BrokerInMemory, records

REQUESTS = sorted(
    name for name, frame in all_golden().items() if frame.stem == "k34_alter_replica_log_dirs" and frame.direction == "request"
)


def broker_of(folder: Path, **config: str) -> tuple[BrokerInMemory, list[str]]:
    """A broker with two log directories, and their paths."""
    paths = [str(folder / "one"), str(folder / "two")]
    settings = {"log.dirs": ",".join(paths)} | {name.replace("_", "."): value for name, value in config.items()}
    return BrokerInMemory(topics=TOPICS, config=settings, folder=folder), paths


def listed(broker: BrokerInMemory, index: int) -> dict[str, list[tuple[int, int, bool]]]:
    """Of a partition of `golden`: name of the directory -> size, offset_lag and is_future_key."""
    topics = [k35.Topic(topic="golden", partitions=[index])]
    return {
        Path(result.log_dir).name: [(each.partition_size, each.offset_lag, each.is_future_key) for each in topic.partitions]
        for result in broker.ask(k35.Request(topics=topics)).results
        for topic in result.topics
    }


def test_answers_as_apache_kafka_does(tmp_path: Path) -> None:
    broker, paths = broker_of(tmp_path)
    for scene, expected in zip(SCENES, json.loads(FILE.read_text())["scenes"], strict=True):
        assert codes(broker.ask(request(scene, paths))) == expected
        broker.clock.advance(1_000)
    assert [list(listed(broker, index)) for index in range(4)] == [["one"], ["one"], ["two"], ["two"]]


@pytest.mark.parametrize("name", REQUESTS)
def test_requests_of_clients_are_answered(name: str, tmp_path: Path) -> None:
    frame = all_golden()[name]
    requested_values: schema.Request = frame.decode()
    broker, _ = broker_of(tmp_path)
    answer = broker.ask(requested_values, frame.version)
    requested = {(topic.name, index) for each in requested_values.dirs for topic in each.topics for index in topic.partitions}
    assert {(topic.topic_name, each.partition_index) for topic in answer.results for each in topic.partitions} == requested


def test_every_version_has_golden_frames() -> None:
    assert {all_golden()[name].version for name in REQUESTS} == {1, 2}


def test_future_log_is_listed_until_it_replaces_the_log(tmp_path: Path) -> None:
    broker, paths = broker_of(tmp_path, replica_alter_log_dirs_io_max_bytes_per_second="100")
    broker.cluster.configs.alter_topic("golden", {"segment.bytes": "150"})
    for _ in range(6):
        broker.append("golden", 0, records(3))
    size = broker.cluster.partition("golden", 0).log.segments.size
    (source,) = listed(broker, 0)
    destination = "two" if source == "one" else "one"

    broker.ask(request([(str(tmp_path / destination), [("golden", [0])])], paths))
    shown = []
    while source in (found := listed(broker, 0)):
        assert found[source] == [(size, 0, False)]
        shown += found[destination]
        broker.clock.advance(1_000)

    assert shown[0] == (0, 18, True)
    assert len(shown) > 3
    assert [copied for copied, _, _ in shown] == sorted(copied for copied, _, _ in shown)
    assert [lag for _, lag, _ in shown] == sorted((lag for _, lag, _ in shown), reverse=True)
    assert found == {destination: [(size, 0, False)]}


def test_many_moves_are_started_in_slices(tmp_path: Path) -> None:
    broker, paths = broker_of(tmp_path)
    broker.cluster.create_topic("many", partition_count=40)
    now = iter(range(10_000))
    broker.services.slices.now_s = lambda: float(next(now))  # each look at the clock ends a slice
    pending = broker.begin(request([(paths[1], [("many", list(range(40)))])], paths))
    assert not pending.is_done
    begun = len(broker.cluster.logs.future_logs(broker.cluster.log_directories[1]))
    assert 0 < begun < 20
    broker.clock.advance(1_000)
    assert codes(pending.answer()) == {"many": {str(index): 0 for index in range(40)}}
    broker.clock.advance(10_000)
    assert sum(topic == "many" for topic, _ in broker.cluster.log_directories[1].logs) == 40
