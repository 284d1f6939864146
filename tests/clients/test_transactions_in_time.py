"""Transactions and time: one that nobody ends is aborted at its time-out; a reader that waits hears of the end of a transaction."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.clients.adapters import CLIENTS, Sent
from tests.clients.makes import IN_PROCESS, NAMES, Clients, each_of, unique
from tests.clients.transactional import READ_COMMITTED, READ_UNCOMMITTED, Place, Row
from tests.conftest import NO_RETENTION
from tests.support.broker_process import BrokerProcess

TIMEOUT_MS = 4_000  #: enough for a machine that is busy to write a record
OFTEN = "transaction.abort.timed.out.transaction.cleanup.interval.ms=200"  #: by default it is looked every 10 s


@pytest.fixture(scope="module")
def bootstrap(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    given = request.config.getoption("--bootstrap-server")
    if given:
        yield given
        return
    with BrokerProcess(tmp_path_factory.mktemp("broker"), *NO_RETENTION, "--set", OFTEN) as broker:
        yield broker.bootstrap
        assert broker.stop() == 0, broker.output


@pytest.fixture(scope="module")
def clients(bootstrap: str) -> Iterator[Clients]:
    with Clients(bootstrap) as clients:
        yield clients


@each_of(NAMES)
def test_abandoned_transaction_is_aborted(name: str, clients: Clients, topic: str) -> None:
    reader, place, transactional_id = IN_PROCESS["confluent-kafka"], Place(topic, 0), unique("slow")
    producer = clients[name].open(clients.bootstrap, transactional_id, timeout_ms=TIMEOUT_MS)
    producer.begin()
    producer.send(place, b"too slow")
    producer.flush()
    CLIENTS["aiokafka"].write(clients.bootstrap, topic, [Sent(None, b"behind")])
    deadline = time.monotonic() + 60
    while reader.read(clients.bootstrap, READ_COMMITTED, {place: 0})[place] != [Row(1, b"behind")]:
        assert time.monotonic() < deadline, "it stays open"
    with pytest.raises(Exception):  # noqa: B017, PT011  each make has its own words for it
        producer.commit()
    producer.close()
    producer = clients[name].open(clients.bootstrap, transactional_id)
    producer.begin()
    producer.send(place, b"in time")
    producer.commit()
    producer.close()
    assert reader.read(clients.bootstrap, READ_COMMITTED, {place: 2})[place] == [Row(1, b"behind"), Row(3, b"in time")]
    assert reader.read(clients.bootstrap, READ_UNCOMMITTED, {place: 3})[place][0] == Row(0, b"too slow")


@pytest.mark.parametrize("ends_with", ["commit", "abort"])
def test_waiting_fetch_is_answered_when_the_transaction_ends(ends_with: str, clients: Clients, topic: str) -> None:
    """The records have been there for long when the last stable offset passes them: no append of data wakes the reader."""
    from confluent_kafka import TopicPartition

    from tests.support.confluent import Consumer

    place = Place(topic, 0)
    producer = IN_PROCESS["aiokafka"].open(clients.bootstrap, unique("awaited"))
    producer.begin()
    producer.send(place, b"in a transaction")
    producer.flush()
    CLIENTS["aiokafka"].write(clients.bootstrap, topic, [Sent(None, b"behind")])
    consumer = Consumer(
        {
            "bootstrap.servers": clients.bootstrap,
            "group.id": "not-used",
            "isolation.level": READ_COMMITTED,
            "fetch.wait.max.ms": 200_000,
            "socket.timeout.ms": 250_000,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(consumer.poll, 120)
            with pytest.raises(TimeoutError):
                waiting.result(1)
            getattr(producer, ends_with)()
            message = waiting.result()
        assert message is not None, "the Fetch sleeps"
        assert message.value() == (b"in a transaction" if ends_with == "commit" else b"behind")
    finally:
        consumer.close()
        producer.close()
