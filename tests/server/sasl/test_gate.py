"""The gate of a SASL listener: ends of sessions, limits before the login, changes at run time, and what the log says."""

from __future__ import annotations

import contextlib
import logging
import socket
import struct
from collections.abc import Callable, Iterator, Mapping

import pytest

from minibroker.schemas import k01_fetch as k01
from minibroker.schemas import k03_metadata as k03
from minibroker.schemas import k19_create_topics as k19
from minibroker.schemas import k50_describe_user_scram_credentials as k50
from minibroker.schemas import k51_alter_user_scram_credentials as k51
from minibroker.server import login_memory
from minibroker.server.broker import Broker
from minibroker.server.login_memory import LoginMemory
from minibroker.server.sasl import listener as sasl_listener
from minibroker.server.sasl.gate import REFUSED_SIZE_MAX
from tests.golden.sasl_scenes import CLOSED, MODULES, RIGHT, Conversation, Ports, bearer, make_users, scram
from tests.support.becoming import becomes
from tests.support.broker_in_memory import frame_of
from tests.support.ports import free_ports
from tests.support.sasl_broker import SaslBroker

ASK = k03.Request(topics=[], allow_auto_topic_creation=False)
SESSION_MS = 60_000


@pytest.fixture(scope="module")
def ports() -> Ports:
    first = free_ports(3)
    return Ports(first, first + 1, first + 2)


@pytest.fixture(scope="module")
def broker(ports: Ports) -> Iterator[SaslBroker]:
    listeners = f"PLAINTEXT://127.0.0.1:{ports.plain},SASL://127.0.0.1:{ports.sasl},REAUTH://127.0.0.1:{ports.reauth}"
    modules = {f"listener.name.{name}.{each}.sasl.jaas.config": text for name in ("sasl", "reauth") for each, text in MODULES.items()}
    properties = {
        "listeners": listeners,
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT,REAUTH:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": ",".join(map(str.upper, MODULES)),
        "listener.name.reauth.plain.connections.max.reauth.ms": str(SESSION_MS),
        "listener.name.reauth.scram-sha-512.connections.max.reauth.ms": str(SESSION_MS),
        "listener.name.reauth.oauthbearer.connections.max.reauth.ms": str(SESSION_MS),
        "connection.failed.authentication.delay.ms": "1",
        **modules,
    }
    with SaslBroker(properties) as broker:
        make_users(ports)
        yield broker


def shared(broker: Broker, name: str) -> sasl_listener.SaslListener:
    found = next(each.sasl for each in broker.listeners if each.name == name)
    assert found is not None
    return found


@pytest.fixture
def lines() -> Iterator[list[str]]:
    """The log of the broker's thread, with tracebacks; `caplog` has that of the test's own thread."""
    found: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: found.append(logging.Formatter().format(record))  # type: ignore[method-assign]
    logger = logging.getLogger("minibroker")
    usual = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    yield found
    logger.removeHandler(handler)
    logger.setLevel(usual)


class Elapsed:
    """The clock of sessions, which a test moves."""

    def __init__(self) -> None:
        self.ms = 1_000_000.0

    def __call__(self) -> float:
        return self.ms


@pytest.fixture
def elapsed(broker: SaslBroker) -> Iterator[Elapsed]:
    clock = Elapsed()
    listener = shared(broker.broker, "REAUTH")
    usual, listener.elapsed_ms = listener.elapsed_ms, clock
    yield clock
    listener.elapsed_ms = usual


def test_a_session_ends_at_the_next_request(broker: SaslBroker, ports: Ports, elapsed: Elapsed) -> None:
    with Conversation(ports.reauth) as talk:
        talk.handshake("PLAIN")
        assert talk.authenticate(RIGHT).session_lifetime_ms == SESSION_MS
        elapsed.ms += SESSION_MS - 1
        assert talk.ask(ASK) != CLOSED
        elapsed.ms += 1
        assert talk.ask(ASK) == CLOSED


def test_a_session_that_has_ended_can_still_be_authenticated_again(broker: SaslBroker, ports: Ports, elapsed: Elapsed) -> None:
    with Conversation(ports.reauth) as talk:
        talk.handshake("PLAIN")
        talk.authenticate(RIGHT)
        for _ in range(3):
            elapsed.ms += 10 * SESSION_MS
            assert talk.handshake("PLAIN").error_code == 0
            assert talk.authenticate(RIGHT).session_lifetime_ms == SESSION_MS
            assert talk.ask(ASK) != CLOSED


def test_authenticating_again_within_a_second_is_illegal(broker: SaslBroker, ports: Ports, elapsed: Elapsed) -> None:
    with Conversation(ports.reauth) as talk:
        talk.handshake("PLAIN")
        talk.authenticate(RIGHT)
        for pause_ms, code in ((0, 0), (999, 34), (1, 0)):
            elapsed.ms += pause_ms
            assert talk.handshake("PLAIN").error_code == code
            if code == 0:
                talk.authenticate(RIGHT)


def test_the_limit_of_one_mechanism_is_not_that_of_others(broker: SaslBroker, ports: Ports) -> None:
    with Conversation(ports.reauth) as talk:
        scram(talk, "alice", b"secret")
        assert talk.said[-1]["session_lifetime_ms"] == 0
        assert talk.handshake("SCRAM-SHA-256").error_code == 34


def test_the_end_of_a_session_closes_nothing_before_a_request(broker: SaslBroker, ports: Ports, elapsed: Elapsed) -> None:
    with Conversation(ports.reauth) as talk:
        talk.handshake("PLAIN")
        talk.authenticate(RIGHT)
        elapsed.ms += 10 * SESSION_MS
        for _ in range(3):  # turns of the loop
            assert broker.call(connections_of("REAUTH")) == 1
        assert talk.ask(ASK) == CLOSED


def test_requests_before_a_reauthentication_are_answered_first(broker: SaslBroker, ports: Ports) -> None:
    """A Fetch waits for records when SaslHandshake arrives."""
    topic = k19.Topic(name="empty", num_partitions=1, replication_factor=1, assignments=[], configs=[])
    with Conversation(ports.plain) as admin:
        admin.ask(k19.Request(topics=[topic], timeout_ms=1000, validate_only=False))
    partition = k01.Partition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    wanted = k01.Request(max_wait_ms=60_000, min_bytes=1, topics=[k01.Topic(topic="empty", partitions=[partition])])
    fetch = bytes(frame_of(wanted, 4))
    fetch = fetch[:4] + struct.pack(">i", 3) + fetch[8:]
    token = b"\x00\x24\x00\x00\x00\x00\x00\x05\xff\xff" + struct.pack(">i", len(RIGHT)) + RIGHT.encode()
    handshake = b"\0\x11\0\x01\0\0\0\x04\xff\xff\0\x05PLAIN"
    metadata = b"\x00\x03\x00\x01\x00\x00\x00\x06\xff\xff\x00\x00\x00\x00"
    with Conversation(ports.reauth) as talk:
        talk.handshake("PLAIN")
        talk.authenticate(RIGHT)
        frames = (metadata, fetch, handshake, token, metadata)
        first = talk.raw(b"".join(struct.pack(">i", len(each)) + each for each in frames)[4:], len(metadata))
        answers = [first, *(talk.receive() for _ in range(4))]
    assert [int.from_bytes(each[:4], "big") for each in answers if each is not None] == [6, 3, 4, 5, 6]


def test_a_wrong_password_of_a_reauthentication_is_told_as_kafka_does(broker: SaslBroker, ports: Ports) -> None:
    with Conversation(ports.reauth) as talk:
        scram(talk, "alice", b"secret", "SCRAM-SHA-512")
        assert talk.said[-1]["session_lifetime_ms"] == SESSION_MS
        scram(talk, "alice", b"wrong", "SCRAM-SHA-512")
        message = "Authentication failed during re-authentication due to invalid credentials with SASL mechanism SCRAM-SHA-512"
        assert talk.said[-1]["error_message"] == message
        talk.ends()
        assert talk.said[-1] == CLOSED


@pytest.mark.parametrize(("listener", "lasts_s", "lifetime_s"), [("reauth", 3600, 60), ("reauth", 20, 20), ("sasl", 20, 20)])
def test_a_session_ends_with_its_token_or_at_the_limit(
    broker: SaslBroker, ports: Ports, listener: str, lasts_s: int, lifetime_s: int
) -> None:
    with Conversation(getattr(ports, listener)) as talk:
        talk.handshake("OAUTHBEARER")
        lifetime_ms = talk.authenticate(bearer("alice", lasts_s)).session_lifetime_ms
        assert lifetime_s * 1000 - 10_000 < lifetime_ms <= lifetime_s * 1000


def principals(broker: Broker) -> set[str]:
    return {each.info.principal for each in broker.connections}


def test_the_principal_is_the_user_once_it_has_logged_in(broker: SaslBroker, ports: Ports) -> None:
    with Conversation(ports.sasl) as talk:
        talk.handshake("PLAIN")
        assert "User:alice" not in broker.call(principals)
        talk.authenticate(RIGHT)
        assert "User:alice" in broker.call(principals)
        protocols = broker.call(lambda each: {connection.info.security_protocol for connection in each.connections})
        assert "SASL_PLAINTEXT" in protocols


def test_changed_and_deleted_credentials_hold_for_the_next_login_and_not_for_open_connections(broker: SaslBroker, ports: Ports) -> None:
    with Conversation(ports.plain) as admin, Conversation(ports.sasl) as talk:
        scram(talk, "alice", b"secret")
        assert talk.said[-1]["error_code"] == 0
        admin.ask(k51.Request(deletions=[k51.Deletion(name="alice", mechanism=1)], upsertions=[]))
        assert talk.ask(k50.Request(users=None)) != CLOSED
        with Conversation(ports.sasl) as late:
            scram(late, "alice", b"secret")
            assert late.said[-1]["error_code"] == 58
        make_users(ports)
        with Conversation(ports.sasl) as again:
            scram(again, "alice", b"secret")
            assert again.said[-1]["error_code"] == 0


def test_a_client_that_takes_a_refused_token_for_a_success_leaves_the_reason(broker: SaslBroker, ports: Ports, lines: list[str]) -> None:
    with Conversation(ports.sasl) as talk:
        talk.handshake("OAUTHBEARER")
        assert talk.authenticate(bearer("alice", lasts_s=-3600)).error_code == 0
        talk.ask(ASK)  # as aiokafka and kafkajs do
        talk.ends()
    (line,) = [line for line in lines if "authentication" in line]
    assert line.endswith(
        " (Unexpected Kafka request of type METADATA during SASL authentication. (the token is not accepted: it has expired))"
    )


@pytest.mark.parametrize("password", ["hunter2-wrong", "hunter2-\n-line"])
def test_a_failure_is_one_line_without_the_secret(broker: SaslBroker, ports: Ports, lines: list[str], password: str) -> None:
    with Conversation(ports.sasl) as talk:
        talk.handshake("PLAIN")
        assert talk.authenticate(f"\0alice\0{password}").error_code == 58
        talk.ends()
    (line,) = [line for line in lines if "authentication" in line or "SASL" in line]
    assert line.startswith("Failed authentication with /127.0.0.1 (channelId=127.0.0.1:")
    assert line.endswith(") (Authentication failed: Invalid username or password)")
    assert "hunter2" not in "".join(lines)


def test_names_from_clients_do_not_break_lines_of_the_log(broker: SaslBroker, ports: Ports, lines: list[str]) -> None:
    with Conversation(ports.sasl) as talk:
        talk.handshake("evil\nFailed \x1b[31m" + "x" * 1000)
        talk.ends()
    (line,) = [line for line in lines if "authentication" in line or "SASL" in line]
    assert "\n" not in line
    assert "\x1b" not in line
    assert len(line) < 400


def _plain(user: str) -> Callable[[Conversation], None]:
    def login(talk: Conversation) -> None:
        talk.handshake("PLAIN")
        talk.authenticate(f"\0{user}\0s3cret-of-nobody")

    return login


def _expired(talk: Conversation) -> None:
    talk.handshake("OAUTHBEARER")
    talk.authenticate(bearer("alice", lasts_s=-3600))
    talk.authenticate(b"\x01")


@pytest.mark.parametrize(
    "login",
    [
        _plain("alice"),
        _plain("nobody"),
        lambda talk: scram(talk, "alice", b"s3cret-of-nobody"),
        lambda talk: scram(talk, "nobody", b"s3cret-of-nobody"),
        lambda talk: scram(talk, "nobody", b"s3cret-of-nobody", "SCRAM-SHA-512"),
        _expired,
    ],
    ids=["PLAIN", "PLAIN, unknown user", "SCRAM", "SCRAM, unknown user", "SCRAM-SHA-512, unknown user", "expired token"],
)
def test_a_failed_login_is_one_line_without_its_secret(
    broker: SaslBroker, ports: Ports, lines: list[str], elapsed: Elapsed, login: Callable[[Conversation], None]
) -> None:
    elapsed.ms += 5_000
    with Conversation(ports.sasl) as talk:
        login(talk)
        talk.ends()
    assert becomes(lambda: broker.call(connections_of("SASL")) == 0)
    (line,) = [line for line in lines if "authentication" in line or "SASL" in line]
    assert line.startswith("Failed authentication with /127.0.0.1 (channelId=")
    assert "s3cret" not in "".join(lines)
    assert "Bearer" not in "".join(lines)


def test_a_flood_of_failures_is_not_a_flood_of_lines(broker: SaslBroker, caplog: pytest.LogCaptureFixture, elapsed: Elapsed) -> None:
    listener = shared(broker.broker, "REAUTH")
    elapsed.ms += 5_000
    with caplog.at_level(logging.INFO):
        for _ in range(1_000):
            listener.login_failed("10.0.0.1", "a-b", "wrong", is_again=False)
        elapsed.ms += 1_000
        listener.login_failed("10.0.0.1", "a-b", "wrong", is_again=True)
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == sasl_listener.LINES_PER_SECOND + 2
    assert lines[-2:] == ["did not log 900 more failed logins", "Failed re-authentication with /10.0.0.1 (channelId=a-b) (wrong)"]


def cut(broker: Broker) -> None:
    for connection in broker.connections:
        connection.abort()


def test_the_answer_to_a_failure_waits_and_others_do_not(ports: Ports, broker: SaslBroker) -> None:
    listener = shared(broker.broker, "SASL")
    usual, listener.failure_delay_ms = listener.failure_delay_ms, 3_600_000
    try:
        with Conversation(ports.sasl) as wrong, Conversation(ports.sasl) as right:
            wrong.handshake("PLAIN")
            token = b"\x00\x24\x00\x01\x00\x00\x00\x07\xff\xff" + struct.pack(">i", 12) + b"\0alice\0wrong"
            wrong._socket.sendall(struct.pack(">i", len(token)) + token)
            right.handshake("PLAIN")
            assert right.authenticate(RIGHT).error_code == 0
            assert right.ask(ASK) != CLOSED
            wrong._socket.setblocking(False)
            with pytest.raises(BlockingIOError):
                wrong._socket.recv(1)
    finally:
        listener.failure_delay_ms = usual
        broker.call(cut)


def test_a_large_request_instead_of_a_token_is_not_decoded(broker: SaslBroker, ports: Ports) -> None:
    for size, is_answered in ((100, True), (REFUSED_SIZE_MAX + 100, False)):
        with Conversation(ports.sasl) as talk:
            talk.handshake("PLAIN")
            topics = [k03.Topic(name="x" * 80) for _ in range(size // 80)]
            answer = talk.ask(k03.Request(topics=topics, allow_auto_topic_creation=False), 5)
            assert (answer != CLOSED) == is_answered


def connections_of(name: str) -> Callable[[Broker], int]:
    return lambda broker: sum(len(each.connections) for each in broker.listeners if each.name == name)


def login_memory_of(broker: Broker) -> LoginMemory:
    return broker.listeners[0].login_memory


def test_a_connection_counts_until_its_client_has_logged_in(broker: SaslBroker, ports: Ports) -> None:
    assert becomes(lambda: broker.call(login_memory_of).size == 0)
    with Conversation(ports.sasl) as talk, Conversation(ports.plain):
        talk.handshake("PLAIN")
        assert broker.call(login_memory_of).size == login_memory.Stage.CONNECTED
        talk.authenticate(RIGHT)
        assert broker.call(login_memory_of).size == 0


def test_unfinished_requests_before_the_login_use_bounded_memory(broker: SaslBroker, ports: Ports) -> None:
    """200 clients of two listeners each send most of the largest request. The oldest ones are closed; an honest client logs in."""
    size = 524_288
    frame = struct.pack(">i", size) + b"\0\x11\0\x01" + bytes(size - 100)
    clients = []
    for number in range(200):
        client = socket.create_connection(("127.0.0.1", (ports.sasl, ports.reauth)[number % 2]))
        client.setblocking(True)
        with contextlib.suppress(ConnectionError):
            client.sendall(frame)
        clients.append(client)
    assert 0 < broker.call(login_memory_of).size <= login_memory.LIMIT
    assert broker.call(lambda each: len({id(listener.login_memory) for listener in each.listeners})) == 1
    # the loop reports an aborted connection as lost only in a later turn, and frees its buffer then
    assert becomes(lambda: broker.call(lambda each: each.listeners[0].request_memory.used) <= login_memory.LIMIT)
    with Conversation(ports.sasl) as talk:
        talk.handshake("PLAIN")
        assert talk.authenticate(RIGHT).error_code == 0
    for client in clients:
        client.close()
    assert becomes(lambda: broker.call(connections_of("SASL")) + broker.call(connections_of("REAUTH")) == 0)
    assert broker.call(login_memory_of).size == 0


def test_torn_requests_of_a_login_are_served_when_they_are_whole(broker: SaslBroker, ports: Ports) -> None:
    handshake = b"\0\x11\0\x01\0\0\0\0\xff\xff\0\x05PLAIN"
    token = b"\x00\x24\x00\x00\x00\x00\x00\x07\xff\xff" + struct.pack(">i", len(RIGHT)) + RIGHT.encode()
    with socket.create_connection(("127.0.0.1", ports.sasl), 10) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for each in (handshake, token):
            for byte in struct.pack(">i", len(each)) + each:
                client.sendall(bytes([byte]))
            size = int.from_bytes(client.recv(4), "big")
            answer = client.recv(size)
            assert answer[4:6] == b"\0\0"


def test_requests_that_arrive_with_the_last_token_are_served_after_it(broker: SaslBroker, ports: Ports) -> None:
    def framed(*frames: bytes) -> bytes:
        return b"".join(struct.pack(">i", len(each)) + each for each in frames)

    handshake = b"\0\x11\0\x01\0\0\0\x01\xff\xff\0\x05PLAIN"
    token = b"\x00\x24\x00\x00\x00\x00\x00\x02\xff\xff" + struct.pack(">i", len(RIGHT)) + RIGHT.encode()
    metadata = b"\x00\x03\x00\x01\x00\x00\x00\x03\xff\xff\x00\x00\x00\x00"
    with socket.create_connection(("127.0.0.1", ports.sasl), 10) as client, client.makefile("rb") as reader:
        client.sendall(framed(handshake, token, metadata, metadata))
        answers = [reader.read(int.from_bytes(reader.read(4), "big")) for _ in range(4)]
    assert [int.from_bytes(each[:4], "big") for each in answers] == [1, 2, 3, 3]


def change(broker: Broker, properties: Mapping[str, str]) -> None:
    broker.config.set_dynamic({}, dict(properties))


def test_changed_mechanisms_and_users_hold_for_new_connections(broker: SaslBroker, ports: Ports, lines: list[str]) -> None:
    name = "listener.name.sasl.plain.sasl.jaas.config"
    with Conversation(ports.sasl) as old:
        old.handshake("PLAIN")
        old.authenticate(RIGHT)
        broker.call(lambda each: change(each, {name: MODULES["plain"].replace("user_alice", "user_carol")}))
        for user, code in (("alice", 58), ("carol", 0)):
            with Conversation(ports.sasl) as talk:
                talk.handshake("PLAIN")
                assert talk.authenticate(f"\0{user}\0secret").error_code == code
        assert old.ask(ASK) != CLOSED
        broker.call(lambda each: change(each, {name: "com.example.Other required secret=hunter2;"}))
        with Conversation(ports.sasl) as talk:
            talk.handshake("PLAIN")
            assert talk.authenticate("\0carol\0secret").error_code == 0  # the last valid ones stay
        assert f"listener SASL keeps its SASL mechanisms: {name}: login module 'com.example.Other' is not supported" in "".join(lines)
        assert "hunter2" not in "".join(lines)
    broker.call(lambda each: change(each, {}))


def test_idle_time_counts_before_the_login(broker: SaslBroker, ports: Ports) -> None:
    with Conversation(ports.sasl) as talk:
        talk.handshake("PLAIN")

        def sweep(each: Broker) -> None:
            for listener in each.listeners:
                if listener.name == "SASL":
                    for _ in range(40):
                        listener.sweep()

        broker.call(sweep)
        talk.ends()
        assert talk.said[-1] == CLOSED
