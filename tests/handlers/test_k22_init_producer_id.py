"""InitProducerId: golden frames of real clients; codes as Apache Kafka 4.3.1 gave them to the same requests (raw frames, one KRaft node,
2026-11-21), but for transactional ids, which are refused here."""

from __future__ import annotations

import errno
import logging

import pytest

from minibroker.schemas import k00_produce
from minibroker.schemas import k22_init_producer_id as schema
from tests.golden import all_golden, golden
from tests.handlers.kafka_answers import answered_versions, differences
from tests.support.broker_in_memory import BrokerInMemory, records
from tests.support.faulty_files import FaultyFiles
from tests.support.golden_exchange import answer_of, kafka_answer, kafka_like, serve

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
def test_clients_get_the_bytes_that_kafka_sent(name: str) -> None:
    request = golden(name)
    broker = kafka_like()
    for _ in range(answer_of(request).producer_id):
        broker.cluster.allocate_producer_id()

    if request.decode().transactional_id is None:
        assert serve(broker, request) == kafka_answer(request)
    else:
        assert broker.ask(request.decode(), request.version).error_code == 53


@pytest.mark.parametrize("version", range(6))
def test_every_answer_is_a_new_producer(version: int) -> None:
    broker = BrokerInMemory()
    answers = [ask(broker, version=version) for _ in range(3)]
    assert [(answer.error_code, answer.producer_id, answer.producer_epoch) for answer in answers] == [(0, 0, 0), (0, 1, 0), (0, 2, 0)]


@pytest.mark.parametrize("clean", [True, False])
def test_no_producer_id_is_given_twice(clean: bool) -> None:
    broker = BrokerInMemory()
    assert [ask(broker).producer_id for _ in range(1001)] == list(range(1001))
    assert ask(broker.restart(clean=clean)).producer_id == 2000  # the block of the broker that ended is not used up


@pytest.mark.parametrize("timeout_ms", [0, -1, 2**31 - 1])
def test_time_out_means_nothing_without_a_transactional_id(timeout_ms: int) -> None:
    assert ask(BrokerInMemory(), timeout_ms=timeout_ms).error_code == 0


@pytest.mark.parametrize("had", [(5, 3), (-7, -7), (2**63 - 1, 2**15 - 1)])
def test_the_id_a_producer_had_is_not_given_on(had: tuple[int, int]) -> None:
    answer = ask(BrokerInMemory(), producer_id=had[0], producer_epoch=had[1])
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (0, 0, 0)


@pytest.mark.parametrize("half", [{"producer_id": 5}, {"producer_epoch": 5}])
@pytest.mark.parametrize("transactional_id", [None, "x"])
def test_an_id_without_its_epoch(half: dict[str, int], transactional_id: str | None) -> None:
    answer = ask(BrokerInMemory(), transactional_id, **half)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (42, *REFUSED_IDS)


@pytest.mark.parametrize("version", range(6))
@pytest.mark.parametrize(("transactional_id", "error_code"), [("payments", 53), ("", 42)])
def test_transactional_ids_are_refused(transactional_id: str, error_code: int, version: int, caplog: pytest.LogCaptureFixture) -> None:
    broker = BrokerInMemory()
    with caplog.at_level(logging.WARNING):
        answer = ask(broker, transactional_id, version=version)

    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (error_code, *REFUSED_IDS)
    assert ("payments" in caplog.text) == (transactional_id == "payments")  # an operator is told why
    assert ask(broker).producer_id == 0  # no id was spent on it


def test_a_producer_writes_once_with_what_it_got() -> None:
    broker = BrokerInMemory(topics={"orders": 1})
    producer = ask(broker)
    batch = records(3, producer_id=producer.producer_id, producer_epoch=producer.producer_epoch, base_sequence=0)
    data = [k00_produce.Topic(name="orders", partition_data=[k00_produce.Partition(index=0, records=batch)])]
    request = k00_produce.Request(transactional_id=None, acks=-1, timeout_ms=1000, topic_data=data)

    answers = [broker.ask(request, 11).responses[0].partition_responses[0] for _ in range(2)]

    assert [(answer.error_code, answer.base_offset) for answer in answers] == [(0, 0), (0, 0)]
    assert broker.cluster.partition("orders", 0).log.log_end_offset == 3


def test_a_disk_that_fails_gives_no_id() -> None:
    files = FaultyFiles()
    broker = BrokerInMemory(files=files)
    files.fail("write", errno.EIO, path_part="__cluster_metadata")
    refused = ask(broker)
    assert (refused.error_code, refused.producer_id, refused.producer_epoch) == (56, *REFUSED_IDS)


def test_scenario_is_answered_as_by_apache_kafka() -> None:
    assert differences("k22_init_producer_id") == []


def test_golden_requests_of_every_version_are_answered() -> None:
    assert answered_versions("k22_init_producer_id") == set(range(6))
