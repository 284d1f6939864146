"""`minibroker topics`: list, describe, create, delete and alter."""

from __future__ import annotations

import sys
from typing import Any

import click

from minibroker.cli.completions import config_names, deletable_config_names, topic_names
from minibroker.cli.options import client_command, fail_with, output_option, pairs
from minibroker.cli.output import FORMATS, emit, id_text, table, yaml_text
from minibroker.client import topics as admin
from minibroker.client.client import Client
from minibroker.client.errors import check, refusal
from minibroker.errors import KafkaError, TopicAlreadyExists, UnknownTopicOrPartition
from minibroker.schemas import k03_metadata, k32_describe_configs

NO_TOPICS = "No topics. 'minibroker topics create NAME' creates one."
LIST_COLUMNS = ("name", "partitions", "replication_factor", "topic_id")
DESCRIBE_COLUMNS = ("partition", "leader", "leader_epoch", "replicas", "isr", "offline")
#: the data that is lost with an internal topic
_INTERNAL_DATA = {
    "__consumer_offsets": "the committed offsets of all groups",
    "__transaction_state": "the state of all transactions",
    "__share_group_state": "the state of all share groups",
}


@click.group(
    epilog="""\b
Examples:
  minibroker topics list -o name
  minibroker topics create orders --partitions 3 --config retention.ms=-1
  minibroker topics describe orders -o json
  minibroker topics alter orders --partitions 6 --delete-config retention.ms
  minibroker topics delete orders payments --if-exists
"""
)
def topics() -> None:
    """List, describe, create, delete and alter topics."""


@topics.command("list")
@click.option("--internal", is_flag=True, help="Include Kafka's internal topics, such as __consumer_offsets.")
@output_option(*FORMATS)
@client_command
def list_topics(client: Client, *, internal: bool, output: str) -> None:
    """List topics by name."""
    found = sorted(client.metadata(None).topics, key=lambda topic: topic.name or "")
    items = [_summary(topic) for topic in found if internal or not topic.is_internal]
    emit(
        items,
        output,
        columns=(*LIST_COLUMNS, "internal") if internal else LIST_COLUMNS,
        empty=NO_TOPICS,
    )


@topics.command()
@click.argument("names", nargs=-1, metavar="[TOPIC]...", shell_complete=topic_names)
@click.option("--all-configs", is_flag=True, help="Show every config with its source, not only those that were set for the topic.")
@output_option(*FORMATS)
@client_command
def describe(client: Client, *, names: tuple[str, ...], all_configs: bool, output: str) -> None:
    """Show partitions, leaders and configs.

    Without a TOPIC, shows all topics that are not internal.
    """
    found = client.metadata(list(names) or None).topics
    errors: list[Exception] = [error for topic in found if (error := refusal(topic.error_code, f"topic {topic.name}"))]
    healthy = sorted((topic for topic in found if not topic.error_code and (names or not topic.is_internal)), key=lambda t: t.name or "")
    configs = admin.describe_configs(client, [topic.name or "" for topic in healthy])
    items = [_description(topic, configs[topic.name or ""], all_configs=all_configs) for topic in healthy]
    if output == "table":
        click.echo("\n\n".join(_as_table(item) for item in items), nl=bool(items))
        if not items and not errors:
            click.echo(NO_TOPICS, err=True)
    else:
        emit(items, output, columns=())
    fail_with(errors)


@topics.command()
@click.argument("names", nargs=-1, required=True, metavar="TOPIC...")
@click.option("-p", "--partitions", type=click.IntRange(min=1), help="Number of partitions.  [default: the broker's num.partitions]")
@click.option(
    "-r", "--replication-factor", type=click.IntRange(min=1), help="Number of replicas.  [default: the broker's default.replication.factor]"
)
@click.option(
    "-c",
    "--config",
    "configs",
    multiple=True,
    metavar="NAME=VALUE",
    shell_complete=config_names,
    help="Set a config of the topic, such as retention.ms=-1.",
)
@click.option("--if-not-exists", is_flag=True, help="Do not fail if a topic exists already.")
@click.option("--validate-only", is_flag=True, help="Let the broker check everything and create nothing.")
@output_option(*FORMATS)
@client_command
def create(
    client: Client,
    *,
    names: tuple[str, ...],
    partitions: int | None,
    replication_factor: int | None,
    configs: tuple[str, ...],
    if_not_exists: bool,
    validate_only: bool,
    output: str,
) -> None:
    """Create topics."""
    results = admin.create_topics(
        client,
        names,
        partition_count=partitions or admin.BROKER_DEFAULT,
        replication_factor=replication_factor or admin.BROKER_DEFAULT,
        configs=pairs(configs, "--config"),
        validate_only=validate_only,
    )
    items: list[dict[str, Any]] = []
    errors: list[Exception] = []
    for name, result in results.items():
        if isinstance(result, TopicAlreadyExists) and if_not_exists:
            items.append({"name": name, "topic_id": None, "partitions": None, "replication_factor": None, "created": False})
        elif isinstance(result, KafkaError):
            errors.append(result)
        else:
            items.append(
                {
                    "name": name,
                    "topic_id": id_text(result.topic_id),
                    "partitions": result.num_partitions,
                    "replication_factor": result.replication_factor,
                    "created": not validate_only,
                }
            )
    if items or output == "json":
        emit(items, output, columns=("name", "partitions", "replication_factor", "topic_id", "created"))
    fail_with(errors)


@topics.command()
@click.argument("names", nargs=-1, required=True, metavar="TOPIC...", shell_complete=topic_names)
@click.option("--if-exists", is_flag=True, help="Do not fail if a topic does not exist.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask before deleting internal topics, such as __consumer_offsets.")
@output_option(*FORMATS)
@client_command
def delete(client: Client, *, names: tuple[str, ...], if_exists: bool, yes: bool, output: str) -> None:
    """Delete topics and all their records, immediately and permanently."""
    if not yes:
        _confirm_internal(client, names)
    results = admin.delete_topics(client, names)
    missing = {name for name, error in results.items() if if_exists and isinstance(error, UnknownTopicOrPartition)}
    errors: list[Exception] = [error for name, error in results.items() if error is not None and name not in missing]
    items = [{"name": name, "deleted": error is None} for name, error in results.items() if error is None or name in missing]
    if items or output == "json":
        emit(items, output, columns=("name", "deleted"))
    fail_with(errors)


def _confirm_internal(client: Client, names: tuple[str, ...]) -> None:
    """Ask before internal topics are deleted; fail without a terminal."""
    internal_names = [name for name in names if name.startswith("__")]
    internal = [topic.name or "" for topic in client.metadata(internal_names).topics if topic.is_internal] if internal_names else []
    if not internal:
        return
    warning = "; ".join(f"{name} holds {_INTERNAL_DATA.get(name, 'internal state of Kafka')}" for name in internal)
    if not sys.stdin.isatty():
        raise click.UsageError(f"{warning}: to delete it nevertheless, give --yes")
    if not click.confirm(f"{warning}. Delete it nevertheless?", err=True):
        raise click.ClickException("nothing was deleted")


@topics.command()
@click.argument("name", metavar="TOPIC", shell_complete=topic_names)
@click.option("-p", "--partitions", type=click.IntRange(min=1), help="Raise the number of partitions to this.")
@click.option("-c", "--config", "configs", multiple=True, metavar="NAME=VALUE", shell_complete=config_names, help="Set a config.")
@click.option(
    "--delete-config",
    "deleted_configs",
    multiple=True,
    metavar="NAME",
    shell_complete=deletable_config_names,
    help="Reset a config to its default.",
)
@client_command
def alter(client: Client, *, name: str, partitions: int | None, configs: tuple[str, ...], deleted_configs: tuple[str, ...]) -> None:
    """Add partitions to a topic, set or delete its configs. Prints nothing on success."""
    changes: dict[str, str | None] = {**pairs(configs, "--config"), **dict.fromkeys(deleted_configs)}
    if not changes and partitions is None:
        raise click.UsageError("nothing to alter: give --partitions, --config or --delete-config")
    if changes:
        admin.alter_configs(client, name, changes)
    if partitions is not None:
        admin.create_partitions(client, name, partitions)


def _summary(topic: k03_metadata.TopicResult) -> dict[str, Any]:
    check(topic.error_code, f"topic {topic.name}")
    return {
        "name": topic.name,
        "topic_id": id_text(topic.topic_id),
        "partitions": len(topic.partitions),
        "replication_factor": max((len(partition.replica_nodes) for partition in topic.partitions), default=0),
        "internal": topic.is_internal,
    }


def _description(topic: k03_metadata.TopicResult, configs: list[k32_describe_configs.Config], *, all_configs: bool) -> dict[str, Any]:
    own = {config.name: config.value for config in configs if admin.SOURCES.get(config.config_source) == "topic"}
    item = {**_summary(topic), "configs": own}
    if all_configs:
        item["all_configs"] = {
            config.name: {"value": config.value, "source": admin.SOURCES.get(config.config_source, "unknown")}
            for config in sorted(configs, key=lambda config: config.name)
        }
    item["partitions"] = [
        {
            "partition": partition.partition_index,
            "leader": partition.leader_id,
            "leader_epoch": partition.leader_epoch,
            "replicas": list(partition.replica_nodes),
            "isr": list(partition.isr_nodes),
            "offline": list(partition.offline_replicas),
        }
        for partition in sorted(topic.partitions, key=lambda partition: partition.partition_index)
    ]
    return item


def _as_table(item: dict[str, Any]) -> str:
    """Return one topic as text: a line for each fact, then its partitions."""
    facts = [
        ("topic", item["name"]),
        ("id", item["topic_id"]),
        ("partitions", str(len(item["partitions"]))),
        ("replication factor", str(item["replication_factor"])),
        ("internal", "yes" if item["internal"] else "no"),
        ("configs", "" if item["configs"] else "none set"),
    ]
    lines = [f"{name + ':':20}{value}".rstrip() for name, value in facts]
    lines += [f"  {name}={value}" for name, value in sorted(item["configs"].items())]
    if "all_configs" in item:
        lines.append("all configs:")
        lines += [
            "  " + line for line in yaml_text({k: f"{v['value']}  ({v['source']})" for k, v in item["all_configs"].items()}).splitlines()
        ]
    return "\n".join(lines) + "\n" + table(item["partitions"], DESCRIBE_COLUMNS)
