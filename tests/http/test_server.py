"""The HTTP server: several sites on one port or on their own, and the requests that it rejects before a site sees them."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import ssl
import sys
import threading
from collections.abc import AsyncIterator, Mapping
from types import ModuleType
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from yarl import URL

from minibroker.errors import ConfigurationError
from minibroker.http import server as server_module
from minibroker.http import sockets
from minibroker.http.access import Pages
from minibroker.http.server import LOOPBACK, HttpServer, Place, Routes, json_failure
from tests.server.serving import until
from tests.support.ports import free_port


class Site:
    """Serves its name at /name."""

    extra = "lab"
    body_max = 10
    failure = staticmethod(json_failure)

    def __init__(self, name: str, pages: Pages = Pages.OWN, shared_prefix: str = "") -> None:
        self.name = self.noun = name
        self.pages = pages
        self.shared_prefix = shared_prefix

    def add_routes(self, routes: Routes) -> None:
        routes.get(f"/{self.name}", self.answer)
        routes.post(f"/{self.name}", self.answer)

    async def answer(self, request: web.Request) -> web.Response:
        await request.read()
        return web.Response(text=self.name)


@pytest.fixture
async def server() -> AsyncIterator[HttpServer]:
    server = HttpServer()
    yield server
    await server.stop()


async def ask(url: str, method: str = "GET", headers: Mapping[str, str] | None = None, data: bytes | None = None) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.request(method, url, headers=headers, data=data) as answer:
        return answer.status, await answer.text()


async def test_sites_with_one_address_share_its_port(server: HttpServer) -> None:
    port = free_port()
    for site in (Site("console"), Site("lab", Pages.NONE, "/lab"), Site("metrics")):
        server.mount(site, Place(LOOPBACK, port))
    await server.start()
    base = f"http://127.0.0.1:{port}"
    assert {name: server.url(name) for name in server.names} == {"console": base, "lab": f"{base}/lab", "metrics": base}
    assert await ask(f"{base}/console") == (200, "console")
    assert await ask(f"{base}/metrics") == (200, "metrics")
    assert await ask(f"{base}/lab/lab") == (200, "lab")
    assert (await ask(f"{base}/nothing"))[0] == 404
    own = {"Origin": base}
    assert (await ask(f"{base}/console", headers=own))[0] == 200  # each site keeps its rules
    assert (await ask(f"{base}/lab/lab", headers=own))[0] == 403


async def test_sites_without_a_port_get_free_ones_without_a_prefix(server: HttpServer) -> None:
    server.mount(Site("console"), Place())
    server.mount(Site("lab", shared_prefix="/lab"), Place())
    await server.start()
    assert server.url("console") != server.url("lab")
    assert await ask(f"{server.url('lab')}/lab") == (200, "lab")
    assert (await ask(f"{server.url('lab')}/console"))[0] == 404


async def test_connections_wait_while_aiohttp_is_imported_in_a_thread(server: HttpServer, monkeypatch: pytest.MonkeyPatch) -> None:
    imported = threading.Event()

    def import_late() -> ModuleType:
        assert threading.current_thread() is not threading.main_thread()
        assert imported.wait(30)
        monkeypatch.undo()
        return sys.modules["aiohttp.web"]

    monkeypatch.setattr(server_module, "_web", import_late)
    monkeypatch.delitem(sys.modules, "aiohttp.web")
    server.mount(Site("console"), Place())
    await server.start()
    asked = asyncio.create_task(ask(f"{server.url('console')}/console"))
    await asyncio.sleep(0)
    assert not asked.done()
    imported.set()
    assert await asked == (200, "console")


async def test_a_port_in_use_leaves_no_port_open(server: HttpServer) -> None:
    taken, free = HttpServer(), free_port()
    taken.mount(Site("lab"), Place())
    await taken.start()
    server.mount(Site("console"), Place(LOOPBACK, free))
    server.mount(Site("metrics"), Place(LOOPBACK, int(taken.url("lab").rpartition(":")[2])))
    with pytest.raises(ConfigurationError, match=r"--metrics-port: cannot listen on 127.0.0.1:\d+: Address already in use"):
        await server.start()
    await taken.stop()
    with pytest.raises(aiohttp.ClientConnectionError):
        await ask(f"http://127.0.0.1:{free}/console")


PORT = 8083
HERE = f"127.0.0.1:{PORT}"
NAVIGATION = {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}


@pytest.mark.parametrize(
    ("method", "headers", "status"),
    [
        ("GET", {}, 200),
        ("POST", {"Origin": f"http://{HERE}", "Sec-Fetch-Site": "same-origin"}, 200),
        ("POST", {"Origin": f"http://{HERE.upper()}"}, 200),
        ("POST", {"Host": "localhost", "Origin": "http://localhost:80"}, 200),
        ("POST", {"Host": "localhost", "Origin": "https://localhost:443"}, 200),  # behind a proxy that has TLS
        ("POST", {"Origin": "http://127.0.0.1:8084"}, 403),
        ("POST", {"Origin": "http://localhost:8083"}, 403),
        ("POST", {"Origin": "https://attacker.example"}, 403),
        ("POST", {"Origin": "null"}, 403),
        ("POST", {"Origin": "file://"}, 403),
        ("POST", {"Origin": "http://127.0.0.1:99999"}, 403),
        ("POST", {"Origin": "http://["}, 403),
        ("GET", {"Sec-Fetch-Site": "none"}, 200),
        ("GET", {"Sec-Fetch-Site": "cross-site"}, 403),
        ("GET", {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "script"}, 403),
        ("GET", {"Sec-Fetch-Site": "cross-site"} | NAVIGATION, 200),  # a link to a page
        ("GET", {"Sec-Fetch-Site": "cross-site"} | NAVIGATION | {"Sec-Fetch-Dest": "iframe"}, 403),
        ("POST", {"Sec-Fetch-Site": "cross-site"} | NAVIGATION, 403),
        ("GET", {"Host": "rebound.example"}, 403),
        ("GET", {"Host": "rebound.example", "Origin": "http://rebound.example"}, 403),
    ],
)
async def test_pages_of_other_sites_are_rejected(server: HttpServer, method: str, headers: dict[str, str], status: int) -> None:
    server.mount(Site("console"), Place())
    await server.start()
    url = f"{server.url('console')}/console"
    code, text = await ask(url, method, {"Host": HERE} | headers)
    assert code == status, text
    assert status == 200 or '"error"' in text


async def test_host_names_are_judged_the_same_each_time(server: HttpServer) -> None:
    """Names of Host headers are remembered, but not too many of them."""
    server.mount(Site("console"), Place())
    await server.start()
    url = f"{server.url('console')}/console"
    hosts = {"localhost:80": 200, "rebound.example": 403, "127.0.0.1.": 200, "[": 403} | {f"h{each}.example": 403 for each in range(70)}
    for _ in range(2):
        assert {host: (await ask(url, headers={"Host": host}))[0] for host in hosts} == hosts
    reader, writer = await asyncio.open_connection(LOOPBACK, URL(url).port)
    writer.write(b"GET http://rebound.example/console HTTP/1.1\r\nHost: localhost:80\r\n\r\n")  # the host in the target counts
    assert b" 403 " in await reader.readline()
    writer.close()


async def test_a_site_with_a_token(server: HttpServer) -> None:
    server.mount(Site("metrics"), Place(token="s3cret"))
    await server.start()
    url = f"{server.url('metrics')}/metrics"
    given: list[Any] = [None, {"Authorization": "Bearer s3cre"}, {"Authorization": "s3cret"}, {"Authorization": "Bearer s3cret"}]
    assert [(await ask(url, headers=each))[0] for each in given] == [401, 401, 401, 200]


async def test_a_body_that_is_too_large(server: HttpServer) -> None:
    server.mount(Site("console"), Place())
    await server.start()
    assert (await ask(f"{server.url('console')}/console", "POST", data=b"x" * 11))[0] == http.client.REQUEST_ENTITY_TOO_LARGE


async def test_a_connection_whose_body_does_not_arrive_is_closed(server: HttpServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "BODY_S", 0.01)
    reader, writer = await opened(server)
    writer.write(b"POST /console HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhe")
    assert await asyncio.wait_for(reader.read(), 10) == b""
    writer.close()


async def test_connections_are_limited(server: HttpServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(sockets, "CONNECTIONS_MAX", 2)
    first = await opened(server)
    port = int(server.url("console").rpartition(":")[2])
    writers = [first[1], (await asyncio.open_connection(LOOPBACK, port))[1]]
    for _ in range(2):
        reader, writer = await asyncio.open_connection(LOOPBACK, port)
        with contextlib.suppress(ConnectionResetError):
            assert await asyncio.wait_for(reader.read(), 10) == b""
        writer.close()
    assert [each.message for each in caplog.records] == ["HTTP: closing new connections, because 2 are open"]
    for writer in writers:
        writer.close()
        await writer.wait_closed()
    async with asyncio.timeout(10):
        while (await answered(f"{server.url('console')}/console")) != (200, "console"):
            pass


async def test_unfinished_handshakes_are_limited(server: HttpServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sockets, "CONNECTIONS_MAX", 2)
    server.mount(Site("console"), Place(tls=ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)))
    await server.start()
    port = int(server.url("console").rpartition(":")[2])
    silent = [await asyncio.open_connection(LOOPBACK, port) for _ in range(2)]
    reader, writer = await asyncio.open_connection(LOOPBACK, port)
    with contextlib.suppress(ConnectionResetError):
        assert await asyncio.wait_for(reader.read(), 5) == b"", "the third one waits for no handshake"
    assert not any(each.at_eof() for each, _ in silent)
    for _, each in [*silent, (reader, writer)]:
        each.close()


async def test_a_client_that_reads_nothing_of_its_response_is_closed(server: HttpServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sockets, "_LOOK_S", 0.01)
    monkeypatch.setattr(Site, "answer", big_answer)
    _, writer = await opened(server)
    writer.transport.pause_reading()  # type: ignore[attr-defined]  # a socket transport
    writer.write(b"GET /console HTTP/1.1\r\nHost: localhost\r\n\r\n")
    runner = server._ports[0]._runner
    assert runner is not None
    assert runner.server is not None
    http_server = runner.server
    async with asyncio.timeout(10):
        await until(lambda: http_server.connections)
        await until(lambda: not http_server.connections)
    writer.close()


async def big_answer(_site: Site, _request: web.Request) -> web.Response:
    return web.Response(body=bytes(20_000_000))


async def opened(server: HttpServer) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Start a server with a console, and open a connection."""
    server.mount(Site("console"), Place())
    await server.start()
    return await asyncio.open_connection(LOOPBACK, int(server.url("console").rpartition(":")[2]))


async def answered(url: str) -> tuple[int, str] | None:
    try:
        return await ask(url)
    except aiohttp.ClientConnectionError:
        return None
