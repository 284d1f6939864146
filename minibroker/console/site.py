"""The console over HTTP.

GET  /PAGE?...           a page, by its address (table.py)
GET  /PAGE.json?...      its data; of the first page: /index.json
GET  /live/PAGE?...      a stream of its blocks that changed (server-sent events)
GET  /tail?...           a stream of the records that are appended to a topic
GET  /download?...       one record's key or value, as a file
POST /do/ACTION          does something, with a JSON object in the body
GET  /static/FILE

Requests of other sites, and those by other host names, do not get here (minibroker/http/access.py). No page has code but static/console.js.
"""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any, Final

from aiohttp import web

from minibroker.console.actions import ACTIONS
from minibroker.console.asking import CLIENT_ID
from minibroker.console.host import Host
from minibroker.console.live import Streams, TooManyStreamsError
from minibroker.console.page import NotFoundError, Page, QueryError, Visit, with_bootstrap
from minibroker.console.pages.records import whole_record
from minibroker.console.pages.topics import quoted
from minibroker.console.rendering import FOLDER, Templates
from minibroker.console.table import NAVIGATION, PAGES
from minibroker.console.tail import TailRequest, tail
from minibroker.console.visitor import Visitor
from minibroker.errors import KafkaError
from minibroker.http.access import Pages
from minibroker.http.server import Routes
from minibroker.http.sessions import Sessions
from minibroker.testing.options import BrokerError

log = logging.getLogger(__name__)

COOKIE: Final = "minibroker-console"
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'"
)
_HEADERS: Final = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_LOGIN_BODY_MAX: Final = 16_384  #: bytes of a request of a visitor who has not logged in
_STATIC: Final = {"console.css": "text/css", "console.js": "text/javascript", "icon.svg": "image/svg+xml"}
_PROBLEMS: Final = {400: "Invalid address", 401: "Login needed", 403: "Not allowed", 404: "Not found", 504: "No answer in time"}
_STATUS: Final = {NotFoundError: 404, QueryError: 400, BrokerError: 400, TooManyStreamsError: 503}


class LoginRequired(Exception):  # noqa: N818  not an error: the visitor is asked to log in
    """The visitor has to log in first."""


class ConsoleSite:
    """Serves the console of one broker."""

    name = "console"
    noun = "console"
    extra = "console"
    pages = Pages.OWN
    shared_prefix = ""
    body_max = 4 << 20

    def __init__(self, host: Host, *, is_read_only: bool = False) -> None:
        self._host = host
        self._is_read_only = is_read_only
        self._templates = Templates()
        self._sessions = Sessions(lambda: host.broker, "console")
        self._streams = Streams()

    def add_routes(self, routes: Routes) -> None:
        """Add pages, streams, actions and files."""
        for page in PAGES.values():
            routes.get(page.path, self._serving(page, self._html))
            routes.get("/index.json" if page.path == "/" else f"{page.path}.json", self._serving(page, self._json))
            if page.live:
                routes.get(f"/live{page.path}", self._serving(page, self._live))
        routes.get("/tail", self._guarded(self._tail))
        routes.get("/download", self._guarded(self._download))
        routes.get("/login", self._login_page)
        routes.post("/do/{action:[a-z./_-]+}", self._do)
        routes.get("/static/{file}", self._static)

    # -- answers ----------------------------------------------------------------------------------------------------

    def failure(self, request: web.Request, status: int, message: str) -> web.Response:
        """Return a page or a JSON object that says what is wrong."""
        if request.method == "POST" or request.path.endswith(".json") or request.path.startswith(("/live/", "/tail", "/static/")):
            return self._respond(status, json.dumps({"error": message}) + "\n", "application/json")
        data = self._frame(request, None) | {"title": _PROBLEMS.get(status, "Error"), "status": status, "message": message}
        return self._respond(status, self._templates.part("failure.html", data), "text/html")

    @staticmethod
    def _respond(status: int, text: str, content_type: str, **headers: str) -> web.Response:
        return web.Response(status=status, text=text, content_type=content_type, charset="utf-8", headers=_HEADERS | headers)

    def _frame(self, request: web.Request, page: Page | None) -> dict[str, Any]:
        """Return what every page shows."""
        session = self._sessions.find(request.cookies.get(COOKIE))
        parts = {"/lab": self._host.lab, "/schemas": self._host.registry}
        absent = {path for path, part in parts.items() if part is None}
        return {
            "navigation": [] if session is None and self._sessions.is_needed else [each for each in NAVIGATION if each[0] not in absent],
            "section": "" if page is None else page.section or page.path,
            "title": "" if page is None else page.title,
            "is_read_only": self._is_read_only,
            "user": None if session is None else session.name,
            "live": f"/live{request.path_qs}" if page is not None and page.live else "",
            "twin": "" if page is None else _twin(page, request.rel_url.raw_query_string),
            "has_lab": self._host.lab is not None,
        }

    def _serving(self, page: Page, respond: Any) -> Any:
        async def serve(request: web.Request) -> web.StreamResponse:
            visit = self._visit(request)
            if page.needs is not None:
                visit.visitor.check(*page.needs)
            response: web.StreamResponse = await respond(page, request, visit)
            return response

        return self._guarded(serve, takes_visit=False)

    def _guarded(self, respond: Any, *, takes_visit: bool = True) -> Any:
        """Return a handler whose errors are answers."""

        async def serve(request: web.Request) -> web.StreamResponse:
            try:
                response: web.StreamResponse = await (respond(request, self._visit(request)) if takes_visit else respond(request))
            except LoginRequired:
                if request.path.endswith(".json") or request.path.startswith(("/live/", "/tail")):
                    return self.failure(request, 401, "log in first: POST /do/login")
                return web.Response(status=303, headers=_HEADERS | {"Location": "/login"})
            except (NotFoundError, QueryError, BrokerError, KafkaError, TimeoutError, TooManyStreamsError) as error:
                return self.failure(request, *_problem(error))
            except (ConnectionError, asyncio.CancelledError):
                raise
            except web.HTTPException:
                raise
            except Exception:
                log.exception("the console could not serve %s", request.path)
                if request.path.startswith(("/live/", "/tail")):
                    raise  # the stream has begun: it ends, and the browser opens it again
                return self.failure(request, 500, "the console could not make this page; the broker's log has the reason")
            return response

        return serve

    def _visit(self, request: web.Request) -> Visit:
        address = request.remote or "127.0.0.1"
        if not self._sessions.is_needed:
            return Visit(self._host, Visitor(self._host.services, address=address), request.query, is_read_only=self._is_read_only)
        session = self._sessions.find(request.cookies.get(COOKIE))
        if session is None:
            raise LoginRequired
        visitor = Visitor(self._host.services, session.principal, address)
        return Visit(self._host, visitor, request.query, is_read_only=self._is_read_only)

    def _is_logged_in(self, request: web.Request) -> bool:
        """Return whether a stream may go on."""
        return not self._sessions.is_needed or self._sessions.peek(request.cookies.get(COOKIE)) is not None

    # -- pages ------------------------------------------------------------------------------------------------------

    async def _html(self, page: Page, request: web.Request, visit: Visit) -> web.Response:
        data = self._frame(request, page) | await self._data(page, request, visit)
        return self._respond(200, await self._templates.page(page.template, data), "text/html")

    async def _data(self, page: Page, request: web.Request, visit: Visit) -> dict[str, Any]:
        data = await page.view(visit)
        command = with_bootstrap(visit, data["command"])
        if not command and request.scheme == "http" and not self._sessions.is_needed:
            command = f"curl {quoted(f'{request.url.origin()}{_twin(page, request.rel_url.raw_query_string)}')}"
        return data | {"command": command}

    async def _json(self, page: Page, request: web.Request, visit: Visit) -> web.Response:
        return self._respond(
            200, json.dumps(await self._data(page, request, visit), indent=2, ensure_ascii=False) + "\n", "application/json"
        )

    async def _live(self, page: Page, request: web.Request, visit: Visit) -> web.StreamResponse:
        stream = await self._streams.open(request, _HEADERS, visit.visitor.key)
        frame = self._frame(request, page)
        sent: dict[str, str] = {}
        with stream:
            while True:
                if not self._is_logged_in(request):
                    return stream.response
                try:
                    if page.needs is not None:
                        visit.visitor.check(*page.needs)
                    data = frame | await self._data(page, request, visit)
                except (NotFoundError, QueryError, BrokerError, KafkaError, TimeoutError) as error:
                    await stream.send("gone", {"message": _problem(error)[1]})
                    return stream.response
                for block in page.live:
                    html = await self._templates.block(page.template, block, data)
                    if sent.get(block) != html:
                        sent[block] = html
                        await stream.send("block", {"block": block, "html": html})
                await stream.pause(page.interval_s)
        return stream.response

    async def _tail(self, request: web.Request, visit: Visit) -> web.StreamResponse:
        wanted = TailRequest(visit, lambda: self._is_logged_in(request))
        stream = await self._streams.open(request, _HEADERS, visit.visitor.key)
        with stream:
            await tail(wanted, stream, self._templates, request.headers.get("Last-Event-ID", ""))
        return stream.response

    async def _download(self, _request: web.Request, visit: Visit) -> web.Response:
        part = visit.text("part", "value")
        if part not in {"key", "value"}:
            raise QueryError("part must be key or value")
        record = await whole_record(visit)
        content = record.key if part == "key" else record.value
        if content is None:
            raise NotFoundError(f"the {part} of this record is null")
        name = f"{visit.text('topic')}-{visit.number('partition', 0)}-{record.offset}-{part}.bin"
        headers = _HEADERS | {"Content-Disposition": f'attachment; filename="{name}"'}
        return web.Response(body=content, content_type="application/octet-stream", headers=headers)

    async def _static(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["file"]
        if name not in _STATIC:
            return self.failure(request, 404, f"there is no file {name!r}")
        content = await asyncio.to_thread((FOLDER / "static" / name).read_text, "utf-8")
        return self._respond(200, content, _STATIC[name], **{"Cache-Control": "no-cache"})

    # -- actions ----------------------------------------------------------------------------------------------------

    async def _login_page(self, request: web.Request) -> web.Response:
        data = self._frame(request, None) | {"title": "Log in", "is_needed": self._sessions.is_needed}
        return self._respond(200, self._templates.part("login.html", data), "text/html")

    async def _do(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["action"]
        if request.content_type != "application/json":
            return self.failure(request, 415, f"{name}: use Content-Type: application/json, not {request.content_type}")
        if request.body_exists and not 0 < (request.content_length or 0) <= _LOGIN_BODY_MAX and not self._is_logged_in(request):
            return self.failure(request, 413, f"{name}: log in first, with a Content-Length of at most {_LOGIN_BODY_MAX} bytes")
        try:
            body = json.loads(await request.read() or b"{}")
        except (ValueError, RecursionError) as error:
            return self.failure(request, 400, f"{name}: the body is not JSON: {error}")
        if not isinstance(body, dict):
            return self.failure(request, 400, f"{name}: the body must be a JSON object")
        if name == "login":
            return await self._login(request, body)
        if name == "logout":
            self._sessions.end(request.cookies.get(COOKIE))
            response = self._respond(200, json.dumps({"go": "/login"}), "application/json")
            response.del_cookie(COOKIE, path="/")
            return response
        return await self._guarded(lambda each, visit: self._act(name, body, each, visit))(request)  # type: ignore[no-any-return]  # of a handler

    async def _act(self, name: str, body: dict[str, Any], request: web.Request, visit: Visit) -> web.Response:
        action = ACTIONS.get(name)
        if action is None:
            return self.failure(request, 404, f"there is no action {name!r}; there are {', '.join(ACTIONS)}")
        if self._is_read_only and action.changes:
            return self.failure(request, 403, f"{name}: this console is read-only (--console-read-only)")
        if action.changes:
            log.info("%s: %s by %s at %s", CLIENT_ID, name, visit.visitor.principal, request.remote)
        try:
            result = await action.function(visit, body)
        except ValueError as error:
            return self.failure(request, 400, f"{name}: {error}")
        return self._respond(200, json.dumps(result, ensure_ascii=False) + "\n", "application/json")

    async def _login(self, request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        session = await self._sessions.begin(str(body.get("user", "")), str(body.get("password", "")), request.remote or "")
        if session is None:
            return self.failure(request, 403, "wrong user or password, or too many failed logins: try again in a minute")
        response = self._respond(200, json.dumps({"go": "/"}), "application/json")
        response.set_cookie(COOKIE, session.token, httponly=True, samesite="Strict", path="/", secure=request.secure)
        return response


def _twin(page: Page, query: str) -> str:
    path = "/index.json" if page.path == "/" else f"{page.path}.json"
    return f"{path}?{query}" if query else path


def _problem(error: Exception) -> tuple[int, str]:
    if isinstance(error, KafkaError):
        return (403 if error.name.endswith("AUTHORIZATION_FAILED") else 409), f"{error.name}: {error}"
    if isinstance(error, TimeoutError):
        return 504, "the broker did not answer in time"
    return _STATUS.get(type(error), 400), str(error)
