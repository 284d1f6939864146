"""FindCoordinator: golden frames of real clients; codes and messages of key types that there are not, as Apache Kafka 4.3.1 gave them."""

from __future__ import annotations

from typing import Any

import pytest

from minibroker.cluster.topic import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from minibroker.coordinator.stored_topic import partition_of
from minibroker.errors import CoordinatorNotAvailable, InvalidRequest, KafkaStorageError
from minibroker.schemas import k10_find_coordinator as schema
from tests.golden import all_golden, golden
from tests.support.broker_in_memory import BrokerInMemory
from tests.support.golden_exchange import answer_of, kafka_answer, kafka_like, serve

VERSIONS = range(schema.VERSIONS[1] + 1)
#: of frames whose name and size are alike the answer to another one may have been kept, about a key type that there is not
REQUESTS = sorted(
    name
    for name, frame in all_golden().items()
    if frame.stem == "k10_find_coordinator"
    and frame.direction == "request"
    and not (frame.decode().key_type == schema.GROUP and answer_of(frame).error_code == InvalidRequest.code)
)
NODE = (1, "localhost", 9092)
NOBODY = (-1, "", -1)
MALFORMED = (
    "This most likely occurs because of a request being malformed by the client library or the message was sent to an incompatible "
    "broker. See the broker logs for more details."
)


def ask(broker: BrokerInMemory, key_type: int, version: int, *keys: str) -> list[schema.Coordinator]:
    """The answer for each key, in the form of version 4 on; before that there is one key, which is not repeated."""
    given: dict[str, Any] = {"coordinator_keys": list(keys)} if version >= 4 else {"key": keys[0]}
    if version >= 1:
        given["key_type"] = key_type
    answer = broker.ask(schema.Request(**given), version)
    if version >= 4:
        return list(answer.coordinators)
    results = {name: getattr(answer, name) for name in ("node_id", "host", "port", "error_code", "error_message")}
    return [schema.Coordinator(key=keys[0], **results)]


def place(coordinator: schema.Coordinator) -> tuple[int, str, int]:
    return coordinator.node_id, coordinator.host, coordinator.port


@pytest.mark.parametrize("name", REQUESTS)
def test_golden_requests_get_kafka_bytes(name: str) -> None:
    request = golden(name)
    answer = answer_of(request)
    (port,) = {each.port for each in (answer, *answer.coordinators) if each.port > 0} or {9092}
    broker = kafka_like(config={"listeners": f"PLAINTEXT://127.0.0.1:{port}"})
    assert serve(broker, request) == kafka_answer(request)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("key_type", "name"), [(schema.GROUP, CONSUMER_OFFSETS_TOPIC), (schema.TRANSACTION, TRANSACTION_STATE_TOPIC)])
def test_first_request_creates_the_internal_topic(version: int, key_type: int, name: str) -> None:
    if version == 0 and key_type != schema.GROUP:
        pytest.skip("version 0 knows groups alone")
    broker = BrokerInMemory(config={"transaction.state.log.num.partitions": "7", "offsets.topic.num.partitions": "7"})
    for _ in range(2):
        (result,) = ask(broker, key_type, version, "shop")
        assert (result.error_code, place(result), result.error_message) == (0, NODE, "" if version in {0, *VERSIONS[4:]} else "NONE")
    topic = broker.cluster.topic(name)
    assert (len(topic.partitions), topic.is_internal) == (7, True)
    assert list(broker.cluster.topics) == [name]


def test_several_or_no_keys() -> None:
    broker = BrokerInMemory(config={"transaction.state.log.num.partitions": "2"})
    assert ask(broker, schema.TRANSACTION, 6) == []
    result = ask(broker, schema.TRANSACTION, 6, "", "a", "b")
    assert [(each.key, each.error_code, place(each)) for each in result] == [("", 0, NODE), ("a", 0, NODE), ("b", 0, NODE)]


@pytest.mark.parametrize("version", VERSIONS[1:])
@pytest.mark.parametrize("key_type", [-1, 2, 3, 127])
@pytest.mark.parametrize("key", ["shop", "shop:AAAAAAAAAAAAAAAAAAAAAQ:0"])
def test_unknown_key_type(version: int, key_type: int, key: str) -> None:
    broker = BrokerInMemory()
    if key_type == schema.SHARE and version == 6 and ":" in key:
        pytest.skip("a share partition")
    (result,) = ask(broker, key_type, version, key)
    message = "" if version >= 4 and key_type == schema.SHARE else MALFORMED
    assert (result.error_code, place(result), result.error_message) == (InvalidRequest.code, NOBODY, message)
    assert list(broker.cluster.topics) == []


@pytest.mark.parametrize("key", ["s:AAAAAAAAAAAAAAAAAAAAAQ:0", "a:b:AAAAAAAAAAAAAAAAAAAAAQ==:77"])
def test_share_partitions(key: str) -> None:
    broker = BrokerInMemory(config={"share.coordinator.state.topic.num.partitions": "3"})
    for _ in range(2):
        (result,) = ask(broker, schema.SHARE, 6, key)
        assert (result.error_code, place(result), result.error_message) == (0, NODE, "")
    assert {name: len(topic.partitions) for name, topic in broker.cluster.topics.items()} == {"__share_group_state": 3}


@pytest.mark.parametrize("key", ["", ":", "s:0", "s:AAAA:0", " :AAAAAAAAAAAAAAAAAAAAAQ:0", "s:AAAAAAAAAAAAAAAAAAAAAQ:x", "s:!:0"])
def test_invalid_share_partition_key(key: str) -> None:
    broker = BrokerInMemory()
    (result,) = ask(broker, schema.SHARE, 6, key)
    assert (result.error_code, place(result), result.error_message) == (InvalidRequest.code, NOBODY, "")
    assert list(broker.cluster.topics) == []


@pytest.mark.parametrize("version", [3, 6])
@pytest.mark.parametrize(("key_type", "name"), [(schema.GROUP, CONSUMER_OFFSETS_TOPIC), (schema.TRANSACTION, TRANSACTION_STATE_TOPIC)])
def test_offline_partition_has_no_coordinator(version: int, key_type: int, name: str) -> None:
    broker = BrokerInMemory(config={"transaction.state.log.num.partitions": "2", "offsets.topic.num.partitions": "2"})
    ask(broker, key_type, 6, "a")
    lost = partition_of("a", 2)
    broker.cluster.partition(name, lost).take_offline(KafkaStorageError())
    other = next(key for key in "bcdefgh" if partition_of(key, 2) != lost)
    (result,) = ask(broker, key_type, version, "a")
    message = "The coordinator is not available." if version < 4 else ""
    assert (result.error_code, place(result), result.error_message) == (CoordinatorNotAvailable.code, NOBODY, message)
    (result,) = ask(broker, key_type, version, other)
    assert (result.error_code, place(result)) == (0, NODE)
