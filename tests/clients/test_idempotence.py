"""An idempotent producer whose answer is lost sends again, and the record is there once: real clients through a lossy proxy."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.clients.adapters import CLIENTS, Sent
from tests.support import java
from tests.support.broker_process import BrokerProcess
from tests.support.capture_proxy import RESPONSE, Captured, CaptureProxy
from tests.support.ports import free_port

PRODUCE = 0
TOPIC = "lossy"
VALUES = [b"%d" % i for i in range(30)]


class LossyProxy(CaptureProxy):
    """Every third answer to a Produce is lost together with its connection, three times in all."""

    seen = 0
    lost = 0

    def loses(self, frame: Captured) -> bool:
        if (frame.api_key, frame.direction) != (PRODUCE, RESPONSE):
            return False
        self.seen += 1
        if self.seen % 3 == 1 and self.lost < 3:
            self.lost += 1
            return True
        return False


@pytest.fixture
def lossy(tmp_path: Path) -> Iterator[tuple[BrokerProcess, LossyProxy]]:
    port = free_port()
    proxy_port = free_port()
    advertised = ("--set", f"advertised.listeners=PLAINTEXT://127.0.0.1:{proxy_port}")
    proxy = LossyProxy(proxy_port, ("127.0.0.1", port))
    with BrokerProcess(tmp_path, *advertised, port=port) as broker:
        yield broker, proxy
    proxy.close()


def by_kafka_python(bootstrap: str) -> None:
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True)
    for value in VALUES:
        producer.send(TOPIC, value, partition=0).get(timeout=60)
    producer.close()


def by_aiokafka(bootstrap: str) -> None:
    import asyncio

    from aiokafka import AIOKafkaProducer

    async def send() -> None:
        async with AIOKafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True) as producer:
            for value in VALUES:
                await asyncio.wait_for(producer.send_and_wait(TOPIC, value, partition=0), 30)

    asyncio.run(send())


def by_confluent_kafka(bootstrap: str) -> None:
    from tests.support.confluent import Producer

    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for value in VALUES:
        producer.produce(TOPIC, value, partition=0)
        assert producer.flush(60) == 0


def by_kcat(bootstrap: str) -> None:
    if shutil.which("kcat") is None:
        pytest.skip("kcat is not installed")
    batches = ("-X", "batch.num.messages=2", "-X", "enable.idempotence=true", "-X", "log_level=0")
    subprocess.run(
        ["kcat", "-E", "-b", bootstrap, "-P", "-t", TOPIC, "-p", "0", *batches], input=b"\n".join(VALUES), check=True, timeout=60
    )


def by_java(bootstrap: str) -> None:
    java.kafka_jars()
    properties = [word for setting in ("batch.size=1", "linger.ms=0", "retries=100") for word in ("--command-property", setting)]
    java.run_tool(java.CONSOLE_PRODUCER, "--bootstrap-server", bootstrap, "--topic", TOPIC, *properties, stdin=b"\n".join(VALUES).decode())


@pytest.mark.parametrize(
    "produce", [by_kafka_python, by_aiokafka, by_confluent_kafka, by_kcat, pytest.param(by_java, marks=pytest.mark.java)]
)
def test_a_lost_answer_makes_no_second_record(lossy: tuple[BrokerProcess, LossyProxy], produce: Callable[[str], None]) -> None:
    broker, proxy = lossy
    produce(f"127.0.0.1:{proxy.port}")
    assert proxy.lost == 3, "nothing was lost, so nothing was shown"
    found = CLIENTS["aiokafka"].read(f"127.0.0.1:{proxy.port}", TOPIC, count=len(VALUES))
    assert [(read.offset, read.record.value) for read in found] == list(enumerate(VALUES))
    assert CLIENTS["aiokafka"].write(f"127.0.0.1:{proxy.port}", TOPIC, [Sent(None, b"next")]) == [len(VALUES)]
    assert broker.stop() == 0
