"""Schemas from a registry by URL, with those that they reference, each fetched once."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from minibroker.client.errors import ClientError, TimedOut
from minibroker.registry.client import RegistryClient, RegistryRefused, path
from minibroker.registry.parsed_schema import ReferencedSchema
from minibroker.registry.serdes.codecs import Codec, Decoded, RegisteredSchema, codec_of
from minibroker.registry.serdes.errors import SerdesError
from minibroker.registry.serdes.framing import Framed, FramingError, Header, split
from minibroker.registry.stored_schema import AVRO, PROTOBUF

VERSIONS_MAX: Final = 100  #: of one id, that are named
_REFERENCED_MAX: Final = 1_000
_DEPTH_MAX: Final = 100  #: of references
_KEPT_MAX: Final = 1_000  #: codecs, and reasons why there is none


@contextmanager
def _known_form(what: str) -> Iterator[None]:
    """Raise ClientError for an answer that no registry gives."""
    try:
        yield
    except SerdesError:
        raise
    except (AttributeError, KeyError, TypeError, ValueError, IndexError) as error:
        raise ClientError(f"the registry returned {what} in an unknown form: {error!r}") from error


class RegistrySource:
    """The schemas of one registry."""

    def __init__(self, client: RegistryClient) -> None:
        self._client = client

    def by_id(self, schema_id: int | str, *, with_versions: bool = False) -> RegisteredSchema:
        """The schema of an id or GUID, with where it is registered if wanted. Raises ClientError, SerdesError."""
        with _known_form(f"schema {schema_id}"):
            return self._by_id(schema_id, with_versions=with_versions)

    def _by_id(self, schema_id: int | str, *, with_versions: bool) -> RegisteredSchema:
        if isinstance(schema_id, str):
            fields = self._client.get(path("schemas", "guids", schema_id))
            number = int(self._client.get(path("schemas", "guids", schema_id, "ids"))[0]["id"])
        else:
            fields = self._client.get(path("schemas", "ids", schema_id))
            number = schema_id
        found = self._schema(number, fields, path("schemas", "ids", number))
        if not with_versions:
            return found
        versions = self._client.get(path("schemas", "ids", number, "versions"))
        return found._replace(registered_as=tuple((str(each["subject"]), int(each["version"])) for each in versions[:VERSIONS_MAX]))

    def by_subject(self, subject: str, version: int | str = "latest") -> RegisteredSchema:
        """A version of a subject. Raises ClientError, SerdesError."""
        with _known_form(f"version {version} of {subject}"):
            fields = self._client.get(path("subjects", subject, "versions", version))
            found = self._schema(int(fields["id"]), fields, path("subjects", subject, "versions", fields["version"]))
            return found._replace(registered_as=((subject, int(fields["version"])),))

    def _schema(self, schema_id: int, fields: Mapping[str, Any], resource: str) -> RegisteredSchema:
        kind = fields.get("schemaType") or AVRO
        found: dict[tuple[str, int], ReferencedSchema] = {}
        self._collect(kind, fields.get("references") or (), found, 0)
        text = self._client.get(resource, format="serialized")["schema"] if kind == PROTOBUF else fields["schema"]
        return RegisteredSchema(schema_id, kind, text, tuple(found.values()))

    def _collect(
        self, kind: str, references: Sequence[Mapping[str, Any]], found: dict[tuple[str, int], ReferencedSchema], depth: int
    ) -> None:
        """Add the schemas that are referenced, each after those that it references itself."""
        if depth > _DEPTH_MAX or len(found) + len(references) > _REFERENCED_MAX:
            raise SerdesError(f"its schema references more than {_REFERENCED_MAX} schemas, or in more than {_DEPTH_MAX} steps")
        for each in references:
            key = (str(each["subject"]), int(each["version"]))
            if key in found:
                continue
            resource = path("subjects", key[0], "versions", key[1])
            fields = self._client.get(resource, deleted=True)
            self._collect(kind, fields.get("references") or (), found, depth + 1)
            text = self._client.get(resource, deleted=True, format="serialized")["schema"] if kind == PROTOBUF else fields["schema"]
            found[key] = ReferencedSchema(str(each["name"]), text)


class Decoder:
    """Decodes keys and values by the schemas that they name. For one thread."""

    def __init__(self, source: RegistrySource) -> None:
        self._source = source
        self._kept: OrderedDict[int | str, Codec | str] = OrderedDict()  #: a text: why there is no codec

    def decode(self, content: bytes | None, headers: Sequence[Header], part: str) -> tuple[Decoded, RegisteredSchema] | None:
        """The JSON of a key or value, and its schema; None if it names none.

        Raises:
            SerdesError: it names one, but cannot be decoded.
            ClientError: the registry cannot be asked.
        """
        if content is None:
            return None
        try:
            framed = split(content, headers, part)
        except FramingError as error:
            raise SerdesError(str(error)) from error
        if framed is None:
            return None
        codec = self._codec(framed)
        return codec.decode(framed), codec.schema

    def _codec(self, framed: Framed) -> Codec:
        kept = self._kept.get(framed.schema_id)
        if kept is None:
            kept = self._make(framed.schema_id)
            self._kept[framed.schema_id] = kept
            if len(self._kept) > _KEPT_MAX:
                self._kept.popitem(last=False)
        self._kept.move_to_end(framed.schema_id)
        if isinstance(kept, str):
            raise SerdesError(kept)
        return kept

    def _make(self, schema_id: int | str) -> Codec | str:
        try:
            return codec_of(self._source.by_id(schema_id))
        except RegistryRefused as error:
            if error.status != 404:
                raise
            return f"the registry has no schema {schema_id}"
        except (SerdesError, TimedOut) as error:
            return str(error)
