"""The part of Apicurio Registry's core API, versions 2 and 3, that Apicurio's serializers and deserializers for Java use.

    POST /apis/registry/v3/groups/G/artifacts                           register; v2 has the artifact in the header X-Registry-ArtifactId
    POST /apis/registry/v3/search/versions                              look up by content
    POST /apis/registry/v2/groups/G/artifacts/A/meta                    the same
    GET  .../v3/groups/G/artifacts/A/versions/V[/content|/references]   v2: versions/V/meta, and A/meta for the latest one
    GET  .../ids/contentIds/I[/references], .../ids/globalIds/I[/references]

The artifact A of the group `default` is the subject A, that of another group the subject `G.A`: the names that Confluent's strategies give
to the same schemas. Content ids and global ids are the ids of schemas, so that payloads are those of Confluent's serializers. A version V
is a number, `branch=latest`, or `latest` (v2). Errors are {"status", "title", "detail", "name"}, and {"error_code", "message"} for v2.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from minibroker.registry.access import Access
from minibroker.registry.errors import RegistryError
from minibroker.registry.json_text import read_json
from minibroker.registry.registry import Registry
from minibroker.registry.requests import SchemaRequest, read_id, read_version
from minibroker.registry.stored_schema import AVRO, JSON, PROTOBUF
from minibroker.registry.subjects import check_new_subject
from minibroker.security.acl import Operation

if TYPE_CHECKING:
    from aiohttp import web

_V2: Final = "/apis/registry/v2"
_V3: Final = "/apis/registry/v3"
_DEFAULT_GROUP: Final = "default"
_LATEST: Final = frozenset({"branch=latest", "latest"})
_TYPES: Final = frozenset({AVRO, JSON, PROTOBUF})
_MAY_EXIST: Final = frozenset({"FIND_OR_CREATE_VERSION", "CREATE_VERSION", "RETURN_OR_UPDATE", "UPDATE"})  #: the last two: v2

Answer = Callable[["web.Request"], Awaitable[Any]]


class Content(str):
    """The text of a schema, which is the whole body of a response."""

    __slots__ = ()


class ApicurioApi:
    """Serves one registry. `access` returns the rights of the client whose request is served."""

    def __init__(self, registry: Registry, access: Callable[[], Access]) -> None:
        self._registry = registry
        self._access = access

    def table(self) -> list[tuple[str, str, Answer]]:
        """Method, path and handler of each request."""
        artifacts, version = "/groups/{group:[^/]+}/artifacts", "/{artifact:[^/]+}/versions/{version:[^/]+}"
        rows: list[tuple[str, str, Answer]] = [
            ("POST", f"{_V3}{artifacts}", self._create),
            ("POST", f"{_V3}/search/versions", self._search),
            ("GET", f"{_V3}{artifacts}{version}", self._get_version),
            ("GET", f"{_V3}{artifacts}{version}/content", self._get_version_content),
            ("GET", f"{_V3}{artifacts}{version}/references", self._get_version_references),
            ("POST", f"{_V2}{artifacts}", self._create_v2),
            ("POST", f"{_V2}{artifacts}/{{artifact:[^/]+}}/meta", self._find_v2),
            ("GET", f"{_V2}{artifacts}/{{artifact:[^/]+}}/meta", self._get_version_v2),
            ("GET", f"{_V2}{artifacts}{version}/meta", self._get_version_v2),
        ]
        for path in (rf"{api}/ids/{kind}/{{id:\d+}}" for api in (_V2, _V3) for kind in ("contentIds", "globalIds")):
            rows += [("GET", path, self._get_by_id), ("GET", f"{path}/references", self._get_references_of_id)]
        return rows

    def _subject(self, group: str, artifact: str, operation: Operation = Operation.DESCRIBE) -> str:
        """The subject of an artifact. Raises RegistryError (40301)."""
        subject = artifact if group == _DEFAULT_GROUP else f"{group}.{artifact}"
        self._access().check(operation, subject)
        return subject

    async def _create(self, request: web.Request) -> Any:
        """Register the first version of an artifact, or another one."""
        body = _object(_body(await request.read()), "the body")
        content = _object(_object(body.get("firstVersion"), "firstVersion").get("content"), "firstVersion.content")
        schema = self._schema(content.get("content"), body.get("artifactType") or AVRO, content.get("references"))
        version = _version_json(request, body.get("artifactId"), await self._register(request, body.get("artifactId"), schema))
        shown = {name: version[name] for name in ("groupId", "artifactId", "artifactType")}
        return {"artifact": shown, "version": version}

    async def _create_v2(self, request: web.Request) -> Any:
        artifact, kind = request.headers.get("X-Registry-ArtifactId"), request.headers.get("X-Registry-ArtifactType", AVRO)
        text, references = await _content_v2(request)
        return _meta_v2(request, artifact, await self._register(request, artifact, self._schema(text, kind, references)))

    async def _register(self, request: web.Request, artifact: object, schema: SchemaRequest) -> dict[str, Any]:
        """Register a schema. Raises RegistryError (409): the artifact exists already, or the schema is not compatible with it."""
        if not isinstance(artifact, str) or not artifact:
            raise RegistryError(422, "the id of the artifact is missing")
        subject = self._subject(request.match_info["group"], artifact, Operation.WRITE)
        check_new_subject(subject)
        if request.query.get("ifExists", "FAIL") not in _MAY_EXIST and (await self._registry.catch_up()).has_subject(subject):
            raise RegistryError(409, f"An artifact with ID '{artifact}' in group '{request.match_info['group']}' already exists.")
        return await self._registry.register(subject, schema, normalize=_flag(request, "canonical"), form="")

    async def _search(self, request: web.Request) -> Any:
        """Find the version of an artifact whose content is that of the body."""
        artifact = request.query.get("artifactId")
        if not artifact:
            raise RegistryError(422, "artifactId is missing: versions are searched within one artifact")
        subject = self._subject(request.query.get("groupId", _DEFAULT_GROUP), artifact)
        schema = self._schema(_text(await request.read()), request.query.get("artifactType") or AVRO, None)
        try:
            found = await self._look_up(request, subject, schema)
        except RegistryError as error:
            if error.status != 404:
                raise
            return {"count": 0, "versions": []}
        return {"count": 1, "versions": [_version_json(request, artifact, found)]}

    async def _find_v2(self, request: web.Request) -> Any:
        artifact = request.match_info["artifact"]
        subject = self._subject(request.match_info["group"], artifact)
        text, references = await _content_v2(request)
        latest = (await self._registry.catch_up()).latest(subject)
        kind = AVRO if latest is None else latest.content.schema_type  # the request does not say
        return _meta_v2(request, artifact, await self._look_up(request, subject, self._schema(text, kind, references)))

    async def _look_up(self, request: web.Request, subject: str, schema: SchemaRequest) -> dict[str, Any]:
        return await self._registry.look_up(subject, schema, normalize=_flag(request, "canonical"), with_deleted=False, form="")

    def _schema(self, text: object, kind: object, references: object) -> SchemaRequest:
        """The schema of a request. Raises RegistryError (422, 40301)."""
        if kind not in _TYPES:
            raise RegistryError(422, f"artifactType must be one of {', '.join(sorted(_TYPES))}, got {kind!r}")
        listed = [self._reference(each) for each in references] if isinstance(references, list) else []
        return SchemaRequest.read({"schema": text, "schemaType": kind, "references": listed})

    def _reference(self, value: object) -> dict[str, Any]:
        fields = _object(value, "a reference")
        subject = self._subject(str(fields.get("groupId") or _DEFAULT_GROUP), str(fields.get("artifactId")))
        return {"name": fields.get("name"), "subject": subject, "version": _version_of(str(fields.get("version") or "latest")) or -1}

    async def _version(self, request: web.Request) -> dict[str, Any]:
        subject = self._subject(request.match_info["group"], request.match_info["artifact"])
        version = _version_of(request.match_info.get("version", "latest"))
        return await self._registry.get_version(subject, version, with_deleted=False, form="")

    async def _get_version(self, request: web.Request) -> Any:
        return _version_json(request, request.match_info["artifact"], await self._version(request))

    async def _get_version_v2(self, request: web.Request) -> Any:
        return _meta_v2(request, request.match_info["artifact"], await self._version(request))

    async def _get_version_content(self, request: web.Request) -> Any:
        return Content((await self._version(request))["schema"])

    async def _get_version_references(self, request: web.Request) -> Any:
        return _references_json(await self._version(request))

    async def _by_id(self, request: web.Request) -> dict[str, Any]:
        form = "resolved" if request.query.get("references") == "DEREFERENCE" else ""
        schema_id = read_id(request.match_info["id"])
        return await self._registry.get_by_id(schema_id, None, form=form, with_max_id=False, access=self._access())

    async def _get_by_id(self, request: web.Request) -> Any:
        return Content((await self._by_id(request))["schema"])

    async def _get_references_of_id(self, request: web.Request) -> Any:
        return _references_json(await self._by_id(request))


def problem(error: RegistryError) -> dict[str, Any]:
    """An error as Apicurio's clients read it."""
    name = {404: "ArtifactNotFoundException", 409: "RuleViolationException"}.get(error.status, "BadRequestException")
    of_v2 = {"error_code": error.status, "message": error.message}
    return {"status": error.status, "title": error.message, "detail": error.message, "name": name} | of_v2


def _version_json(request: web.Request, artifact: object, found: Mapping[str, Any]) -> dict[str, Any]:
    where = {"groupId": _group(request), "artifactId": artifact, "artifactType": found.get("schemaType") or AVRO}
    return where | _ids_json(found)


def _meta_v2(request: web.Request, artifact: object, found: Mapping[str, Any]) -> dict[str, Any]:
    return {"groupId": _group(request), "id": artifact, "type": found.get("schemaType") or AVRO} | _ids_json(found)


def _ids_json(found: Mapping[str, Any]) -> dict[str, Any]:
    return {"version": str(found["version"]), "state": "ENABLED", "globalId": found["id"], "contentId": found["id"]}


def _group(request: web.Request) -> str:
    return request.match_info.get("group") or request.query.get("groupId", _DEFAULT_GROUP)


def _references_json(found: Mapping[str, Any]) -> list[dict[str, Any]]:
    """References by subject: those of the group `default`."""
    listed = found.get("references") or ()
    return [
        {"groupId": _DEFAULT_GROUP, "artifactId": each["subject"], "version": str(each["version"]), "name": each["name"]} for each in listed
    ]


def _version_of(text: str) -> int | None:
    """The number of a version; None is the latest one. Raises RegistryError (42202)."""
    return None if text in _LATEST else read_version(text)


def _object(value: object, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise RegistryError(422, f"{what} must be a JSON object")
    return value


def _body(data: bytes) -> Any:
    try:
        return read_json(data)
    except ValueError as error:
        raise RegistryError(400, f"the body is not JSON: {error}") from error


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise RegistryError(400, f"the schema is not UTF-8: {error}") from error


async def _content_v2(request: web.Request) -> tuple[object, object]:
    """The text of a schema and its references: the body, or fields of it."""
    data = await request.read()
    if "extended+json" not in request.headers.get("Content-Type", ""):
        return _text(data), None
    fields = _object(_body(data), "the body")
    return fields.get("content"), fields.get("references")


def _flag(request: web.Request, name: str) -> bool:
    return request.query.get(name, "").lower() == "true"
