"""Options of commands that use a schema registry. Its client is in serdes.py, which few commands import."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

import click

from minibroker.cli.options import client_properties
from minibroker.cli.schema_files import PASSWORD_VARIABLE, Login

Command = Callable[..., Any]
_FILE = click.Path(exists=True, dir_okay=False)
_USER_HELP: Final = "User to log in as at the registry."
_PASSWORD_HELP: Final = f"File with the password of --registry-user.  [default: {PASSWORD_VARIABLE}, or a prompt]"
_CA_HELP: Final = "CA certificates to trust at the registry (PEM).  [default: the system's]"


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
    """Give a command that also has a broker's client an optional registry. It gets `serdes: Serdes | None`."""

    def decorate(function: Command) -> Command:
        @click.option("-r", "--registry", "registry_url", metavar="URL", help=help_text)
        @login_options
        @functools.wraps(function)
        def run(*args: Any, registry_url: str | None, login: Login, **options: Any) -> Any:
            if registry_url is None and any(login):
                raise click.UsageError("a login at a registry needs --registry")
            serdes = None
            if registry_url is not None:
                from minibroker.cli.serdes import Serdes, make_client  # noqa: PLC0415  most records have no schema

                serdes = Serdes(make_client(registry_url, client_properties(), login))
            return function(*args, serdes=serdes, **options)

        return run

    return decorate
