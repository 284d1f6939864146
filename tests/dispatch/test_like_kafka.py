"""With minibroker.like.kafka: topics that are created after the answer, ends of transactions, and versions that Kafka 4 dropped.

The answers are those that an Apache Kafka 4.3.1 gave to the same requests.
"""

from __future__ import annotations

import pytest

from minibroker.config.broker_properties import LIKE_KAFKA
from minibroker.coordinator.transaction.steps import MARKERS_AFTER_MS
from minibroker.dispatch.like_kafka import CREATION_MS, MIN_VERSIONS, PROPAGATION_MS
from minibroker.dispatch.registry import load
from minibroker.errors import WireError
from minibroker.schemas import k00_produce as k00
from minibroker.schemas import k03_metadata as k03
from minibroker.schemas import k10_find_coordinator as k10
from minibroker.schemas import k18_api_versions as k18
from minibroker.schemas import k19_create_topics as k19
from minibroker.schemas import k26_end_txn as k26
from minibroker.schemas import k75_describe_topic_partitions as k75
from minibroker.wire.schema import NIL_UUID
from tests.support.broker_in_memory import BrokerInMemory
from tests.support.transactional_ids import begin, coordinator_of, init_producer

UNKNOWN, INVALID_TOPIC, NO_COORDINATOR, CONCURRENT = 3, 17, 15, 51


def broker_like_kafka(**config: str) -> BrokerInMemory:
    return BrokerInMemory({"old": 1}, {LIKE_KAFKA: "true", **{name.replace("_", "."): text for name, text in config.items()}})


def metadata(broker: BrokerInMemory, *names: str, create: bool = True) -> dict[str | None, tuple[int, int]]:
    """Error and number of partitions of each topic; of all without names."""
    topics = [k03.Topic(name=name) for name in names] or None
    answer = broker.ask(k03.Request(topics=topics, allow_auto_topic_creation=create))
    return {topic.name: (topic.error_code, len(topic.partitions)) for topic in answer.topics}


def described(broker: BrokerInMemory, *names: str) -> dict[str | None, int]:
    answer = broker.ask(k75.Request(topics=[k75.Topic(name=name) for name in names]))
    return {topic.name: topic.error_code for topic in answer.topics}


def coordinator(broker: BrokerInMemory, key_type: int, key: str = "readers") -> tuple[int, int]:
    (answer,) = broker.ask(k10.Request(key_type=key_type, coordinator_keys=[key])).coordinators
    return answer.error_code, answer.node_id


def create(broker: BrokerInMemory, *names: str, validate_only: bool = False) -> list[int]:
    topics = [k19.Topic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[]) for name in names]
    return [each.error_code for each in broker.ask(k19.Request(topics=topics, validate_only=validate_only)).topics]


def test_topic_created_by_metadata_is_available_later() -> None:
    broker = broker_like_kafka()
    assert metadata(broker, "new", "also-new", "old") == {"new": (UNKNOWN, 0), "also-new": (UNKNOWN, 0), "old": (0, 1)}
    assert "new" not in broker.cluster.topics
    broker.clock.advance(CREATION_MS - 1)
    assert metadata(broker, "new") == {"new": (UNKNOWN, 0)}
    broker.clock.advance(1)
    assert metadata(broker, "new", "also-new", create=False) == {"new": (0, 1), "also-new": (0, 1)}


def test_metadata_creates_nothing_where_it_may_not() -> None:
    broker = broker_like_kafka(auto_create_topics_enable="false")
    assert metadata(broker, "new") == {"new": (UNKNOWN, 0)}
    assert metadata(broker_like_kafka(), "no/name") == {"no/name": (INVALID_TOPIC, 0)}
    other = broker_like_kafka()
    assert metadata(other, "new", create=False) == {"new": (UNKNOWN, 0)}
    for each in (broker, other):
        each.clock.advance(10 * CREATION_MS)
        assert "new" not in each.cluster.topics


def test_a_topic_that_collides_is_never_created_and_the_next_one_is() -> None:
    broker = broker_like_kafka()
    assert create(broker, "a.b") == [0]
    metadata(broker, "a_b", "c")
    broker.clock.advance(CREATION_MS + 1)
    assert metadata(broker, "c", create=False) == {"c": (0, 1)}
    assert "a_b" not in broker.cluster.topics


def test_without_the_switch_the_answer_has_the_topic() -> None:
    broker = BrokerInMemory()
    assert metadata(broker, "new") == {"new": (0, 1)}
    assert create(broker, "made") == [0]
    assert metadata(broker, "made") == {"made": (0, 1)}
    assert coordinator(broker, k10.GROUP) == (0, 1)


def test_a_topic_that_was_created_is_known_to_brokers_later() -> None:
    broker = broker_like_kafka()
    assert create(broker, "made") == [0]
    assert metadata(broker, "made", create=False) == {"made": (UNKNOWN, 0)}
    assert metadata(broker, create=False) == {"old": (0, 1)}
    assert described(broker, "made", "old") == {"made": UNKNOWN, "old": 0}
    assert described(broker) == {"old": 0}
    (unknown,) = broker.ask(k03.Request(topics=[k03.Topic(name="made")], allow_auto_topic_creation=False)).topics
    assert unknown.topic_id == NIL_UUID
    assert create(broker, "made") == [36]  # the controller knows of it
    broker.clock.advance(PROPAGATION_MS)
    assert metadata(broker, "made") == {"made": (0, 1)}
    assert described(broker) == {"made": 0, "old": 0}
    assert create(broker, "checked", validate_only=True) == [0]
    assert "checked" not in broker.cluster.topics


@pytest.mark.parametrize(("key_type", "key"), [(k10.GROUP, "readers"), (k10.TRANSACTION, "payments")])
def test_coordinator_is_unavailable_before_the_internal_topic_exists(key_type: int, key: str) -> None:
    broker = broker_like_kafka()
    assert coordinator(broker, key_type, key) == (NO_COORDINATOR, -1)
    assert coordinator(broker, key_type, key) == (NO_COORDINATOR, -1)
    broker.clock.advance(CREATION_MS)
    assert coordinator(broker, key_type, key) == (0, 1)


def test_end_txn_answers_before_its_markers_are_written() -> None:
    broker = broker_like_kafka()
    coordinator_of(broker)
    ids = init_producer(broker)
    begin(broker, ids, ("old", 0))
    log = broker.cluster.topic("old").partitions[0].log

    def end() -> int:
        request = k26.Request(transactional_id="payments", producer_id=ids.producer_id, producer_epoch=ids.producer_epoch, committed=True)
        answer: k26.Response = broker.ask(request)
        return answer.error_code

    open_at = log.first_unstable_offset
    assert open_at is not None
    assert end() == 0
    assert log.first_unstable_offset == open_at
    assert end() == CONCURRENT
    broker.clock.advance(MARKERS_AFTER_MS)
    assert log.first_unstable_offset is None


def test_a_broker_that_dies_between_the_answer_and_the_markers_writes_them_when_it_is_back() -> None:
    broker = broker_like_kafka()
    coordinator_of(broker)
    ids = init_producer(broker)
    begin(broker, ids, ("old", 0))
    request = k26.Request(transactional_id="payments", producer_id=ids.producer_id, producer_epoch=ids.producer_epoch, committed=True)
    assert broker.ask(request).error_code == 0
    again = broker.restart()
    again.clock.advance(MARKERS_AFTER_MS)
    assert again.cluster.topic("old").partitions[0].log.first_unstable_offset is None


def test_versions_that_kafka_4_dropped_are_not_served() -> None:
    broker, usual = broker_like_kafka(), BrokerInMemory()
    (least, own) = (
        {
            each.api_key: each.min_version
            for each in requested.ask(k18.Request(client_software_name="a", client_software_version="1")).api_keys
        }
        for requested in (broker, usual)
    )
    assert {key: version for key, version in least.items() if own[key] != version} == MIN_VERSIONS
    request = k00.Request(acks=1, timeout_ms=1000, topic_data=[])
    assert usual.ask(request, 2).responses == []
    with pytest.raises(WireError, match="Produce version 2"):
        broker.ask(request, 2)
    assert broker.ask(request, 3).responses == []


def test_handlers_are_those_of_a_broker_without_the_switch_but_for_a_few() -> None:
    usual = {handler.api.key: handler.handle for handler in load()}
    assert [handler for handler in BrokerInMemory().services.registry if handler.handle is not usual[handler.api.key]] == []
    around = {handler.api.key for handler in broker_like_kafka().services.registry if handler.handle is not usual[handler.api.key]}
    assert around == {0, 3, 10, 19, 75}
