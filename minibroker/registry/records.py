"""Records of `_schemas`: JSON keys and values, in the bytes that Confluent's registry writes.

    key                                                                value
    {"keytype":"SCHEMA","subject":S,"version":N,"magic":1}             {"subject","version","id","schemaType","references",
                                                                        "metadata","ruleSet","schema","deleted"}
    {"keytype":"CONFIG","subject":S,"magic":0}                         {"subject","alias","normalize","compatibilityLevel",...}
    {"keytype":"MODE","subject":S,"magic":0}                           {"subject","mode"}
    {"keytype":"DELETE_SUBJECT","subject":S,"magic":0}                 {"subject","version"}    versions up to it are deleted softly
    {"keytype":"CLEAR_SUBJECT","subject":S,"magic":0}                  {"subject"}              all versions are gone
    {"keytype":"CONTEXT","tenant":"default","context":C,"magic":0}     {"tenant","context"}
    {"keytype":"NOOP","magic":0}                                       empty

A value of null is a tombstone. Fields that are null or empty are left out, also `schemaType` of
Avro; the subject of global settings is left out as well. Other registries write more fields (`md5`,
`ts`, `offset`), in another order, with spaces (old Karapace), or with `null` (Karapace's global settings,
and empty values as tombstones); all of these are read.

Source: SchemaKey, SchemaValue, ConfigValue and others of Confluent Schema Registry 8.1.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from minibroker.registry.errors import RegistryError
from minibroker.registry.json_text import read_json, write_json
from minibroker.registry.stored_schema import AVRO, Reference, SchemaContent, StoredSchema

TENANT: Final = "default"
CONFIG_FIELDS: Final = (
    "alias",
    "aliasForDeks",
    "normalize",
    "validateFields",
    "validateNewSchemas",
    "validateRules",
    "compatibilityLevel",
    "compatibilityPolicy",
    "compatibilityGroup",
    "defaultMetadata",
    "overrideMetadata",
    "defaultRuleSet",
    "overrideRuleSet",
)

Value = dict[str, Any] | None


class Key(NamedTuple):
    """The key of a record. `subject` is None for global settings; it is the context of a CONTEXT."""

    kind: str
    subject: str | None = None
    version: int = 0


class NotARecord(ValueError):  # noqa: N818  the caller skips it
    """A record that no registry writes."""


def schema_key(subject: str, version: int) -> bytes:
    """The key of a version."""
    return _encode({"keytype": "SCHEMA", "subject": subject, "version": version, "magic": 1})


def subject_key(kind: str, subject: str | None) -> bytes:
    """The key of a CONFIG, MODE, DELETE_SUBJECT or CLEAR_SUBJECT."""
    return _encode({"keytype": kind, "subject": subject, "magic": 0})


def context_key(context: str) -> bytes:
    """The key of a CONTEXT."""
    return _encode({"keytype": "CONTEXT", "tenant": TENANT, "context": context, "magic": 0})


def own_key(key: Key) -> bytes | None:
    """The bytes that this registry writes for a key; None for kinds that it never writes."""
    match key.kind:
        case "SCHEMA" if key.subject is not None:
            return schema_key(key.subject, key.version)
        case "CONFIG" | "MODE" | "DELETE_SUBJECT" | "CLEAR_SUBJECT":
            return subject_key(key.kind, key.subject)
        case "CONTEXT" if key.subject is not None:
            return context_key(key.subject)
    return None


def context_value(context: str) -> bytes:
    """The value of a CONTEXT."""
    return _encode({"tenant": TENANT, "context": context})


def schema_value(schema: StoredSchema) -> bytes:
    """The value of a version."""
    content = schema.content
    return _encode(
        {
            "subject": schema.subject,
            "version": schema.version,
            "id": schema.id,
            "schemaType": None if content.schema_type == AVRO else content.schema_type,
            "references": [each._asdict() for each in content.references],
            "metadata": content.metadata,
            "ruleSet": content.rule_set,
            "schema": content.text,
            "deleted": schema.is_deleted,
        }
    )


def settings_value(subject: str | None, settings: dict[str, Any]) -> bytes:
    """The value of a CONFIG, MODE, DELETE_SUBJECT or CLEAR_SUBJECT."""
    return _encode({"subject": subject, **settings})


def _encode(fields: dict[str, Any]) -> bytes:
    return write_json({name: value for name, value in fields.items() if value is not None and value not in ({}, [], "")}).encode()


def read_key(data: bytes | None) -> Key:
    """Read a key. Raises NotARecord."""
    fields = _object(data, "key")
    kind, subject, version = fields.get("keytype"), fields.get("subject"), fields.get("version", 0)
    if kind == "CONTEXT":
        subject = fields.get("context")
    if not isinstance(kind, str) or not isinstance(subject, str | None) or not isinstance(version, int):
        raise NotARecord(f"a key with keytype {kind!r}, subject {subject!r} and version {version!r}")
    if subject is None and kind in {"SCHEMA", "DELETE_SUBJECT", "CLEAR_SUBJECT", "CONTEXT"}:
        raise NotARecord(f"a key of {kind} without a subject")
    return Key(kind, subject, version)


def read_value(data: bytes | None) -> Value:
    """Read a value; None is a tombstone. Raises NotARecord."""
    return None if not data else _object(data, "value")


def read_schema(fields: dict[str, Any], subject: str, version: int) -> StoredSchema:
    """The version in the value of a SCHEMA. Raises NotARecord."""
    schema_id, text, kind = fields.get("id"), fields.get("schema"), fields.get("schemaType") or AVRO
    if not isinstance(schema_id, int) or not isinstance(text, str) or not isinstance(kind, str):
        raise NotARecord(f"version {version} of {subject} with id {schema_id!r} and type {kind!r}")
    try:
        references = tuple(Reference.read(each) for each in fields.get("references") or ())
        content = SchemaContent(kind, text, references, fields.get("metadata"), fields.get("ruleSet"))
        hash(content.digest)  # is computed here, which reads all fields
    except (RegistryError, AttributeError, TypeError, OverflowError) as error:
        raise NotARecord(f"version {version} of {subject}: {error}") from error
    return StoredSchema(subject, version, schema_id, content, bool(fields.get("deleted")))


def _object(data: bytes | None, noun: str) -> dict[str, Any]:
    try:
        value = read_json(data or b"")
    except ValueError as error:
        raise NotARecord(f"a {noun} that is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise NotARecord(f"a {noun} that is not a JSON object")
    return value
