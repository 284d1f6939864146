"""Bodies of requests, checked, and responses in JSON."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Self

from minibroker.registry.compatibility import LEVELS
from minibroker.registry.errors import RegistryError, invalid_compatibility, invalid_mode, invalid_rule_set, invalid_version
from minibroker.registry.records import CONFIG_FIELDS
from minibroker.registry.stored_schema import AVRO, Json, Reference, SchemaContent, StoredSchema

_REMEMBERED_MAX: Final = 2_000  #: responses
_REMEMBERED_SIZE_MAX: Final = 4_096  #: bytes of a request's body, and characters of a response
MODES: Final = ("READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT")
NUMBER_MAX: Final = (1 << 31) - 1  #: of ids and versions
_DIGITS_MAX: Final = 11
_REFERENCES_MAX: Final = 100
_RULE_MODES: Final = {
    "migrationRules": {"UPGRADE", "DOWNGRADE", "UPDOWN"},
    "domainRules": {"WRITE", "READ", "WRITEREAD"},
    "encodingRules": {"WRITE", "READ", "WRITEREAD"},
}
#: The fields of a rule besides `disabled`, in the order in which it is shown.
_RULE_FIELDS: Final[dict[str, type]] = dict.fromkeys(("name", "doc", "kind", "mode", "type"), str) | {
    "tags": list, "params": dict, "expr": str, "onSuccess": str, "onFailure": str,
}  # fmt: skip
_BOOLEANS: Final = frozenset({"normalize", "validateFields", "validateNewSchemas", "validateRules"})
_METADATA: Final = frozenset({"defaultMetadata", "overrideMetadata"})
_RULE_SETS: Final = frozenset({"defaultRuleSet", "overrideRuleSet"})


@dataclass(frozen=True, slots=True)
class SchemaRequest:
    """A schema to register, to look up or to compare."""

    content: SchemaContent
    version: int = 0  #: 0: the next one
    id: int = -1  #: -1: assigned by the registry

    @classmethod
    def read(cls, body: object) -> Self:
        """Read the body of a request. Raises RegistryError (422)."""
        fields = _object(body)
        text = _typed(fields, "schema", str, "")
        schema_type = _typed(fields, "schemaType", str, AVRO) or AVRO
        references = _typed(fields, "references", list, [])
        if len(references) > _REFERENCES_MAX:
            raise RegistryError(422, f"references has {len(references)} elements, at most {_REFERENCES_MAX} are allowed")
        content = SchemaContent(
            schema_type,
            text,
            tuple(map(Reference.read, references)),
            read_metadata(fields.get("metadata")),
            read_rule_set(fields.get("ruleSet")),
        )
        return cls(content, _typed(fields, "version", int, 0), _typed(fields, "id", int, -1))

    def with_content(self, **changes: Any) -> Self:
        """The same request with another content."""
        return replace(self, content=replace(self.content, **changes))


def _object(body: object) -> dict[str, Any]:
    if not isinstance(body, dict):
        raise RegistryError(422, "the body must be a JSON object")
    return body


def _typed(fields: Mapping[str, Any], name: str, kind: type, default: Any) -> Any:
    value = fields.get(name)
    if value is None:
        return default
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise RegistryError(422, f"{name} must be of type {kind.__name__}, got {type(value).__name__}")
    return value


def read_metadata(value: object) -> Json | None:
    """Metadata with sorted tags, properties and sensitive names. Raises RegistryError (422)."""
    if value is None:
        return None
    fields = _object(value)
    tags = _typed(fields, "tags", dict, {})
    properties = _typed(fields, "properties", dict, {})
    sensitive = _typed(fields, "sensitive", list, [])
    are_texts = all(isinstance(each, str) for each in (*properties.values(), *sensitive))
    if not are_texts or not all(isinstance(each, list) and all(isinstance(tag, str) for tag in each) for each in tags.values()):
        raise RegistryError(422, "metadata must have strings in properties and sensitive, and lists of strings in tags")
    metadata = {
        "tags": {key: sorted(set(tags[key])) for key in sorted(tags)},
        "properties": dict(sorted(properties.items())),
        "sensitive": sorted(set(sensitive)),
    }
    return {name: each for name, each in metadata.items() if each}


def read_rule_set(value: object) -> Json | None:
    """A rule set with its rules checked. Raises RegistryError (422, 42210)."""
    if value is None:
        return None
    fields = _object(value)
    rule_set: dict[str, Any] = {}
    for kind, modes in _RULE_MODES.items():
        rules = [_read_rule(each, modes, kind) for each in _typed(fields, kind, list, [])]
        names: set[str] = set()
        for name in (each["name"] for each in rules):
            if name in names:
                raise invalid_rule_set(f"Found rule with duplicate name '{name}'")
            names.add(name)
        if rules:
            rule_set[kind] = rules
    if fields.get("enableAt"):
        rule_set["enableAt"] = _typed(fields, "enableAt", str, "")
    return rule_set


def _read_rule(value: object, modes: set[str], kind: str) -> Json:
    fields = _object(value)
    name, mode = fields.get("name"), fields.get("mode")
    if not isinstance(name, str) or not name:
        raise invalid_rule_set(f"a rule in {kind} has no name")
    if not isinstance(mode, str) or mode not in modes:
        raise invalid_rule_set(f"rule '{name}' in {kind} has mode {mode!r}: use {', '.join(sorted(modes))}")
    rule = {each: _typed(fields, each, type_, None) for each, type_ in _RULE_FIELDS.items()}
    params = rule["params"] or {}
    if not all(isinstance(each, str) for each in (*(rule["tags"] or ()), *params.values())):
        raise RegistryError(422, f"rule '{name}' in {kind} must have strings in tags and params")
    rule["params"] = dict(sorted(params.items()))
    return {key: each for key, each in rule.items() if each} | {"disabled": bool(fields.get("disabled"))}


def read_settings(body: object) -> dict[str, Any]:
    """The configuration in a body: only known fields; null resets one. Raises RegistryError (422)."""
    fields = _object(body)
    if "compatibility" in fields:
        level = fields["compatibility"]
        if level is not None and (not isinstance(level, str) or level.upper() not in LEVELS):
            raise invalid_compatibility(level)
        fields = fields | {"compatibilityLevel": level if level is None else level.upper()}
    settings: dict[str, Any] = {}
    for name in CONFIG_FIELDS:
        if name not in fields:
            continue
        value = fields[name]
        if value is not None and name in _METADATA:
            value = read_metadata(value)
        elif value is not None and name in _RULE_SETS:
            value = read_rule_set(value)
        elif name in _BOOLEANS:
            value = _typed(fields, name, bool, None)
        elif name == "compatibilityLevel" and value is not None and (not isinstance(value, str) or value not in LEVELS):
            raise invalid_compatibility(value)
        elif value is not None and not isinstance(value, str):
            raise RegistryError(422, f"{name} must be a string, got {type(value).__name__}")
        settings[name] = value
    return settings


def read_mode(body: object) -> str:
    """The mode in a body. Raises RegistryError (42204)."""
    mode = _object(body).get("mode")
    if not isinstance(mode, str) or mode.upper() not in MODES:
        raise invalid_mode(mode)
    return mode.upper()


def read_version(text: str) -> int:
    """The number of a version in an address. Raises RegistryError (42202)."""
    if not (text.isascii() and text.isdigit()) or len(text) > _DIGITS_MAX or not 0 < int(text) <= NUMBER_MAX:
        raise invalid_version(text)
    return int(text)


def read_id(digits: str) -> int:
    """The id in an address, which has only digits. One that is larger than all ids becomes NUMBER_MAX + 1."""
    return min(int(digits[:_DIGITS_MAX]), NUMBER_MAX + 1)


def content_json(content: SchemaContent, *, with_type: bool = False) -> dict[str, Any]:
    """What responses show of a schema. The type of Avro is left out, except with `with_type`."""
    fields: dict[str, Any] = {"guid": content.guid}
    if with_type or content.schema_type != AVRO:
        fields["schemaType"] = content.schema_type
    fields |= {
        "references": [each._asdict() for each in content.references],
        "metadata": content.metadata,
        "ruleSet": content.rule_set,
        "schema": content.text,
    }
    return {name: value for name, value in fields.items() if value not in (None, [], ())}


def schema_json(schema: StoredSchema) -> dict[str, Any]:
    """A version in a response."""
    shown = {"subject": schema.subject, "version": schema.version, "id": schema.id} | content_json(schema.content)
    return shown | {"deleted": True} if schema.is_deleted else shown


def config_json(settings: Mapping[str, Any], *, is_update: bool = False) -> dict[str, Any]:
    """A configuration in a response. The response to a change calls the level `compatibility`, as requests do."""
    shown = {name: settings[name] for name in CONFIG_FIELDS if settings.get(name) is not None}
    if is_update and "compatibilityLevel" in shown:
        shown["compatibility"] = shown.pop("compatibilityLevel")
    return shown


class RememberedResponses:
    """Responses to requests with a schema. They are the same until the registry changes: serializers of many clients ask the same."""

    def __init__(self) -> None:
        self._responses: dict[Hashable, str] = {}
        self._change_count = -1

    def find(self, key: Hashable, change_count: int) -> str | None:
        """Return the response to a request, or None. Forgets all of them if the registry has changed."""
        if change_count != self._change_count:
            self._responses.clear()
            self._change_count = change_count
        return self._responses.get(key)

    def keep(self, key: Hashable, change_count: int, body: bytes, response: str) -> None:
        """Keep the response to a request that `find` did not find, if it and the body are short and there are not too many."""
        is_short = len(body) <= _REMEMBERED_SIZE_MAX and len(response) <= _REMEMBERED_SIZE_MAX
        if is_short and change_count == self._change_count and len(self._responses) < _REMEMBERED_MAX:
            self._responses[key] = response
