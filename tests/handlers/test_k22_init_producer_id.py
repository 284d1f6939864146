"""InitProducerId: ids that never repeat, and an honest no to transactions."""

from __future__ import annotations

from minibroker.errors import UnsupportedVersion
from minibroker.schemas import k22_init_producer_id as schema
from tests.handlers.kafka_answers import answered_versions, differences
from tests.support.broker_in_memory import BrokerInMemory

IDEMPOTENT = schema.Request(transactional_id=None, transaction_timeout_ms=0)


def test_answers_as_apache_kafka_does() -> None:
    assert differences("k22_init_producer_id") == []


def test_every_version_is_answered() -> None:
    assert answered_versions("k22_init_producer_id") == set(range(6))


def test_ids_come_in_blocks_that_outlive_a_crash() -> None:
    broker = BrokerInMemory()
    first = [broker.ask(IDEMPOTENT).producer_id for _ in range(1001)]
    second = broker.restart(clean=False).ask(IDEMPOTENT).producer_id

    assert first == list(range(1001))
    assert second == 2000  # the block of the broker that died is not used up


def test_a_transactional_id_fails_at_once() -> None:
    answer = BrokerInMemory().ask(schema.Request(transactional_id="mine", transaction_timeout_ms=60_000))
    assert answer == schema.Response(error_code=UnsupportedVersion.code, producer_id=-1, producer_epoch=-1)
    assert not UnsupportedVersion.retriable
