"""`minibroker users`: passwords of users for SCRAM."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import click

from minibroker.cli.options import client_command, output_option
from minibroker.cli.output import FORMATS, emit
from minibroker.client import access
from minibroker.client.client import Client

MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
VARIABLE = "MINIBROKER_USER_PASSWORD"
COLUMNS = ("user", "mechanism", "iterations")


@click.group(
    epilog="""\b
Examples:
  minibroker users add alice
  minibroker users add bob --mechanism SCRAM-SHA-256 --password-file bob.txt
  minibroker users password alice
  minibroker users remove bob
"""
)
def users() -> None:
    """Show users with SCRAM passwords, add and remove them."""


def _password_options(function: Any) -> Any:
    for option in (
        click.option(
            "--iterations", type=click.IntRange(4096, 16384), default=4096, show_default=True, metavar="COUNT", help="Iterations of SCRAM."
        ),
        click.option(
            "--password-file",
            type=click.Path(exists=True, dir_okay=False),
            metavar="FILE",
            help=f"File with the password.  [default: {VARIABLE}, or a prompt]",
        ),
        click.option(
            "--mechanism", "mechanisms", multiple=True, type=click.Choice(MECHANISMS), help="May be given twice.  [default: both]"
        ),
    ):
        function = option(function)
    return function


@users.command("list", short_help="List users.")
@output_option(*FORMATS)
@client_command
def list_users(client: Client, *, output: str) -> None:
    """List users and their SCRAM mechanisms. Users of PLAIN are in the configuration of the broker, and are not listed."""
    emit(
        [each._asdict() for each in access.list_credentials(client)],
        output,
        columns=COLUMNS,
        name="user",
        empty="No SCRAM users. 'minibroker users add NAME' adds one.",
    )


@users.command(short_help="Add a user.")
@click.argument("user")
@_password_options
@client_command
def add(client: Client, *, user: str, mechanisms: tuple[str, ...], password_file: str | None, iterations: int) -> None:
    """Add a user with a password. Fails if the user has one. Prints nothing on success."""
    if existing := access.list_credentials(client, user):
        raise click.ClickException(
            f"user {user} already exists ({', '.join(each.mechanism for each in existing)}). "
            f"Change the password with 'minibroker users password {user}'"
        )
    access.set_password(client, user, mechanisms or MECHANISMS, _password(user, password_file), iterations)


@users.command(short_help="Change the password of a user.")
@click.argument("user")
@_password_options
@client_command
def password(client: Client, *, user: str, mechanisms: tuple[str, ...], password_file: str | None, iterations: int) -> None:
    """Change the password of a user for new connections. Open connections stay. Prints nothing on success."""
    existing = [each.mechanism for each in access.list_credentials(client, user)]
    if not existing:
        raise click.ClickException(f"user {user} does not exist. Add it with 'minibroker users add {user}'")
    access.set_password(client, user, mechanisms or existing, _password(user, password_file), iterations)


@users.command(short_help="Remove a user.")
@click.argument("user")
@click.option("--mechanism", "mechanisms", multiple=True, type=click.Choice(MECHANISMS), help="May be given twice.  [default: all]")
@client_command
def remove(client: Client, *, user: str, mechanisms: tuple[str, ...]) -> None:
    """Remove the passwords of a user. Open connections stay. Prints nothing on success."""
    existing = [each.mechanism for each in access.list_credentials(client, user)]
    if not existing:
        raise click.ClickException(f"user {user} does not exist")
    for mechanism in mechanisms or existing:
        access.remove_credential(client, user, mechanism)


def _password(user: str, file: str | None) -> str:
    if file is not None:
        found = Path(file).read_text("utf-8").rstrip("\r\n")
    elif VARIABLE in os.environ:
        found = os.environ[VARIABLE]
    elif sys.stderr.isatty():
        found = click.prompt(f"Password for {user}", hide_input=True, confirmation_prompt=True, err=True)
    else:
        raise click.UsageError(f"the password of {user} is missing: give --password-file or {VARIABLE}")
    if not found:
        raise click.UsageError("the password is empty")
    return found
