"""Files of schemas, and the login at a registry: what options and client of a registry share."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

PASSWORD_VARIABLE: Final = "MINIBROKER_REGISTRY_PASSWORD"  # noqa: S105  a name
TYPES: Final = {".avsc": "AVRO", ".json": "JSON", ".proto": "PROTOBUF"}  #: by the end of a file's name
_FILE_MAX: Final = 4 << 20  #: bytes of a file; a registry takes less than 1 MB


class Login(NamedTuple):
    """Options of a login at a registry."""

    user: str | None
    password_file: str | None
    ca: str | None


def schema_file(file: Path, schema_type: str | None = None) -> dict[str, Any]:
    """Return the body of a request with the schema of a file, `-` for stdin. Its type follows from the end of its name."""
    kind = schema_type or TYPES.get(file.suffix.lower())
    if kind is None:
        raise click.UsageError(f"{file}: give --type, the name of the file does not end with {', '.join(TYPES)}")
    if str(file) == "-":
        content = sys.stdin.buffer.read(_FILE_MAX + 1)
    else:
        with file.open("rb") as stream:
            content = stream.read(_FILE_MAX + 1)
    if len(content) > _FILE_MAX:
        raise click.ClickException(f"{file} has more than {_FILE_MAX >> 20} MB: it is no schema")
    try:
        return {"schema": content.decode(), "schemaType": kind}
    except UnicodeDecodeError as error:
        raise click.ClickException(f"{file} is not UTF-8: {error}") from error


def read_references(texts: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return the references of `--reference NAME=SUBJECT:VERSION`."""
    found = []
    for text in texts:
        name, _, target = text.partition("=")
        subject, _, version = target.rpartition(":")
        if not name or not subject or not (version.isascii() and version.isdecimal()):
            raise click.BadParameter(f"{text!r} is not NAME=SUBJECT:VERSION", param_hint="--reference")
        found.append({"name": name, "subject": subject, "version": int(version)})
    return found
