"""`minibroker acls`: the equivalent of Kafka's AclCommand."""

from __future__ import annotations

from typing import Any

import click

from minibroker.cli.options import client_command, output_option
from minibroker.cli.output import FORMATS, emit
from minibroker.client import access
from minibroker.client.client import Client
from minibroker.security.acl import Acl, AclFilter, Operation, PatternType, Permission, ResourceType, parse_acl, principal_of, text_of

NO_ACLS = "No matching ACLs."
OPERATIONS = tuple(each.name for each in Operation if each > Operation.ANY)
TYPES = tuple(each.name for each in ResourceType if each > ResourceType.ANY)
COLUMNS = ("principal", "permission", "operation", "resource_type", "resource_name", "pattern_type", "host")


@click.group(
    epilog="""\b
Examples:
  minibroker acls add 'alice allow READ,WRITE TOPIC orders-*' 'alice allow READ GROUP billing'
  minibroker acls add 'bob deny ALL TOPIC secrets from 10.0.0.7' 'carol allow DESCRIBE CLUSTER'
  minibroker acls list --topic orders-eu
  minibroker acls remove 'alice allow WRITE TOPIC orders-*'
  minibroker acls remove --principal alice --yes
"""
)
def acls() -> None:
    """Show and change access control lists."""


def _filter_options(function: Any) -> Any:
    for option in (
        click.option("--permission", type=click.Choice(("allow", "deny")), help="Only ACLs that allow, or that deny."),
        click.option(
            "--operation", type=click.Choice(OPERATIONS, case_sensitive=False), metavar="NAME", help="Only ACLs for this operation."
        ),
        click.option("--host", metavar="ADDRESS", help="Only ACLs for this address. '*' selects ACLs for every address."),
        click.option("--principal", "who", metavar="NAME", help="Only ACLs of this user."),
        click.option("--resource", type=click.Choice(TYPES, case_sensitive=False), metavar="TYPE", help="Only ACLs of this type."),
        click.option("--group", metavar="NAME", help="Only ACLs that apply to this group."),
        click.option("--topic", metavar="NAME", help="Only ACLs that apply to this topic, also those for '*' and for prefixes."),
    ):
        function = option(function)
    return function


@acls.command("list", short_help="List ACLs.")
@_filter_options
@output_option("text", *FORMATS)
@client_command
def list_acls(client: Client, *, output: str, **options: str | None) -> None:
    """List ACLs: all of them, or those of a resource or user. You can pass each line of the output to 'acls add'."""
    found = sorted(access.list_acls(client, _filter(options)))
    if output == "text":
        for acl in found:
            click.echo(text_of(acl))
        if not found:
            click.echo(NO_ACLS, err=True)
    else:
        emit([_item(acl) for acl in found], output, columns=COLUMNS, name="acl", empty=NO_ACLS)


@acls.command(short_help="Add ACLs.")
@click.argument("acl", nargs=-1, required=True)
@client_command
def add(client: Client, *, acl: tuple[str, ...]) -> None:
    """Add ACLs of the form 'PRINCIPAL allow|deny OPERATION,... TYPE NAME [from ADDRESS]'.

    A NAME that ends with * means all names with that prefix. TYPE CLUSTER has no NAME. Operations are READ, WRITE, CREATE, DELETE, ALTER,
    DESCRIBE, ALL and Kafka's other operations. Prints nothing on success.
    """
    access.add_acls(client, [each for text in acl for each in parse_acl(text)])


@acls.command(short_help="Remove ACLs.")
@click.argument("acl", nargs=-1)
@_filter_options
@click.option("--yes", is_flag=True, help="Remove the ACLs that the filters match without asking.")
@client_command
def remove(client: Client, *, acl: tuple[str, ...], yes: bool, **options: str | None) -> None:
    """Remove the given ACLs (written as for 'acls add'), or all that the filters match. Prints the removed ACLs."""
    filters = [access.exactly(each) for text in acl for each in parse_acl(text)]
    if any(value is not None for value in options.values()):
        if acl:
            raise click.UsageError("give ACLs or filters, not both")
        filters = [_filter(options)]
        if not yes:
            for each in sorted(access.list_acls(client, filters[0])):
                click.echo(text_of(each), err=True)
            click.confirm("Remove these?", abort=True, err=True)
    if not filters:
        raise click.UsageError("nothing to remove: give ACLs, or filters such as --principal")
    removed = access.remove_acls(client, filters)
    for each in sorted(removed):
        click.echo(text_of(each))
    if acl and len(set(removed)) < len(set(filters)):
        raise click.ClickException(f"{len(set(filters)) - len(set(removed))} of the ACLs did not exist")


def _filter(options: dict[str, str | None]) -> AclFilter:
    topic, group, resource = options["topic"], options["group"], options["resource"]
    if sum(each is not None for each in (topic, group, resource)) > 1:
        raise click.UsageError("--topic, --group and --resource exclude each other")
    kind, name, pattern = ResourceType.ANY, None, PatternType.ANY
    if topic is not None or group is not None:
        kind, name, pattern = ResourceType.TOPIC if topic is not None else ResourceType.GROUP, topic or group, PatternType.MATCH
    elif resource is not None:
        kind = ResourceType[resource.upper()]
    principal, operation, permission = options["who"], options["operation"], options["permission"]
    return AclFilter(
        kind,
        name,
        pattern,
        None if principal is None else principal_of(principal),
        options["host"],
        Operation.ANY if operation is None else Operation[operation.upper()],
        Permission.ANY if permission is None else Permission[permission.upper()],
    )


def _item(acl: Acl) -> dict[str, Any]:
    return {
        "acl": text_of(acl),
        "principal": acl.principal,
        "permission": acl.permission.name.lower(),
        "operation": acl.operation.name,
        "resource_type": acl.resource_type.name,
        "resource_name": acl.resource_name,
        "pattern_type": acl.pattern_type.name.lower(),
        "host": acl.host,
    }
