"""kafka-configs: show and alter configs of topics, brokers, groups and client metrics; entity_configs.py has users, clients and ips."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Final

from minibroker.cli.kafka_tools import entity_configs
from minibroker.cli.kafka_tools.arguments import UsageError, add_bootstrap, client_of, parser, split_configs, the_one
from minibroker.cli.kafka_tools.entity_configs import CLIENTS, IPS, QUOTA_TYPES, USERS
from minibroker.client import configs as admin
from minibroker.client.client import Client
from minibroker.client.configs import CLUSTER, DELETE, SET, TYPES, Change
from minibroker.config import sources
from minibroker.schemas import k32_describe_configs

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
    entity_configs.check_entities(entities, is_change=options.alter)
    kind, entity = entities[0]
    with client_of(options) as client:
        if options.alter:
            _alter(client, entities, options)
        elif kind in QUOTA_TYPES:
            entity_configs.describe(client, entities)
        else:
            names = [entity] if entity is not None else admin.list_entities(client, kind)
            for name in names:
                _describe(client, kind, name, everything=options.all)
    return 0


def _parser() -> argparse.ArgumentParser:
    made = parser(
        "kafka-configs",
        "This tool helps to manipulate and describe entity config for a topic, client, user, broker, ip, group or client metrics.",
    )
    add_bootstrap(made)
    for name in ("describe", "alter", "all", *_DEFAULTS):
        made.add_argument(f"--{name}", action="store_true")
    made.add_argument("--entity-type", choices=[*TYPES, *QUOTA_TYPES], action="append", default=[], help="Twice for users and clients.")
    made.add_argument("--entity-name", action="append", default=[], dest="entity_names")
    made.add_argument("--entity-default", action="append_const", const=CLUSTER, dest="entity_names")
    made.add_argument("--add-config", metavar="NAME=VALUE,...", help="Configs to set; put a list in square brackets.")
    made.add_argument("--add-config-file", metavar="FILE")
    made.add_argument("--delete-config", metavar="NAME,...")
    for name in _FLAGS:
        made.add_argument(f"--{name}")
    made.add_argument("--force", action="store_true", help=argparse.SUPPRESS)
    return made


def _entities(options: argparse.Namespace) -> list[tuple[str, str | None]]:
    """Return types and names of the entities: one, or a user and a client id. The name of a default is empty; None stands for all."""
    given = vars(options)
    flags = [(kind, given[option.replace("-", "_")]) for option, kind in _FLAGS.items()]
    found: list[tuple[str, str | None]] = [(kind, name) for kind, name in flags if name is not None]
    found += [(kind, CLUSTER) for option, kind in _DEFAULTS.items() if given[option.replace("-", "_")]]
    if found and (options.entity_type or options.entity_names):
        raise UsageError("--entity-{type,name,default} should not be used in conjunction with specific entity flags")
    found = found or list(zip_longest(options.entity_type, options.entity_names[: len(options.entity_type)]))
    if not found:
        names = ", ".join(f"--{option}" for option in ("entity-type", *_FLAGS, *_DEFAULTS))
        raise UsageError(f"At least one of {names} must be specified")
    return found


def _alter(client: Client, entities: entity_configs.Entities, options: argparse.Namespace) -> None:
    kind, entity = entities[0]
    if entity is None:
        raise UsageError("At least one of --entity-name or --entity-default must be specified with --alter")
    added = dict(sources.from_file(Path(options.add_config_file))) if options.add_config_file else {}
    added |= split_configs(options.add_config) if options.add_config else {}
    deleted = [name.strip() for name in (options.delete_config or "").split(",") if name.strip()]
    if not added and not deleted:
        raise UsageError("At least one of --add-config, --add-config-file, or --delete-config must be specified with --alter")
    if kind in QUOTA_TYPES:
        entity_configs.alter(client, entities, added, deleted)
    else:
        changes = [Change(name, SET, value) for name, value in added.items()]
        admin.alter_configs(client, kind, entity, [*changes, *(Change(name, DELETE, None) for name in deleted)])
    what = f"default config for {kind} in the cluster" if entity == CLUSTER else f"config for {SINGULAR[kind]} {entity}"
    print(f"Completed updating {what}.")


def _describe(client: Client, kind: str, entity: str, *, everything: bool) -> None:
    found = admin.ask_configs(client, kind, entity, with_synonyms=True)
    if entity == CLUSTER:
        print(f"Default configs for {kind} in the cluster are:")
    else:
        print(f"{'All' if everything else 'Dynamic'} configs for {SINGULAR[kind]} {entity} are:")
    for config in found:
        if everything or _is_own(kind, entity, config):
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
