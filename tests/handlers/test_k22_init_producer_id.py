"""InitProducerId: golden frames of real clients; codes as Apache Kafka 4.3.1 gave them to the same requests (raw frames, one KRaft node,
2026-11-21). What a transactional id may do when: tests/coordinator/transaction."""

from __future__ import annotations

import errno

import pytest

from minibroker.coordinator.transaction.records import TransactionMetadata, TransactionState
from minibroker.schemas import k00_produce
from minibroker.schemas import k22_init_producer_id as schema
from tests.golden import all_golden, golden
from tests.handlers.kafka_answers import differences
from tests.support.broker_in_memory import BrokerInMemory, records
from tests.support.faulty_files import FaultyFiles
from tests.support.golden_exchange import answer_of, kafka_answer, kafka_like, serve
from tests.support.transactional_ids import TOPIC, broker_that_knows, coordinator_of, init_producer

REFUSED_IDS = (-1, -1)

REQUESTS = sorted(name for name, frame in all_golden().items() if frame.stem == "k22_init_producer_id" and frame.direction == "request")


def ask(
    broker: BrokerInMemory,
    transactional_id: str | None = None,
    *,
    version: int = 5,
    timeout_ms: int = 60_000,
    producer_id: int = -1,
    producer_epoch: int = -1,
) -> schema.Response:
    request = schema.Request(
        transactional_id=transactional_id, transaction_timeout_ms=timeout_ms, producer_id=producer_id, producer_epoch=producer_epoch
    )
    answer: schema.Response = broker.ask(request, version)
    return answer


@pytest.mark.parametrize("name", REQUESTS)
def test_golden_requests_get_kafka_bytes(name: str) -> None:
    request = golden(name)
    answer = answer_of(request)
    transactional_id = request.decode().transactional_id
    broker = kafka_like()
    coordinator_of(broker)
    if answer.producer_epoch:
        before = TransactionMetadata(transactional_id, answer.producer_id, answer.producer_epoch - 1, 60_000, TransactionState.EMPTY, 0)
        broker = broker_that_knows(broker, [before])
    else:
        for _ in range(answer.producer_id):
            broker.cluster.metadata.allocate_producer_id()

    assert serve(broker, request) == kafka_answer(request)


@pytest.mark.parametrize("version", range(6))
def test_every_answer_has_a_new_producer_id(version: int) -> None:
    broker = BrokerInMemory()
    answers = [ask(broker, version=version) for _ in range(3)]
    assert [(answer.error_code, answer.producer_id, answer.producer_epoch) for answer in answers] == [(0, 0, 0), (0, 1, 0), (0, 2, 0)]


@pytest.mark.parametrize("clean", [True, False])
def test_producer_ids_are_never_reused(clean: bool) -> None:
    broker = BrokerInMemory()
    assert [ask(broker).producer_id for _ in range(1001)] == list(range(1001))
    assert ask(broker.restart(clean=clean)).producer_id == 2000  # the block of the broker that ended is not used up


@pytest.mark.parametrize("timeout_ms", [0, -1, 2**31 - 1])
def test_timeout_is_ignored_without_a_transactional_id(timeout_ms: int) -> None:
    assert ask(BrokerInMemory(), timeout_ms=timeout_ms).error_code == 0


@pytest.mark.parametrize("had", [(5, 3), (-7, -7), (2**63 - 1, 2**15 - 1)])
def test_given_producer_id_is_ignored_without_a_transactional_id(had: tuple[int, int]) -> None:
    answer = ask(BrokerInMemory(), producer_id=had[0], producer_epoch=had[1])
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (0, 0, 0)


@pytest.mark.parametrize("half", [{"producer_id": 5}, {"producer_epoch": 5}])
@pytest.mark.parametrize("transactional_id", [None, "x"])
def test_id_without_epoch_is_refused(half: dict[str, int], transactional_id: str | None) -> None:
    answer = ask(BrokerInMemory(), transactional_id, **half)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (42, *REFUSED_IDS)


@pytest.mark.parametrize("version", range(6))
def test_empty_transactional_id(version: int) -> None:
    broker = BrokerInMemory()
    coordinator_of(broker)
    answer = ask(broker, "", version=version)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (42, *REFUSED_IDS)
    assert ask(broker).producer_id == 0  # no id was spent on it


@pytest.mark.parametrize("version", range(6))
def test_each_owner_of_a_transactional_id_gets_a_new_epoch(version: int) -> None:
    broker = BrokerInMemory()
    coordinator_of(broker)
    answers = [ask(broker, each, version=version) for each in ("payments", "payments", "orders", "payments")]
    assert [(each.error_code, each.producer_id, each.producer_epoch) for each in answers] == [(0, 0, 0), (0, 0, 1), (0, 1, 0), (0, 0, 2)]


@pytest.mark.parametrize("version", range(6))
def test_only_find_coordinator_creates_the_state_topic(version: int) -> None:
    broker = BrokerInMemory()
    assert ask(broker, "payments", version=version).error_code == 16
    assert TOPIC not in broker.cluster.topics


@pytest.mark.parametrize(("timeout_ms", "error_code"), [(0, 50), (-1, 50), (900_001, 50), (900_000, 0), (1, 0)])
def test_time_outs(timeout_ms: int, error_code: int) -> None:
    broker = BrokerInMemory()
    coordinator_of(broker)
    assert ask(broker, "payments", timeout_ms=timeout_ms).error_code == error_code


@pytest.mark.parametrize(("version", "error_code"), [(3, 47), (4, 90), (5, 90)])
def test_a_fenced_producer(version: int, error_code: int) -> None:
    broker = BrokerInMemory()
    first = init_producer(broker)
    init_producer(broker)
    init_producer(broker)
    answer = ask(broker, "payments", version=version, producer_id=first.producer_id, producer_epoch=first.producer_epoch)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (error_code, *REFUSED_IDS)


def test_idempotent_producer_writes_once() -> None:
    broker = BrokerInMemory(topics={"orders": 1})
    producer = ask(broker)
    batch = records(3, producer_id=producer.producer_id, producer_epoch=producer.producer_epoch, base_sequence=0)
    data = [k00_produce.Topic(name="orders", partition_data=[k00_produce.Partition(index=0, records=batch)])]
    request = k00_produce.Request(transactional_id=None, acks=-1, timeout_ms=1000, topic_data=data)

    answers = [broker.ask(request, 11).responses[0].partition_responses[0] for _ in range(2)]

    assert [(answer.error_code, answer.base_offset) for answer in answers] == [(0, 0), (0, 0)]
    assert broker.cluster.partition("orders", 0).log.log_end_offset == 3


def test_disk_failure_allocates_no_id() -> None:
    files = FaultyFiles()
    broker = BrokerInMemory(files=files)
    files.fail("write", errno.EIO, path_part="__cluster_metadata")
    refused = ask(broker)
    assert (refused.error_code, refused.producer_id, refused.producer_epoch) == (56, *REFUSED_IDS)


def test_scenario_matches_apache_kafka() -> None:
    assert differences("k22_init_producer_id") == []
