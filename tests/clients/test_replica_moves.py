"""Moving partitions by Kafka's own tool, and the directories afterwards: Apache Kafka opens ours, and we open Kafka's."""

from __future__ import annotations

from pathlib import Path

import pytest

from minibroker.schemas import k34_alter_replica_log_dirs as k34
from minibroker.schemas import k35_describe_log_dirs as k35
from minibroker.schemas import k44_incremental_alter_configs as k44
from tests.golden.admin_scenarios import create
from tests.golden.captures.admin import ask
from tests.golden.captures.log_dirs import REASSIGN_PARTITIONS_COMMAND, reassignment
from tests.support import java
from tests.support.becoming import becomes
from tests.support.broker_process import BrokerProcess
from tests.support.kafka_process import KafkaProcess

VALUES = [b"%d" % number * 100 for number in range(60)]


def produce(port: int, values: list[bytes]) -> None:
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=f"127.0.0.1:{port}", batch_size=500)  # segments are small
    for value in values:
        producer.send("golden", value, partition=0)
    producer.flush()
    producer.close()


def consumed(port: int) -> list[bytes]:
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(bootstrap_servers=f"127.0.0.1:{port}", auto_offset_reset="earliest", consumer_timeout_ms=3_000)
    consumer.assign([TopicPartition("golden", 0)])
    values = [record.value for record in consumer]
    consumer.close()
    return values


def homes(port: int) -> list[str]:
    """Directories that have golden-0, as a log or as a copy."""
    answer = ask(port, k35.Request(topics=[k35.Topic(topic="golden", partitions=[0])]))
    return [
        f"{result.log_dir}{'*' * each.is_future_key}" for result in answer.results for topic in result.topics for each in topic.partitions
    ]


def move(port: int, directory: str) -> None:
    topics = [k34.RequestTopic(name="golden", partitions=[0])]
    answer = ask(port, k34.Request(dirs=[k34.Directory(path=directory, topics=topics)]))
    assert answer.results[0].partitions[0].error_code == 0


def throttle(port: int, bytes_per_second: str | None) -> None:
    """For all moves of the broker; None for no limit."""
    operation = 1 if bytes_per_second is None else 0
    name = "replica.alter.log.dirs.io.max.bytes.per.second"
    configs = [k44.Config(name=name, config_operation=operation, value=bytes_per_second)]
    answer = ask(port, k44.Request(resources=[k44.Resource(resource_type=4, resource_name="1", configs=configs)], validate_only=False))
    assert answer.responses[0].error_code == 0


@pytest.mark.slow
def test_partition_moved_by_the_kafka_tool_is_found_by_kafka(tmp_path: Path) -> None:
    paths = [tmp_path / "data", tmp_path / "two"]
    directories = [str(path) for path in paths]
    (tmp_path / "kafka").mkdir()
    settings = {"log.dirs": ",".join(directories)}
    with BrokerProcess(tmp_path, log_dirs=paths) as broker:
        port = int(broker.bootstrap.rpartition(":")[2])
        ask(port, create("golden", 2, configs=[("internal.segment.bytes", "1000")], validate_only=False))
        produce(port, VALUES[:20])
        (source,) = homes(port)
        destination = directories[1 - directories.index(source)]
        file = tmp_path / "reassignment.json"
        file.write_text(reassignment(destination))
        at = ("--bootstrap-server", broker.bootstrap, "--reassignment-json-file", str(file))
        said = java.run_tool(REASSIGN_PARTITIONS_COMMAND, *at, "--execute")
        assert f"Successfully started moving log directory to {destination} for replica golden-0 with broker 1" in said
        assert becomes(lambda: homes(port) == [destination])
        assert "Reassignment of replica golden-0-1 completed successfully." in java.run_tool(REASSIGN_PARTITIONS_COMMAND, *at, "--verify")
        produce(port, VALUES[20:40])
        assert consumed(port) == VALUES[:40]
    with KafkaProcess(tmp_path / "kafka", Path(directories[0]), settings=settings) as kafka:
        assert homes(kafka.port) == [destination]
        assert consumed(kafka.port) == VALUES[:40]
        move(kafka.port, source)
        assert becomes(lambda: homes(kafka.port) == [source])
        produce(kafka.port, VALUES[40:])
    with BrokerProcess(tmp_path, log_dirs=paths) as broker:
        port = int(broker.bootstrap.rpartition(":")[2])
        assert homes(port) == [source]
        assert consumed(port) == VALUES


@pytest.mark.slow
def test_a_move_that_one_broker_began_is_finished_by_the_other(tmp_path: Path) -> None:
    paths = [tmp_path / "data", tmp_path / "two"]
    directories = [str(path) for path in paths]
    (tmp_path / "kafka").mkdir()
    settings = {"log.dirs": ",".join(directories)}
    with BrokerProcess(tmp_path, "--set", "replica.alter.log.dirs.io.max.bytes.per.second=10", log_dirs=paths) as broker:
        port = int(broker.bootstrap.rpartition(":")[2])
        ask(port, create("golden", 1, configs=[("internal.segment.bytes", "1000")], validate_only=False))
        produce(port, VALUES)
        (source,) = homes(port)
        destination = directories[1 - directories.index(source)]
        move(port, destination)
        assert becomes(lambda: len(list(Path(destination).glob("golden-0.*-future/*.log"))) == 1)
        broker.kill()
    with KafkaProcess(tmp_path / "kafka", Path(directories[0]), settings=settings) as kafka:
        assert becomes(lambda: homes(kafka.port) == [destination])
        assert consumed(kafka.port) == VALUES


@pytest.mark.slow
def test_move_started_by_kafka_is_restarted(tmp_path: Path) -> None:
    paths = [tmp_path / "data", tmp_path / "two"]
    directories = [str(path) for path in paths]
    settings = {"log.dirs": ",".join(directories)}
    (tmp_path / "kafka").mkdir()
    with BrokerProcess(tmp_path, log_dirs=paths) as broker:
        port = int(broker.bootstrap.rpartition(":")[2])
        ask(port, create("golden", 1, configs=[("internal.segment.bytes", "1000")], validate_only=False))
        produce(port, VALUES)
        (source,) = homes(port)
        destination = directories[1 - directories.index(source)]
    with KafkaProcess(tmp_path / "kafka", paths[0], settings=settings) as kafka:
        throttle(kafka.port, "10")
        move(kafka.port, destination)
        assert becomes(lambda: list(Path(destination).glob("golden-0.*-future")) != [])
        kafka.kill()
    assert Path(source, "golden-0").is_dir()
    with BrokerProcess(tmp_path, log_dirs=paths) as broker:
        port = int(broker.bootstrap.rpartition(":")[2])
        assert homes(port) == [source, f"{destination}*"]
        throttle(port, None)
        assert becomes(lambda: homes(port) == [destination])
        assert consumed(port) == VALUES
    assert not list(Path(destination).glob("*-future"))
