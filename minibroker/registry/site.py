"""The registry's REST API on the shared HTTP server: routes, and the form of requests and responses.

    /subjects, /subjects/S, /subjects/S/versions, /subjects/S/versions/V[/schema|/referencedby], /subjects/S/metadata
    /schemas, /schemas/types, /schemas/ids/I[/schema|/subjects|/versions], /schemas/guids/G[/ids]
    /compatibility/subjects/S/versions[/V]
    /config[/S], /mode[/S], /contexts, /v1/metadata/id, /v1/metadata/version
    /apis/registry/v3/...: what Apicurio's serializers need (apicurio.py)

A version V is a number, `latest` or -1. Bodies are JSON, whatever their media type says, as Confluent's
registry reads them. Errors are {"error_code", "message"}. A browser's page cannot use the API.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import minibroker
from minibroker.http.access import Pages
from minibroker.http.server import Routes
from minibroker.registry.access import UNLIMITED, Access
from minibroker.registry.apicurio import ApicurioApi, Content, problem
from minibroker.registry.errors import RegistryError, login_required
from minibroker.registry.json_text import read_json, write_json
from minibroker.registry.parsed_schema import SIZE_MAX
from minibroker.registry.registry import Registry
from minibroker.registry.requests import (
    RememberedResponses,
    SchemaRequest,
    read_id,
    read_mode,
    read_settings,
    read_version,
    schema_json,
)
from minibroker.registry.settings import settings_subject
from minibroker.registry.stored_schema import StoredSchema
from minibroker.registry.subjects import ALL_CONTEXTS, check_new_subject, normal_subject, with_parent
from minibroker.security.acl import Operation

if TYPE_CHECKING:
    from aiohttp import web

    from minibroker.http.sessions import Sessions

MEDIA_TYPE: Final = "application/vnd.schemaregistry.v1+json"
_HEADERS: Final = {"Content-Type": MEDIA_TYPE, "X-Content-Type-Options": "nosniff"}
_ACCESS: Final = ContextVar[Access]("access")  #: the rights of the client whose request is served
_SLICE: Final = 50  #: schemas of a list that are encoded in one turn of the loop
_PAGE_MAX: Final = 10_000  #: elements of one response; `offset` continues

Answer = Callable[["web.Request"], Awaitable[Any]]
Serve = Callable[["web.Request"], Awaitable["web.StreamResponse"]]


class Around(Protocol):
    """Serves a request in place of its handler, which it may call."""

    async def __call__(self, request: web.Request, handler: Serve) -> web.StreamResponse:
        """Return the response."""


class RegistrySite:
    """Serves one registry. `around` is called in place of each handler."""

    name = "registry"
    noun = "schema registry"
    extra = "registry"
    pages = Pages.NONE
    shared_prefix = "/registry"
    body_max = 2 * SIZE_MAX + 65_536

    def __init__(self, registry: Registry, around: Around | None = None, sessions: Sessions | None = None) -> None:
        """`sessions` are the logins where the broker has an authorizer, or `asks_always` is set; None: there are no logins."""
        self.registry = self._registry = registry
        self._around = around
        self._sessions = sessions
        self._responses = RememberedResponses()
        self.asks_always = False  #: whether clients must log in although there is no authorizer

    def add_routes(self, routes: Routes) -> None:
        """Add all routes."""
        for table, form in ((self._table(), _CONFLUENT), (ApicurioApi(self._registry, _ACCESS.get).table(), _APICURIO)):
            for method, path, answer in table:
                add = {"GET": routes.get, "POST": routes.post, "PUT": routes.put, "DELETE": routes.delete}[method]
                serve = self._serving(answer, form)
                add(path, serve if self._around is None else partial(self._around, handler=serve))

    def failure(self, request: web.Request, status: int, message: str) -> web.Response:
        """A request that no route serves."""
        del request
        return failure(status, status, message)

    def _table(self) -> list[tuple[str, str, Answer]]:
        name = "{subject:[^/]+}"  # aiohttp's own pattern has no braces
        subject, version = f"/subjects/{name}", f"/subjects/{name}/versions/{{version}}"
        schema_id, compatibility = r"/schemas/ids/{id:\d+}", f"/compatibility/subjects/{name}/versions"
        return [
            ("GET", "/", self._root),
            ("GET", "/subjects", self._list_subjects),
            ("POST", subject, self._look_up),
            ("DELETE", subject, self._delete_subject),
            ("GET", f"{subject}/metadata", self._latest_with_metadata),
            ("GET", f"{subject}/versions", self._list_versions),
            ("POST", f"{subject}/versions", self._register),
            ("GET", version, self._get_version),
            ("DELETE", version, self._delete_version),
            ("GET", f"{version}/schema", self._get_version_schema),
            ("GET", f"{version}/referencedby", self._referenced_by),
            ("GET", "/schemas", self._list_schemas),
            ("GET", "/schemas/types", self._types),
            ("GET", schema_id, self._get_by_id),
            ("GET", f"{schema_id}/schema", self._get_schema_by_id),
            ("GET", f"{schema_id}/subjects", self._subjects_of_id),
            ("GET", f"{schema_id}/versions", self._versions_of_id),
            ("GET", "/schemas/guids/{guid}", self._get_by_guid),
            ("GET", "/schemas/guids/{guid}/ids", self._ids_of_guid),
            ("POST", compatibility, self._compare_all),
            ("POST", f"{compatibility}/{{version}}", self._compare_one),
            *(
                (method, path, answer)
                for path in ("/config", f"/config/{name}")
                for method, answer in (("GET", self._get_config), ("PUT", self._put_config), ("DELETE", self._delete_config))
            ),
            *(
                (method, path, answer)
                for path in ("/mode", f"/mode/{name}")
                for method, answer in (("GET", self._get_mode), ("PUT", self._put_mode), ("DELETE", self._delete_mode))
            ),
            ("GET", "/contexts", self._list_contexts),
            ("DELETE", "/contexts/{context:[^/]+}", self._delete_context),
            ("GET", "/v1/metadata/id", self._server_id),
            ("GET", "/v1/metadata/version", self._server_version),
        ]

    # Logins and names

    def _serving(self, answer: Answer, form: Form) -> Serve:
        """Return what checks the login of a client, and gives a result, or its error, the form of a response."""

        async def handler(request: web.Request) -> web.StreamResponse:
            from aiohttp import web  # noqa: PLC0415  an optional extra, which is there when a request is

            try:
                _ACCESS.set(await self._access_of(request))
                value = await answer(request)
                return value if isinstance(value, web.StreamResponse) else _response(200, value, form.headers)
            except RegistryError as error:
                return _response(error.status, form.problem(error), form.headers)

        return handler

    async def _access_of(self, request: web.Request) -> Access:
        """Return the rights of the client. Raises RegistryError (401)."""
        sessions = self._sessions
        if sessions is None or (sessions.authorizer is None and not self.asks_always):
            return UNLIMITED
        header, address = request.headers.get("Authorization", ""), request.remote or ""
        session = await sessions.of_header(header, address) if header else None
        if session is None:
            raise login_required()
        return Access(sessions.authorizer, session.principal, address)

    async def _subject(self, request: web.Request, operation: Operation = Operation.DESCRIBE) -> str:
        """Return the subject in the path, or the one that it is an alias of. Raises RegistryError (40301)."""
        subject = await self._registry.resolve_alias(normal_subject(request.match_info["subject"]))
        _ACCESS.get().check(operation, subject)
        return subject

    async def _answer_schema(self, request: web.Request, subject: str, serve: Callable[[str, SchemaRequest], Awaitable[Any]]) -> Content:
        """Serve a request with a schema in its body, unless it was served since the last change of the registry.

        Raises:
            RegistryError: (40301) the client may not read a subject that the schema references.
        """
        body = await request.read()
        key = (request.path_qs, subject, body)
        change_count = self._registry.change_count
        known = self._responses.find(key, change_count)
        if known is not None:
            return Content(known)
        schema = SchemaRequest.read(_read_body(body))
        references = schema.content.references
        for reference in references:
            _ACCESS.get().check(Operation.DESCRIBE, with_parent(reference.subject, subject))
        response = write_json(await serve(subject, schema))
        if not references:  # rights on these differ from client to client
            self._responses.keep(key, change_count, body, response)
        return Content(response)

    async def _subject_of_id(self, request: web.Request) -> str | None:
        subject = request.query.get("subject")
        return None if subject is None else await self._registry.resolve_alias(normal_subject(subject))

    # Subjects and versions

    async def _root(self, _request: web.Request) -> Any:
        return {}

    async def _list_subjects(self, request: web.Request) -> Any:
        found = await self._registry.list_subjects(
            request.query.get("subjectPrefix", ALL_CONTEXTS),
            with_deleted=_flag(request, "deleted"),
            only_deleted=_flag(request, "deletedOnly"),
            access=_ACCESS.get(),
        )
        return _page(request, found)

    async def _look_up(self, request: web.Request) -> Any:
        return await self._answer_schema(
            request,
            await self._subject(request),
            partial(
                self._registry.look_up,
                normalize=_flag(request, "normalize"),
                with_deleted=_flag(request, "deleted"),
                form=request.query.get("format", ""),
            ),
        )

    async def _delete_subject(self, request: web.Request) -> Any:
        return await self._registry.schemas.delete_subject(
            await self._subject(request, Operation.DELETE), is_permanent=_flag(request, "permanent")
        )

    async def _latest_with_metadata(self, request: web.Request) -> Any:
        properties = dict(zip(request.query.getall("key", []), request.query.getall("value", []), strict=False))
        subject = await self._subject(request)
        return await self._registry.latest_with_metadata(subject, properties, with_deleted=_flag(request, "deleted"))

    async def _list_versions(self, request: web.Request) -> Any:
        versions = await self._registry.list_versions(
            await self._subject(request), with_deleted=_flag(request, "deleted"), only_deleted=_flag(request, "deletedOnly")
        )
        return _page(request, versions)

    async def _register(self, request: web.Request) -> Any:
        check_new_subject(request.match_info["subject"])
        subject = await self._subject(request, Operation.WRITE)
        check_new_subject(subject)
        register = partial(self._registry.register, normalize=_flag(request, "normalize"), form=request.query.get("format", ""))
        return await self._answer_schema(request, subject, register)

    async def _get_version(self, request: web.Request) -> Any:
        return await self._registry.get_version(
            await self._subject(request), _version(request), with_deleted=_flag(request, "deleted"), form=request.query.get("format", "")
        )

    async def _get_version_schema(self, request: web.Request) -> Any:
        shown = await self._get_version(request)
        return Content(shown["schema"])

    async def _delete_version(self, request: web.Request) -> Any:
        subject = await self._subject(request, Operation.DELETE)
        return await self._registry.schemas.delete_version(subject, _version(request), is_permanent=_flag(request, "permanent"))

    async def _referenced_by(self, request: web.Request) -> Any:
        ids = await self._registry.referenced_by(await self._subject(request), _version(request), with_deleted=_flag(request, "deleted"))
        return _page(request, ids)

    # Schemas

    async def _list_schemas(self, request: web.Request) -> Any:
        found = await self._registry.list_schemas(
            request.query.get("subjectPrefix", ALL_CONTEXTS),
            with_deleted=_flag(request, "deleted"),
            latest_only=_flag(request, "latestOnly"),
            access=_ACCESS.get(),
        )
        return await _stream_of(request, _page(request, found))

    async def _types(self, _request: web.Request) -> Any:
        return self._registry.schema_types

    async def _get_by_id(self, request: web.Request) -> Any:
        return await self._registry.get_by_id(
            read_id(request.match_info["id"]),
            await self._subject_of_id(request),
            form=request.query.get("format", ""),
            with_max_id=_flag(request, "fetchMaxId"),
            access=_ACCESS.get(),
        )

    async def _get_schema_by_id(self, request: web.Request) -> Any:
        return Content((await self._get_by_id(request))["schema"])

    async def _subjects_of_id(self, request: web.Request) -> Any:
        versions = await self._versions_with_id(request)
        return _page(request, sorted({each["subject"] for each in versions}))

    async def _versions_of_id(self, request: web.Request) -> Any:
        return _page(request, await self._versions_with_id(request))

    async def _versions_with_id(self, request: web.Request) -> list[dict[str, Any]]:
        return await self._registry.versions_of_id(
            read_id(request.match_info["id"]),
            await self._subject_of_id(request),
            with_deleted=_flag(request, "deleted"),
            access=_ACCESS.get(),
        )

    async def _get_by_guid(self, request: web.Request) -> Any:
        return await self._registry.get_by_guid(request.match_info["guid"], form=request.query.get("format", ""), access=_ACCESS.get())

    async def _ids_of_guid(self, request: web.Request) -> Any:
        return await self._registry.ids_of_guid(request.match_info["guid"], access=_ACCESS.get())

    # Compatibility

    async def _compare_all(self, request: web.Request) -> Any:
        return await self._compare(request, all_versions=True)

    async def _compare_one(self, request: web.Request) -> Any:
        return await self._compare(request, all_versions=False)

    async def _compare(self, request: web.Request, *, all_versions: bool) -> Any:
        version = None if all_versions else _version(request)
        flags = {"normalize": _flag(request, "normalize"), "is_verbose": _flag(request, "verbose")}

        async def compare(subject: str, schema: SchemaRequest) -> Any:
            reasons = await self._registry.compare(subject, schema, version, all_versions=all_versions, **flags)
            return {"is_compatible": not reasons} | ({"messages": reasons} if flags["is_verbose"] else {})

        return await self._answer_schema(request, await self._subject(request), compare)

    # Configurations and modes

    async def _get_config(self, request: web.Request) -> Any:
        return await self._registry.get_config(
            _settings_subject(request, Operation.DESCRIBE), is_in_scope=_flag(request, "defaultToGlobal")
        )

    async def _put_config(self, request: web.Request) -> Any:
        subject = _settings_subject(request, Operation.ALTER_CONFIGS)
        return await self._registry.put_config(subject, read_settings(await _body(request)))

    async def _delete_config(self, request: web.Request) -> Any:
        return await self._registry.delete_config(_settings_subject(request, Operation.ALTER_CONFIGS))

    async def _get_mode(self, request: web.Request) -> Any:
        return await self._registry.get_mode(_settings_subject(request, Operation.DESCRIBE), is_in_scope=_flag(request, "defaultToGlobal"))

    async def _put_mode(self, request: web.Request) -> Any:
        subject = _settings_subject(request, Operation.ALTER_CONFIGS)
        mode = read_mode(await _body(request))
        await self._registry.settings.set_mode(subject, mode, is_forced=_flag(request, "force"))
        return {"mode": mode}

    async def _delete_mode(self, request: web.Request) -> Any:
        subject = _settings_subject(request, Operation.ALTER_CONFIGS)
        mode = await self._registry.settings.delete_mode(subject, is_recursive=_flag(request, "recursive"))
        return {"mode": mode}

    # The registry itself

    async def _list_contexts(self, request: web.Request) -> Any:
        found = await self._registry.list_contexts(access=_ACCESS.get())
        return _page(request, [each for each in found if each.startswith(request.query.get("contextPrefix", ""))])

    async def _delete_context(self, request: web.Request) -> Any:
        from aiohttp import web  # noqa: PLC0415  as above

        _ACCESS.get().check(Operation.DELETE, None)
        await self._registry.schemas.delete_context(request.match_info["context"])
        return web.Response(status=204)

    async def _server_id(self, _request: web.Request) -> Any:
        return {
            "id": None,
            "scope": {"path": [], "clusters": {"kafka-cluster": self._registry.cluster_id, "schema-registry-cluster": "schema-registry"}},
        }

    async def _server_version(self, _request: web.Request) -> Any:
        return {"version": minibroker.__version__, "commitId": ""}


class Form(NamedTuple):
    """The form of responses."""

    headers: Mapping[str, str]
    problem: Callable[[RegistryError], Any]  #: the body of an error


_CONFLUENT: Final = Form(_HEADERS, lambda error: {"error_code": error.error_code, "message": error.message})
_APICURIO: Final = Form(_HEADERS | {"Content-Type": "application/json"}, problem)


def failure(status: int, error_code: int, message: str) -> web.Response:
    """Return the response to a request that fails."""
    return _response(status, {"error_code": error_code, "message": message}, _HEADERS)


def _response(status: int, value: Any, headers: Mapping[str, str]) -> web.Response:
    from aiohttp import web  # noqa: PLC0415  an optional extra, which is there when a request is

    text = value if isinstance(value, Content) else write_json(value)
    login = {"WWW-Authenticate": 'Basic realm="schema registry", charset="UTF-8"'} if status == 401 else {}
    return web.Response(status=status, body=text.encode(), headers={**headers, **login})


async def _body(request: web.Request) -> Any:
    """The body in JSON. Raises RegistryError (400)."""
    return _read_body(await request.read())


def _read_body(data: bytes) -> Any:
    try:
        return read_json(data)
    except ValueError as error:
        raise RegistryError(400, f"the body is not JSON: {error}") from error


def _settings_subject(request: web.Request, operation: Operation) -> str | None:
    """The subject of a configuration or mode, which has no aliases; None is the global one. Raises RegistryError (40301)."""
    text = request.match_info.get("subject")
    subject = None if text is None else settings_subject(text)
    _ACCESS.get().check(operation, subject)
    return subject


async def _stream_of(request: web.Request, schemas: list[StoredSchema]) -> web.StreamResponse:
    """Send schemas as a JSON list, some in each turn of the loop, and only as fast as the client reads."""
    from aiohttp import web  # noqa: PLC0415  likewise

    response = web.StreamResponse(headers=_HEADERS)
    await response.prepare(request)
    if request.method == "HEAD":
        return response
    await response.write(b"[")
    for start in range(0, len(schemas), _SLICE):
        texts = [write_json(schema_json(each)) for each in schemas[start : start + _SLICE]]
        await response.write((("," if start else "") + ",".join(texts)).encode())
        await asyncio.sleep(0)
    await response.write(b"]")
    await response.write_eof()
    return response


def _version(request: web.Request) -> int | None:
    """The version in the path; None is the latest. Raises RegistryError (42202)."""
    text = request.match_info["version"]
    return None if text in {"latest", "-1"} else read_version(text)


def _flag(request: web.Request, name: str) -> bool:
    return request.query.get(name, "").lower() == "true"


def _page(request: web.Request, values: list[Any]) -> list[Any]:
    """The part of a list that `offset` and `limit` ask for."""
    offset, limit = _count(request.query, "offset", 0), _count(request.query, "limit", -1)
    return values[offset : offset + (limit if 0 <= limit <= _PAGE_MAX else _PAGE_MAX)]


def _count(query: Mapping[str, str], name: str, default: int) -> int:
    text = query.get(name, str(default))
    if not (text.isascii() and text.removeprefix("-").isdigit()) or len(text) > 11:
        raise RegistryError(400, f"{name} must be a number, got {text!r}")
    return max(int(text), -1)
