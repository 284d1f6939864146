"""A connection: versions, order, and bytes that are not Kafka's."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from minibroker.client.connection import Connection, connect
from minibroker.client.errors import BrokerUnreachable, ClientError, NotAKafkaBroker, TimedOut, UnsupportedByBroker
from minibroker.client.transport import Address, Deadline, SocketTransport
from minibroker.schemas import k02_list_offsets, k03_metadata, k18_api_versions
from tests.client.fake_broker import FakeBroker

ADDRESS = Address("fake", 1)


def connected(broker: FakeBroker) -> Connection:
    return broker.connect(ADDRESS, Deadline(60_000))


def test_highest_common_version_is_used() -> None:
    broker = FakeBroker(versions={3: (2, 7)})
    connected(broker).ask(k03_metadata, k03_metadata.Request(topics=[]), Deadline(60_000))
    assert [(key, version) for key, version, _ in broker.requests] == [(18, 4), (3, 7)]


def test_a_limit_of_the_caller_is_kept() -> None:
    connection = connected(FakeBroker())
    assert connection.version_for(k03_metadata) == 13
    assert connection.version_for(k03_metadata, most=9) == 9


def test_api_versions_is_retried_at_the_supported_version() -> None:
    broker = FakeBroker(versions={18: (0, 2)})
    connection = connected(broker)
    assert [version for key, version, _ in broker.requests if key == 18] == [4, 2]
    assert connection.version_for(k03_metadata) == 13


def test_api_versions_without_a_list_is_retried_at_version_0() -> None:
    broker = FakeBroker(versions={18: (0, 0)})
    broker.in_turn(
        k18_api_versions,
        lambda request, version: k18_api_versions.Response(error_code=35, api_keys=[]),
        broker._api_versions,
    )
    connected(broker)
    assert [version for key, version, _ in broker.requests if key == 18] == [4, 0]


@pytest.mark.parametrize(
    ("versions", "words"),
    [((12, 14), "serves ListOffsets 12 to 14, but 1 to 11 is needed"), ((0, 0), "serves ListOffsets 0 to 0")],
    ids=["too new", "too old"],
)
def test_missing_common_version_is_reported(versions: tuple[int, int], words: str) -> None:
    connection = connected(FakeBroker(versions={2: versions}))
    with pytest.raises(UnsupportedByBroker, match=words):
        connection.version_for(k02_list_offsets)


def test_unsupported_api_is_reported() -> None:
    broker = FakeBroker()
    del broker.versions[2]
    with pytest.raises(UnsupportedByBroker, match="does not serve ListOffsets"):
        connected(broker).version_for(k02_list_offsets)


def test_requests_sent_ahead_are_answered_in_their_order() -> None:
    broker = FakeBroker(topics={"a": 1, "b": 2})
    connection = connected(broker)
    deadline = Deadline(60_000)
    for name in ("a", "b"):
        connection.send(k03_metadata, k03_metadata.Request(topics=[k03_metadata.Topic(name=name)]), deadline)
    assert [connection.receive(deadline).topics[0].name for _ in range(2)] == ["a", "b"]


def test_request_between_pipelined_requests_gets_its_own_answer() -> None:
    broker = FakeBroker(topics={"a": 1, "b": 2, "c": 3})
    connection = connected(broker)
    deadline = Deadline(60_000)
    requests = {name: k03_metadata.Request(topics=[k03_metadata.Topic(name=name)]) for name in "abc"}
    connection.send(k03_metadata, requests["a"], deadline)
    connection.send(k03_metadata, requests["b"], deadline)
    assert connection.ask(k03_metadata, requests["c"], deadline).topics[0].name == "c"
    assert [connection.receive(deadline).topics[0].name for _ in range(2)] == ["a", "b"]
    connection.send(k03_metadata, requests["a"], deadline)
    connection.close()
    with pytest.raises(BrokerUnreachable, match="was closed"):
        connection.receive(deadline)


@pytest.mark.parametrize("answer", [b"", b"\0\0\0\2", b"\0\0\0\2garbage", b"\0\0\0\x63\0"], ids=["empty", "cut", "garbage", "other id"])
def test_invalid_answer_closes_the_connection(answer: bytes) -> None:
    broker = FakeBroker()
    connection = connected(broker)
    broker.on(k03_metadata, lambda request, version: answer)
    with pytest.raises(NotAKafkaBroker, match="fake:1 answers Metadata v13"):
        connection.ask(k03_metadata, k03_metadata.Request(topics=[]), Deadline(60_000))
    assert connection.closed
    with pytest.raises(BrokerUnreachable, match="was closed"):
        connection.ask(k03_metadata, k03_metadata.Request(topics=[]), Deadline(60_000))


class Peer:
    """A TCP server of one connection, served by a function in a thread."""

    def __init__(self, serve: Callable[[socket.socket], None]) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = Address("127.0.0.1", self._listener.getsockname()[1])
        self._serve = serve
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        connection, _ = self._listener.accept()
        with connection:
            self._serve(connection)

    def close(self) -> None:
        self._thread.join(10)
        self._listener.close()


@pytest.fixture
def peer() -> Iterator[Callable[[Callable[[socket.socket], None]], Address]]:
    peers: list[Peer] = []

    def start(serve: Callable[[socket.socket], None]) -> Address:
        peers.append(Peer(serve))
        return peers[-1].address

    yield start
    for each in peers:
        each.close()


@pytest.mark.parametrize(
    ("answer", "words"),
    [(b"HTTP/1.1 400 Bad Request\r\n\r\n", "HTTP"), (b"\x15\x03\x03\x00\x02\x02\x50", "TLS"), (b"SSH-2.0-OpenSSH\r\n", "SSH")],
    ids=["http", "tls", "ssh"],
)
def test_another_protocol_is_named(peer: Callable[..., Address], answer: bytes, words: str) -> None:
    address = peer(lambda connection: (connection.recv(65536), connection.sendall(answer))[0])
    with pytest.raises(NotAKafkaBroker, match=words):
        connect(address, Deadline(60_000))


def test_disconnect_is_reported_with_a_hint(peer: Callable[..., Address]) -> None:
    address = peer(lambda connection: None)
    with pytest.raises(BrokerUnreachable, match="without TLS or SASL"):
        connect(address, Deadline(60_000))


def test_silent_peer_times_out(peer: Callable[..., Address]) -> None:
    done = threading.Event()
    address = peer(lambda connection: (done.wait(10), None)[1])
    try:
        with pytest.raises(TimedOut, match="no answer from"):
            connect(address, Deadline(500))
    finally:
        done.set()


def test_refused_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(BrokerUnreachable, match="Is a broker running there"):
        connect(Address("127.0.0.1", port), Deadline(60_000))


def test_an_unknown_name() -> None:
    with pytest.raises(BrokerUnreachable, match=r"no-such-host\.invalid"):
        connect(Address("no-such-host.invalid", 9092), Deadline(60_000))


def test_large_frames_in_many_chunks_arrive_whole(peer: Callable[..., Address]) -> None:
    chunks: list[bytes] = [bytes([index % 256]) * (index % 3000) for index in range(3000)]
    sent = b"".join(chunks)
    received = bytearray()

    def serve(connection: socket.socket) -> None:
        while len(received) < len(sent):
            received.extend(connection.recv(1 << 20))
        connection.sendall(len(sent).to_bytes(4, "big") + sent)

    transport = SocketTransport(peer(serve), Deadline(60_000))
    transport.send(chunks, Deadline(60_000))
    assert bytes(transport.receive(Deadline(60_000))) == sent
    assert bytes(received) == sent
    transport.close()


def test_errors_are_one_line() -> None:
    with pytest.raises(ClientError) as raised:
        connect(Address("127.0.0.1", 1), Deadline(60_000))
    assert "\n" not in str(raised.value)
