"""DeleteRecords: golden frames of real clients; codes as Apache Kafka 4.3.1 gave them to the same requests (raw frames, one KRaft node,
2026-11-21)."""

from __future__ import annotations

import pytest

from minibroker.errors import KafkaStorageError, OffsetOutOfRange
from minibroker.log.results import IsolationLevel
from minibroker.schemas import k02_list_offsets
from minibroker.schemas import k21_delete_records as schema
from minibroker.testing.simulation.held_watermarks import release_high_watermark
from tests.golden import golden
from tests.handlers.kafka_answers import differences
from tests.support.broker_in_memory import BrokerInMemory, Pending, records
from tests.support.golden_exchange import answer_of, kafka_answer, kafka_like, serve

CLIENTS = ["aiokafka_0.14.0", "java_4.3.1", "kafka_python_3.0.12", "librdkafka_2.16.1"]

Told = list[tuple[str, int, int, int]]  #: topic, partition, low watermark, error code


def topic(name: str, *partitions: tuple[int, int]) -> schema.Topic:
    return schema.Topic(name=name, partitions=[schema.Partition(partition_index=index, offset=offset) for index, offset in partitions])


def ask(broker: BrokerInMemory, *topics: schema.Topic) -> Told:
    answer = broker.ask(schema.Request(topics=list(topics), timeout_ms=0))
    return [(found.name, each.partition_index, each.low_watermark, each.error_code) for found in answer.topics for each in found.partitions]


@pytest.mark.parametrize("client", CLIENTS)
def test_golden_requests_get_kafka_bytes(client: str) -> None:
    request = golden(f"k21_delete_records_v2_request_{client}")
    requested, response = request.decode().topics[0], answer_of(request).topics[0]
    is_gone = response.partitions[0].error_code != 0  # librdkafka's program had sent DeleteTopics right behind
    broker = kafka_like(topics={} if is_gone else {requested.name: 3})
    for result in [] if is_gone else response.partitions:
        broker.append(requested.name, result.partition_index, records(result.low_watermark))

    assert serve(broker, request) == kafka_answer(request)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_every_version_of_franz_go(version: int) -> None:
    broker = kafka_like(topics={"golden": 1})
    broker.append("golden", 0, records(3))
    request = golden(f"k21_delete_records_v{version}_request_franz_go_1.22.2")

    answer = broker.ask(request.decode(), version)

    expected = answer_of(request).topics[0]
    assert answer.topics[0].name == expected.name
    assert sorted(answer.topics[0].partitions, key=repr) == sorted(expected.partitions, key=repr)  # Kafka's are in no order


@pytest.mark.parametrize(
    ("offset", "low_watermark", "error_code"),
    [(5, 5, 0), (-1, 10, 0), (10, 10, 0), (0, 0, 0), (11, -1, 1), (-2, -1, 1), (2**63 - 1, -1, 1)],
    ids=["inside", "high watermark", "end", "start", "above the end", "senseless", "far above"],
)
def test_moves_log_start_offset(offset: int, low_watermark: int, error_code: int) -> None:
    broker = BrokerInMemory(topics={"orders": 1})
    broker.append("orders", 0, records(10))

    assert ask(broker, topic("orders", (0, offset))) == [("orders", 0, low_watermark, error_code)]
    assert broker.cluster.partition("orders", 0).log.log_start_offset == max(low_watermark, 0)


def test_lower_offset_changes_nothing() -> None:
    broker = BrokerInMemory(topics={"orders": 1})
    broker.append("orders", 0, records(10))
    assert [ask(broker, topic("orders", (0, offset)))[0][2:] for offset in (3, 5, 2, 0, 7)] == [(3, 0), (5, 0), (5, 0), (5, 0), (7, 0)]


def test_empty_log() -> None:
    broker = BrokerInMemory(topics={"orders": 1})
    assert [ask(broker, topic("orders", (0, offset)))[0][2:] for offset in (0, -1, 1)] == [(0, 0), (0, 0), (-1, 1)]


def test_high_watermark_is_the_limit() -> None:
    broker = BrokerInMemory(topics={"orders": 1})
    broker.append("orders", 0, records(4))
    broker.hold_high_watermark("orders", 0)
    broker.append("orders", 0, records(6))
    assert ask(broker, topic("orders", (0, 5)))[0][2:] == (-1, 1)


def held(broker: BrokerInMemory, *partitions: tuple[int, int]) -> Pending:
    """A request to a topic of two partitions with four records each, the first one's high watermark held back."""
    for index in range(2):
        broker.append("orders", index, records(4))
    broker.hold_high_watermark("orders", 0)
    return broker.begin(schema.Request(topics=[topic("orders", *partitions)], timeout_ms=1000))


def told(pending: Pending) -> list[tuple[int, int, int]]:
    return [(each.partition_index, each.low_watermark, each.error_code) for each in pending.answer().topics[0].partitions]


def test_request_waits_for_lagging_replicas() -> None:
    broker = BrokerInMemory(topics={"orders": 2})
    pending = held(broker, (0, -1), (1, 2))
    assert [each.log.log_start_offset for each in broker.cluster.topics["orders"].partitions] == [4, 2]
    broker.clock.advance(999)
    assert not pending.is_done
    release_high_watermark(broker.cluster.partition("orders", 0))
    assert told(pending) == [(0, 4, 0), (1, 2, 0)]
    assert ask(broker, topic("orders", (0, -1))) == [("orders", 0, 4, 0)]


def test_wait_for_lagging_replicas_times_out() -> None:
    broker = BrokerInMemory(topics={"orders": 2})
    pending = held(broker, (0, 3), (1, 2))
    broker.clock.advance(1000)
    assert told(pending) == [(0, 0, 7), (1, 2, 0)]  # the low watermark of before, as Kafka: tests/golden/captures/held.py
    assert broker.cluster.partition("orders", 0).log.log_start_offset == 3
    assert ask(broker, topic("orders", (0, 0))) == [("orders", 0, 0, 0)], "nothing to wait for"


def test_partition_lost_while_waiting_for_replicas() -> None:
    broker = BrokerInMemory(topics={"orders": 2})
    pending = held(broker, (0, 3))
    broker.cluster.partition("orders", 0).take_offline(KafkaStorageError("the disk is gone"))
    assert told(pending) == [(0, -1, KafkaStorageError.code)]
    pending = broker.begin(schema.Request(topics=[topic("orders", (1, 3))], timeout_ms=1000))
    assert told(pending) == [(1, 3, 0)]


@pytest.mark.parametrize(("name", "index"), [("nope", 0), ("orders", 3), ("orders", -1), ("a/b", 0), ("", 0), ("__cluster_metadata", 0)])
def test_unknown_partition(name: str, index: int) -> None:
    assert ask(BrokerInMemory(topics={"orders": 3}), topic(name, (index, 0))) == [(name, index, -1, 3)]


@pytest.mark.parametrize(("cleanup_policy", "error_code"), [("compact", 44), ("compact,delete", 0), ("delete", 0), ("", 0)])
def test_compacted_topic_keeps_its_records(cleanup_policy: str, error_code: int) -> None:
    broker = BrokerInMemory()
    broker.cluster.create_topic("orders", partition_count=1, configs={"cleanup.policy": cleanup_policy})
    broker.append("orders", 0, records(10))

    assert [result[3] for result in ask(broker, topic("orders", (0, 2)))] == [error_code]
    assert broker.cluster.partition("orders", 0).log.log_start_offset == (0 if error_code else 2)


@pytest.mark.parametrize("name", ["__consumer_offsets", "__transaction_state"])
def test_internal_topics_are_refused(name: str) -> None:
    broker = BrokerInMemory(topics={name: 1})
    broker.append(name, 0, records(3))
    assert ask(broker, topic(name, (0, 1))) == [(name, 0, -1, 17)]


def test_failing_partition_does_not_affect_others() -> None:
    broker = BrokerInMemory(topics={"orders": 2, "bills": 1})
    for name, index in [("orders", 0), ("orders", 1), ("bills", 0)]:
        broker.append(name, index, records(10))

    assert ask(broker, topic("orders", (0, 99), (1, 4)), topic("nope", (0, 0)), topic("bills", (0, -1))) == [
        ("orders", 0, -1, 1),
        ("orders", 1, 4, 0),
        ("nope", 0, -1, 3),
        ("bills", 0, 10, 0),
    ]


def test_duplicate_partition_uses_its_last_offset() -> None:
    broker = BrokerInMemory(topics={"orders": 2})
    broker.append("orders", 0, records(10))
    result = ask(broker, topic("orders", (0, 50), (0, 6)), topic("orders", (1, 0)), topic("orders"))
    assert result == [("orders", 0, 6, 0), ("orders", 1, 0, 0)]


def test_empty_request_gets_an_empty_answer() -> None:
    broker = BrokerInMemory(topics={"orders": 1})
    assert broker.ask(schema.Request(topics=[topic("orders")], timeout_ms=-1)).topics == []
    assert broker.ask(schema.Request(topics=[], timeout_ms=0)).topics == []


def test_new_log_start_offset_is_visible_and_survives_a_restart() -> None:
    broker = BrokerInMemory(topics={"orders": 1})
    broker.append("orders", 0, records(10))
    ask(broker, topic("orders", (0, 4)))

    for is_restarted in (False, True):
        each = broker.restart() if is_restarted else broker
        partition = k02_list_offsets.Partition(partition_index=0, timestamp=-2)
        answer = each.ask(k02_list_offsets.Request(replica_id=-1, topics=[k02_list_offsets.Topic(name="orders", partitions=[partition])]))
        assert answer.topics[0].partitions[0].offset == 4
        with pytest.raises(OffsetOutOfRange):
            each.cluster.partition("orders", 0).log.read(3, 1000, isolation=IsolationLevel.READ_UNCOMMITTED)


def test_offline_partition() -> None:
    broker = BrokerInMemory(topics={"orders": 1})
    broker.cluster.partition("orders", 0).take_offline(KafkaStorageError("the disk is gone"))
    assert ask(broker, topic("orders", (0, 0))) == [("orders", 0, -1, 56)]


def test_scenario_matches_apache_kafka() -> None:
    assert differences("k21_delete_records") == []
