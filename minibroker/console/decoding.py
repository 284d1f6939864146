"""Keys and values of rows, decoded by the schemas that they name.

    {"kind": "json", "text": "{...}", ..., "schema": {"id": 7, "type": "AVRO", "subject": "orders-value", "version": 3}, "raw": {...}}

`raw` is the content in bytes. What does not decode is shown in bytes, and `schema` has the reason: {"id": 7, "error": "..."}.
"""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from minibroker.client.errors import ClientError
from minibroker.console.scanning import RECORD
from minibroker.console.values import PREVIEW_BYTES, shown, shown_bytes, visible
from minibroker.records.record import Record
from minibroker.registry.access import topic_of
from minibroker.registry.client import RegistryClient
from minibroker.registry.registry import Registry
from minibroker.registry.serdes.codecs import Codec, RegisteredSchema, Versions, codec_of
from minibroker.registry.serdes.errors import SerdesError
from minibroker.registry.serdes.framing import Framed, FramingError, split
from minibroker.registry.serdes.local import LocalSource
from minibroker.registry.serdes.source import RegistrySource
from minibroker.registry.stored_schema import JSON

T = TypeVar("T")

_PARTS: Final = ("key", "value")
_KEPT_MAX: Final = 500  #: codecs
_TIMEOUT_S: Final = 3.0  #: of a request to another registry: a page waits for it
_PAUSE_S: Final = 10.0  #: until it is asked again after a failure
_REASON_MAX: Final = 500  #: letters
_ENCODED_MAX: Final = 256 * 1024  #: letters of JSON


class _Part(NamedTuple):
    """A key or value that names a schema."""

    row: dict[str, Any]
    name: str
    framed: Framed


class LocalCodecs:
    """The codecs of the registry in this process."""

    url = ""

    def __init__(self, registry: Registry) -> None:
        self._source = LocalSource(registry)
        self._kept: OrderedDict[tuple[int | str, bytes], Codec] = OrderedDict()

    async def find(self, schema_id: int | str) -> tuple[Codec, Versions]:
        """The codec of an id or GUID, and where it is registered. Raises SerdesError."""
        digest, versions = await self._source.identify(schema_id)
        key = (schema_id, digest)
        codec = self._kept.get(key)
        if codec is None:
            codec = await asyncio.to_thread(codec_of, await self._source.by_id(schema_id))
            self._kept[key] = codec
            if len(self._kept) > _KEPT_MAX:
                self._kept.popitem(last=False)
        return codec, versions

    async def latest(self, subject: str, message: str | None) -> Codec:
        """The codec of a subject's latest version. Raises SerdesError."""
        return await asyncio.to_thread(codec_of, await self._source.by_subject(subject), message)


class RemoteCodecs:
    """The codecs of another registry. After a failure it is left alone for some seconds: pages do not wait for it again."""

    def __init__(self, url: str) -> None:
        """Raises ConfigurationError: the URL is not one."""
        client = RegistryClient(url, timeout_s=_TIMEOUT_S)
        self.url = client.url
        self._source = RegistrySource(client)
        self._kept: OrderedDict[int | str, Codec] = OrderedDict()
        self._failure = ""
        self._failed_until_s = 0.0
        self._asking = asyncio.Lock()

    async def find(self, schema_id: int | str) -> tuple[Codec, Versions]:
        """The codec of an id or GUID, and where it is registered. Raises SerdesError."""
        codec = self._kept.get(schema_id)
        if codec is not None:
            return codec, codec.schema.registered_as
        async with self._asking:
            if asyncio.get_running_loop().time() < self._failed_until_s:
                raise SerdesError(self._failure)
            codec = await self._ask(schema_id)
        self._kept[schema_id] = codec
        if len(self._kept) > _KEPT_MAX:
            self._kept.popitem(last=False)
        return codec, codec.schema.registered_as

    async def _ask(self, schema_id: int | str) -> Codec:
        try:
            return codec_of(await asyncio.to_thread(self._source.by_id, schema_id, with_versions=True))
        except ClientError as error:
            self._failure = str(error)
            if getattr(error, "status", 0) != 404:
                self._failed_until_s = asyncio.get_running_loop().time() + _PAUSE_S
            raise SerdesError(self._failure) from error

    async def latest(self, subject: str, message: str | None) -> Codec:
        """The codec of a subject's latest version. Raises SerdesError."""
        try:
            return codec_of(await asyncio.to_thread(self._source.by_subject, subject), message)
        except ClientError as error:
            raise SerdesError(str(error)) from error


class Reader(Protocol):
    """Who gets decoded rows: a visitor."""

    def may_see_topic(self, name: str) -> bool:
        """Whether the visitor may see a topic, and so the schemas of its subjects."""

    async def in_thread(self, work: Callable[..., T], *arguments: Any) -> T:
        """Run work in a worker thread, after that of others."""


class RowDecoder:
    """Decodes rows, and encodes what a form produces."""

    def __init__(self, codecs: LocalCodecs | RemoteCodecs) -> None:
        self._codecs = codecs
        self.url = codecs.url  #: of another registry; empty for the one in this process

    async def decode(self, rows: Iterable[dict[str, Any]], topic: str, reader: Reader) -> None:
        """Add to rows what their keys and values are by their schemas. Takes the records out of the rows."""
        parts: list[_Part] = []
        for row in rows:
            record: Record | None = row.pop(RECORD, None)
            if record is not None and row["marker"] is None:
                parts += _parts_of(row, record)
        codecs: dict[int | str, _Readable | str] = {}
        for schema_id in {each.framed.schema_id for each in parts}:
            try:
                codecs[schema_id] = _readable(*await self._codecs.find(schema_id), reader)
            except SerdesError as error:
                codecs[schema_id] = str(error)
        if parts:
            await reader.in_thread(_decode_all, parts, codecs, topic)

    async def schema_of(self, schema_id: int | str, reader: Reader) -> RegisteredSchema | None:
        """The schema with which a search decodes values. None: they are JSON, or the visitor cannot read it."""
        try:
            schema = _readable(*await self._codecs.find(schema_id), reader).codec.schema
        except SerdesError:
            return None
        return None if schema.schema_type == JSON else schema

    async def encode(self, text: str, subject: str, message: str | None, reader: Reader) -> bytes:
        """The bytes of JSON by a subject's latest version. `message` is one of a Protobuf schema. Raises ValueError."""
        if len(text) > _ENCODED_MAX:
            raise ValueError(f"JSON to encode must have at most {_ENCODED_MAX} characters, got {len(text)}")
        if not reader.may_see_topic(topic_of(subject)):
            raise ValueError(f"you may not read the schemas of {subject}")
        codec = await self._codecs.latest(subject, message)
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"it is not JSON: {error}") from error
        return await reader.in_thread(codec.encode, value)


class _Readable(NamedTuple):
    """A codec, and the subjects of its schema that the visitor may read, with a version of each."""

    codec: Codec
    versions: dict[str, int]

    def named(self, usual: str) -> dict[str, Any]:
        """What a row says of the schema: the version of the topic's usual subject, if that is one of its subjects."""
        name = usual if usual in self.versions else next(iter(self.versions))
        schema = self.codec.schema
        return {
            "id": schema.schema_id,
            "type": schema.schema_type,
            "subject": name,
            "shown": visible(name),
            "version": self.versions[name],
        }


def _readable(codec: Codec, versions: Versions, reader: Reader) -> _Readable:
    """Raises SerdesError if the visitor may read none of the subjects."""
    found = {name: version for name, version in versions if reader.may_see_topic(topic_of(name))}
    if not found:
        raise SerdesError("you may not read its schema")
    return _Readable(codec, found)


def _parts_of(row: dict[str, Any], record: Record) -> Iterable[_Part]:
    for name in _PARTS:
        content = getattr(record, name)
        try:
            framed = None if content is None else split(content, record.headers, name)
        except FramingError as error:
            row[name]["schema"] = {"error": str(error)}
            continue
        if framed is not None:
            row[name] = shown_bytes(content)
            yield _Part(row, name, framed)


def _decode_all(parts: Iterable[_Part], codecs: dict[int | str, _Readable | str], topic: str) -> None:
    """For a worker thread."""
    for part in parts:
        readable, content = codecs[part.framed.schema_id], part.row[part.name]
        if isinstance(readable, str):
            content["schema"] = {"id": part.framed.schema_id, "error": readable[:_REASON_MAX]}
            continue
        named = readable.named(f"{topic}-{part.name}")
        try:
            part.row[part.name] = _decoded(part.framed, readable.codec, content) | {"schema": named, "raw": content}
        except SerdesError as error:
            content["schema"] = named | {"error": str(error)[:_REASON_MAX]}


def _decoded(framed: Framed, codec: Codec, raw: dict[str, Any]) -> dict[str, Any]:
    if codec.schema.schema_type == JSON:
        return shown(framed.of_others()) | {"size": raw["size"]}
    decoded = codec.decode(framed, PREVIEW_BYTES)
    try:
        text = json.dumps(decoded.value, ensure_ascii=False, indent=2)
    except RecursionError:
        raise SerdesError("too many nested values") from None
    preview = shown(text[:PREVIEW_BYTES].encode("utf-8", "replace"), 4 * PREVIEW_BYTES)
    is_cut = decoded.is_cut or len(text) > PREVIEW_BYTES
    return preview | {"kind": "json", "size": raw["size"], "is_cut": is_cut}
