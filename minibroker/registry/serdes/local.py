"""Schemas of the registry in this process, without HTTP."""

from __future__ import annotations

import itertools
from uuid import UUID

from minibroker.registry.errors import RegistryError
from minibroker.registry.parsed_schema import ReferencedSchema
from minibroker.registry.registry import Registry
from minibroker.registry.serdes.codecs import RegisteredSchema, Versions
from minibroker.registry.serdes.errors import SerdesError
from minibroker.registry.serdes.source import VERSIONS_MAX
from minibroker.registry.state import ContextIds, RegistryState
from minibroker.registry.stored_schema import PROTOBUF, SchemaContent
from minibroker.registry.subjects import DEFAULT_CONTEXT, Subject, parse_subject


class LocalSource:
    """The schemas of one registry. They are looked up each time: a test may empty the registry, and ids start again."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    async def identify(self, schema_id: int | str) -> tuple[bytes, Versions]:
        """What changes if the id gets another schema, and where it is registered now. Raises SerdesError if there is none."""
        context, number, content = await self._find(schema_id)
        return content.digest, self._versions(context, number)

    def _versions(self, context: str, schema_id: int) -> Versions:
        ids: ContextIds = self._registry.schemas.state.ids_in(context)
        return tuple(itertools.islice(ids.versions.get(schema_id, {}).items(), VERSIONS_MAX))

    async def by_id(self, schema_id: int | str) -> RegisteredSchema:
        """The schema of an id or GUID. Raises SerdesError."""
        return await self._registered(*await self._find(schema_id))

    async def by_subject(self, subject: str) -> RegisteredSchema:
        """The latest version of a subject. Raises SerdesError."""
        state = await self._catch_up()
        schema = state.latest(subject)
        if schema is None:
            raise SerdesError(f"the registry has no subject {subject}")
        return await self._registered(parse_subject(subject).context, schema.id, schema.content)

    async def _catch_up(self) -> RegistryState:
        try:
            return await self._registry.catch_up()
        except RegistryError as error:
            raise SerdesError(error.message) from error

    async def _find(self, schema_id: int | str) -> tuple[str, int, SchemaContent]:
        state = await self._catch_up()
        if isinstance(schema_id, int):
            content = state.ids_in(DEFAULT_CONTEXT).contents.get(schema_id)
            if content is not None:
                return DEFAULT_CONTEXT, schema_id, content
        else:
            for context in state.all_contexts:
                found = state.ids_in(context).by_digest.get(UUID(schema_id).bytes)
                if found is not None:
                    return context, found, state.ids_in(context).contents[found]
        raise SerdesError(f"the registry has no schema {schema_id}")

    async def _registered(self, context: str, schema_id: int, content: SchemaContent) -> RegisteredSchema:
        schemas = self._registry.schemas
        try:
            references = schemas.references_of(content, Subject(context, "").text)
            text = content.text
            if content.schema_type == PROTOBUF:
                text = (await schemas.parse(content, references)).formatted("serialized")
                references = tuple([await self._serialized(each, references[:index]) for index, each in enumerate(references)])
        except RegistryError as error:
            raise SerdesError(error.message) from error
        return RegisteredSchema(schema_id, content.schema_type, text, references, self._versions(context, schema_id))

    async def _serialized(self, schema: ReferencedSchema, earlier: tuple[ReferencedSchema, ...]) -> ReferencedSchema:
        parsed = await self._registry.schemas.parse(SchemaContent(PROTOBUF, schema.text), earlier)
        return schema._replace(text=parsed.formatted("serialized"))
