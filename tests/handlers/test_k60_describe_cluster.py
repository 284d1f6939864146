"""DescribeCluster: golden frames of real clients; codes and messages as Apache Kafka 4.3.1 gave them to the same requests (raw frames, one
KRaft node, 2026-11-21)."""

from __future__ import annotations

import pytest

from minibroker.dispatch.context import ConnectionInfo
from minibroker.schemas import k60_describe_cluster as schema
from tests.golden import all_golden, golden
from tests.handlers.kafka_answers import differences
from tests.support.broker_in_memory import BrokerInMemory
from tests.support.golden_exchange import kafka_answer, kafka_like, serve

REQUESTS = sorted(name for name, frame in all_golden().items() if frame.stem == "k60_describe_cluster" and frame.direction == "request")
LISTENERS = {
    "listeners": "HOST://:0,DOCKER://:19092",
    "advertised.listeners": "HOST://localhost:0,DOCKER://broker:19092",
    "listener.security.protocol.map": "HOST:PLAINTEXT,DOCKER:PLAINTEXT",
}


def ask(
    broker: BrokerInMemory, version: int = 2, *, operations: bool = False, endpoint_type: int = 1, fenced: bool = False
) -> schema.Response:
    request = schema.Request(include_cluster_authorized_operations=operations, endpoint_type=endpoint_type, include_fenced_brokers=fenced)
    answer: schema.Response = broker.ask(request, version)
    return answer


@pytest.mark.parametrize("name", REQUESTS)
def test_golden_requests_get_kafka_bytes(name: str) -> None:
    request = golden(name)
    if request.decode().endpoint_type == 2:
        pytest.skip("asked of Kafka's controller listener")
    assert serve(kafka_like(), request) == kafka_answer(request)


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize(("operations", "expected"), [(False, -(2**31)), (True, 8096)])
def test_authorized_operations_are_returned_on_request(operations: bool, expected: int, version: int) -> None:
    assert ask(BrokerInMemory(), version, operations=operations).cluster_authorized_operations == expected


@pytest.mark.parametrize("version", [0, 1, 2])
def test_single_node_with_its_rack(version: int) -> None:
    broker = kafka_like(config={"broker.rack": "r1"})
    answer = ask(broker, version)
    assert (answer.error_code, answer.cluster_id, answer.controller_id, answer.endpoint_type) == (0, "AAAAAAAAAAAAAAAAAAAAAQ", 1, 1)
    assert answer.brokers == [schema.Broker(broker_id=1, host="127.0.0.1", port=26192, rack="r1")]


def test_no_broker_is_fenced() -> None:
    broker = BrokerInMemory()
    assert ask(broker, fenced=True) == ask(broker, fenced=False)


@pytest.mark.parametrize("operations", [False, True])
@pytest.mark.parametrize(
    ("endpoint_type", "error_code", "message"),
    [
        (2, 114, "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER"),
        (0, 115, "Unsupported endpoint type 0"),
        (3, 115, "Unsupported endpoint type 3"),
        (-1, 115, "Unsupported endpoint type -1"),
    ],
)
def test_other_endpoint_types(endpoint_type: int, error_code: int, message: str, operations: bool) -> None:
    assert ask(BrokerInMemory(), operations=operations, endpoint_type=endpoint_type) == schema.Response(
        error_code=error_code, error_message=message, endpoint_type=1, cluster_id="", controller_id=-1, brokers=[]
    )


@pytest.mark.parametrize(("listener_name", "address"), [("HOST", ("localhost", 40_001)), ("DOCKER", ("broker", 19_092))])
def test_address_matches_the_listener(listener_name: str, address: tuple[str, int]) -> None:
    broker = BrokerInMemory(config=LISTENERS)
    broker.cluster.node.set_bound_port("HOST", 40_001)
    broker.connection = ConnectionInfo(listener_name, "127.0.0.1")
    assert [(node.host, node.port) for node in ask(broker).brokers] == [address]


def test_cluster_id_survives_a_restart() -> None:
    broker = BrokerInMemory()
    cluster_id = ask(broker).cluster_id
    assert len(cluster_id) == 22
    assert ask(broker.restart()).cluster_id == cluster_id


def test_scenario_matches_apache_kafka() -> None:
    assert differences("k60_describe_cluster") == []
