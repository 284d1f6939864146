"""SIGKILL of the broker under a group of consumers, classic and of KIP-848: they go on in their generation or at their epochs, and nothing
is lost or read twice beyond a commit.
"""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.broker_process import BrokerProcess
from tests.support.soak import seed

KILLS = 4
PARTITIONS = 4
TOPIC = "shared"
TIMEOUT_S = 60.0


@pytest.mark.timeout(600)
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_goes_on(protocol: str, tmp_path: Path) -> None:
    from confluent_kafka.admin import NewTopic

    from tests.support.confluent import AdminClient, Producer

    moments = random.Random(seed())
    with BrokerProcess(tmp_path) as broker:
        server = {"bootstrap.servers": broker.bootstrap}
        admin = AdminClient(server)
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(60)
        producer = Producer(server | {"enable.idempotence": True})
        consumers = [consumer_of(server, protocol) for _ in range(2)]
        wanted, read = 0, set[bytes]()
        for _ in range(KILLS):
            for partition in range(PARTITIONS):
                for _ in range(50):
                    producer.produce(TOPIC, b"%d" % wanted, partition=partition)
                    wanted += 1
            producer.poll(0)
            read_for(consumers, read, moments.uniform(0.2, 1.0))
            broker.kill()
            broker.restart()
        producer.flush(60)
        deadline = time.monotonic() + TIMEOUT_S
        while len(read) < wanted and time.monotonic() < deadline:
            read_for(consumers, read, 0.2)
        assert read == {b"%d" % number for number in range(wanted)}
        for consumer in consumers:
            consumer.close()

        successor = consumer_of(server, protocol)
        again = set[bytes]()
        read_for([successor], again, 5.0)
        assert again == set()  # everything that was read was committed
        successor.close()
        assert broker.stop() == 0


def consumer_of(server: dict[str, str], protocol: str) -> Any:
    from tests.support.confluent import Consumer

    consumer = Consumer(
        server | {"group.id": "readers", "auto.offset.reset": "earliest", "enable.auto.commit": False, "group.protocol": protocol}
    )
    consumer.subscribe([TOPIC])
    return consumer


def read_for(consumers: list[Any], read: set[bytes], seconds: float) -> None:
    """Read with each of them in turn, and commit what was read; a commit that fails is made good by a later one."""
    from confluent_kafka import KafkaException

    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for consumer in consumers:
            messages = [message for message in consumer.consume(100, 0.05) if message.error() is None]
            read.update(message.value() for message in messages)
            if messages:
                try:
                    consumer.commit(asynchronous=False)
                except KafkaException as error:
                    print("not committed:", error)
