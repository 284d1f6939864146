"""Serve sites over HTTP in the loop of their broker.

    server = HttpServer()
    server.mount(LabSite(...), Place("127.0.0.1", 8083))
    server.mount(MetricsSite(...), Place("127.0.0.1", 8083))     shares the port
    await server.start(); server.url("lab"); await server.stop()

The server is off unless a site is mounted. Every request passes the rules of its site (access.py) before the site's handler runs.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import ssl
import sys
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from importlib import import_module
from importlib.util import find_spec
from socket import socket
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, cast

from minibroker.errors import ConfigurationError
from minibroker.extras import install_command
from minibroker.http.access import Access, Pages
from minibroker.http.sockets import Acceptor, listening_sockets

if TYPE_CHECKING:
    from aiohttp import web

LOOPBACK: Final = "127.0.0.1"
BODY_S: Final = 60.0  #: until the body of a request must have arrived
_IDLE_S: Final = 600.0  #: until a connection without requests is closed, as connections.max.idle.ms of Kafka
_SHUTDOWN_S: Final = 0.5
_LOG = logging.getLogger(__name__)

Handler = Callable[["web.Request"], Awaitable["web.StreamResponse"]]


def _web() -> Any:
    """aiohttp.web, which is an optional extra, and slow to import."""
    return import_module("aiohttp.web")


class Place(NamedTuple):
    """Where a site listens."""

    host: str = LOOPBACK
    port: int = 0  #: 0: a free port, which no other site shares
    names: tuple[str, ...] = ()  #: host names that clients may use, besides addresses and names that are never registered
    names_option: str = ""  #: the option that adds one of them, if it is not `--NAME-name`
    token: str | None = None  #: what clients must send as `Authorization: Bearer TOKEN`
    tls: ssl.SSLContext | None = None  #: for HTTPS; sites that share a port have the same


class Routes:
    """The routes of a site. Handlers run only for requests that the site's rules allow."""

    def __init__(self, router: web.UrlDispatcher, prefix: str, guard: Callable[[Handler], Handler]) -> None:
        self._router = router
        self._guard = guard
        self.prefix = prefix  #: before each path: links of pages need it

    def get(self, path: str, handler: Handler) -> None:
        """Serve GET and HEAD."""
        self._router.add_get(self.prefix + path, self._guard(handler))

    def post(self, path: str, handler: Handler) -> None:
        """Serve POST."""
        self._router.add_post(self.prefix + path, self._guard(handler))

    def put(self, path: str, handler: Handler) -> None:
        """Serve PUT."""
        self._router.add_put(self.prefix + path, self._guard(handler))

    def delete(self, path: str, handler: Handler) -> None:
        """Serve DELETE."""
        self._router.add_delete(self.prefix + path, self._guard(handler))

    def any(self, path: str, handler: Handler) -> None:
        """Serve every method."""
        self._router.add_route("*", self.prefix + path, self._guard(handler))


class HttpSite(Protocol):
    """Routes that belong together, such as the lab's."""

    @property
    def name(self) -> str:
        """The site's name in options and in `HttpServer.url`: `--NAME-port`, `--NAME-host`, `--NAME-name`."""

    @property
    def noun(self) -> str:
        """What messages call it: "the {noun} serves only this machine"."""

    @property
    def extra(self) -> str:
        """The extra of the package to install if aiohttp is missing."""

    @property
    def pages(self) -> Pages:
        """Which pages of a browser may use it."""

    @property
    def shared_prefix(self) -> str:
        """What its paths start with on a port that it shares: "" or "/name"."""

    @property
    def body_max(self) -> int:
        """The largest body of a request, in bytes. On a shared port the largest limit counts for all."""

    def add_routes(self, routes: Routes) -> None:
        """Add its routes, once, before the server listens."""

    def failure(self, request: web.Request, status: int, message: str) -> web.Response:
        """Return the response to a request that is not served; `json_failure` is one."""


class _Port:
    """The sites at one address."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.sites: list[tuple[HttpSite, Place]] = []
        self.port = place.port
        self._sockets: list[socket] = []
        self._acceptor: Acceptor | None = None
        self._serving: asyncio.Task[None] | None = None
        self._runner: web.AppRunner | None = None

    async def open(self) -> None:
        """Listen. ConfigurationError: aiohttp is not installed, or the address cannot be used.

        aiohttp takes longer to import than a broker takes to start. The first site imports it in a thread; until then, connections wait.
        """
        first = self.sites[0][0]
        if find_spec("aiohttp") is None:
            raise ConfigurationError(f"--{first.name}-port needs aiohttp: {install_command(first.extra)}")
        host, port = self.place.host, self.place.port
        try:
            self._sockets = await listening_sockets(host, port)
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or error
            raise ConfigurationError(f"--{first.name}-port: cannot listen on {host}:{port}: {reason}") from error
        self.port = self._sockets[0].getsockname()[1]
        self._serving = asyncio.get_running_loop().create_task(self._serve())
        if "aiohttp.web" in sys.modules:
            await self._serving
        else:
            self._serving.add_done_callback(_log_failure)

    async def _serve(self) -> None:
        web = _web() if "aiohttp.web" in sys.modules else await asyncio.to_thread(_web)
        app = web.Application(client_max_size=max(site.body_max for site, _ in self.sites), middlewares=[_failures_of(self.sites)])
        for site, place in self.sites:
            prefix = site.shared_prefix if len(self.sites) > 1 else ""
            access = Access(
                site.noun, place.names_option or f"--{site.name}-name", place.host, names=place.names, pages=site.pages, token=place.token
            )
            site.add_routes(Routes(app.router, prefix, _guard(site, access)))
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=_SHUTDOWN_S, keepalive_timeout=_IDLE_S)
        await self._runner.setup()
        self._acceptor = Acceptor(cast("Any", self._runner.server), self._sockets, self.place.tls)
        self._acceptor.start()

    async def close(self) -> None:
        """Stop listening. Does nothing if it does not listen."""
        serving, self._serving = self._serving, None
        if serving is not None and not serving.done():
            await asyncio.wait([serving])
        acceptor, self._acceptor = self._acceptor, None
        if acceptor is not None:
            acceptor.close()
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()
        for each in self._sockets:
            each.close()
        self._sockets = []


def _log_failure(serving: asyncio.Task[None]) -> None:
    if not serving.cancelled() and serving.exception() is not None:
        _LOG.error("HTTP sites are not served", exc_info=serving.exception())


def _failures_of(sites: list[tuple[HttpSite, Place]]) -> Any:
    """Return a middleware that answers what aiohttp rejects in the site's form: an unknown path, a body that is too large."""
    http = _web()

    async def answer(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            return await handler(request)
        except http.HTTPException as error:
            if error.status < 400:
                raise  # a redirect
            found = [site for site, _ in sites if request.path.startswith(site.shared_prefix)]
            site = max(found, key=_prefix_size, default=sites[0][0])
            message = f"there is nothing at {request.path}" if error.status == HTTPStatus.NOT_FOUND else f"{request.path}: {error.reason}"
            return site.failure(request, error.status, message)

    return http.middleware(answer)


def _prefix_size(site: HttpSite) -> int:
    return len(site.shared_prefix)


def _guard(site: HttpSite, access: Access) -> Callable[[Handler], Handler]:
    """Return what puts the rules of a site before a handler."""

    def guarded(handler: Handler) -> Handler:
        async def serve(request: web.Request) -> web.StreamResponse:
            refusal = access.refusal(request)
            if refusal is not None:
                return site.failure(request, refusal.status, refusal.message)
            if not request.body_exists:
                return await handler(request)
            timer = asyncio.get_running_loop().call_later(BODY_S, _close_if_incomplete, request)
            try:
                return await handler(request)
            finally:
                timer.cancel()

        return serve

    return guarded


def _close_if_incomplete(request: web.Request) -> None:
    """Close the connection of a request whose body has not arrived, perhaps because its client is gone."""
    if not request.content.is_eof() and request.transport is not None:
        request.transport.abort()


class HttpServer:
    """The HTTP ports of one broker."""

    def __init__(self) -> None:
        self._ports: list[_Port] = []

    def mount(self, site: HttpSite, place: Place) -> None:
        """Add a site, before `start`. Sites with the same host and port share it; the first one names it in messages.

        Raises:
            ConfigurationError: one of the sites at the port has TLS, and another one has not.
        """
        port = next((each for each in self._ports if place.port and each.place[:2] == place[:2]), None)
        if port is None:
            port = _Port(place)
            self._ports.append(port)
        if port.place.tls is not place.tls:
            raise ConfigurationError(f"--{site.name}-tls: all sites at {place.host}:{place.port} must have the same protocol")
        port.sites.append((site, place))

    def url(self, name: str) -> str:
        """Return http://HOST:PORT or https://HOST:PORT of a site with its prefix, after `start`."""
        port, site = next((port, site) for port in self._ports for site, _ in port.sites if site.name == name)
        host = f"[{port.place.host}]" if ":" in port.place.host else port.place.host
        scheme = "http" if port.place.tls is None else "https"
        return f"{scheme}://{host}:{port.port}{site.shared_prefix if len(port.sites) > 1 else ''}"

    @property
    def names(self) -> list[str]:
        """The names of all sites."""
        return [site.name for port in self._ports for site, _ in port.sites]

    async def start(self) -> None:
        """Listen on all ports.

        Raises:
            ConfigurationError: aiohttp is not installed, or an address cannot be used; no port is open then.
        """
        try:
            for port in self._ports:
                await port.open()
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Close all ports; responses that are being sent have half a second. Does nothing if it does not listen."""
        for port in self._ports:
            await port.close()


def json_failure(_request: web.Request, status: int, message: str) -> web.Response:
    """Return {"error": message}."""
    return json_response(status, {"error": message})


def json_response(status: int, value: Any) -> web.Response:
    """Return a value as one line of JSON."""
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else None
    response: web.Response = _web().Response(status=status, text=json.dumps(value) + "\n", content_type="application/json", headers=headers)
    return response
