"""What clients do wrong under faults they do on Apache Kafka, too: a proxy before it does the same to their requests.

What tests/support/fault_round.py makes exceptions for is played on Apache Kafka and on a minibroker, both behind the proxy
(tests/support/faulting_proxy.py), as far as we know how it comes about; and whole schedules on Apache Kafka. Only in a soak
(MINIBROKER_SOAK=1): this is about clients.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from minibroker.testing import BrokerProcess, GivenCluster
from tests.clients.transactional import Place
from tests.support.fault_round import CONFIG, PARTITIONS, UNITS, Clients, play_on, topics_of
from tests.support.fault_schedule import Shape, draw
from tests.support.faulted_kafka import FaultedKafka
from tests.support.faulted_makes import all_makes
from tests.support.faulted_producers import KafkaPython, writer
from tests.support.faulting_proxy import FaultingProxy
from tests.support.kafka_process import KafkaProcess
from tests.support.ports import free_port
from tests.support.soak import IS_SOAK

pytestmark = [
    pytest.mark.java,
    pytest.mark.skipif(not IS_SOAK, reason="MINIBROKER_SOAK=1 plays it: it says nothing of the broker, but of clients"),
    pytest.mark.timeout(900),
]
PLACE = Place("orders", 0)


class Proxied:
    """A broker behind a proxy."""

    def __init__(self, proxy: FaultingProxy, port: int) -> None:
        self._proxy = proxy
        self._given = GivenCluster(f"127.0.0.1:{port}")
        self.bootstrap = f"127.0.0.1:{proxy.port}"

    def fail(self, api: str, error: str, make: str, **often: int) -> None:
        self._proxy.inject({"kind": "error", "api": api, "error": error, "client_id": writer(make), "often": often})

    def heal(self) -> None:
        self._proxy.clear()

    def asked(self, api: str) -> int:
        return sum(each.api == api for each in self._proxy.log)

    def texts(self) -> list[str]:
        """What read_committed reads."""
        return [each.text for each in self._given.records("orders")]


@pytest.fixture(params=["minibroker", "Apache Kafka"])
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Proxied]:
    port = free_port()
    proxy = FaultingProxy(0, port)
    address = f"PLAINTEXT://127.0.0.1:{proxy.port}"
    process: Any
    if request.param == "minibroker":
        process = BrokerProcess(port=port, config={"advertised.listeners": address})
    else:
        process = KafkaProcess(tmp_path, port=port, settings={"advertised.listeners": address})
    with process:
        found = Proxied(proxy, port)
        GivenCluster(f"127.0.0.1:{port}").create_topic("orders")
        yield found
        proxy.close()


def test_kafka_python_reports_a_commit_without_a_request(broker: Proxied) -> None:
    """Exception COMMITS_UNASKED."""
    producer = KafkaPython(broker.bootstrap, "till")
    producer.begin()
    broker.fail("Produce", "OUT_OF_ORDER_SEQUENCE_NUMBER", "kafka-python", times=1)
    producer.send(PLACE, "lost")
    producer.commit()
    producer.close()
    assert broker.texts() == []
    assert broker.asked("EndTxn") == 0


def test_kafka_python_commits_without_records_that_it_gave_up(broker: Proxied) -> None:
    """Exception LOOKS_AT_RECORDS: the commit raises nothing after a record that timed out, which is then there once or not at all."""
    producer = KafkaPython(broker.bootstrap, "till")
    producer.begin()
    broker.fail("AddPartitionsToTxn", "CONCURRENT_TRANSACTIONS", "kafka-python")
    producer.send(PLACE, "lost")
    (outcome,) = producer.outcomes()
    assert "Timeout" in str(outcome)
    assert broker.texts() == []
    broker.heal()
    producer.commit()
    producer.close()
    assert broker.texts() in ([], ["lost"])


@pytest.fixture(scope="module")
def makes() -> Iterator[Mapping[str, Clients]]:
    with all_makes() as found:
        yield found


@pytest.mark.parametrize("seed", range(3))
def test_a_schedule(seed: int, makes: Mapping[str, Clients], tmp_path: Path) -> None:
    topics = {topic: PARTITIONS for make in makes for topic in topics_of(make)}
    schedule = draw(seed, Shape([*makes], topics, UNITS))
    with FaultedKafka(tmp_path, topics, CONFIG) as kafka:
        played = play_on(kafka, schedule, makes)
    print(*played.summary, sep="\n")
    assert not played.complaints, played.told
