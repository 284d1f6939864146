"""The lab over HTTP, for programs in any language.

GET /             all operations: {"commands": [{"command", "purpose", "arguments"}, ...]}
POST /COMMAND     executes one, with its arguments as a JSON object in a body of type application/json: {"result": ...}
GET /COMMAND      the same for operations that change nothing and need no argument
errors            {"error": "one line"} with 400 (arguments, or the broker rejects them), 403, 404 (no such operation), 405, 415

The lab is off by default, and listens on 127.0.0.1 unless `--lab-host` says otherwise: any program
that reaches it controls the broker. A page in a browser cannot, wherever the lab listens
(minibroker/http/access.py). On a port that it shares, its paths start with /lab.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import minibroker
from minibroker.http.access import Pages
from minibroker.http.server import Routes, json_failure, json_response
from minibroker.testing.lab.declaration import UnknownOperationError
from minibroker.testing.lab.lab import Lab
from minibroker.testing.options import BrokerError

if TYPE_CHECKING:
    from aiohttp import web


class LabSite:
    """Serves one lab."""

    name = "lab"
    noun = "lab"
    extra = "lab"
    pages = Pages.NONE
    shared_prefix = "/lab"
    body_max = 1 << 20

    def __init__(self, lab: Lab) -> None:
        self._lab = lab

    def add_routes(self, routes: Routes) -> None:
        """Add the list of operations, and the operations."""
        routes.get("/", self._describe)
        routes.any("/{command}", self._answer)

    failure = staticmethod(json_failure)

    async def _describe(self, _request: web.Request) -> web.Response:
        return json_response(200, {"minibroker": minibroker.__version__, "commands": self._lab.table.describe()})

    async def _answer(self, request: web.Request) -> web.Response:
        command = request.match_info["command"]
        try:
            operation = self._lab.table.find(command)
        except UnknownOperationError as error:
            return _error(404, f"{error}; GET / lists the commands")
        if request.method not in {"GET", "POST"} or (request.method == "GET" and not operation.is_gettable):
            return _error(405, f"{command}: POST its arguments as JSON")
        arguments: Any = {}
        if request.query_string:
            return _error(400, f"{command}: POST arguments as JSON, not in the query string")
        if request.method == "POST":
            if request.content_type != "application/json":
                return _error(415, f"{command}: use Content-Type: application/json (curl --json), not {request.content_type}")
            body = await request.read()
            try:
                arguments = json.loads(body or b"{}", parse_constant=_no_number)
            except (ValueError, RecursionError) as error:
                return _error(400, f"{command}: the body is not JSON: {error}")
            if not isinstance(arguments, dict):
                return _error(400, f"{command}: the body must be a JSON object with the arguments")
        try:
            return json_response(200, {"result": await self._lab.execute(command, arguments)})
        except BrokerError as error:
            return _error(400, str(error))
        except OverflowError as error:
            return _error(400, f"{command}: a number is too large: {error}")


def _error(status: int, message: str) -> web.Response:
    return json_response(status, {"error": message})


def _no_number(text: str) -> float:
    """Reject NaN and Infinity, which Python reads although they are not JSON."""
    raise ValueError(f"{text} is not a number")
