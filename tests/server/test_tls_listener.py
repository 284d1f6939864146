"""A listener with TLS, over real sockets, on both loops: what clients exchange, who they are, and what hostile ones cost."""

from __future__ import annotations

import asyncio
import shutil
import socket
import ssl
import struct
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from minibroker.security.certificates import Authority, write_folder, write_pem
from minibroker.server import tls_transport
from minibroker.server.file_output import TLS_PIECE_SIZE
from minibroker.server.listener import ConnectionCounts, ConnectionLimits, Listener
from minibroker.server.login_memory import LoginMemory, Stage
from minibroker.server.secured_listener import SecuredListener
from tests.server.serving import HOST, Client, OnLoop, Script, frame, listening, only_connection, until
from tests.server.test_sendfile import SIZE, Slices, expected, pause, resume


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tls")
    write_folder(folder, ["localhost", HOST], client_name="alice")
    past = datetime.now(UTC) - timedelta(days=1)
    expired = Authority.load(folder).issue("late", valid_until=past)
    write_pem(folder / "expired.pem", expired, Authority.load(folder))
    other = Authority.create("other")
    write_pem(folder / "stranger.pem", other.issue("alice"), other)
    return folder


def secured(folder: Path, **properties: str) -> Callable[[Listener], SecuredListener]:
    texts = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(folder / "broker.pem")}
    texts |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(folder / "ca.pem")}
    texts |= {name.replace("_", "."): text for name, text in properties.items()}

    def secure(listener: Listener) -> SecuredListener:
        listener.security_protocol = "SSL"
        return SecuredListener(listener, texts)

    return secure


def client_context(folder: Path, certificate: str = "") -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=folder / "ca.pem")
    if certificate:
        context.load_cert_chain(folder / certificate)
    return context


async def connect(listener: Listener, context: ssl.SSLContext, name: str = "localhost") -> Client:
    return Client(*await asyncio.open_connection(HOST, listener.port, ssl=context, server_hostname=name))


def test_frames_and_large_answers_are_exchanged(on_loop: OnLoop, folder: Path) -> None:
    async def main() -> None:
        async with listening(Script(), secure=secured(folder)) as listener:
            client = await connect(listener, client_context(folder))
            large = b"x" * 1_000_000
            client.send(b"hello", large, b"big 3000000", b"bye")
            assert await client.receive() == b"hello"
            assert await client.receive() == large
            assert len(await client.receive()) == 3_000_000
            assert await client.receive() == b"bye"
            assert only_connection(listener).info.principal == "User:ANONYMOUS"
            only_connection(listener).close()
            assert await client.is_closed()

    on_loop(main())


def test_slices_of_files_are_encrypted_and_cost_one_piece(on_loop: OnLoop, folder: Path, tmp_path: Path) -> None:
    async def main() -> None:
        script = Slices(tmp_path)
        async with listening(script, secure=secured(folder)) as listener:
            client = await connect(listener, client_context(folder))
            pieces = [(1000 * number, 300_000 + number) for number in range(10)]
            client.send(b"hello", *[b"slice %d %d" % piece for piece in pieces], b"bye")
            assert await client.receive() == b"hello"
            for piece in pieces:
                assert await client.receive() == expected(*piece)
            assert await client.receive() == b"bye"
            assert script.files.sent == 0  # sendfile would send plain bytes

            pause(client)
            client.send(*[b"slice 0 %d" % SIZE] * 20)
            connection = only_connection(listener)
            await until(lambda: connection._rest is not None and connection._is_paused and not connection._is_reading)
            await asyncio.sleep(0.05)
            assert connection._transport is not None
            assert connection._transport.get_write_buffer_size() <= 2 * TLS_PIECE_SIZE
            assert len(script.seen) < 20
            resume(client)
            for _ in range(20):
                assert await client.receive() == expected(0, SIZE)

    on_loop(main())


def test_a_request_in_torn_records_is_served(on_loop: OnLoop, folder: Path) -> None:
    async def main() -> None:
        async with listening(secure=secured(folder)) as listener:
            incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
            tls = client_context(folder).wrap_bio(incoming, outgoing, server_hostname="localhost")
            reader, writer = await asyncio.open_connection(HOST, listener.port)

            async def step(action: Callable[[], object]) -> object:
                while True:
                    try:
                        return action()
                    except ssl.SSLWantReadError:
                        for byte in outgoing.read():
                            writer.write(bytes([byte]))
                            await asyncio.sleep(0)
                        incoming.write(await reader.read(1 << 16))

            await step(tls.do_handshake)
            for byte in frame(b"hello"):
                tls.write(bytes([byte]))  # a record for each byte
            assert await step(lambda: tls.read(100)) == frame(b"hello")
            writer.close()

    on_loop(main())


def test_client_certificate_sets_the_principal(on_loop: OnLoop, folder: Path) -> None:
    async def main() -> None:
        async with listening(secure=secured(folder, ssl_client_auth="required")) as listener:
            client = await connect(listener, client_context(folder, "client.pem"))
            client.send(b"hello")
            assert await client.receive() == b"hello"
            assert only_connection(listener).info.principal == "User:CN=alice"
        rules = "RULE:^CN=(.*)$/$1/U"
        async with listening(secure=secured(folder, ssl_client_auth="requested", ssl_principal_mapping_rules=rules)) as listener:
            client, other = await connect(listener, client_context(folder, "client.pem")), await connect(listener, client_context(folder))
            for each in (client, other):
                each.send(b"hello")
                assert await each.receive() == b"hello"
            assert {each.info.principal for each in listener.connections} == {"User:ALICE", "User:ANONYMOUS"}

    on_loop(main())


@pytest.mark.parametrize("certificate", ["", "expired.pem", "stranger.pem"])
def test_a_client_without_a_good_certificate_is_sent_an_alert(
    on_loop: OnLoop, folder: Path, certificate: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        script = Script()
        async with listening(script, secure=secured(folder, ssl_client_auth="required")) as listener:
            client = await connect(listener, client_context(folder, certificate))  # TLS 1.3: the client's side is done before ours
            client.send(b"hello")
            with pytest.raises(ssl.SSLError, match=r"(?i)alert|certificate"):
                await client.receive()
            await until(lambda: not listener.connections)
            assert script.seen == []

    on_loop(main())
    assert "TLS handshake failed" in caplog.text


def test_a_name_that_no_rule_matches_is_refused(on_loop: OnLoop, folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        script = Script()
        secure = secured(folder, ssl_client_auth="required", ssl_principal_mapping_rules="RULE:^CN=bob$/bob/")
        async with listening(script, secure=secure) as listener:
            client = await connect(listener, client_context(folder, "client.pem"))
            client.send(b"hello")
            assert await client.is_closed()
            assert script.seen == []

    on_loop(main())
    assert "No rules apply to CN=alice" in caplog.text


def test_plain_bytes_are_refused(on_loop: OnLoop, folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        script = Script()
        async with listening(script, secure=secured(folder)) as listener:
            for hello in (
                frame(b"hello"),
                b"GET / HTTP/1.1\r\n\r\n",
                struct.pack(">i", -1) * 1000,
                b"\x16\x03\x01\xff\xff" + bytes(70_000),
            ):
                client = await Client.connect(listener)
                client.writer.write(hello)
                assert await client.is_closed()
            assert script.seen == []

    on_loop(main())
    assert caplog.text.count("TLS handshake failed") == 1  # one line a second


def test_a_silent_client_is_counted_from_the_start_and_closed_in_time(
    on_loop: OnLoop, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls_transport, "HANDSHAKE_TIMEOUT_MS", 50)

    async def main() -> None:
        async with listening(limits=ConnectionLimits(max_connections=2), secure=secured(folder)) as listener:
            silent = [await Client.connect(listener) for _ in range(3)]
            assert await silent[2].is_closed()
            assert await silent[0].is_closed()
            assert await silent[1].is_closed()
            monkeypatch.undo()
            client = await connect(listener, client_context(folder))
            client.send(b"hello")
            assert await client.receive() == b"hello"

    on_loop(main())


def hello_of(folder: Path) -> bytes:
    """The first bytes of a client."""
    outgoing = ssl.MemoryBIO()
    half = client_context(folder).wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        half.do_handshake()
    return outgoing.read()


def counts_with(limit: int) -> ConnectionCounts:
    counts = ConnectionCounts()
    counts.login_memory = LoginMemory(limit)
    return counts


def test_only_so_many_handshakes_are_under_way(on_loop: OnLoop, folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    hello = hello_of(folder)
    counts = counts_with(5 * Stage.HANDSHAKE + 6 * Stage.CONNECTED)

    async def main() -> None:
        async with listening(counts=counts, secure=secured(folder)) as listener:
            half_open = []
            for _ in range(8):
                client = await Client.connect(listener)
                client.writer.write(hello)
                assert await client.reader.read(100)
                half_open.append(client)
            for client in half_open[:3]:
                assert await client.is_closed()
            honest = await connect(listener, client_context(folder))
            honest.send(b"hello")
            assert await honest.receive() == b"hello"
            assert len(listener.connections) == 5  # the fourth made room while the honest one shook hands
            assert counts.login_memory.size == 4 * (Stage.HANDSHAKE + len(hello) - 9)

    on_loop(main())
    assert "and it is the oldest with an unfinished TLS handshake" in caplog.text


def test_a_hello_counts_by_the_size_that_it_claims(on_loop: OnLoop, folder: Path) -> None:
    hello = hello_of(folder)
    large = b"\x16\x03\x01\x00\x40\x01\x01\xff\x00" + bytes(20)
    counts = ConnectionCounts()

    async def main() -> None:
        async with listening(counts=counts, secure=secured(folder)) as listener:
            for first, size in ((hello, len(hello) - 9), (large, 0x1FF00), (hello[:8], tls_transport._HELLO_MAX)):
                client = await Client.connect(listener)
                client.writer.write(first)
                await until(lambda size=size: counts.login_memory.size == Stage.HANDSHAKE + size)  # type: ignore[misc]
                client.writer.close()
                await until(lambda: counts.login_memory.size == 0)

    on_loop(main())


class HandshakeSteps:
    """A connection with TLS, as far as its turns matter."""

    def __init__(self, name: str, steps: list[str]) -> None:
        self._name = name
        self._steps = steps

    def shake_hands(self) -> None:
        self._steps.append(self._name)


def test_handshakes_under_way_come_first_and_each_turn_starts_a_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls_transport, "_TURN_S", -1.0)  # one step takes all the time of a turn
    turns: list[Callable[[], None]] = []
    steps: list[str] = []
    handshakes = tls_transport.Handshakes(turns.append, lambda: 0, LoginMemory())
    for name in ("new 1", "new 2", "new 3", "gone"):
        protocol: Any = HandshakeSteps(name, steps)
        handshakes.wants_turn(protocol, is_new=True)
    handshakes.forget(protocol)
    for name in ("under way 1", "under way 2"):
        handshakes.wants_turn(cast("Any", HandshakeSteps(name, steps)), is_new=False)
    while turns:
        turns.pop()()
    assert steps == ["under way 1", "new 1", "under way 2", "new 2", "new 3"]


def test_a_connection_ends_with_a_close_notify(folder: Path, on_loop: OnLoop) -> None:
    async def main() -> None:
        async with listening(secure=secured(folder)) as listener:
            loop = asyncio.get_running_loop()

            def exchange() -> bytes:
                with socket.create_connection((HOST, listener.port)) as plain:
                    client = client_context(folder).wrap_socket(plain, server_hostname="localhost", suppress_ragged_eofs=False)
                    client.sendall(frame(b"bad"))
                    return client.recv(100)  # SSLEOFError without a close_notify

            assert await loop.run_in_executor(None, exchange) == b""

    on_loop(main())


def test_new_connections_get_the_new_certificate_and_open_ones_stay(on_loop: OnLoop, folder: Path, tmp_path: Path) -> None:
    present = Path(shutil.copytree(folder, tmp_path / "present"))
    write_folder(tmp_path, ["localhost", HOST])

    async def main() -> None:
        made: list[SecuredListener] = []
        async with listening(
            secure=lambda listener: made.append(secured(present, ssl_allow_san_changes="true", ssl_allow_dn_changes="true")(listener))
        ) as listener:
            client = await connect(listener, client_context(folder))
            shutil.copy(tmp_path / "broker.pem", present / "broker.pem")
            made[0].reconfigure({"ssl.keystore.type": "PEM", "ssl.keystore.location": str(present / "broker.pem")})
            with pytest.raises(ssl.SSLCertVerificationError):
                await connect(listener, client_context(folder))
            await connect(listener, client_context(tmp_path))
            client.send(b"hello")
            assert await client.receive() == b"hello"

    on_loop(main())
