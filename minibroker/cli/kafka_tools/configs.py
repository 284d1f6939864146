"""kafka-configs: show and alter configs of topics, brokers, groups and client metrics."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from minibroker.cli.kafka_tools.arguments import UsageError, add_bootstrap, client_of, parser, split_configs, the_one
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
}
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
    kind, entity = _entity(options)
    with client_of(options) as client:
        if options.alter:
            _alter(client, kind, entity, options)
        else:
            names = [entity] if entity is not None else admin.list_entities(client, kind)
            for name in names:
                _describe(client, kind, name, everything=options.all)
    return 0


def _parser() -> argparse.ArgumentParser:
    made = parser("kafka-configs", "This tool helps to manipulate and describe entity config for a topic, broker, group or client metrics.")
    add_bootstrap(made)
    for name in ("describe", "alter", "all", "entity-default", "broker-defaults"):
        made.add_argument(f"--{name}", action="store_true")
    made.add_argument("--entity-type", choices=list(TYPES))
    made.add_argument("--entity-name")
    made.add_argument("--add-config", metavar="NAME=VALUE,...", help="Configs to set; put a list in square brackets.")
    made.add_argument("--add-config-file", metavar="FILE")
    made.add_argument("--delete-config", metavar="NAME,...")
    for name in ("topic", "broker", "broker-logger", "client-metrics", "group"):
        made.add_argument(f"--{name}")
    made.add_argument("--force", action="store_true", help=argparse.SUPPRESS)
    return made


def _entity(options: argparse.Namespace) -> tuple[str, str | None]:
    short = {"topics": options.topic, "brokers": options.broker, "broker-loggers": options.broker_logger}
    short |= {"client-metrics": options.client_metrics, "groups": options.group}
    for kind, name in short.items():
        if name is not None:
            return kind, name
    if options.broker_defaults:
        return "brokers", CLUSTER
    if options.entity_type is None:
        raise UsageError("At least one of --entity-type, --topic, --broker, --broker-defaults, --group must be specified")
    return options.entity_type, CLUSTER if options.entity_default else options.entity_name


def _alter(client: Client, kind: str, entity: str | None, options: argparse.Namespace) -> None:
    if entity is None:
        raise UsageError("At least one of --entity-name or --entity-default must be specified with --alter")
    changes = []
    if options.add_config_file:
        changes += [Change(name, SET, value) for name, value in sources.from_file(Path(options.add_config_file)).items()]
    if options.add_config:
        changes += [Change(name, SET, value) for name, value in split_configs(options.add_config).items()]
    changes += [Change(name.strip(), DELETE, None) for name in (options.delete_config or "").split(",") if name.strip()]
    if not changes:
        raise UsageError("At least one of --add-config, --add-config-file, or --delete-config must be specified with --alter")
    admin.alter_configs(client, kind, entity, changes)
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
