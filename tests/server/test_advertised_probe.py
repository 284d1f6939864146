"""What a broker says of an advertised address that is not where it listens: another cluster may answer there."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from minibroker.config.broker_config import BrokerConfig
from minibroker.config.listeners import Listener, leads_to
from minibroker.server import advertised_address, served_node
from minibroker.server.advertised_address import Submit
from minibroker.server.broker import Broker
from minibroker.server.loop_background import unawaited
from tests.server.serving import OnLoop, until


@asynccontextmanager
async def running(folder: Path, advertised: str = "") -> AsyncIterator[Broker]:
    given = {"log.dirs": str(folder), "listeners": "PLAINTEXT://127.0.0.1:0"}
    broker = Broker(BrokerConfig(given | ({"advertised.listeners": advertised} if advertised else {})))
    await broker.start()
    try:
        yield broker
    finally:
        await broker.stop()


class Probes:
    """Runs probes as a broker does, and knows when they are done."""

    def __init__(self, submit: Submit) -> None:
        self._submit = submit
        self.begun = 0
        self.answers: list[object] = []

    def __call__(self, work: object, done: object) -> None:
        self.begun += 1

        def finish(answer: object) -> None:
            done(answer)  # type: ignore[operator]
            self.answers.append(answer)

        self._submit(work, finish)  # type: ignore[arg-type]


@pytest.fixture
def probes(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Probes:
    caplog.set_level(logging.WARNING, advertised_address.__name__)
    made = Probes(unawaited)
    monkeypatch.setattr(served_node, "unawaited", made)
    return made


def test_another_cluster_answers(on_loop: OnLoop, tmp_path: Path, probes: Probes, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with running(tmp_path / "a") as a:
            port = a.listeners[0].port
            async with running(tmp_path / "b", f"PLAINTEXT://localhost:{port}") as b:
                bound = f"PLAINTEXT://127.0.0.1:{b.listeners[0].port}"
                assert b.addresses == [f"PLAINTEXT://localhost:{port} (listens on {bound})"]
                await until(lambda: probes.answers)
                (record,) = caplog.records
                assert record.getMessage() == (
                    f"listener PLAINTEXT advertises localhost:{port}, where another cluster answers: {a.cluster.cluster_id}, "
                    f"not {b.cluster.cluster_id}: its clients will read and write there. It listens on {bound}: "
                    "set advertised.listeners to an address that leads to it"
                )

    on_loop(main())


def test_the_same_broker_answers(on_loop: OnLoop, tmp_path: Path, probes: Probes, caplog: pytest.LogCaptureFixture) -> None:
    """As with a port that is mapped."""

    async def main() -> None:
        forwarded: list[asyncio.Task[None]] = []

        async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", broker.listeners[0].port)
            inner_writer.write(await reader.readexactly(4))
            inner_writer.write(await reader.read(10_000))
            writer.write(await inner_reader.read(10_000))
            await writer.drain()
            inner_writer.close()
            writer.close()

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            forwarded.append(asyncio.ensure_future(forward(reader, writer)))

        mapped = await asyncio.start_server(accept, "127.0.0.1", 0)
        async with mapped, running(tmp_path, f"PLAINTEXT://localhost:{mapped.sockets[0].getsockname()[1]}") as broker:
            await until(lambda: probes.answers)
            assert broker.cluster.cluster_id.encode() in probes.answers[0]  # type: ignore[operator]
            await asyncio.gather(*forwarded)
        assert not caplog.records

    on_loop(main())


@pytest.mark.parametrize("words", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\0\0\0\5\0\0\0\0\1"])
def test_listener_that_is_not_a_broker_is_not_logged(
    on_loop: OnLoop, tmp_path: Path, probes: Probes, caplog: pytest.LogCaptureFixture, words: bytes
) -> None:
    async def main() -> None:
        def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(words)
            writer.close()

        other = await asyncio.start_server(answer, "127.0.0.1", 0)
        async with other, running(tmp_path, f"PLAINTEXT://localhost:{other.sockets[0].getsockname()[1]}"):
            await until(lambda: probes.answers)
        assert not caplog.records

    on_loop(main())


def test_own_bound_address_is_not_probed(on_loop: OnLoop, tmp_path: Path, probes: Probes) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            assert broker.addresses == [f"PLAINTEXT://127.0.0.1:{broker.listeners[0].port}"]
        assert probes.begun == 0

    on_loop(main())


@pytest.mark.parametrize(
    ("advertised", "bound", "leads"),
    [
        (("localhost", 9092), ("", 9092), True),
        (("localhost", 9092), ("0.0.0.0", 9092), True),
        (("127.0.0.1", 9092), ("localhost", 9092), True),
        (("broker", 9092), ("broker", 9092), True),
        (("localhost", 9092), ("", 19501), False),
        (("broker", 9092), ("", 9092), False),
        (("localhost", 9092), ("10.0.0.5", 9092), False),
    ],
)
def test_advertised_address_matches_the_bound_one(advertised: tuple[str, int], bound: tuple[str, int], leads: bool) -> None:
    assert leads_to(Listener("PLAINTEXT", *advertised), Listener("PLAINTEXT", *bound)) is leads
