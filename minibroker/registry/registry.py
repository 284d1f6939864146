"""One schema registry: what each request of the API does, in terms of schemas, settings and the topic."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from importlib import import_module
from typing import Any, Final
from uuid import UUID

from minibroker.registry.access import UNLIMITED, Access
from minibroker.registry.errors import RegistryError, invalid_schema, schema_not_found, subject_not_found, version_not_found
from minibroker.registry.parsed_schema import SchemaParser
from minibroker.registry.requests import SchemaRequest, config_json, content_json, schema_json
from minibroker.registry.schemas import ParsedSchemas, Schemas, find_version, replace_context
from minibroker.registry.settings import Settings
from minibroker.registry.state import ContextIds, RegistryState
from minibroker.registry.stored_schema import AVRO, JSON, PROTOBUF, SchemaContent, StoredSchema
from minibroker.registry.subjects import DEFAULT_CONTEXT, Subject, matches_prefix, normal_subject, parse_subject
from minibroker.registry.topic import SchemasTopic, Services

_SLICE: Final = 200  #: subjects of a list that are looked at in one turn of the loop
#: The parsers of schema types: a module, which is imported with the first schema of its type, and a class.
_PARSERS: Final[Mapping[str, tuple[str, str]]] = {
    AVRO: ("minibroker.registry.avro_schema", "AvroSchema"),
    JSON: ("minibroker.registry.json_schema", "JsonSchema"),
    PROTOBUF: ("minibroker.registry.protobuf_schema", "ProtobufSchema"),
}


def parser_of(schema_type: str) -> SchemaParser:
    """The parser of a schema type. Raises RegistryError (42201)."""
    if schema_type not in _PARSERS:
        raise invalid_schema(f"Invalid schema type {schema_type}. Valid types are {', '.join(_PARSERS)}")
    module, name = _PARSERS[schema_type]
    parser: SchemaParser = getattr(import_module(module), name)
    return parser


class Registry:
    """A registry on one broker. Every request first replays what is new in the topic."""

    schema_types: Final = [*_PARSERS]

    def __init__(self, services: Callable[[], Services]) -> None:
        self._services = services
        self._topic = SchemasTopic(services)
        self.settings = Settings(self._topic)
        self._parsed = ParsedSchemas(parser_of)
        self.schemas = Schemas(self._topic, self.settings, self._parsed)

    async def catch_up(self) -> RegistryState:
        """Read what is new in the topic. Returns all subjects, ids and settings."""
        return await self._topic.catch_up()

    def catch_up_in_steps(self) -> Iterator[None]:
        """Do the same in the slices of a request to the broker. `state` has the result."""
        return self._topic.catch_up_in_steps()

    @property
    def state(self) -> RegistryState:
        """All subjects, ids and settings, as they were read last."""
        return self._topic.state

    @property
    def change_count(self) -> int:
        """A number that grows with each change of the state."""
        return self._topic.change_count

    @property
    def cluster_id(self) -> str:
        """The cluster id of the broker."""
        return str(self._services().cluster.cluster_id)

    # Versions

    async def register(self, subject: str, request: SchemaRequest, *, normalize: bool, form: str) -> dict[str, Any]:
        """Register a schema. Returns it with its id and version."""
        registered = await self.schemas.register(subject, request, normalize=normalize)
        shown = await self._show_as(registered, form)
        del shown["subject"]
        return shown

    async def look_up(self, subject: str, request: SchemaRequest, *, normalize: bool, with_deleted: bool, form: str) -> dict[str, Any]:
        """The version of a subject that equals a schema. Raises RegistryError (40401, 40403)."""
        state = await self._topic.catch_up()
        subjects = [subject]
        if parse_subject(subject).context == DEFAULT_CONTEXT:
            subjects += [replace_context(parse_subject(subject), each) for each in state.contexts]
        for each in subjects:
            if state.has_subject(each, with_deleted=True):
                found = await self.schemas.look_up(each, request, normalize=normalize, with_deleted=with_deleted)
                if found is not None:
                    return await self._show_as(found, form)
        raise schema_not_found() if state.has_subject(subject, with_deleted=with_deleted) else subject_not_found(subject)

    async def get_version(self, subject: str, version: int | None, *, with_deleted: bool, form: str) -> dict[str, Any]:
        """One version, None for the latest. Raises RegistryError (404)."""
        state = await self._topic.catch_up()
        return await self._show_as(find_version(state, subject, version, with_deleted=with_deleted), form)

    async def _show_as(self, schema: StoredSchema, form: str) -> dict[str, Any]:
        """A version in a response, with its text in the requested form."""
        shown = schema_json(schema)
        return shown | {"schema": await self._formatted(schema.content, schema.subject, form)} if form else shown

    async def _formatted(self, content: SchemaContent, subject: str, form: str) -> str:
        """The text in the requested form: `resolved` has references in it. Unknown forms are ignored, as Confluent's registry does."""
        parsed = await self._parsed.parse_later(content, self.schemas.references_of(content, subject))
        return parsed.formatted(form)

    async def list_subjects(self, prefix: str, *, with_deleted: bool, only_deleted: bool, access: Access = UNLIMITED) -> list[str]:
        """The subjects with a prefix, as far as the client may know."""
        state = await self._topic.catch_up()
        found: list[str] = []
        async for each in _in_slices([*state.subjects]):
            if matches_prefix(each, prefix) and access.may_read(each):
                is_listed = not state.has_subject(each) if only_deleted else state.has_subject(each, with_deleted=with_deleted)
                if is_listed:
                    found.append(each)
        return sorted(found)

    async def list_versions(self, subject: str, *, with_deleted: bool, only_deleted: bool) -> list[int]:
        """The versions of a subject. Raises RegistryError (40401)."""
        state = await self._topic.catch_up()
        versions = state.versions(subject, with_deleted=with_deleted or only_deleted)
        if not versions:
            raise subject_not_found(subject)
        return [each.version for each in versions if each.is_deleted or not only_deleted]

    async def list_schemas(self, prefix: str, *, with_deleted: bool, latest_only: bool, access: Access = UNLIMITED) -> list[StoredSchema]:
        """All versions of the subjects with a prefix, as far as the client may know."""
        state = await self._topic.catch_up()
        found: list[StoredSchema] = []
        names = [each async for each in _in_slices([*state.subjects]) if matches_prefix(each, prefix) and access.may_read(each)]
        async for subject in _in_slices(sorted(names)):
            versions = state.versions(subject, with_deleted=with_deleted)
            found += versions[-1:] if latest_only else versions
        return found

    async def latest_with_metadata(self, subject: str, properties: Mapping[str, str], *, with_deleted: bool) -> dict[str, Any]:
        """The newest version whose metadata have these properties. Raises RegistryError (40401, 40403)."""
        state = await self._topic.catch_up()
        for schema in reversed(state.versions(subject, with_deleted=with_deleted)):
            held = (schema.content.metadata or {}).get("properties") or {}
            if properties.items() <= held.items():
                return schema_json(schema)
        raise schema_not_found() if state.has_subject(subject, with_deleted=with_deleted) else subject_not_found(subject)

    async def referenced_by(self, subject: str, version: int | None, *, with_deleted: bool) -> list[int]:
        """The ids of schemas that reference a version. Raises RegistryError (404)."""
        state = await self._topic.catch_up()
        schema = find_version(state, subject, version, with_deleted=True)
        return sorted({each.id for each in state.referrers(schema.subject, schema.version, with_deleted=with_deleted)})

    # Ids

    async def resolve_alias(self, subject: str) -> str:
        """The subject that a name stands for: that of its `alias`, if its configuration has one."""
        state = await self._topic.catch_up()
        alias = (state.configs.get(subject) or {}).get("alias")
        return normal_subject(alias) if isinstance(alias, str) and alias else subject

    async def get_by_id(
        self, schema_id: int, subject: str | None, *, form: str, with_max_id: bool, access: Access = UNLIMITED
    ) -> dict[str, Any]:
        """The schema of an id. Raises RegistryError (40301, 40403)."""
        state = await self._topic.catch_up()
        context, ids = _ids_of(state, schema_id, subject)
        access.check_any(ids.versions[schema_id])
        content = ids.contents[schema_id]
        shown = content_json(content)
        if form:
            shown["schema"] = await self._formatted(content, Subject(context, "").text, form)
        return shown | ({"maxId": ids.last_id} if with_max_id else {})

    async def versions_of_id(
        self, schema_id: int, subject: str | None, *, with_deleted: bool, access: Access = UNLIMITED
    ) -> list[dict[str, Any]]:
        """Where an id is registered, as far as the client may know. Raises RegistryError (40403)."""
        state = await self._topic.catch_up()
        _, ids = _ids_of(state, schema_id, subject)
        versions = sorted(ids.versions[schema_id].items())
        return [
            {"subject": name, "version": version}
            for name, version in versions
            if access.may_read(name) and state.version(name, version, with_deleted=with_deleted) is not None
        ]

    async def get_by_guid(self, guid: str, *, form: str, access: Access = UNLIMITED) -> dict[str, Any]:
        """The schema of a GUID. Raises RegistryError (40301, 40403)."""
        state = await self._topic.catch_up()
        for context in state.all_contexts:
            schema_id = state.ids_in(context).by_digest.get(_digest(guid))
            if schema_id is not None:
                return await self.get_by_id(schema_id, Subject(context, "").text, form=form, with_max_id=False, access=access)
        raise schema_not_found(guid)

    async def ids_of_guid(self, guid: str, *, access: Access = UNLIMITED) -> list[dict[str, Any]]:
        """The ids of a GUID, one for each context that has it, as far as the client may know."""
        state = await self._topic.catch_up()
        digest = _digest(guid)
        found: list[dict[str, Any]] = []
        for context in state.all_contexts:
            ids = state.ids_in(context)
            schema_id = ids.by_digest.get(digest)
            if schema_id is not None and any(map(access.may_read, ids.versions[schema_id])):
                found.append({"context": context, "id": schema_id})
        return found

    # Compatibility, configurations, modes

    async def compare(
        self, subject: str, request: SchemaRequest, version: int | None, *, all_versions: bool, normalize: bool, is_verbose: bool
    ) -> list[str]:
        """Why a schema is not compatible with a version, or as a registration checks it with all; empty if it is.

        Raises:
            RegistryError: (40402) the version does not exist, (42201) the schema is invalid. A verbose answer has the latter as its text.
        """
        state = await self._topic.catch_up()
        if all_versions:
            earlier = state.versions(subject)
        else:
            found = state.latest(subject) if version is None else state.version(subject, version)
            if found is None and version is not None:
                raise version_not_found(version) if state.has_subject(subject) else subject_not_found(subject)
            earlier = [] if found is None else [found]
        try:
            return await self.schemas.compare(subject, request, earlier, normalize=normalize)
        except RegistryError as error:
            if is_verbose and error.error_code == 42201:
                return [error.message]
            raise

    async def get_config(self, subject: str | None, *, is_in_scope: bool) -> dict[str, Any]:
        """A configuration. Raises RegistryError (40408)."""
        await self._topic.catch_up()
        return config_json(self.settings.in_scope(subject) if is_in_scope else self.settings.of(subject))

    async def put_config(self, subject: str | None, changes: Mapping[str, Any]) -> dict[str, Any]:
        """Change a configuration. Returns all of it."""
        return config_json(await self.settings.update(subject, changes), is_update=True)

    async def delete_config(self, subject: str | None) -> dict[str, Any]:
        """Delete a configuration. Returns what it was."""
        return config_json(await self.settings.delete(subject))

    async def get_mode(self, subject: str | None, *, is_in_scope: bool) -> dict[str, Any]:
        """A mode. Raises RegistryError (40409)."""
        await self._topic.catch_up()
        return {"mode": self.settings.mode_in_scope(subject) if is_in_scope else self.settings.mode_of(subject)}

    async def list_contexts(self, *, access: Access = UNLIMITED) -> list[str]:
        """The contexts; the first is the default one. The client may read a subject of each of the others."""
        state = await self._topic.catch_up()
        if not access.is_limited:
            return state.all_contexts
        seen = {parse_subject(each).context async for each in _in_slices([*state.subjects]) if access.may_read(each)}
        return [each for each in state.all_contexts if each in {DEFAULT_CONTEXT, *seen}]


async def _in_slices(names: list[str]) -> AsyncIterator[str]:
    """Yield names, and let other requests run in between."""
    for number, name in enumerate(names, 1):
        yield name
        if not number % _SLICE:
            await asyncio.sleep(0)


def _digest(guid: str) -> bytes:
    """The digest of a GUID. Raises RegistryError (40403) if it is not one."""
    try:
        return UUID(guid).bytes
    except ValueError:
        raise schema_not_found(guid) from None


def _ids_of(state: RegistryState, schema_id: int, subject: str | None) -> tuple[str, ContextIds]:
    """The context that has an id: that of the subject, or another one where the subject has the id. Raises RegistryError (40403)."""
    parsed = parse_subject(subject or "")
    ids = state.ids_in(parsed.context)
    if schema_id in ids.contents:
        return parsed.context, ids
    if parsed.context == DEFAULT_CONTEXT and parsed.name:
        for context in state.contexts:
            ids = state.ids_in(context)
            if replace_context(parsed, context) in ids.versions.get(schema_id, {}):
                return context, ids
    raise schema_not_found(schema_id)
