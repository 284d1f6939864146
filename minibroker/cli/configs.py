"""`minibroker configs`: the equivalent of Kafka's ConfigCommand. `minibroker quotas` has its part for users, client ids and addresses."""

from __future__ import annotations

from typing import Any

import click

from minibroker.cli.completions import config_names, deletable_config_names
from minibroker.cli.completions import entities as complete_entities
from minibroker.cli.options import client_command, fail_with, output_option, pairs
from minibroker.cli.output import FORMATS, emit
from minibroker.client import configs as admin
from minibroker.client.client import Client
from minibroker.client.configs import CLUSTER, OF_ONE_BROKER, TYPES, Change
from minibroker.errors import KafkaError

COLUMNS = ("type", "entity", "name", "value", "source")
_ONLY_WITH_CONFIGS = {"groups": " with configs", "client-metrics": " subscriptions"}

#: the sources of values that were set for an entity of the type while the broker ran
OWN_SOURCES = {
    "topics": ("topic",),
    "brokers": ("broker", "cluster"),
    "broker-loggers": ("logger",),
    "client-metrics": ("client-metrics",),
    "groups": ("group",),
}

kind_argument = click.argument("kind", metavar="TYPE", type=click.Choice(list(TYPES)))

default_option = click.option("--default", is_flag=True, help="Instead of an ENTITY: the default for all brokers.")


@click.group(
    epilog="""\b
Examples:
  minibroker configs describe topics orders --all
  minibroker configs describe brokers 1 -o jsonl
  minibroker configs alter topics orders --config retention.ms=86400000
  minibroker configs alter brokers --default --config log.retention.ms=86400000
  minibroker configs alter groups billing --delete-config consumer.session.timeout.ms
  minibroker configs alter topics orders --append cleanup.policy=compact --dry-run
  minibroker configs alter broker-loggers 1 --config minibroker.cluster=DEBUG
  minibroker configs list groups
"""
)
def configs() -> None:
    """Show and change configs of topics, brokers, groups and more."""


@configs.command("list", short_help="List entities that have configs.")
@kind_argument
@output_option(*FORMATS)
@client_command
def list_entities(client: Client, *, kind: str, output: str) -> None:
    """List entities: groups and client metrics that have configs, and all topics, brokers and broker-loggers.

    TYPE is topics, brokers, broker-loggers, client-metrics or groups.
    """
    items = [{"type": kind, "entity": name} for name in admin.list_entities(client, kind)]
    emit(items, output, columns=("type", "entity"), name="entity", empty=f"No {kind}{_ONLY_WITH_CONFIGS.get(kind, '')}.")


@configs.command()
@kind_argument
@click.argument("entities", nargs=-1, metavar="[ENTITY]...", shell_complete=complete_entities)
@default_option
@click.option(
    "--all", "show_all", is_flag=True, help="Show every config with its source, not only those that were set while the broker ran."
)
@output_option(*FORMATS)
@client_command
def describe(client: Client, *, kind: str, entities: tuple[str, ...], default: bool, show_all: bool, output: str) -> None:
    """Show the configs of entities: of topics by name, of brokers by id.

    TYPE is topics, brokers, broker-loggers, client-metrics or groups.
    """
    names = _entities(kind, entities, default=default)
    items: list[dict[str, Any]] = []
    errors: list[Exception] = []
    for entity in names:
        try:
            found = admin.describe_configs(client, kind, entity)
        except KafkaError as error:
            errors.append(error)
            continue
        own = [each for each in found if show_all or each.source in OWN_SOURCES[kind]]
        items += [{"type": kind, "entity": entity or None, **each._asdict()} for each in own]
    if items or output == "json" or not errors:
        emit(items, output, columns=COLUMNS)
    if output == "table" and not items and not errors and not show_all:
        click.echo("No config was set: --all shows the values that apply.", err=True)
    fail_with(errors)


@configs.command()
@kind_argument
@click.argument("entities", nargs=-1, metavar="[ENTITY]...", shell_complete=complete_entities)
@default_option
@click.option("-c", "--config", "configs", multiple=True, metavar="NAME=VALUE", shell_complete=config_names, help="Set a config.")
@click.option(
    "--delete-config",
    "deleted_configs",
    multiple=True,
    metavar="NAME",
    shell_complete=deletable_config_names,
    help="Reset a config to its default.",
)
@click.option("--append", "appended", multiple=True, metavar="NAME=VALUE", help="Add to a config that is a list.")
@click.option("--subtract", "subtracted", multiple=True, metavar="NAME=VALUE", help="Remove from a config that is a list.")
@click.option("--dry-run", is_flag=True, help="Let the broker check the change without making it.")
@client_command
def alter(client: Client, *, kind: str, entities: tuple[str, ...], default: bool, dry_run: bool, **options: tuple[str, ...]) -> None:
    """Change configs of entities: of topics by name, of brokers by id.

    TYPE is topics, brokers, broker-loggers, client-metrics or groups. The broker makes all changes of an entity, or none. Prints nothing
    on success.
    """
    changes = [Change(name, admin.SET, value) for name, value in pairs(options["configs"], "--config").items()]
    changes += [Change(name, admin.DELETE, None) for name in options["deleted_configs"]]
    changes += [Change(name, admin.APPEND, value) for name, value in pairs(options["appended"], "--append").items()]
    changes += [Change(name, admin.SUBTRACT, value) for name, value in pairs(options["subtracted"], "--subtract").items()]
    if not changes:
        raise click.UsageError("nothing to alter: give --config, --delete-config, --append or --subtract")
    errors: list[Exception] = []
    for entity in _entities(kind, entities, default=default):
        try:
            admin.alter_configs(client, kind, entity, changes, validate_only=dry_run)
        except KafkaError as error:
            errors.append(error)
    fail_with(errors)


def _entities(kind: str, entities: tuple[str, ...], *, default: bool) -> list[str]:
    """Return the names of entities in the protocol; UsageError for an invalid one."""
    if default and (entities or kind != "brokers"):
        raise click.UsageError("--default is only for brokers, and excludes an ENTITY")
    if not default and (not entities or not all(entities)):
        raise click.UsageError("give an ENTITY, or --default for the default of all brokers" if kind == "brokers" else "give an ENTITY")
    if kind in OF_ONE_BROKER and not all(entity.isascii() and entity.isdigit() for entity in entities):
        raise click.UsageError(f"an ENTITY of {kind} is a broker id, which is a number")
    return [CLUSTER] if default else list(dict.fromkeys(entities))
