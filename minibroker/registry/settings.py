"""Configurations and modes: of one subject, of a context, and global ones.

    subject  -->  its context `:.name:`  -->  global  -->  the registry's default

A configuration of a subject replaces the global one field by field.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from minibroker.registry.compatibility import DEFAULT_LEVEL
from minibroker.registry.errors import no_compatibility_of, no_mode_of, not_permitted, subject_not_found
from minibroker.registry.records import settings_value, subject_key
from minibroker.registry.requests import SchemaRequest
from minibroker.registry.state import RegistryState
from minibroker.registry.stored_schema import Json, StoredSchema
from minibroker.registry.subjects import DEFAULT_CONTEXT, GLOBAL_CONTEXT, Subject, parse_subject
from minibroker.registry.topic import Change, SchemasTopic

DEFAULT_MODE: Final = "READWRITE"
_CONFLUENT_VERSION: Final = "confluent:version"


class Settings:
    """The configurations and modes of one registry."""

    def __init__(self, topic: SchemasTopic) -> None:
        self._topic = topic

    @property
    def _state(self) -> RegistryState:
        return self._topic.state

    # Configurations

    def of(self, subject: str | None) -> dict[str, Any]:
        """The configuration of a subject or context alone; the global one for None. Raises RegistryError (40408)."""
        settings = self._state.configs.get(subject)
        if settings is None:
            if subject is not None:
                raise no_compatibility_of(subject)
            return {"compatibilityLevel": DEFAULT_LEVEL}
        return settings if subject is not None else {"compatibilityLevel": DEFAULT_LEVEL} | settings

    def in_scope(self, subject: str | None) -> dict[str, Any]:
        """The configuration that counts for a subject."""
        merged: dict[str, Any] = {"compatibilityLevel": DEFAULT_LEVEL}
        for scope in reversed([*_scopes(subject)]):
            settings = self._state.configs.get(scope) or {}
            merged |= {name: value for name, value in settings.items() if value is not None}
        return merged

    async def update(self, subject: str | None, changes: Mapping[str, Any]) -> dict[str, Any]:
        """Change the named fields of a configuration; None resets one. Returns the new configuration."""
        async with self._topic.writing:
            await self._topic.catch_up()
            self._check_writable(subject)
            settings = {**self._state.configs.get(subject, {}), **changes}
            settings = {name: value for name, value in settings.items() if value is not None}
            await self._topic.append([(subject_key("CONFIG", subject), settings_value(subject, settings))])
            return settings

    async def delete(self, subject: str | None) -> dict[str, Any]:
        """Delete a configuration. Returns what it was. Raises RegistryError (40401) if a subject has none."""
        async with self._topic.writing:
            await self._topic.catch_up()
            if subject is not None and subject not in self._state.configs:
                raise subject_not_found(subject)
            self._check_writable(subject)
            settings = self.of(subject)
            await self._topic.append([(subject_key("CONFIG", subject), None)])
            return settings

    def _check_writable(self, subject: str | None) -> None:
        if self.mode_in_scope(subject) in {"READONLY", "READONLY_OVERRIDE"}:
            raise not_permitted(f"Subject {subject} is in read-only mode")

    # Modes

    def mode_of(self, subject: str | None) -> str:
        """The mode of a subject or context alone; the global one for None. Raises RegistryError (40409)."""
        mode = self._state.modes.get(subject)
        if mode is None:
            if subject is not None:
                raise no_mode_of(subject)
            return DEFAULT_MODE
        return mode

    def mode_in_scope(self, subject: str | None) -> str:
        """The mode that counts for a subject. A global READONLY_OVERRIDE is stronger than that of the subject."""
        modes = self._state.modes
        if modes.get(None) == "READONLY_OVERRIDE":
            return "READONLY_OVERRIDE"
        return next((modes[scope] for scope in _scopes(subject) if scope in modes), DEFAULT_MODE)

    async def set_mode(self, subject: str | None, mode: str, *, is_forced: bool) -> None:
        """Set a mode. IMPORT needs a subject or context without schemas, unless it is forced. Raises RegistryError (42205)."""
        async with self._topic.writing:
            state = await self._topic.catch_up()
            is_new = mode == "IMPORT" and self.mode_in_scope(subject) != "IMPORT" and not is_forced
            has_schemas = bool(state.subjects) if subject is None else state.has_subject(subject)
            if is_new and has_schemas:
                where = (
                    "Cannot import since found existing subjects" if subject is None else f"Cannot import since found existing {subject}"
                )
                raise not_permitted(where)
            await self._topic.append([(subject_key("MODE", subject), settings_value(subject, {"mode": mode}))])

    async def delete_mode(self, subject: str | None, *, is_recursive: bool) -> str | None:
        """Delete a mode; that of a context, if it is recursive, with those of all its subjects. Returns what it was."""
        async with self._topic.writing:
            state = await self._topic.catch_up()
            mode = state.modes.get(subject)
            if mode is None and not is_recursive:
                raise subject_not_found(subject or "")
            changes: list[Change] = [(subject_key("MODE", each), None) for each in ([subject] if mode is not None else [])]
            context, name = parse_subject(subject or "")
            if is_recursive and not name:
                inner = (each for each in state.modes if each is not None and each != subject and parse_subject(each).context == context)
                changes += [(subject_key("MODE", each), None) for each in inner]
            if changes:
                await self._topic.append(changes)
            return mode

    def removal(self, subject: str) -> list[Change]:
        """The records that remove the settings of a subject that has no versions any more."""
        changes: list[Change] = []
        if subject in self._state.modes:
            changes.append((subject_key("MODE", subject), None))
        if subject in self._state.configs:
            changes.append((subject_key("CONFIG", subject), None))
        return changes


def _scopes(subject: str | None) -> list[str | None]:
    """The settings that count for a subject, strongest first."""
    if subject is None:
        return [None, f":{GLOBAL_CONTEXT}:"]
    parsed = parse_subject(subject)
    if parsed.context == DEFAULT_CONTEXT:
        return [subject, None, f":{GLOBAL_CONTEXT}:"]
    return [subject, Subject(parsed.context, "").text, f":{GLOBAL_CONTEXT}:"]


def settings_subject(text: str) -> str | None:
    """The subject of a configuration or mode: None for the default context, whose settings are the global ones."""
    subject = parse_subject(text)
    return None if subject.is_default_context else subject.text


def with_defaults(
    request: SchemaRequest, settings: Mapping[str, Any], previous: StoredSchema | None, next_version: int | None
) -> SchemaRequest:
    """A request with what it leaves out: the schema, metadata and rules of the previous version, and the configured ones."""
    content = request.content
    if not content.text.strip() and previous is not None:
        request = request.with_content(
            schema_type=previous.content.schema_type, text=previous.content.text, references=previous.content.references
        )
    inherited = None if previous is None else previous.content
    metadata = inherited.metadata if content.metadata is None and inherited else content.metadata
    rule_set = inherited.rule_set if content.rule_set is None and inherited else content.rule_set
    metadata = _merged_metadata(settings.get("defaultMetadata"), metadata, settings.get("overrideMetadata"))
    rule_set = _merged_rules(settings.get("defaultRuleSet"), rule_set, settings.get("overrideRuleSet"))
    properties = (metadata or {}).get("properties") or {}
    if next_version is not None and (request.version != 0 or _CONFLUENT_VERSION in properties):
        properties = dict(sorted({**properties, _CONFLUENT_VERSION: str(next_version)}.items()))
        metadata = {**(metadata or {}), "properties": properties}
    if metadata is content.metadata is None and rule_set is content.rule_set is None:
        return request
    return request.with_content(metadata=metadata, rule_set=rule_set)


def _merged_metadata(*layers: Json | None) -> Json | None:
    """Later layers win, key by key."""
    present = [each for each in layers if each is not None]
    if not present:
        return None
    tags: dict[str, set[str]] = {}
    properties: dict[str, str] = {}
    sensitive: set[str] = set()
    for layer in present:
        for key, values in (layer.get("tags") or {}).items():
            tags[key] = tags.get(key, set()) | set(values)
        properties |= layer.get("properties") or {}
        sensitive |= set(layer.get("sensitive") or ())
    merged = {
        "tags": {key: sorted(tags[key]) for key in sorted(tags)},
        "properties": dict(sorted(properties.items())),
        "sensitive": sorted(sensitive),
    }
    return {name: value for name, value in merged.items() if value}


def _merged_rules(*layers: Json | None) -> Json | None:
    """Rules of later layers replace those of the same name."""
    present = [each for each in layers if each is not None]
    if not present:
        return None
    merged: dict[str, Any] = {}
    for kind in ("migrationRules", "domainRules", "encodingRules"):
        rules: list[Json] = []
        for layer in present:
            new = layer.get(kind) or []
            names = {each["name"] for each in new}
            rules = [each for each in rules if each["name"] not in names] + [*new]
        if rules:
            merged[kind] = rules
    enable_at = next((each["enableAt"] for each in reversed(present) if each.get("enableAt")), None)
    return merged | ({"enableAt": enable_at} if enable_at else {})
