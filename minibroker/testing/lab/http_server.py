"""The lab over HTTP, for programs in any language.

GET /             all operations: {"commands": [{"command", "purpose", "arguments"}, ...]}
POST /COMMAND     executes one, with its arguments as a JSON object in a body of type application/json: {"result": ...}
GET /COMMAND      the same for operations that change nothing and need no argument
errors            {"error": "one line"} with 400 (arguments, or the broker rejects them), 403, 404 (no such operation), 405, 415

The server is off by default, and listens on 127.0.0.1 unless `--lab-host` says otherwise: any program that reaches it controls the broker.
A page in a browser cannot, wherever the lab listens. A request with an Origin header is rejected. A browser asks before it sends a body of
type application/json to another site. A request by a host name that anyone may own in the public DNS is rejected, because a page can bind
its own name to our address (DNS rebinding).
"""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Callable, Iterable
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any, Final

try:
    from aiohttp import web
except ImportError:  # optional: the extra `lab`
    web = None  # type: ignore[assignment]

import minibroker
from minibroker.errors import ConfigurationError
from minibroker.testing.lab.declaration import UnknownOperationError
from minibroker.testing.lab.lab import Lab
from minibroker.testing.options import BrokerError

_LOCALHOST: Final = "localhost"
_PRIVATE: Final = (".internal", ".local", ".localhost", ".test")  #: never registered: RFC 6761, 6762, and ICANN for .internal
_BODY_MAX: Final = 1 << 20
_SHUTDOWN_S: Final = 0.5


class HttpServer:
    """Serves one lab, in the loop of its broker."""

    def __init__(self, lab: Lab, host: str, port: int, names: Iterable[str] = ()) -> None:
        """`names`: by which clients may call it, besides addresses, `host` itself and names that are never registered."""
        self._lab = lab
        self._host = host
        self._port = port
        self._names = {each.lower().rstrip(".") for each in (*names, host)}
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        """http://HOST:PORT, after `start`."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self._port}"

    async def start(self) -> None:
        """Listen. ConfigurationError: aiohttp is not installed, or the port is in use."""
        if web is None:
            raise ConfigurationError("--lab-port needs aiohttp: pip install 'minibroker[lab]'")
        app = web.Application(client_max_size=_BODY_MAX, middlewares=[web.middleware(_as_json)])
        app.router.add_get("/", self._describe)
        app.router.add_route("*", "/{command}", self._answer)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=_SHUTDOWN_S)
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._host, self._port)
        try:
            await site.start()
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or error
            raise ConfigurationError(f"--lab-port: cannot listen on {self._host}:{self._port}: {reason}") from error
        self._port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Close; does nothing if it does not listen."""
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    async def _describe(self, request: web.Request) -> web.Response:
        refusal = self._refusal(request)
        if refusal is not None:
            return refusal
        return _json(200, {"minibroker": minibroker.__version__, "commands": self._lab.table.describe()})

    async def _answer(self, request: web.Request) -> web.Response:
        command = request.match_info["command"]
        refusal = self._refusal(request)
        if refusal is not None:
            return refusal
        try:
            operation = self._lab.table.find(command)
        except UnknownOperationError as error:
            return _json(404, {"error": f"{error}; GET / lists the commands"})
        if request.method not in {"GET", "POST"} or (request.method == "GET" and not operation.is_gettable):
            return _json(405, {"error": f"{command}: POST its arguments as JSON"})
        arguments: Any = {}
        if request.query_string:
            return _json(400, {"error": f"{command}: POST arguments as JSON, not in the query string"})
        if request.method == "POST":
            if request.content_type != "application/json":
                return _json(415, {"error": f"{command}: use Content-Type: application/json (curl --json), not {request.content_type}"})
            body = await request.read()
            try:
                arguments = json.loads(body or b"{}", parse_constant=_no_number)
            except (ValueError, RecursionError) as error:
                return _json(400, {"error": f"{command}: the body is not JSON: {error}"})
            if not isinstance(arguments, dict):
                return _json(400, {"error": f"{command}: the body must be a JSON object with the arguments"})
        try:
            return _json(200, {"result": await self._lab.execute(command, arguments)})
        except BrokerError as error:
            return _json(400, {"error": str(error)})
        except OverflowError as error:
            return _json(400, {"error": f"{command}: a number is too large: {error}"})

    def _refusal(self, request: web.Request) -> web.Response | None:
        """The rejection of a request that a page in a browser may have sent; None: serve it."""
        if "Origin" in request.headers:
            return _json(403, {"error": "the lab serves programs, not pages in a browser"})
        try:
            name = (request.url.host or "").rstrip(".")
        except ValueError:
            return _json(400, {"error": f"{request.host!r} is not a host"})
        if name in self._names:
            return None
        if _is_loopback(self._host):
            if not _is_loopback(name):
                return _json(403, {"error": f"the lab serves only this machine, which is not called {name}"})
        elif not _is_never_registered(name):
            advice = f"use its address, or start the broker with --lab-name {name}"
            return _json(403, {"error": f"the lab is not known as {name}: {advice}"})
        return None


def _address(name: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(name)
    except ValueError:
        return None


def _is_loopback(name: str) -> bool:
    address = _address(name)
    return name == _LOCALHOST if address is None else address.is_loopback


def _is_never_registered(name: str) -> bool:
    """Whether no page can have the name: an address, a machine or container of this network, or a reserved domain."""
    return _address(name) is not None or "." not in name or name.endswith(_PRIVATE)


async def _as_json(request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> web.StreamResponse:
    """Answer in JSON what aiohttp itself rejects: a path of two parts, a body that is too large."""
    try:
        return await handler(request)
    except web.HTTPException as error:
        return _json(error.status, {"error": f"{request.path}: {error.reason}"})


def _no_number(text: str) -> float:
    """Reject NaN and Infinity, which Python reads although they are not JSON."""
    raise ValueError(f"{text} is not a number")


def _json(status: int, value: Any) -> web.Response:
    return web.Response(status=status, text=json.dumps(value) + "\n", content_type="application/json")
