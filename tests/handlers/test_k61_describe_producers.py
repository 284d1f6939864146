"""DescribeProducers: golden frames, and the states of a producer."""

from __future__ import annotations

from minibroker.errors import KafkaStorageError
from minibroker.records.control import ControlType, EndTransactionMarker
from minibroker.schemas import k61_describe_producers as schema
from tests.golden import golden
from tests.support.broker_in_memory import BrokerInMemory
from tests.support.golden_exchange import answer_of, kafka_answer, kafka_like, serve
from tests.support.log_batches import NOW_MS, idempotent_batch

FRANZ_GO = "k61_describe_producers_v0_request_franz_go_1.22.2_transactional"
JAVA = "k61_describe_producers_v0_request_java_4.3.1_tools_small"


def describe(broker: BrokerInMemory, index: int = 0) -> schema.PartitionResult:
    request = schema.Request(topics=[schema.Topic(name="a", partition_indexes=[index])])
    found: schema.PartitionResult = broker.ask(request).topics[0].partitions[0]
    return found


def test_unknown_partitions_match_kafka() -> None:
    request = golden(FRANZ_GO)
    assert serve(kafka_like(topics={"golden-committed": 2}), request) == kafka_answer(request)


def test_open_transaction_matches_kafka() -> None:
    request = golden(JAVA)
    (producer,) = answer_of(request).topics[0].partitions[0].active_producers
    broker = kafka_like(topics={"java-open": 2})
    batch = idempotent_batch(producer.producer_id, 0, timestamp=producer.last_timestamp, is_transactional=True)
    broker.cluster.partition("java-open", 0).append_own(batch)
    assert serve(broker, request) == kafka_answer(request)


def test_producer_state_follows_its_transactions() -> None:
    broker = BrokerInMemory(topics={"a": 1})
    partition = broker.cluster.partition("a", 0)
    assert describe(broker).active_producers == []

    def told() -> list[tuple[int, ...]]:
        return [
            (each.producer_epoch, each.last_sequence, each.last_timestamp, each.coordinator_epoch, each.current_txn_start_offset)
            for each in describe(broker).active_producers
        ]

    partition.append_own(idempotent_batch(7, 0, b"a", b"b", is_transactional=True))
    assert told() == [(0, 1, NOW_MS + 1, -1, 0)]
    partition.end_transaction(EndTransactionMarker(ControlType.COMMIT, 3), producer_id=7, producer_epoch=0, transaction_version=0)
    assert told() == [(0, 1, NOW_MS, 3, -1)]
    partition.append_own(idempotent_batch(7, 2, is_transactional=True))
    assert told() == [(0, 2, NOW_MS, 3, 3)]
    partition.end_transaction(EndTransactionMarker(ControlType.ABORT, 3), producer_id=7, producer_epoch=1, transaction_version=2)
    assert told() == [(1, -1, NOW_MS, 3, -1)]
    before = told()
    broker.restart(clean=False)
    assert told() == before


def test_offline_partition() -> None:
    broker = BrokerInMemory(topics={"a": 1})
    broker.cluster.partition("a", 0).take_offline(KafkaStorageError("its disk failed"))
    found = describe(broker)
    assert (found.error_code, found.error_message) == (56, "its disk failed")
