"""Producers of three makes meet each fault: nothing is lost or doubled, they are fenced, or tell their application; and they recover."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Final

import confluent_kafka
import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError as AIOKafkaError
from kafka import KafkaProducer
from kafka.errors import KafkaError as KafkaPythonError

from minibroker.testing import BrokerThread
from minibroker.testing.lab.handles import Fault

TIMEOUT_S: Final = 30
REQUEST_TIMEOUT_MS: Final = 20_000  #: nobody gives up a request that is answered, however slow the machine
IMPATIENT_MS: Final = 1000  #: of who is never answered

#: name -> (kind, arguments); each hits one Produce
LOST_OR_LATE: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "refused": ("inject", {"error": "NOT_LEADER_OR_FOLLOWER"}),
    "storage": ("inject", {"error": "KAFKA_STORAGE_ERROR", "partition": 0}),
    "done and refused": ("inject", {"error": "NOT_ENOUGH_REPLICAS_AFTER_APPEND", "after": True}),
    "done and timed out": ("inject", {"error": "REQUEST_TIMED_OUT", "after": True, "partition": 0}),
    "cut before": ("disconnect", {"when": "before"}),
    "cut behind": ("disconnect", {"when": "after"}),
    "torn": ("tear", {"size": 21}),
    "late": ("delay", {"ms": 30}),
    "done late": ("delay", {"ms": 30, "when": "before"}),
    "throttled": ("throttle", {"ms": 30}),
    "not heard": ("silence", {"when": "before"}),
    "not answered": ("silence", {"when": "after"}),
}
SILENT: Final = {name for name, (kind, _) in LOST_OR_LATE.items() if kind == "silence"}
RETRIED: Final = set(LOST_OR_LATE) - {"late", "done late", "throttled"}


class Producer:
    """A client of some make that waits for each acknowledgement."""

    error: type[Exception]

    def send(self, value: str) -> None:
        """Send to partition 0 of "orders", and wait."""

    def begin(self) -> None:
        """A transaction."""

    def commit(self) -> None:
        """End it."""

    def close(self) -> None:
        """Leave."""


class KafkaPython(Producer):
    error = KafkaPythonError

    def __init__(
        self, bootstrap_servers: str, transactional_id: str | None = None, *, timeout_ms: int = REQUEST_TIMEOUT_MS, **more: Any
    ) -> None:
        timeouts = {
            "request_timeout_ms": timeout_ms, "retry_backoff_ms": 10, "reconnect_backoff_ms": 10, "delivery_timeout_ms": TIMEOUT_S * 1000,
        }  # fmt: skip
        self.client = KafkaProducer(
            bootstrap_servers=bootstrap_servers, transactional_id=transactional_id, **{"enable_idempotence": True} | timeouts | more
        )
        if transactional_id is not None:
            self.client.init_transactions()

    def send(self, value: str) -> None:
        self.client.send("orders", value.encode(), partition=0).get(TIMEOUT_S)

    def begin(self) -> None:
        self.client.begin_transaction()

    def commit(self) -> None:
        self.client.commit_transaction()

    def close(self) -> None:
        self.client.close(timeout=1)


class AIOKafka(Producer):
    error = AIOKafkaError

    def __init__(
        self, bootstrap_servers: str, transactional_id: str | None = None, *, timeout_ms: int = REQUEST_TIMEOUT_MS, **more: Any
    ) -> None:
        self.runner = asyncio.Runner()

        async def start() -> AIOKafkaProducer:
            client = AIOKafkaProducer(
                bootstrap_servers=bootstrap_servers,
                transactional_id=transactional_id,
                **{"enable_idempotence": True, "request_timeout_ms": timeout_ms, "retry_backoff_ms": 10} | more,
            )
            await client.start()
            return client

        self.client = self.runner.run(start())

    def send(self, value: str) -> None:
        self.runner.run(asyncio.wait_for(self.client.send_and_wait("orders", value.encode(), partition=0), TIMEOUT_S))

    def begin(self) -> None:
        self.runner.run(self.client.begin_transaction())

    def commit(self) -> None:
        self.runner.run(self.client.commit_transaction())

    def close(self) -> None:
        try:
            self.runner.run(self.client.stop())
        finally:
            self.runner.close()


class Confluent(Producer):
    error = confluent_kafka.KafkaException

    def __init__(
        self, bootstrap_servers: str, transactional_id: str | None = None, *, timeout_ms: int = REQUEST_TIMEOUT_MS, **more: Any
    ) -> None:
        config: dict[str, Any] = {
            "bootstrap.servers": bootstrap_servers,
            "enable.idempotence": True,
            "request.timeout.ms": timeout_ms,
            "socket.timeout.ms": timeout_ms,
            "retry.backoff.ms": 10,
            "reconnect.backoff.ms": 10,
            "linger.ms": 0,
            "error_cb": lambda _: None,
            "log_level": 0,
        }
        if transactional_id is not None:
            config |= {"transactional.id": transactional_id, "transaction.timeout.ms": 60_000}
        self.client = confluent_kafka.Producer(config | more)
        if transactional_id is not None:
            self.client.init_transactions(TIMEOUT_S)

    def send(self, value: str) -> None:
        errors: list[Any] = []
        self.client.produce("orders", value, partition=0, on_delivery=lambda error, _: errors.append(error))
        self.client.flush(TIMEOUT_S)
        assert errors, "no acknowledgement"
        if errors[0] is not None:
            raise confluent_kafka.KafkaException(errors[0])

    def begin(self) -> None:
        self.client.begin_transaction()

    def commit(self) -> None:
        self.client.commit_transaction(TIMEOUT_S)

    def close(self) -> None:
        self.client.flush(1)


Make = Callable[..., Producer]
MAKES: Final = [KafkaPython, AIOKafka, Confluent]


@pytest.fixture(scope="module")
def shared() -> Iterator[BrokerThread]:
    with BrokerThread(topics={"orders": 2}) as broker:
        yield broker
    gc.collect()  # aiokafka's tasks that failed say so when they are collected: not in the middle of another test


@pytest.fixture
def broker(shared: BrokerThread) -> BrokerThread:
    shared.reset()
    return shared


def inject(broker: BrokerThread, kind: str, api: str, **more: Any) -> Fault:
    found: Fault = getattr(broker.faults, kind)(api, **more).once()
    return found


def texts(broker: BrokerThread) -> list[str]:
    return [record.text for record in broker.records("orders", partition=0)]


@pytest.mark.parametrize("make", MAKES)
def test_lost_or_late_answers_are_retried_without_duplicates(broker: BrokerThread, make: Make) -> None:
    patient, impatient = make(broker.bootstrap_servers), make(broker.bootstrap_servers, timeout_ms=IMPATIENT_MS)
    patient.send("first")
    for name, (kind, more) in LOST_OR_LATE.items():
        fault = inject(broker, kind, "Produce", topic="orders", **more)
        (impatient if name in SILENT else patient).send(name)
        assert fault.hits == 1, name
        assert (fault.calls > 1) == (name in RETRIED), name
        fault.remove()
        assert texts(broker)[-1] == name
    patient.send("last")
    patient.close()
    impatient.close()
    assert texts(broker) == ["first", *LOST_OR_LATE, "last"]
    injected = broker.request_log.of("Produce", injected=True)
    assert [each.faults for each in injected][:2] == [("NOT_LEADER_OR_FOLLOWER",), ("KAFKA_STORAGE_ERROR",)]
    assert len(injected) == len(LOST_OR_LATE)
    assert len(broker.request_log.of("Produce", error="NOT_LEADER_OR_FOLLOWER")) == 1


@pytest.mark.parametrize("name", sorted(set(LOST_OR_LATE) - {"not heard", "not answered"}))
def test_requests_in_flight_together_keep_their_order(broker: BrokerThread, name: str) -> None:
    """One record a request, five requests on their way: what befalls one of them befalls those behind it, too."""
    kind, more = LOST_OR_LATE[name]
    fault = getattr(broker.faults, kind)("Produce", topic="orders", **more).probability(0.2, seed=3)
    producer = KafkaPython(broker.bootstrap_servers, batch_size=1)
    sent = [producer.client.send("orders", b"%d" % number, partition=0) for number in range(60)]
    assert [each.get(TIMEOUT_S).offset for each in sent] == list(range(60))
    producer.close()
    assert texts(broker) == [str(number) for number in range(60)]
    assert fault.hits >= 5


@pytest.mark.parametrize("make", MAKES)
def test_non_retriable_errors_are_raised(broker: BrokerThread, make: Make) -> None:
    plain = {"enable.idempotence": False} if make is Confluent else {"enable_idempotence": False}
    producer = make(broker.bootstrap_servers, **plain)
    for error in ("MESSAGE_TOO_LARGE", "INVALID_RECORD"):
        fault = inject(broker, "inject", "Produce", error=error, topic="orders", partition=0)
        with pytest.raises(producer.error):
            producer.send(error)
        assert (fault.calls, fault.hits) == (1, 1)
        producer.send(f"behind {error}")
    producer.close()
    assert texts(broker) == ["behind MESSAGE_TOO_LARGE", "behind INVALID_RECORD"]


@pytest.mark.parametrize("make", MAKES)
@pytest.mark.parametrize(
    ("api", "error"),
    [("EndTxn", "PRODUCER_FENCED"), ("Produce", "INVALID_PRODUCER_EPOCH"), ("AddPartitionsToTxn", "INVALID_PRODUCER_EPOCH")],
)
def test_fenced_producer_raises_and_the_next_one_continues(broker: BrokerThread, make: Make, api: str, error: str) -> None:
    zombie = make(broker.bootstrap_servers, transactional_id="till")
    zombie.begin()
    zombie.send("1")
    zombie.commit()
    zombie.begin()
    fault = broker.faults.inject(
        api, error, transactional_id="till" if api != "Produce" else None, topic="orders" if api == "Produce" else None
    ).always()

    def go_on() -> None:
        zombie.send("2")
        zombie.commit()

    with pytest.raises(zombie.error):
        go_on()
    assert fault.hits >= 1
    fault.remove()
    with suppress(zombie.error):
        zombie.close()
    another = make(broker.bootstrap_servers, transactional_id="till")
    another.begin()
    another.send("3")
    another.commit()
    another.close()
    assert texts(broker) == ["1", "3"]


@pytest.mark.parametrize("make", MAKES)
def test_transaction_survives_retriable_errors(broker: BrokerThread, make: Make) -> None:
    faults = [
        inject(broker, "inject", "FindCoordinator", error="COORDINATOR_NOT_AVAILABLE", transactional_id="till"),
        inject(broker, "inject", "InitProducerId", error="COORDINATOR_LOAD_IN_PROGRESS", transactional_id="till"),
        inject(broker, "inject", "EndTxn", error="CONCURRENT_TRANSACTIONS", transactional_id="till"),
        inject(broker, "inject", "Metadata", error="LEADER_NOT_AVAILABLE", topic="orders"),
    ]
    producer = make(broker.bootstrap_servers, transactional_id="till")
    cut = inject(broker, "disconnect", "EndTxn", when="after", transactional_id="till")
    for value in "12":
        producer.begin()
        producer.send(value)
        producer.commit()
    producer.close()
    assert [fault.hits for fault in [*faults, cut]] == [1] * 5
    assert texts(broker) == ["1", "2"]


def test_a_delay_is_by_the_brokers_clock(broker: BrokerThread) -> None:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)
    fault = inject(broker, "delay", "Produce", ms=3_600_000)
    sent = producer.send("orders", b"late", partition=0)
    assert [record.text for record in broker.records("orders", count=1)] == ["late"], "the work is done"
    assert not sent.is_done
    broker.advance(hours=1)
    assert sent.get(TIMEOUT_S).offset == 0
    assert fault.hits == 1
    producer.close()
