"""kafka-configs: show and alter configs of topics, brokers, groups and client metrics.

Users, clients and ips have quotas instead of configs, and users have SCRAM credentials as well.
"""

from __future__ import annotations

import argparse
import re
import socket
from collections.abc import Mapping, Sequence
from decimal import Decimal
from itertools import zip_longest
from pathlib import Path
from typing import Final

from minibroker.cli.kafka_tools.arguments import UsageError, add_bootstrap, client_of, parser, split_configs, the_one
from minibroker.client import access
from minibroker.client import configs as admin
from minibroker.client.client import Client
from minibroker.client.configs import CLIENT_ID, CLUSTER, DELETE, IP, QUOTA_NAMES, SET, TYPES, USER, Change
from minibroker.config import sources
from minibroker.schemas import k32_describe_configs

USERS, CLIENTS, IPS = "users", "clients", "ips"
#: --entity-type -> entity type of a quota
QUOTA_TYPES: Final = {USERS: USER, CLIENTS: CLIENT_ID, IPS: IP}
_SHOWN: Final = {USERS: "user-principal", CLIENTS: "client-id", IPS: "ip"}
_MECHANISMS: Final = frozenset(access.MECHANISM_NAMES.values())
_CONNECTIONS: Final = "connection_creation_rate"
_CREDENTIAL: Final = re.compile(r"(?:iterations=(-?[0-9]*),)?password=(.*)", re.DOTALL)
_ITERATIONS_MIN, _ITERATIONS_MAX = 4096, 16_384

Entities = Sequence[tuple[str, str | None]]  #: --entity-type and name: "" is the default, None means all

SINGULAR: Final = {
    "topics": "topic",
    "brokers": "broker",
    "broker-loggers": "broker-logger",
    "client-metrics": "client-metric",
    "groups": "group",
    USERS: "user",
    CLIENTS: "client",
    IPS: "ip",
}
#: options that name an entity, and those that name the default of a type -> --entity-type, in Kafka's order
_FLAGS: Final = {
    "topic": "topics",
    "client": CLIENTS,
    "user": USERS,
    "broker": "brokers",
    "broker-logger": "broker-loggers",
    "ip": IPS,
    "client-metrics": "client-metrics",
    "group": "groups",
}
_DEFAULTS: Final = {"client-defaults": CLIENTS, "user-defaults": USERS, "broker-defaults": "brokers", "ip-defaults": IPS}
#: Kafka's names of the sources of a config (DescribeConfigs)
SOURCES: Final = {
    1: "DYNAMIC_TOPIC_CONFIG",
    2: "DYNAMIC_BROKER_CONFIG",
    3: "DYNAMIC_DEFAULT_BROKER_CONFIG",
    4: "STATIC_BROKER_CONFIG",
    5: "DEFAULT_CONFIG",
    6: "DYNAMIC_BROKER_LOGGER_CONFIG",
    7: "DYNAMIC_CLIENT_METRICS_CONFIG",
    8: "DYNAMIC_GROUP_CONFIG",
}
_STATIC: Final = (4, 5)


def run(arguments: Sequence[str]) -> int:
    """Run the tool, with the output of Kafka's ConfigCommand."""
    options = _parser().parse_args(arguments)
    the_one(options, ("describe", "alter"), "Command must include exactly one action: --describe, --alter")
    entities = _entities(options)
    check_entities(entities, is_change=options.alter)
    kind, entity = entities[0]
    with client_of(options) as client:
        if options.alter:
            _alter(client, entities, options)
        elif kind in QUOTA_TYPES:
            describe_client_entities(client, entities)
        else:
            names = [entity] if entity is not None else admin.list_entities(client, kind)
            for name in names:
                _describe(client, kind, name, show_all=options.all)
    return 0


def _parser() -> argparse.ArgumentParser:
    tool_parser = parser(
        "kafka-configs",
        "This tool helps to manipulate and describe entity config for a topic, client, user, broker, ip, group or client metrics.",
    )
    add_bootstrap(tool_parser)
    for name in ("describe", "alter", "all", *_DEFAULTS):
        tool_parser.add_argument(f"--{name}", action="store_true")
    tool_parser.add_argument(
        "--entity-type", choices=[*TYPES, *QUOTA_TYPES], action="append", default=[], help="Twice for users and clients."
    )
    tool_parser.add_argument("--entity-name", action="append", default=[], dest="entity_names")
    tool_parser.add_argument("--entity-default", action="append_const", const=CLUSTER, dest="entity_names")
    tool_parser.add_argument("--add-config", metavar="NAME=VALUE,...", help="Configs to set; put a list in square brackets.")
    tool_parser.add_argument("--add-config-file", metavar="FILE")
    tool_parser.add_argument("--delete-config", metavar="NAME,...")
    for name in _FLAGS:
        tool_parser.add_argument(f"--{name}")
    tool_parser.add_argument("--force", action="store_true", help=argparse.SUPPRESS)
    return tool_parser


def _entities(options: argparse.Namespace) -> list[tuple[str, str | None]]:
    """Return types and names of the entities: one, or a user and a client id. The name of a default is empty; None stands for all."""
    values = vars(options)
    flags = [(kind, values[option.replace("-", "_")]) for option, kind in _FLAGS.items()]
    found: list[tuple[str, str | None]] = [(kind, name) for kind, name in flags if name is not None]
    found += [(kind, CLUSTER) for option, kind in _DEFAULTS.items() if values[option.replace("-", "_")]]
    if found and (options.entity_type or options.entity_names):
        raise UsageError("--entity-{type,name,default} should not be used in conjunction with specific entity flags")
    found = found or list(zip_longest(options.entity_type, options.entity_names[: len(options.entity_type)]))
    if not found:
        names = ", ".join(f"--{option}" for option in ("entity-type", *_FLAGS, *_DEFAULTS))
        raise UsageError(f"At least one of {names} must be specified")
    return found


def _alter(client: Client, entities: Entities, options: argparse.Namespace) -> None:
    kind, entity = entities[0]
    if entity is None:
        raise UsageError("At least one of --entity-name or --entity-default must be specified with --alter")
    added = dict(sources.from_file(Path(options.add_config_file))) if options.add_config_file else {}
    added |= split_configs(options.add_config) if options.add_config else {}
    deleted = [name.strip() for name in (options.delete_config or "").split(",") if name.strip()]
    if not added and not deleted:
        raise UsageError("At least one of --add-config, --add-config-file, or --delete-config must be specified with --alter")
    if kind in QUOTA_TYPES:
        alter_client_entity(client, entities, added, deleted)
    else:
        changes = [Change(name, SET, value) for name, value in added.items()]
        admin.alter_configs(client, kind, entity, [*changes, *(Change(name, DELETE, None) for name in deleted)])
    what = f"default config for {kind} in the cluster" if entity == CLUSTER else f"config for {SINGULAR[kind]} {entity}"
    print(f"Completed updating {what}.")


def _describe(client: Client, kind: str, entity: str, *, show_all: bool) -> None:
    found = admin.ask_configs(client, kind, entity, with_synonyms=True)
    if entity == CLUSTER:
        print(f"Default configs for {kind} in the cluster are:")
    else:
        print(f"{'All' if show_all else 'Dynamic'} configs for {SINGULAR[kind]} {entity} are:")
    for config in found:
        if show_all or _is_own(kind, entity, config):
            value = "null" if config.value is None else config.value
            synonyms = ", ".join(f"{SOURCES.get(each.source, 'UNKNOWN')}:{each.name}={each.value}" for each in config.synonyms)
            print(f"  {config.name}={value} sensitive={str(config.is_sensitive).lower()} synonyms={{{synonyms}}}")


def _is_own(kind: str, entity: str, config: k32_describe_configs.Config) -> bool:
    """Return whether a config was set dynamically for this entity."""
    if kind == "topics":
        return config.config_source == 1
    if kind == "brokers":
        return config.config_source == (3 if entity == CLUSTER else 2)
    return config.config_source not in _STATIC


def check_entities(entities: Entities, *, is_change: bool) -> None:
    """Raise UsageError for types that cannot be combined, and for a change without a name."""
    kinds = [kind for kind, _ in entities]
    if len(kinds) > 1 and sorted(kinds) != [CLIENTS, USERS]:
        raise UsageError("Only 'users' and 'clients' entity types may be specified together")
    if not is_change:
        return
    for kind, name in entities:
        if name is None:
            raise UsageError("An entity-name or default entity must be specified with --alter of users, clients, brokers or ips")
        if kind == IPS and name and not _is_host(name):
            raise UsageError(f"The entity name for ips must be a valid IP or resolvable host, but it is: {name}")


def _is_host(name: str) -> bool:
    try:
        socket.getaddrinfo(name, None)
    except OSError:
        return False
    return True


def alter_client_entity(client: Client, entities: Entities, added: Mapping[str, str], deleted: Sequence[str]) -> None:
    """Change quotas, or the SCRAM credentials of a user.

    Raises:
        UsageError: the names do not fit the entity, or a value is invalid. Nothing was changed.
        KafkaError: the broker rejects the change.
    """
    (kind, name), *others = entities
    is_user = kind == USERS and not others
    _check_names(kind, "added", list(added), is_user=is_user)
    _check_names(kind, "deleted", deleted, is_user=is_user)
    names = [*added, *deleted]
    credentials = [each for each in names if each in _MECHANISMS]
    if credentials and len(credentials) < len(names):
        raise UsageError("Cannot alter both quota and SCRAM credential configs simultaneously for 'users' using --bootstrap-server.")
    if not credentials:
        _alter_quotas(client, entities, added, deleted)
    elif not name:
        raise UsageError(
            "The use of --entity-default or --user-defaults is not allowed with User SCRAM Credentials using --bootstrap-server."
        )
    else:
        _alter_credentials(client, name, added, deleted)


def _check_names(kind: str, verb: str, names: Sequence[str], *, is_user: bool) -> None:
    if kind == IPS:
        unknown = [each for each in names if each != _CONNECTIONS]
        if unknown:
            what = f"Only connection quota configs can be {verb} for 'ips' using --bootstrap-server."
            raise UsageError(f"{what} Unexpected config names: {','.join(unknown)}")
        return
    quotas = {each for each in QUOTA_NAMES if each != _CONNECTIONS}
    unknown = [each for each in names if each not in quotas and not (is_user and each in _MECHANISMS)]
    if unknown:
        what = "quota and SCRAM credential" if is_user else "quota"
        unexpected = f"Unexpected config names: Set({', '.join(unknown)})"
        raise UsageError(f"Only {what} configs can be {verb} for '{kind}' using --bootstrap-server. {unexpected}")


def _alter_quotas(client: Client, entities: Entities, added: Mapping[str, str], deleted: Sequence[str]) -> None:
    entity = {QUOTA_TYPES[kind]: name or None for kind, name in entities}
    values: dict[str, float | None] = {}
    for key, text in added.items():
        try:
            values[key] = float(text)
        except ValueError:
            raise UsageError(f"Cannot parse quota configuration value for {key}: {text}") from None
    existing = {each.name for each in admin.describe_quotas(client, entity, strict=True)} if deleted else set()
    missing = [each for each in deleted if each not in existing]
    if missing:
        raise UsageError(f"Invalid config(s): {','.join(missing)}")
    admin.alter_quotas(client, entity, values | dict.fromkeys(deleted))


def _alter_credentials(client: Client, user: str, added: Mapping[str, str], deleted: Sequence[str]) -> None:
    found = {mechanism: _credential(mechanism, text) for mechanism, text in added.items()}
    for mechanism in deleted:
        access.remove_credential(client, user, mechanism)
    for mechanism, (password, iterations) in found.items():
        access.set_password(client, user, [mechanism], password, iterations)


def _credential(mechanism: str, text: str) -> tuple[str, int]:
    """Return the password and the iterations of `[iterations=8192,password=...]`."""
    found = _CREDENTIAL.fullmatch(text)
    if found is None:
        raise UsageError(f"Invalid credential property {mechanism.replace('-', '_')}={text}")
    iterations = int(found[1]) if found[1] else _ITERATIONS_MIN
    if iterations < _ITERATIONS_MIN:
        raise UsageError(f"Iterations {iterations} is less than the minimum {_ITERATIONS_MIN} required for {mechanism}")
    if iterations > _ITERATIONS_MAX:
        raise UsageError(f"Iterations {iterations} is greater than the maximum {_ITERATIONS_MAX} allowed for {mechanism}")
    return found[2], iterations


def describe_client_entities(client: Client, entities: Entities) -> None:
    """Print the quotas of entities of exactly these types, and the SCRAM credentials of users."""
    named = {QUOTA_TYPES[kind]: name or None for kind, name in entities if name is not None}
    any_of = [QUOTA_TYPES[kind] for kind, name in entities if name is None]
    found: dict[str, list[str]] = {}
    for each in admin.describe_quotas(client, named, strict=True, any_of=any_of):
        parts = [_part(kind, each.entity[of_quota]) for kind, of_quota in QUOTA_TYPES.items() if of_quota in each.entity]
        found.setdefault(", ".join(parts), []).append(f"{each.name}={_java_double(each.value)}")
    for entity, values in found.items():
        print(f"Quota configs for {entity} are {', '.join(values)}")
    (kind, name), *others = entities
    if kind == USERS and not others and name != "":
        _describe_credentials(client, name)


def _describe_credentials(client: Client, user: str | None) -> None:
    found: dict[str, list[str]] = {}
    for each in access.list_credentials(client, user):
        found.setdefault(each.user, []).append(f"{each.mechanism}=iterations={each.iterations}")
    for name, credentials in found.items():
        print(f"SCRAM credential configs for user-principal '{name}' are {', '.join(credentials)}")


def _part(kind: str, name: str | None) -> str:
    return f"the default {_SHOWN[kind]}" if name is None else f"{_SHOWN[kind]} '{name}'"


def _java_double(value: float) -> str:
    """Format a number as Java's Double.toString does: 512.0, but 1.048576E7 from 10^7 upwards."""
    if 1e-3 <= abs(value) < 1e7 or value == 0:
        return repr(float(value))
    digits, _, exponent = f"{Decimal(repr(value)).normalize():E}".partition("E")
    return f"{digits if '.' in digits else digits + '.0'}E{int(exponent)}"
