"""Keys and values by the schemas of a registry: JSON of `consume`, and bytes of `produce`."""

from __future__ import annotations

import base64
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from minibroker.cli.schema_files import PASSWORD_VARIABLE, TYPES, Login, schema_file
from minibroker.cli.streams import printable
from minibroker.client.consumer import ConsumedRecord
from minibroker.client.errors import ClientError
from minibroker.registry.client import PREFIX, RegistryClient, RegistryRefused, path
from minibroker.registry.serdes.codecs import Codec, RegisteredSchema, codec_of
from minibroker.registry.serdes.errors import SerdesError
from minibroker.registry.serdes.source import Decoder, RegistrySource

PARTS: Final = ("key", "value")
_REPORTED_MAX: Final = 20  #: records that are reported one by one
_NOT_FOUND: Final = frozenset({40401, 40403})


def make_client(url: str, properties: Mapping[str, str], login: Login, timeout_s: float = 30.0) -> RegistryClient:
    """Return the client of a registry. Options take precedence over properties."""
    own = dict(properties)
    if login.user is not None:
        own[f"{PREFIX}basic.auth.user.info"] = f"{login.user}:{_password(login.user, login.password_file)}"
    elif login.password_file is not None:
        raise click.UsageError("--registry-password-file needs --registry-user")
    if login.ca is not None:
        for name in [name for name in own if name.startswith((f"{PREFIX}ssl.truststore.", f"{PREFIX}ssl.ca."))]:
            del own[name]
        own[f"{PREFIX}ssl.ca.location"] = login.ca
    return RegistryClient(url, own, timeout_s=timeout_s)


def _password(user: str, file: str | None) -> str:
    if file is not None:
        return Path(file).read_text("utf-8").rstrip("\r\n")
    if PASSWORD_VARIABLE in os.environ:
        return os.environ[PASSWORD_VARIABLE]
    if not sys.stderr.isatty():
        raise click.UsageError(f"the password of {user} is missing: give --registry-password-file or {PASSWORD_VARIABLE}")
    password: str = click.prompt(f"Password of {user}", hide_input=True, err=True)
    return password


class Serdes:
    """Decodes and encodes records with the schemas of one registry."""

    def __init__(self, registry: RegistryClient) -> None:
        self._registry = registry

    def decoder(self) -> RecordDecoder:
        """Return what decodes records. Raises ClientError if there is no registry."""
        self._registry.get("/schemas/types")
        return RecordDecoder(self._registry)

    def encoders(self, topic: str, *, key: str | None, value: str | None, registers: bool, message: str | None) -> Encoders:
        """Return what encodes the records of a topic, by --key-schema and --value-schema."""
        return Encoders(
            None if key is None else _find_encoder(self._registry, f"{topic}-key", key, registers=registers, message=None),
            None if value is None else _find_encoder(self._registry, f"{topic}-value", value, registers=registers, message=message),
        )


class RecordDecoder:
    """Decodes records. What does not decode stays as it is, and stderr has the reason."""

    def __init__(self, registry: RegistryClient) -> None:
        self._decoder = Decoder(RegistrySource(registry))
        self._reported = 0

    def as_text(self, consumed: ConsumedRecord) -> ConsumedRecord:
        """The record with JSON in place of what decodes."""
        record = consumed.record
        fields = self.fields(consumed)
        texts = {part: _compact(fields[part]) if f"{part}_schema_id" in fields else getattr(record, part) for part in PARTS}
        return consumed._replace(record=record._replace(key=texts["key"], value=texts["value"]))

    def fields(self, consumed: ConsumedRecord) -> dict[str, Any]:
        """What the record's JSON has in addition: `value`, `value_schema_id`, or `value_error`; the same for the key."""
        return self._decode(consumed, "key") | self._decode(consumed, "value")

    def _decode(self, consumed: ConsumedRecord, part: str) -> dict[str, Any]:
        record = consumed.record
        try:
            found = self._decoder.decode(getattr(record, part), record.headers, part)
        except (SerdesError, ClientError) as error:
            self._report(consumed, part, str(error))
            return {f"{part}_error": str(error)}
        if found is None:
            return {}
        decoded, schema = found
        return {part: decoded.value, f"{part}_schema_id": schema.schema_id}

    def _report(self, consumed: ConsumedRecord, part: str, reason: str) -> None:
        self._reported += 1
        if self._reported <= _REPORTED_MAX:
            where = f"{consumed.topic}-{consumed.partition} offset {consumed.record.offset}"
            click.echo(printable(f"Warning: {where}: the {part} is shown as it is: {reason}"), err=True)
        elif self._reported == _REPORTED_MAX + 1:
            click.echo("Warning: more records do not decode; they are not reported", err=True)


def _compact(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


class Encoders(NamedTuple):
    """The schemas of the records to write; None: bytes as they are."""

    key: Codec | None
    value: Codec | None

    def encode(self, part: str, value: Any) -> bytes:
        """The bytes of a JSON value. Raises SerdesError."""
        codec: Codec | None = getattr(self, part)
        if codec is None:
            raise SerdesError(f"the {part} has no schema")
        try:
            return codec.encode(value)
        except SerdesError as error:
            raise SerdesError(f"{part}: {error}") from error

    def encode_item(self, item: dict[str, Any]) -> dict[str, Any]:
        """A record in JSON with bytes in place of what has a schema. Null is no value, and stays null. Raises SerdesError."""
        encoded = {
            part: {"base64": base64.b64encode(self.encode(part, item[part])).decode()}
            for part in PARTS
            if getattr(self, part) is not None and item.get(part) is not None
        }
        return item | encoded

    def encode_text(self, part: str, content: bytes | None) -> bytes | None:
        """The bytes of a JSON text, if the part has a schema. Raises SerdesError."""
        if content is None or getattr(self, part) is None:
            return content
        try:
            value = json.loads(content)
        except (ValueError, RecursionError) as error:
            raise SerdesError(f"{part}: it is not JSON: {error}") from error
        return self.encode(part, value)


def _find_encoder(registry: RegistryClient, subject: str, given: str, *, registers: bool, message: str | None) -> Codec:
    """Return the codec of `--value-schema` or `--key-schema`: FILE, SUBJECT, SUBJECT:VERSION, or an id.

    A file's schema is looked up under `subject`, or registered there.
    """
    source = RegistrySource(registry)
    try:
        if Path(given).suffix.lower() in TYPES:
            found = _schema_of_file(registry, source, subject, Path(given), registers=registers)
        elif registers:
            raise click.UsageError(f"--register needs a file, which ends with {', '.join(TYPES)}; got {given}")
        elif given.isascii() and given.isdecimal():
            found = source.by_id(int(given))
        else:
            name, _, version = given.rpartition(":")
            has_version = bool(name) and (version.isdecimal() or version == "latest")
            found = source.by_subject(name, version) if has_version else source.by_subject(given)
        return codec_of(found, message if found.schema_type == "PROTOBUF" else None)
    except SerdesError as error:
        raise click.ClickException(f"{given}: {error}") from error


def _schema_of_file(registry: RegistryClient, source: RegistrySource, subject: str, file: Path, *, registers: bool) -> RegisteredSchema:
    if not file.is_file():
        raise click.UsageError(f"there is no file {file}")
    body = schema_file(file)
    try:
        answer = registry.post(path("subjects", subject, *(["versions"] if registers else [])), body)
    except RegistryRefused as error:
        if error.error_code not in _NOT_FOUND:
            raise
        raise click.ClickException(f"{file} is not registered under {subject}: add --register") from error
    return source.by_id(int(answer["id"]))
