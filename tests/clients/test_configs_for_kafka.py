"""Every value of a topic config that we take is one on which Apache Kafka starts, for one that it does not take stops it altogether."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from minibroker.config.topic_properties import TOPIC_PROPERTIES
from minibroker.schemas import k03_metadata, k19_create_topics
from tests.differential.twins import Peer
from tests.support.becoming import wait_until
from tests.support.broker_process import BrokerProcess
from tests.support.kafka_process import KafkaProcess

VALUES = [
    "", "0", "1", "-1", "-2", "4", "14", "100", "0.0", "1.0", "0.5", "1e-3", " 7 ", "+7", "9", "22", "-131072", "2147483647",
    str(2**63 - 1), "true", "FALSE", "gzip", "producer", "uncompressed", "zstd", "delete", "compact", " compact", "compact, delete",
    "delete,delete", "CreateTime", "LogAppendTime", "*", "0:1", "NaN",
]  # fmt: skip


def topic(name: str, config: str, value: str) -> k19_create_topics.Topic:
    configs = [k19_create_topics.Config(name=config, value=value)]
    return k19_create_topics.Topic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=configs)


def listed(bootstrap: str) -> dict[str, int]:
    """Names of topics and error codes of their partitions."""
    answer: Any = Peer(bootstrap).ask(k03_metadata, 12, k03_metadata.Request(topics=None))
    return {each.name: max(partition.error_code for partition in each.partitions) for each in answer.topics}


@pytest.mark.timeout(600)
def test_apache_kafka_starts_on_every_config_that_we_take(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, "--set", "node.id=1") as broker:
        peer, made = Peer(broker.bootstrap), dict[str, int]()
        for i, name in enumerate(TOPIC_PROPERTIES):
            request = k19_create_topics.Request(topics=[topic(f"t{i}-{j}", name, value) for j, value in enumerate(VALUES)])
            answer: Any = peer.ask(k19_create_topics, 5, request)
            made |= {each.name: 0 for each in answer.topics if each.error_code == 0}
        assert len(made) > 5 * len(TOPIC_PROPERTIES)
        assert broker.stop() == 0
        (tmp_path / "kafka").mkdir()
        with KafkaProcess(tmp_path / "kafka", broker.data_dir) as kafka:
            wait_until(
                lambda: listed(kafka.bootstrap) == made,
                lambda: f"topics with leaders: {set(made.items()) ^ set(listed(kafka.bootstrap).items())}",
            )
            kafka.stop()
        broker.restart()
        assert listed(broker.bootstrap) == made
