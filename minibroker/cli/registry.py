"""Options of commands that use a schema registry, and files of schemas."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from minibroker.cli.options import client_properties

if TYPE_CHECKING:
    from minibroker.registry.client import RegistryClient

Command = Callable[..., Any]
PASSWORD_VARIABLE: Final = "MINIBROKER_REGISTRY_PASSWORD"  # noqa: S105  a name
TYPES: Final = {".avsc": "AVRO", ".json": "JSON", ".proto": "PROTOBUF"}  #: by the end of a file's name
_FILE_MAX: Final = 4 << 20  #: bytes of a file; a registry takes less than 1 MB
_FILE = click.Path(exists=True, dir_okay=False)
_USER_HELP: Final = "User to log in as at the registry."
_PASSWORD_HELP: Final = f"File with the password of --registry-user.  [default: {PASSWORD_VARIABLE}, or a prompt]"
_CA_HELP: Final = "CA certificates to trust at the registry (PEM).  [default: the system's]"


class Login(NamedTuple):
    """Options of a login at a registry."""

    user: str | None
    password_file: str | None
    ca: str | None


def login_options(function: Command) -> Command:
    """Pass a `Login` to a command."""

    @click.option("--registry-user", metavar="NAME", help=_USER_HELP)
    @click.option("--registry-password-file", type=_FILE, metavar="FILE", help=_PASSWORD_HELP)
    @click.option("--registry-ca", type=_FILE, metavar="FILE", help=_CA_HELP)
    @functools.wraps(function)
    def run(*args: Any, registry_user: str | None, registry_password_file: str | None, registry_ca: str | None, **options: Any) -> Any:
        return function(*args, login=Login(registry_user, registry_password_file, registry_ca), **options)

    return run


def serdes_options(help_text: str) -> Callable[[Command], Command]:
    """Give a command that also has a broker's client an optional registry. It gets `registry: RegistryClient | None`."""

    def decorate(function: Command) -> Command:
        @click.option("-r", "--registry", "registry_url", metavar="URL", help=help_text)
        @login_options
        @functools.wraps(function)
        def run(*args: Any, registry_url: str | None, login: Login, **options: Any) -> Any:
            if registry_url is None and any(login):
                raise click.UsageError("a login at a registry needs --registry")
            registry = None if registry_url is None else make_client(registry_url, client_properties(), login)
            return function(*args, registry=registry, **options)

        return run

    return decorate


def make_client(url: str, properties: Mapping[str, str], login: Login, timeout_s: float = 30.0) -> RegistryClient:
    """Return the client of a registry. Options take precedence over properties."""
    from minibroker.registry.client import PREFIX, RegistryClient  # noqa: PLC0415  most commands have no registry

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
