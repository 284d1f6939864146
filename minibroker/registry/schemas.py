"""Registers, finds and deletes schemas.

A registration checks in this order: the mode, whether the schema exists already, compatibility. Writers
take turns (`writing`), so that ids and versions are unique.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from minibroker.registry.compatibility import compared_versions, incompatibilities
from minibroker.registry.errors import (
    RegistryError,
    context_not_empty,
    incompatible,
    invalid_schema,
    not_permitted,
    reference_exists,
    schema_too_large,
    subject_not_found,
    subject_not_soft_deleted,
    subject_soft_deleted,
    version_not_found,
    version_not_soft_deleted,
    version_soft_deleted,
)
from minibroker.registry.parsed_schema import SIZE_MAX, ParsedSchema, ReferencedSchema, SchemaParser
from minibroker.registry.records import context_key, context_value, schema_key, schema_value, settings_value, subject_key
from minibroker.registry.requests import NUMBER_MAX, SchemaRequest
from minibroker.registry.settings import Settings, with_defaults
from minibroker.registry.state import RegistryState
from minibroker.registry.stored_schema import JSON, PROTOBUF, SchemaContent, StoredSchema, may_be_equal
from minibroker.registry.subjects import DEFAULT_CONTEXT, Subject, parse_subject, with_parent
from minibroker.registry.topic import Change, SchemasTopic

_PARSED_MAX: Final = 1_000  #: parsed schemas that are kept
_PARSED_BYTES_MAX: Final = 16 << 20  #: of their texts
_THREAD_FROM: Final = 4_096  #: bytes of text: longer ones are parsed in a thread, so that the loop goes on
_JSON_THREAD_FROM: Final = 1_024  #: likewise, of JSON schemas that are compared: each part with many others
_REFERENCED_MAX: Final = 1_000  #: schemas that one schema references, directly or not
_REFERENCED_BYTES_MAX: Final = 4 << 20


class ParsedSchemas:
    """Parses schemas, and keeps those that were used last."""

    def __init__(self, parser_of: Callable[[str], SchemaParser]) -> None:
        self._parser_of = parser_of
        self._parsed: OrderedDict[tuple[str, str, tuple[ReferencedSchema, ...], bool], ParsedSchema] = OrderedDict()
        self._bytes = 0
        self._slow = asyncio.Lock()  #: one long parse at a time: protoc may use a gigabyte

    def parse(self, content: SchemaContent, references: tuple[ReferencedSchema, ...], *, is_new: bool = False) -> ParsedSchema:
        """Parse a schema in this turn of the loop. Raises RegistryError (42201)."""
        key = (content.schema_type, content.text, references, is_new)
        parsed = self._parsed.get(key)
        if parsed is None:
            parsed = self._parser_of(content.schema_type)(content.text, references, is_new=is_new)
            self._keep(key, parsed)
        self._parsed.move_to_end(key)
        return parsed

    async def parse_later(self, content: SchemaContent, references: tuple[ReferencedSchema, ...], *, is_new: bool = False) -> ParsedSchema:
        """Parse a schema, in a thread if it is long. Raises RegistryError (42201)."""
        key = (content.schema_type, content.text, references, is_new)
        is_slow = content.schema_type == PROTOBUF or _size_of(content.text, references) >= _THREAD_FROM
        if key not in self._parsed and is_slow:
            async with self._slow:
                if key not in self._parsed:
                    parser = self._parser_of(content.schema_type)
                    self._keep(key, await asyncio.to_thread(parser, content.text, references, is_new=is_new))
        return self.parse(content, references, is_new=is_new)

    def _keep(self, key: tuple[str, str, tuple[ReferencedSchema, ...], bool], parsed: ParsedSchema) -> None:
        self._parsed[key] = parsed
        self._bytes += _size_of(key[1], key[2])
        while len(self._parsed) > 1 and (len(self._parsed) > _PARSED_MAX or self._bytes > _PARSED_BYTES_MAX):
            (_, text, references, _), _ = self._parsed.popitem(last=False)
            self._bytes -= _size_of(text, references)


def _size_of(text: str, references: tuple[ReferencedSchema, ...]) -> int:
    return len(text) + sum(len(each.text) for each in references)


class Schemas:
    """The schemas of one registry."""

    def __init__(self, topic: SchemasTopic, settings: Settings, parsed: ParsedSchemas) -> None:
        self._topic = topic
        self._settings = settings
        self._parsed = parsed
        self._comparing = asyncio.Lock()  #: one thread that compares at a time: each slows down the loop

    @property
    def state(self) -> RegistryState:
        """What is registered. Await `SchemasTopic.catch_up` first."""
        return self._topic.state

    # Parsing

    def references_of(self, content: SchemaContent, subject: str) -> tuple[ReferencedSchema, ...]:
        """All schemas that one references, directly or not, each after those that it references itself.

        Raises:
            RegistryError: (42201) one does not exist, or there are too many.
        """
        found: dict[tuple[str, int], ReferencedSchema] = {}
        size = 0
        try:
            for name, schema in self._referenced(content, subject, set()):
                found.setdefault((schema.subject, schema.version), ReferencedSchema(name, schema.content.text))
                size += len(schema.content.text)
                if len(found) > _REFERENCED_MAX or size > _REFERENCED_BYTES_MAX:
                    raise invalid_schema(f"more than {_REFERENCED_MAX} schemas or {_REFERENCED_BYTES_MAX} bytes are referenced")
        except RecursionError:
            raise invalid_schema("the chain of references is too long") from None
        return tuple(found.values())

    def _referenced(self, content: SchemaContent, subject: str, seen: set[tuple[str, int]]) -> Iterator[tuple[str, StoredSchema]]:
        for reference in content.references:
            target = with_parent(reference.subject, subject)
            if reference.version == -1:
                schema = self.state.latest(target)
            else:
                schema = self.state.version(target, reference.version, with_deleted=True)
            if schema is None:
                raise invalid_schema(f'No schema reference found for subject "{target}" and version {reference.version}')
            if (target, schema.version) in seen:
                continue
            seen.add((target, schema.version))
            yield from self._referenced(schema.content, target, seen)
            yield reference.name, schema

    async def parse(self, content: SchemaContent, references: tuple[ReferencedSchema, ...]) -> ParsedSchema:
        """Parse a schema after those that it references. Raises RegistryError (42201)."""
        return await self._parsed.parse_later(content, references)

    async def parse_stored(self, schema: StoredSchema) -> ParsedSchema:
        """Parse a version that is registered."""
        return await self._parsed.parse_later(schema.content, self.references_of(schema.content, schema.subject))

    async def _canonical(
        self, subject: str, request: SchemaRequest, *, normalize: bool, is_new: bool
    ) -> tuple[SchemaRequest, ParsedSchema]:
        """Parse the schema of a request. Returns the request with its canonical text."""
        content = request.content
        if not content.text.strip():
            raise invalid_schema("Empty schema")
        if len(content.text) > SIZE_MAX:
            raise schema_too_large(len(content.text), SIZE_MAX)
        parsed = await self._parsed.parse_later(content, self.references_of(content, subject), is_new=is_new)
        if normalize:
            return request.with_content(text=parsed.normal_text, references=tuple(sorted(set(content.references)))), parsed
        return request if parsed.text == content.text else request.with_content(text=parsed.text), parsed

    # Look-ups

    async def look_up(self, subject: str, request: SchemaRequest, *, normalize: bool, with_deleted: bool) -> StoredSchema | None:
        """The version of a subject that equals the schema; None if there is none."""
        settings = self._settings.in_scope(subject)
        normalize = normalize or bool(settings.get("normalize"))
        found = await self._look_up(subject, request, normalize=normalize, with_deleted=with_deleted)
        latest = self.state.latest(subject)
        if found is not None or latest is None:
            return found
        # As a registration does: metadata and rules that are not in the request come from the last version and the configuration.
        populated = with_defaults(request, settings, latest, None)
        if populated == request:
            return None
        return await self._look_up(subject, populated, normalize=normalize, with_deleted=with_deleted)

    async def _look_up(self, subject: str, request: SchemaRequest, *, normalize: bool, with_deleted: bool) -> StoredSchema | None:
        canonical, parsed = await self._canonical(subject, request, normalize=normalize, is_new=False)
        return await self._find_equal(subject, canonical, parsed, with_deleted=with_deleted)

    async def _find_equal(self, subject: str, canonical: SchemaRequest, parsed: ParsedSchema, *, with_deleted: bool) -> StoredSchema | None:
        """The newest version with the same content; or with the same schema in another spelling, or where references are written out."""
        content = canonical.content
        versions = self.state.versions(subject, with_deleted=with_deleted)
        for schema in reversed(versions):
            if schema.content == content:
                return schema
        for schema in reversed(versions):
            if _may_be_equal(schema.content, content) and await self._is_equal(schema, content, parsed):
                return schema
        return None

    async def _is_equal(self, schema: StoredSchema, content: SchemaContent, parsed: ParsedSchema) -> bool:
        try:
            stored = await self.parse_stored(schema)
        except RegistryError:
            return False  # what another registry let pass
        if schema.content.references == content.references:
            return parsed.equals(stored)
        return stored.resolved_text == parsed.resolved_text

    # Changes

    async def register(self, subject: str, request: SchemaRequest, *, normalize: bool) -> StoredSchema:
        """Register a schema under a subject, unless it is registered there already. Returns its version.

        Raises:
            RegistryError: (409) incompatible, (42201) invalid, (42205) the mode forbids it, (42209) too large.
        """
        async with self._topic.writing:
            await asyncio.sleep(0)  # here and below: a registration is long, and other requests to the broker run in between
            state = await self._topic.catch_up()
            mode = self._settings.mode_in_scope(subject)
            settings = self._settings.in_scope(subject)
            normalize = normalize or bool(settings.get("normalize"))
            is_import = mode == "IMPORT"
            self._check_mode(subject, request, mode)
            versions = state.versions(subject, with_deleted=True)
            existing = [each for each in versions if not each.is_deleted]
            next_version = versions[-1].version + 1 if versions else 1
            if not is_import:
                request = with_defaults(request, settings, existing[-1] if existing else None, next_version)
            canonical, parsed = await self._canonical(subject, request, normalize=normalize, is_new=not is_import)
            await asyncio.sleep(0)
            if request.version == 0:
                found = await self._find_equal(subject, canonical, parsed, with_deleted=False)
                if found is not None and request.id in {-1, found.id}:
                    return found
            if not is_import:
                reasons = await self._incompatibilities(settings, canonical.content, parsed, existing)
                if reasons:
                    raise incompatible(subject, reasons)
                await asyncio.sleep(0)
            schema = self._new_version(subject, canonical, next_version, is_import=is_import)
            await self._topic.append(self._registration(schema, versions))
            return schema

    @staticmethod
    def _check_mode(subject: str, request: SchemaRequest, mode: str) -> None:
        where = f"Subject {subject} in context {_context_text(subject)}"
        if mode in {"READONLY", "READONLY_OVERRIDE"}:
            raise not_permitted(f"{where} is in read-only mode")
        if request.id >= 0 and mode != "IMPORT":
            raise not_permitted(f"{where} is not in import mode")
        if request.id < 0 and mode != "READWRITE":
            raise not_permitted(f"{where} is not in read-write mode")

    def _new_version(self, subject: str, request: SchemaRequest, next_version: int, *, is_import: bool) -> StoredSchema:
        version = request.version if request.version > 0 else next_version
        if version != next_version and not is_import:
            raise invalid_schema("Version is not one more than previous version")
        ids = self.state.ids_of(subject)
        schema_id = request.id
        if schema_id < 0:
            known = ids.by_digest.get(request.content.digest)
            schema_id = ids.last_id + 1 if known is None else known
        elif schema_id in ids.contents and ids.contents[schema_id] != request.content:
            raise not_permitted(f"Overwrite new schema with id {schema_id} in context {_context_text(subject)} is not permitted.")
        if schema_id > NUMBER_MAX:
            raise not_permitted(f"no id above {NUMBER_MAX} can be assigned")
        return StoredSchema(subject, version, schema_id, request.content)

    def _registration(self, schema: StoredSchema, versions: list[StoredSchema]) -> list[Change]:
        """The records of a registration: the context if it is new, then the version. An older deleted version of the same id goes."""
        changes: list[Change] = []
        context = parse_subject(schema.subject).context
        if context != DEFAULT_CONTEXT and context not in self.state.contexts:
            changes.append((context_key(context), context_value(context)))
        changes += [
            (schema_key(each.subject, each.version), None)
            for each in versions
            if each.is_deleted
            and each.id == schema.id
            and each.version < schema.version
            and not any(self.state.referrers(each.subject, each.version, with_deleted=True))
        ]
        return [*changes, (schema_key(schema.subject, schema.version), schema_value(schema))]

    async def _incompatibilities(
        self, settings: Mapping[str, Any], content: SchemaContent, parsed: ParsedSchema, earlier: list[StoredSchema]
    ) -> list[str]:
        group = settings.get("compatibilityGroup")
        if group is not None:
            earlier = [each for each in earlier if _property(each.content, group) == _property(content, group)]
        level = settings["compatibilityLevel"]
        versions = [
            (each, await self.parse_stored(each) if each.content.schema_type == content.schema_type else None)
            for each in compared_versions(level, earlier)
        ]
        compared = [content, *(each.content for each, _ in versions)]
        limit = _JSON_THREAD_FROM if content.schema_type == JSON else _THREAD_FROM
        if sum(len(each.text) for each in compared) < limit and not any(each.references for each in compared):
            return incompatibilities(level, parsed, versions)
        async with self._comparing:
            return await asyncio.to_thread(incompatibilities, level, parsed, versions)

    async def compare(self, subject: str, request: SchemaRequest, earlier: list[StoredSchema], *, normalize: bool) -> list[str]:
        """Why a schema could not be registered after `earlier` versions; empty if it could. Raises RegistryError (42201)."""
        settings = self._settings.in_scope(subject)
        canonical, parsed = await self._canonical(subject, request, normalize=normalize or bool(settings.get("normalize")), is_new=True)
        return await self._incompatibilities(settings, canonical.content, parsed, earlier)

    async def delete_version(self, subject: str, version: int | None, *, is_permanent: bool) -> int:
        """Delete a version, None for the latest one: softly, or permanently after that. Returns its number."""
        async with self._topic.writing:
            state = await self._topic.catch_up()
            schema = state.latest(subject) if version is None else state.version(subject, version, with_deleted=True)
            if schema is None:
                raise (
                    version_not_found(version or "latest") if state.has_subject(subject, with_deleted=True) else subject_not_found(subject)
                )
            if schema.is_deleted and not is_permanent:
                raise version_soft_deleted(subject, schema.version)
            self._check_writable(subject)
            if any(state.referrers(subject, schema.version, with_deleted=is_permanent)):
                raise reference_exists(subject, schema.version)
            if is_permanent and not schema.is_deleted:
                raise version_not_soft_deleted(subject, schema.version)
            changes: list[Change] = [(schema_key(subject, schema.version), None if is_permanent else schema_value(schema.deleted()))]
            if is_permanent and len(state.subjects[subject]) == 1:
                changes += self._settings.removal(subject)
            await self._topic.append(changes)
            return schema.version

    async def delete_subject(self, subject: str, *, is_permanent: bool) -> list[int]:
        """Delete all versions of a subject: softly, or permanently after that. Returns their numbers."""
        async with self._topic.writing:
            state = await self._topic.catch_up()
            if not state.has_subject(subject, with_deleted=True):
                raise subject_not_found(subject)
            if not is_permanent and not state.has_subject(subject):
                raise subject_soft_deleted(subject)
            self._check_writable(subject)
            versions = state.versions(subject, with_deleted=is_permanent)
            for schema in versions:
                others = (each for each in state.referrers(subject, schema.version, with_deleted=is_permanent) if each.subject != subject)
                if any(others):
                    raise reference_exists(subject, schema.version)
                if is_permanent and not schema.is_deleted:
                    raise subject_not_soft_deleted(subject)
            if is_permanent:
                changes: list[Change] = [(schema_key(subject, each.version), None) for each in reversed(versions)]
                changes += self._settings.removal(subject)
            else:
                changes = [(subject_key("DELETE_SUBJECT", subject), settings_value(subject, {"version": versions[-1].version}))]
            await self._topic.append(changes)
            return [each.version for each in versions]

    async def delete_context(self, text: str) -> None:
        """Delete a context, spelled `:.name:` or `.name`. Does nothing if it does not exist.

        Raises:
            RegistryError: (42211) it has subjects, perhaps softly deleted ones.
        """
        async with self._topic.writing:
            state = await self._topic.catch_up()
            context = parse_subject(text if text.startswith(":") else f":{text}:").context
            if state.has_subject(Subject(context, "").text, with_deleted=True):
                raise context_not_empty(text)
            if context in state.contexts:
                await self._topic.append([(context_key(context), None)])

    def _check_writable(self, subject: str) -> None:
        if self._settings.mode_in_scope(subject) in {"READONLY", "READONLY_OVERRIDE"}:
            raise not_permitted(f"Subject {subject} in context {_context_text(subject)} is in read-only mode")


def _may_be_equal(stored: SchemaContent, content: SchemaContent) -> bool:
    """Whether two contents may be the same schema, before they are parsed."""
    if (stored.schema_type, stored.metadata, stored.rule_set) != (content.schema_type, content.metadata, content.rule_set):
        return False
    if stored.references != content.references:
        return True
    return may_be_equal(stored.text, content.text, is_protobuf=content.schema_type == PROTOBUF)


def _property(content: SchemaContent, name: str) -> str | None:
    value: str | None = ((content.metadata or {}).get("properties") or {}).get(name)
    return value


def _context_text(subject: str) -> str:
    """The context as messages show it; empty for the default one."""
    return Subject(parse_subject(subject).context, "").text


def find_version(state: RegistryState, subject: str, version: int | None, *, with_deleted: bool = False) -> StoredSchema:
    """A version of a subject, None for the latest one. Raises RegistryError (404).

    A subject of the default context that does not exist is looked for in the other contexts.
    """
    found = state.latest(subject) if version is None else state.version(subject, version, with_deleted=with_deleted)
    if found is not None:
        return found
    parsed = parse_subject(subject)
    for context in state.contexts if parsed.context == DEFAULT_CONTEXT else ():
        other = replace_context(parsed, context)
        found = state.latest(other) if version is None else state.version(other, version, with_deleted=with_deleted)
        if found is not None:
            return found
    raise version_not_found(version or "latest") if state.has_subject(subject, with_deleted=with_deleted) else subject_not_found(subject)


def replace_context(subject: Subject, context: str) -> str:
    """The subject of the same name in another context."""
    return subject._replace(context=context).text
