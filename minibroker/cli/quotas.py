"""`minibroker quotas`: the equivalent of Kafka's ConfigCommand for users, client ids and addresses."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

import click

from minibroker.cli.options import Command, client_command, output_option, pairs
from minibroker.cli.output import FORMATS, emit
from minibroker.client import configs as admin
from minibroker.client.client import Client
from minibroker.client.configs import CLIENT_ID, IP, USER, Entity

COLUMNS = ("user", "client_id", "ip", "name", "value")
DEFAULT: Final = "<default>"  #: the name of a type's default, as in Kafka's tool
_NUMBER = "{value!r} is not a number above 0"


def entity_options(function: Command) -> Command:
    """Give a command the options that name an entity, and pass them as `entity`."""

    @functools.wraps(function)
    def run(*args: Any, **options: Any) -> Any:
        entity: dict[str, str | None] = {}
        for entity_type, option in ((USER, "user"), (CLIENT_ID, "client_id"), (IP, "ip")):
            name, is_default = options.pop(option), options.pop(f"default_{option}")
            if name is not None and is_default:
                words = option.replace("_", "-")
                raise click.UsageError(f"--{words} and --default-{words} exclude each other")
            if name is not None or is_default:
                entity[entity_type] = name
        return function(*args, entity=entity, **options)

    options: list[Callable[[Command], Command]] = [
        click.option("--user", metavar="NAME", help="A user; without authentication, every client is ANONYMOUS."),
        click.option("--default-user", is_flag=True, help="Users without their own quota."),
        click.option("--client-id", metavar="NAME", help="Clients with this client.id."),
        click.option("--default-client-id", is_flag=True, help="Client ids without their own quota."),
        click.option("--ip", metavar="ADDRESS", help="Clients at an address."),
        click.option("--default-ip", is_flag=True, help="Addresses without their own quota."),
    ]
    command: Command = run
    for option in reversed(options):
        command = option(command)
    return command


@click.group(
    epilog="""\b
Examples:
  minibroker quotas describe
  minibroker quotas describe --client-id loader
  minibroker quotas alter --client-id loader --set producer_byte_rate=1048576
  minibroker quotas alter --user alice --default-client-id --set request_percentage=50
  minibroker quotas alter --default-client-id --delete consumer_byte_rate
"""
)
def quotas() -> None:
    """Show and change quotas of users and clients."""


@quotas.command(short_help="Show quotas of users, clients and addresses.")
@click.option("--only", is_flag=True, help="Leave out quotas of combinations with another type, such as a user with a client id.")
@entity_options
@output_option(*FORMATS)
@client_command
def describe(client: Client, *, entity: Entity, only: bool, output: str) -> None:
    """Show quotas: all, or those of a user, a client id, an address, or of both a user and a client id.

    A client gets the most specific quota that matches: first that of its user and client id, then that of the user, then that of the
    client id. A name takes precedence over a default.
    """
    found = admin.describe_quotas(client, entity, strict=only and bool(entity))
    items = sorted(
        (_item(each) for each in found), key=lambda item: [(item[column] is not None, str(item[column])) for column in COLUMNS[:4]]
    )
    emit(items, output, columns=COLUMNS, empty="No quotas: clients are not limited.")


def _names(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Complete names of quotas."""
    return [name for name in admin.QUOTA_NAMES if name.startswith(incomplete)]


def _assignable(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return [f"{name}=" for name in _names(ctx, param, incomplete)]


@quotas.command(short_help="Change quotas of users, clients and addresses.")
@entity_options
@click.option(
    "--set",
    "assigned",
    multiple=True,
    metavar="NAME=NUMBER",
    shell_complete=_assignable,
    help=f"Set a quota: {', '.join(admin.QUOTA_NAMES)}.",
)
@click.option("--delete", "deleted", multiple=True, metavar="NAME", shell_complete=_names, help="Remove a quota.")
@click.option("--dry-run", is_flag=True, help="Let the broker check the change without making it.")
@client_command
def alter(client: Client, *, entity: Entity, assigned: tuple[str, ...], deleted: tuple[str, ...], dry_run: bool) -> None:
    """Change quotas of a user, a client id, an address, or of both a user and a client id.

    Rates are bytes, partitions or connections per second. request_percentage is time spent on requests, 100 for one processor.
    The broker makes all changes, or none. Prints nothing on success.
    """
    values: dict[str, float | None] = {name: _number(text) for name, text in pairs(assigned, "--set").items()}
    if doubled := values.keys() & set(deleted):
        raise click.UsageError(f"{', '.join(sorted(doubled))}: set and deleted at once")
    values |= dict.fromkeys(deleted)
    if not entity:
        raise click.UsageError("whose quotas? Give --user, --client-id, both, or --ip, or one of their defaults")
    if not values:
        raise click.UsageError("nothing to alter: give --set or --delete")
    admin.alter_quotas(client, entity, values, validate_only=dry_run)


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0
    if not 0 < value < float("inf"):
        raise click.BadParameter(_NUMBER.format(value=text), param_hint="--set")
    return value


def _item(quota: admin.Quota) -> dict[str, Any]:
    parts = {each: DEFAULT if name is None else name for each, name in quota.entity.items()}
    value = int(quota.value) if quota.value.is_integer() else quota.value
    return {"user": parts.get(USER), "client_id": parts.get(CLIENT_ID), "ip": parts.get(IP), "name": quota.name, "value": value}
