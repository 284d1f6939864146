"""kafka-acls: add, remove and list ACLs, with the output of Kafka's AclCommand."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from typing import Final

from minibroker.cli.kafka_tools.arguments import UsageError, add_bootstrap, client_of, parser, the_one
from minibroker.client import access
from minibroker.client.client import Client
from minibroker.security.acl import ANY_HOST, CLUSTER_NAME, Acl, AclFilter, Operation, PatternType, Permission, ResourceType

Resource = tuple[ResourceType, str]

#: Kafka's names of operations: `DescribeConfigs` is DESCRIBE_CONFIGS
OPERATIONS: Final = {each.name.replace("_", "").lower(): each for each in Operation if each > Operation.ANY}
#: operations that a type of resources has (AclEntry.supportedOperations)
SUPPORTED: Final = {
    ResourceType.TOPIC: {3, 4, 5, 6, 7, 8, 10, 11, 2},
    ResourceType.GROUP: {3, 6, 8, 10, 11, 2},
    ResourceType.CLUSTER: {5, 7, 8, 9, 10, 11, 12, 2},
    ResourceType.TRANSACTIONAL_ID: {4, 8, 15, 2},
    ResourceType.DELEGATION_TOKEN: {8, 2},
    ResourceType.USER: {13, 14, 2},
}


def run(arguments: Sequence[str]) -> int:
    """Run the tool."""
    options = _parser().parse_args(arguments)
    action = the_one(options, ("add", "remove", "list"), "Command must include exactly one action: --list, --add, --remove. ")
    pattern = PatternType[options.resource_pattern_type.upper()]
    resources = _resources(options)
    with client_of(options) as client:
        if action == "list":
            _list(client, resources, pattern, options.principal)
            return 0
        acls = _acls(options, resources)
        if action == "add":
            _add(client, acls, pattern)
        else:
            _remove(client, acls, pattern, is_forced=options.force)
    return 0


def _parser() -> argparse.ArgumentParser:
    tool_parser = parser("kafka-acls", "This tool helps to manage acls on kafka.")
    add_bootstrap(tool_parser)
    for name in ("add", "remove", "list", "cluster", "producer", "consumer", "idempotent", "force"):
        tool_parser.add_argument(f"--{name}", action="store_true")
    for name in ("topic", "group", "transactional-id", "delegation-token", "user-principal", "operation", "principal"):
        tool_parser.add_argument(f"--{name}", action="append", default=[])
    for name in ("allow-principal", "deny-principal", "allow-host", "deny-host"):
        tool_parser.add_argument(f"--{name}", action="append", default=[])
    tool_parser.add_argument("--resource-pattern-type", default="literal", type=str.lower, choices=["any", "match", "literal", "prefixed"])
    return tool_parser


def _resources(options: argparse.Namespace) -> list[Resource]:
    found: list[Resource] = [(ResourceType.TOPIC, name.strip()) for name in options.topic]
    if options.cluster or (options.idempotent and options.producer):
        found.append((ResourceType.CLUSTER, CLUSTER_NAME))
    found += [(ResourceType.GROUP, name.strip()) for name in options.group]
    found += [(ResourceType.TRANSACTIONAL_ID, name) for name in options.transactional_id]
    found += [(ResourceType.DELEGATION_TOKEN, name.strip()) for name in options.delegation_token]
    found += [(ResourceType.USER, name.strip()) for name in options.user_principal]
    return found


def _acls(options: argparse.Namespace, resources: Sequence[Resource]) -> dict[Resource, list[Acl]]:
    """Return the ACLs of the options, by resource."""
    if not resources:
        raise UsageError(
            "You must specify at least one resource: --topic <topic> or --cluster or --group <group> "
            "or --delegation-token <Delegation Token ID>"
        )
    if options.add and not options.allow_principal and not options.deny_principal:
        raise UsageError("You must specify one of: --allow-principal, --deny-principal when trying to add ACLs.")
    if options.add and options.resource_pattern_type in ("any", "match"):
        raise UsageError("A '--resource-pattern-type' value of 'Any' or 'Match' is not valid when adding acls.")
    if options.idempotent and not options.producer:
        raise UsageError("The --idempotent option is only available if --producer is set")
    if (options.producer or options.consumer) and (options.operation or options.deny_principal or options.deny_host):
        raise UsageError('Option "[operation, deny-principal, deny-host]" can\'t be used with option "[producer, consumer]"')
    if options.consumer and (
        not options.topic or not options.group or (not options.producer and (options.cluster or options.transactional_id))
    ):
        raise UsageError(
            "With --consumer you must specify a --topic and a --group and no --cluster or --transactional-id option should be specified."
        )
    if options.producer and not options.topic:
        raise UsageError("With --producer you must specify a --topic")
    return {resource: _of_resource(options, resource) for resource in resources}


def _of_resource(options: argparse.Namespace, resource: Resource) -> list[Acl]:
    kind, name = resource
    operations: set[Operation] = set()
    if options.producer:
        operations |= {
            ResourceType.TOPIC: {Operation.WRITE, Operation.DESCRIBE, Operation.CREATE},
            ResourceType.TRANSACTIONAL_ID: {Operation.WRITE, Operation.DESCRIBE},
            ResourceType.CLUSTER: {Operation.IDEMPOTENT_WRITE} if options.idempotent else set(),
        }.get(kind, set())
    if options.consumer:
        operations |= {ResourceType.TOPIC: {Operation.READ, Operation.DESCRIBE}, ResourceType.GROUP: {Operation.READ}}.get(kind, set())
    if not options.producer and not options.consumer:
        operations = {_operation(text) for text in options.operation or ["All"]}
        if not operations <= SUPPORTED[kind]:
            supported = ", ".join(Operation(each).name for each in sorted(SUPPORTED[kind]))
            raise UsageError(f"ResourceType {kind.name} only supports operations [{supported}]")
    pattern = PatternType[options.resource_pattern_type.upper()]
    sides = (
        (Permission.ALLOW, options.allow_principal, options.allow_host),
        (Permission.DENY, options.deny_principal, options.deny_host),
    )
    return [
        Acl(kind, name, pattern, _principal(who), host.strip(), operation, permission)
        for permission, principals, hosts in sides
        for who in principals
        for host in hosts or [ANY_HOST]
        for operation in sorted(operations)
    ]


def _operation(text: str) -> Operation:
    found = OPERATIONS.get(text.strip().replace("_", "").lower())
    if found is None:
        raise UsageError(f"{text} is not an operation")
    return found


def _principal(text: str) -> str:
    kind, colon, name = text.strip().partition(":")
    if not colon or not kind or not name:
        raise UsageError(f"Error while executing ACL command: expected a string in format principalType:principalName but got {text}")
    return text.strip()


def _add(client: Client, by_resource: dict[Resource, list[Acl]], pattern: PatternType) -> None:
    for resource, acls in by_resource.items():
        print(f"Adding ACLs for resource `{_words(resource, pattern)}`: \n {_lines(acls)}\n")
        access.add_acls(client, acls)


def _remove(client: Client, by_resource: dict[Resource, list[Acl]], pattern: PatternType, *, is_forced: bool) -> None:
    for resource, acls in by_resource.items():
        shown = _words(resource, pattern)
        if not acls:
            if is_forced or _confirmed(f"Are you sure you want to delete all ACLs for resource filter `{shown}`? (y/n)"):
                access.remove_acls(client, [AclFilter(resource[0], resource[1], pattern)])
        elif is_forced or _confirmed(f"Are you sure you want to remove ACLs: \n {_lines(acls)} \n from resource filter `{shown}`? (y/n)"):
            access.remove_acls(client, [access.exactly(each) for each in acls])


def _confirmed(question: str) -> bool:
    print(question, flush=True)
    return sys.stdin.readline().strip().lower() == "y"


def _list(client: Client, resources: Sequence[Resource], pattern: PatternType, principals: Sequence[str]) -> None:
    filters = [AclFilter(kind, name, pattern) for kind, name in resources] or [AclFilter(pattern_type=PatternType.ANY)]
    found = list(dict.fromkeys(acl for each in filters for acl in access.list_acls(client, each)))
    chosen: Sequence[str | None] = principals or [None]
    for who in chosen:
        if who is not None:
            print(f"ACLs for principal `{_principal(who)}`")
        by_pattern: dict[tuple[ResourceType, str, PatternType], list[Acl]] = {}
        for acl in found:
            if who in (None, acl.principal):
                by_pattern.setdefault((acl.resource_type, acl.resource_name, acl.pattern_type), []).append(acl)
        for (kind, name, of_pattern), acls in by_pattern.items():
            print(f"Current ACLs for resource `{_words((kind, name), of_pattern)}`:\n{_lines(acls)}\n")


def _words(resource: Resource, pattern: PatternType) -> str:
    return f"ResourcePattern(resourceType={resource[0].name}, name={resource[1]}, patternType={pattern.name})"


def _lines(acls: Iterable[Acl]) -> str:
    return "".join(
        f"\t(principal={each.principal}, host={each.host}, operation={each.operation.name}, permissionType={each.permission.name})\n"
        for each in acls
    ).rstrip("\n")
