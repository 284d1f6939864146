"""The whole checkup on scripted clusters, and the outcomes at addresses of real sockets."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from minibroker.client.connection import Connection
from minibroker.client.doctor import NOTE, OK, PROBLEM, WARNING, Finding, checks
from minibroker.client.doctor.addresses import Network, Outcome, reach, resolve
from minibroker.client.doctor.checkup import Checkup
from minibroker.client.errors import BrokerUnreachable
from minibroker.client.transport import Address, Deadline
from minibroker.schemas import k03_metadata as k03
from minibroker.schemas import k32_describe_configs as k32
from minibroker.schemas import k35_describe_log_dirs as k35
from tests.client.fake_broker import FakeBroker

BOOTSTRAP = Address("fake", 1)


def cluster(configs: Mapping[str, str] | None = None) -> FakeBroker:
    """Return a healthy cluster of one broker at fake:1, which describes its configuration."""
    broker = FakeBroker(topics={"a": 2})
    broker_configs = {"advertised.listeners": "PLAINTEXT://fake:1", **(configs or {})}
    broker.on(k32, lambda *_: described(broker_configs))
    broker.on(
        k35, lambda *_: k35.Response(results=[k35.LogDirResult(error_code=0, log_dir="/a", topics=[], total_bytes=100, usable_bytes=50)])
    )
    return broker


def described(configs: dict[str, str], error_code: int = 0) -> k32.Response:
    result = k32.Result(
        error_code=error_code,
        error_message=None,
        resource_type=4,
        resource_name="1",
        configs=[k32.Config(name=name, value=value, read_only=True, is_sensitive=False) for name, value in configs.items()],
    )
    return k32.Response(results=[result])


def found(broker: FakeBroker, *begin: Address, connect: Callable[[Address, Deadline], Connection] | None = None) -> list[Finding]:
    def known(host: str) -> tuple[str, ...]:
        if host == "nowhere":
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return ("10.0.0.1",)

    return list(Checkup(Network(known, connect or broker.connect), 1000).findings(begin or (BOOTSTRAP,)))


def worst(findings: list[Finding]) -> list[Finding]:
    return [each for each in findings if each.severity in {PROBLEM, WARNING}]


def test_healthy_cluster() -> None:
    findings = found(cluster())
    assert {each.severity for each in findings} == {OK}
    assert [f"{each.subject}: {each.text}" for each in findings] == [
        "fake:1: answers (10.0.0.1), cluster None",
        "broker 1: advertises fake:1, and answers there",
        f"broker 1: serves {len(FakeBroker().versions)} APIs, Produce 13, Fetch 18, Metadata 13",
        "broker 1: log directory /a is online",
        "topics: 1 topic, 2 partitions, all with a leader",
    ]


def test_nothing_is_created() -> None:
    broker = cluster()
    found(broker)
    assert not any(request.allow_auto_topic_creation and request.topics != [] for request in broker.requests_for(k03))


def test_settings_needing_more_brokers_are_reported() -> None:
    broker = cluster({"transaction.state.log.replication.factor": "3", "offsets.topic.replication.factor": "1"})
    (finding,) = worst(found(broker))
    assert finding.text == "transaction.state.log.replication.factor is 3, and there is 1 broker: transactions do not work"
    assert finding.advice == "Set transaction.state.log.replication.factor=1 before its topic is first used"
    (finding,) = checks.replicas(2, {"min.insync.replicas": "3"}, broker_count=2)
    assert finding.text == "min.insync.replicas is 3, and only 2 brokers are up: before Apache Kafka 4.0 acks=all is rejected"
    assert finding.advice == "Start the other brokers, or set min.insync.replicas=2 before its topic is first used"


def test_minibroker_needs_no_more_replicas_than_brokers() -> None:
    assert worst(found(cluster({"offsets.topic.replication.factor": "3", "topic.partition.count.map": ""}))) == []


def test_an_address_that_leads_to_another_broker() -> None:
    broker = cluster()
    broker.on(k32, lambda *_: described({}, error_code=42))
    (finding,) = worst(found(broker))
    assert finding.text.startswith("another broker seems to answer at fake:1: ")


def test_a_user_who_may_not_see_the_cluster() -> None:
    """What the user may not read is a note that names the missing ACL, and no problem of the cluster."""
    broker = cluster()
    broker.on(k32, lambda *_: described({}, error_code=31))
    broker.on(k35, lambda *_: k35.Response(error_code=31, results=[]))
    findings = found(broker)
    assert worst(findings) == []
    assert [(each.text, each.advice) for each in findings if each.severity == NOTE] == [
        (
            "this user may not read the configuration of broker 1",
            "For this check, give the user the ACL 'USER allow DESCRIBE_CONFIGS CLUSTER'",
        ),
        ("this user may not see log directories", "For this check, give the user the ACL 'USER allow DESCRIBE CLUSTER'"),
    ]
    assert findings[-1].text == "1 topic, 2 partitions, all with a leader; this user may not see others"


def test_disks() -> None:
    broker = cluster()
    results = [
        k35.LogDirResult(error_code=56, log_dir="/a", topics=[]),
        k35.LogDirResult(error_code=0, log_dir="/b", topics=[], total_bytes=100_000_000, usable_bytes=4_000_000),
        k35.LogDirResult(error_code=0, log_dir="/c", topics=[], total_bytes=-1, usable_bytes=-1),
    ]
    broker.on(k35, lambda *_: k35.Response(results=results))
    assert [(each.severity, each.text) for each in worst(found(broker))] == [
        (PROBLEM, "log directory /a is offline"),
        (WARNING, "log directory /b has 4 MB left"),
    ]


def test_topics_are_counted() -> None:
    """Internal topics are counted separately, because users know only their own topics."""
    broker = cluster()

    existing: list[str] = []

    def metadata(request: k03.Request, version: int) -> k03.Response:
        partition = k03.PartitionResult(error_code=0, partition_index=0, leader_id=1, replica_nodes=[1], isr_nodes=[1])
        names = existing if request.topics is None else []
        topics = [k03.TopicResult(error_code=0, name=name, is_internal=name.startswith("__"), partitions=[partition]) for name in names]
        return k03.Response(brokers=[k03.Broker(node_id=1, host="fake", port=1)], controller_id=1, topics=topics)

    broker.on(k03, metadata)
    assert found(broker)[-1].text == "there are no topics yet"
    existing += ["a"]
    assert found(broker)[-1].text == "1 topic, 1 partition, all with a leader"
    existing += ["__consumer_offsets"]
    assert found(broker)[-1].text == "2 topics (1 of them internal), 2 partitions, all with a leader"


def test_partitions_without_leader_and_out_of_sync() -> None:
    broker = cluster()

    def metadata(request: k03.Request, version: int) -> k03.Response:
        def partition(index: int) -> k03.PartitionResult:
            leader = -1 if index < 7 else 1
            return k03.PartitionResult(error_code=0, partition_index=index, leader_id=leader, replica_nodes=[1, 2], isr_nodes=[1])

        topics = [k03.TopicResult(error_code=0, name="a", partitions=[partition(index) for index in range(8)])]
        return k03.Response(
            brokers=[k03.Broker(node_id=1, host="fake", port=1)], controller_id=1, topics=topics if request.topics is None else []
        )

    broker.on(k03, metadata)
    assert [(each.severity, each.text) for each in worst(found(broker))] == [
        (PROBLEM, "partitions without a leader: a-0, a-1, a-2, a-3, a-4 and 2 more"),
        (WARNING, "partitions with replicas that are not in sync: a-7"),
    ]


def test_versions() -> None:
    old = cluster()
    old.versions[1] = (0, 3)
    (finding,) = worst(found(old))
    assert (finding.severity, finding.text) == (PROBLEM, "does not serve Fetch 4, which current clients need")
    without = cluster()
    del without.versions[22]
    assert any(each.text.endswith(", no transactions") for each in found(without))


def test_other_checks_run_after_one_fails() -> None:
    broker = cluster()
    del broker.versions[35]
    findings = found(broker)
    (note,) = [each for each in findings if each.severity == NOTE]
    assert "does not serve DescribeLogDirs" in note.text
    assert (findings[-1].subject, findings[-1].severity) == ("topics", OK)


def test_a_listener_for_others_and_one_that_works_instead() -> None:
    broker = cluster({"advertised.listeners": "OUTSIDE://fake:1,INSIDE://nowhere:2", "controller.listener.names": "CONTROLLER"})
    others = [each for each in found(broker) if "INSIDE" in each.text]
    assert [(each.severity, each.text.partition(":2: ")[2][:24]) for each in others] == [(NOTE, "that name is unknown her")]

    broker.on(k03, lambda *_: k03.Response(brokers=[k03.Broker(node_id=1, host="nowhere", port=2)], controller_id=1, topics=[]))
    (finding,) = worst(found(broker))
    assert finding.advice == "Connect to fake:1 instead: listener OUTSIDE advertises it, and it answers here"


def test_bootstrap_address_belongs_to_the_broker_that_describes_itself_there() -> None:
    """With mapped ports, the advice for the second broker differs from that for the other brokers."""
    broker = cluster()
    brokers = [k03.Broker(node_id=number, host="nowhere", port=number) for number in (1, 2, 3)]
    broker.on(k03, lambda *_: k03.Response(brokers=brokers, controller_id=1, topics=[]))

    def only_broker_2_is_here(request: k32.Request, _: int) -> k32.Response:
        return described({"advertised.listeners": "A://nowhere:2"}, error_code=0 if request.resources[0].resource_name == "2" else 42)

    broker.on(k32, only_broker_2_is_here)
    first, second, third = [each for each in worst(found(broker)) if "advertises" in each.text]
    assert "OUTSIDE://fake:9092" in second.advice
    assert "OUTSIDE://HOST:9092" in first.advice
    assert "OUTSIDE://HOST:9092" in third.advice


def test_listeners_are_read_from_the_configuration() -> None:
    read = {"listeners": "A://:9092, B://[::1]:9093,CONTROLLER://x:1,C://y:0", "controller.listener.names": "CONTROLLER"}
    assert [str(each) for each in checks.listeners_of(read)] == ["B://[::1]:9093"]
    assert checks.listeners_of({}) == []


def test_unreachable_bootstrap_addresses() -> None:
    broker = cluster()

    def connect(address: Address, deadline: Deadline) -> Connection:
        if address.port == 7:
            raise BrokerUnreachable("no connection") from ConnectionRefusedError(111, "Connection refused")
        return broker.connect(address, deadline)

    first, second, *_ = found(broker, Address("nowhere", 1), Address("fake", 7), connect=connect)
    assert (first.severity, first.text) == (PROBLEM, "the name 'nowhere' is unknown here: Name or service not known")
    assert (second.severity, second.text) == (PROBLEM, "nothing listens there")
    assert "docker run -p 9092:9092" in second.advice

    def refuse(address: Address, deadline: Deadline) -> Connection:
        raise BrokerUnreachable("no connection") from ConnectionRefusedError(111, "Connection refused")

    (inside,) = Checkup(Network(lambda _: ("127.0.0.1",), refuse, is_container=True), 1000).findings([Address("localhost", 9092)])
    assert inside.advice.startswith("localhost is this container itself: use the name of the broker's container")


def test_addresses_of_different_clusters() -> None:
    (finding,) = checks.bootstraps({Address("a", 1): "x", Address("b", 1): "y"})
    assert finding.text == "the addresses belong to different clusters: a:1 of x, b:1 of y"
    assert list(checks.bootstraps({Address("a", 1): "x", Address("b", 1): "x"})) == []


@pytest.fixture
def answering(request: pytest.FixtureRequest) -> Iterator[Callable[[bytes | None], Address]]:
    """Start a server that reads a request, sends the given bytes and closes; with None, it never answers."""
    servers: list[socket.socket] = []

    def start(answer: bytes | None) -> Address:
        server = socket.create_server(("127.0.0.1", 0))
        servers.append(server)

        def serve() -> None:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            servers.append(connection)
            if answer is not None:
                connection.recv(1000)
                connection.sendall(answer)
                connection.close()

        threading.Thread(target=serve, daemon=True).start()
        return Address("127.0.0.1", server.getsockname()[1])

    yield start
    for each in servers:
        each.close()


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (b"", Outcome.NOT_KAFKA),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", Outcome.NOT_KAFKA),
        (b"\x15\x03\x03\x00\x02\x02\x46", Outcome.NOT_KAFKA),  # an alert of TLS
        (None, Outcome.SILENT),
    ],
)
def test_outcome_of_reaching_an_address(answering: Any, answer: bytes | None, outcome: Outcome) -> None:
    reached = reach(answering(answer), Network(resolve), 200 if answer is None else 5_000)
    assert (reached.outcome, reached.ip_addresses) == (outcome, ("127.0.0.1",))
    assert reached.message


def test_unreachable_address() -> None:
    assert reach(Address("127.0.0.1", 1), Network(resolve), 5_000).outcome is Outcome.REFUSED
    assert reach(Address("a..b", 1), Network(resolve), 5_000).outcome is Outcome.UNKNOWN_NAME
