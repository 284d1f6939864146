"""Schemas of a registry, each fetched once: versions of a subject, ids, and what they reference."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from minibroker.errors import ConfigurationError
from minibroker.registry.client import PREFIX, RegistryClient, RegistryUnavailable, path
from minibroker.spark.failures import SourceError

AVRO: Final = "AVRO"
JSON: Final = "JSON"
PROTOBUF: Final = "PROTOBUF"

_REFERENCES_MAX: Final = 1000  #: schemas that one schema references, directly or not
_GUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class SchemaReference(NamedTuple):
    """A name in a schema that a version of another subject declares."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema, and where it was found.

    Attributes:
        schema_id: as in records.
        schema_type: AVRO, JSON or PROTOBUF.
        text: the schema as it was registered.
        references: of the text.
        guid: "" if the registry does not have GUIDs.
        subject: "" if it was fetched by id.
        version: 0 if it was fetched by id.
    """

    schema_id: int
    schema_type: str
    text: str
    references: tuple[SchemaReference, ...] = ()
    guid: str = ""
    subject: str = ""
    version: int = 0

    def __str__(self) -> str:
        return f"version {self.version} of {self.subject}" if self.subject else f"schema {self.schema_id}"


class SchemaRegistry:
    """The schemas of a registry. All methods raise the errors of `RegistryClient`: ClientErrors with one line for the user.

    Args:
        registry: its URL, http: or https:, which may have user:password; or a client.
        user: for HTTP Basic.
        password: of the user.
        token: for `Authorization: Bearer`, in place of a user.
        ca: a file of certificates in PEM to trust. Default: the authorities of this system.

    Raises:
        SourceError: the URL, or the file, cannot be used.
    """

    def __init__(self, registry: str | RegistryClient, *, user: str = "", password: str = "", token: str = "", ca: str = "") -> None:
        if isinstance(registry, str):
            given = {"basic.auth.user.info": f"{user}:{password}" if user else "", "bearer.auth.token": token, "ssl.ca.location": ca}
            try:
                registry = RegistryClient(registry, {f"{PREFIX}{name}": text for name, text in given.items() if text})
            except ConfigurationError as error:
                raise SourceError(str(error)) from error
        self.url = registry.url
        self._client = registry
        self._known: dict[str, Any] = {}

    def __repr__(self) -> str:
        return f"SchemaRegistry({self.url!r})"

    def versions(self, subject: str) -> list[int]:
        """Return the versions of a subject in ascending order, including deleted ones: their records may still exist."""
        found = self._client.get(path("subjects", subject, "versions"), deleted=True)
        if not isinstance(found, list) or not all(isinstance(each, int) for each in found):
            raise self._strange()
        return sorted(found)

    def get_version(self, subject: str, version: int | str = "latest") -> RegisteredSchema:
        """Return a version of a subject; "latest" is the newest that is not deleted."""
        where = path("subjects", subject, "versions", version)
        return self._schema(self._client.get(where) if version == "latest" else self._get_once(where, deleted=True))

    def get_schema(self, schema_id: int) -> RegisteredSchema:
        """Return the schema of an id."""
        return self._schema({**self._get_once(path("schemas", "ids", schema_id)), "id": schema_id})

    def resolved_text(self, schema: RegisteredSchema) -> str:
        """Return the text of an Avro schema with its references in it.

        Raises:
            SourceError: the registry does not resolve references.
        """
        if not schema.references:
            return schema.text
        where = path("subjects", schema.subject, "versions", schema.version) if schema.subject else path("schemas", "ids", schema.schema_id)
        text = self._get_once(where, format="resolved", deleted=True).get("schema")
        if not isinstance(text, str):
            raise self._strange()
        if text == schema.text:
            raise SourceError(f"{schema} has references, and the registry at {self.url} does not resolve them (format=resolved)")
        return text

    def referenced(self, schema: RegisteredSchema) -> dict[str, str]:
        """Return the texts of all schemas that a schema references, directly or not, by the names of the references.

        Raises:
            SourceError: the schema references too many others.
        """
        found: dict[str, str] = {}
        waiting = list(schema.references)
        while waiting:
            reference = waiting.pop()
            if reference.name not in found:
                one = self.get_version(reference.subject, reference.version)
                found[reference.name] = one.text
                waiting += one.references
            if len(found) > _REFERENCES_MAX:
                raise SourceError(f"{schema} references more than {_REFERENCES_MAX} schemas")
        return found

    def _schema(self, found: Any) -> RegisteredSchema:
        try:
            guid = found.get("guid") or ""
            references = found.get("references") or ()
            return RegisteredSchema(
                int(found["id"]),
                str(found.get("schemaType") or AVRO),
                str(found["schema"]),
                tuple(SchemaReference(str(each["name"]), str(each["subject"]), int(each["version"])) for each in references),
                guid if isinstance(guid, str) and _GUID.fullmatch(guid) else "",
                str(found.get("subject") or ""),
                int(found.get("version") or 0),
            )
        except (AttributeError, KeyError, TypeError, ValueError):
            raise self._strange() from None

    def _get_once(self, where: str, **query: object) -> dict[str, Any]:
        key = f"{where}?{query}"
        if key not in self._known:
            found = self._client.get(where, **query)
            if not isinstance(found, dict):
                raise self._strange()
            self._known[key] = found
        return dict(self._known[key])

    def _strange(self) -> RegistryUnavailable:
        return RegistryUnavailable(f"{self.url} is not a schema registry: its answer has another form")
