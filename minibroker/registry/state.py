"""What the registry knows: the records of `_schemas`, replayed in order.

Ids belong to a context. An id is found as long as one of its versions exists, deleted softly or not.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from minibroker.registry.records import Key, NotARecord, Value, read_schema
from minibroker.registry.stored_schema import SchemaContent, StoredSchema
from minibroker.registry.subjects import DEFAULT_CONTEXT, parse_subject, with_parent

Version = tuple[str, int]  #: subject and version


class ContextIds:
    """The ids of one context."""

    def __init__(self) -> None:
        self.contents: dict[int, SchemaContent] = {}
        self.versions: dict[int, dict[str, int]] = {}  #: of each id: the newest version of each subject that has it
        self.by_digest: dict[bytes, int] = {}
        self.last_id = 0

    def add(self, schema: StoredSchema) -> None:
        """Register the id of a version."""
        self.last_id = max(self.last_id, schema.id)
        self.contents[schema.id] = schema.content
        self.by_digest[schema.content.digest] = schema.id
        versions = self.versions.setdefault(schema.id, {})
        versions[schema.subject] = max(schema.version, versions.get(schema.subject, 0))

    def remove(self, schema: StoredSchema, other_version: int | None) -> None:
        """Forget a version. `other_version` of the same subject has the same id."""
        versions = self.versions.get(schema.id, {})
        if other_version is not None:
            versions[schema.subject] = other_version
            return
        versions.pop(schema.subject, None)
        if not versions:
            self.versions.pop(schema.id, None)
            content = self.contents.pop(schema.id, None)
            if content is not None and self.by_digest.get(content.digest) == schema.id:
                del self.by_digest[content.digest]


class RegistryState:
    """Subjects, ids, references, configurations and modes."""

    def __init__(self) -> None:
        self.subjects: dict[str, dict[int, StoredSchema]] = {}
        self.configs: dict[str | None, dict[str, Any]] = {}
        self.modes: dict[str | None, str] = {}
        self.contexts: dict[str, None] = {}  #: besides the default one, in order
        self._ids: dict[str, ContextIds] = {}  #: of contexts that have or had a schema
        self._referrers: defaultdict[Version, set[Version]] = defaultdict(set)

    def replay(self, key: Key, value: Value) -> None:
        """Apply one record. Raises NotARecord if a version's value cannot be read."""
        subject = key.subject
        match key.kind:
            case "SCHEMA" if subject is not None:
                if value is None:
                    self._remove(subject, key.version)
                else:
                    self._put(read_schema(value, subject, key.version))
            case "DELETE_SUBJECT" if subject is not None and value is not None:
                last = value.get("version")
                for schema in [*self.subjects.get(subject, {}).values()]:
                    if isinstance(last, int) and schema.version <= last and not schema.is_deleted:
                        self._put(schema.deleted())
            case "CLEAR_SUBJECT" if subject is not None and value is not None:
                for version in [*self.subjects.get(subject, {})]:
                    self._remove(subject, version)
            case "CONFIG":
                self._replay_setting(self.configs, subject, None if value is None else {k: v for k, v in value.items() if k != "subject"})
            case "MODE":
                mode = None if value is None else value.get("mode")
                if not isinstance(mode, str | None):
                    raise NotARecord(f"the mode {mode!r}")
                self._replay_setting(self.modes, subject, mode)
            case "CONTEXT" if subject is not None:
                self.contexts.pop(subject, None) if value is None else self.contexts.setdefault(subject)

    @staticmethod
    def _replay_setting(settings: dict[str | None, Any], subject: str | None, value: object) -> None:
        if value is None:
            settings.pop(subject, None)
        else:
            settings[subject] = value

    def _put(self, schema: StoredSchema) -> None:
        versions = self.subjects.setdefault(schema.subject, {})
        before = versions.get(schema.version)
        if before is not None and (before.id, before.content) != (schema.id, schema.content):
            self._remove(schema.subject, schema.version)
            versions = self.subjects.setdefault(schema.subject, {})
        versions[schema.version] = schema
        self._ids.setdefault(parse_subject(schema.subject).context, ContextIds()).add(schema)
        for referenced in referenced_versions(schema):
            self._referrers[referenced].add((schema.subject, schema.version))

    def _remove(self, subject: str, version: int) -> None:
        versions = self.subjects.get(subject, {})
        schema = versions.pop(version, None)
        if schema is None:
            return
        others = [each.version for each in versions.values() if each.id == schema.id]
        self.ids_of(subject).remove(schema, max(others, default=None))
        for referenced in referenced_versions(schema):
            self._referrers[referenced].discard((subject, version))
            if not self._referrers[referenced]:
                del self._referrers[referenced]
        if not versions:
            del self.subjects[subject]

    def ids_of(self, subject: str) -> ContextIds:
        """The ids of the subject's context."""
        return self.ids_in(parse_subject(subject).context)

    def ids_in(self, context: str) -> ContextIds:
        """The ids of a context, which may be unknown."""
        return self._ids.get(context) or ContextIds()  # not kept: clients may ask for any number of contexts

    @property
    def all_contexts(self) -> list[str]:
        """The default context, then the others."""
        return [DEFAULT_CONTEXT, *self.contexts]

    def versions(self, subject: str, *, with_deleted: bool = False) -> list[StoredSchema]:
        """The versions of a subject in ascending order."""
        versions = self.subjects.get(subject, {})
        return [versions[version] for version in sorted(versions) if with_deleted or not versions[version].is_deleted]

    def latest(self, subject: str) -> StoredSchema | None:
        """The newest version that is not deleted."""
        versions = self.versions(subject)
        return versions[-1] if versions else None

    def version(self, subject: str, version: int, *, with_deleted: bool = False) -> StoredSchema | None:
        """One version."""
        schema = self.subjects.get(subject, {}).get(version)
        return None if schema is None or (schema.is_deleted and not with_deleted) else schema

    def has_subject(self, subject: str, *, with_deleted: bool = False) -> bool:
        """Whether the subject has a version. A context has one if any of its subjects does."""
        if subject in self.subjects:
            return any(with_deleted or not each.is_deleted for each in self.subjects[subject].values())
        parsed = parse_subject(subject)
        return not parsed.name and any(
            parse_subject(each).context == parsed.context and self.has_subject(each, with_deleted=with_deleted) for each in self.subjects
        )

    def referrers(self, subject: str, version: int, *, with_deleted: bool = False) -> Iterator[StoredSchema]:
        """The versions that reference one."""
        for referrer in sorted(self._referrers.get((subject, version), ())):
            schema = self.version(*referrer, with_deleted=with_deleted)
            if schema is not None:
                yield schema


def referenced_versions(schema: StoredSchema) -> Iterable[Version]:
    """The versions that a schema references."""
    return [(with_parent(each.subject, schema.subject), each.version) for each in schema.content.references]
