"""kafka-topics: list, describe, create, alter and delete topics."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence

from minibroker.cli.kafka_tools.arguments import UsageError, add_bootstrap, client_of, include_list, parser, properties, the_one, words_of
from minibroker.cli.output import id_text
from minibroker.client import topics as admin
from minibroker.client.client import Client
from minibroker.errors import KafkaError, TopicAlreadyExists
from minibroker.schemas.k03_metadata import PartitionResult, TopicResult
from minibroker.schemas.k75_describe_topic_partitions import PartitionResult as PartitionLeaders

ACTIONS = ("list", "describe", "create", "alter", "delete")
_REPLICAS_MAX = 32_767  #: an int16 in the protocol
_METRICS = (
    "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore ('_') could collide. "
    "To avoid issues it is best to use either, but not both."
)


def run(arguments: Sequence[str]) -> int:
    """Run the tool, with the output of Kafka's TopicCommand."""
    options = _parser().parse_args(arguments)
    action = the_one(options, ACTIONS, "Command must include exactly one action: --list, --describe, --create, --alter or --delete")
    if action in {"create", "alter", "delete"} and options.topic is None:
        raise UsageError('Missing required argument "[topic]"')
    with client_of(options) as client:
        try:
            {"list": _list, "describe": _describe, "create": _create, "alter": _alter, "delete": _delete}[action](client, options)
        except (KafkaError, _RefusedError) as error:
            print(f"Error while executing topic command : {error if isinstance(error, _RefusedError) else words_of(error)}")
            return 1
    return 0


class _RefusedError(Exception):
    """A failure that the tool itself detects, such as an unknown topic; with Kafka's message."""


def _parser() -> argparse.ArgumentParser:
    tool_parser = parser("kafka-topics", "This tool helps to create, delete, describe, or change a topic.")
    add_bootstrap(tool_parser)
    for action in ACTIONS:
        tool_parser.add_argument(f"--{action}", action="store_true")
    tool_parser.add_argument("--topic", help="The topic; a regular expression, except for --create.")
    tool_parser.add_argument("--topic-id", help="The id of the topic to describe.")
    tool_parser.add_argument("--partitions", type=int)
    tool_parser.add_argument("--replication-factor", type=int)
    tool_parser.add_argument("--config", action="append", metavar="NAME=VALUE")
    tool_parser.add_argument("--partition-size-limit-per-response", type=int, help=argparse.SUPPRESS)
    flags = ("if-exists", "if-not-exists", "exclude-internal", "topics-with-overrides", "under-replicated-partitions")
    for flag in (*flags, "unavailable-partitions"):
        tool_parser.add_argument(f"--{flag}", action="store_true")
    return tool_parser


def _list(client: Client, options: argparse.Namespace) -> None:
    for topic in _chosen(client, options, must_exist=False):
        print(topic.name)


def _chosen(client: Client, options: argparse.Namespace, *, must_exist: bool) -> list[TopicResult]:
    """Return the topics that match --topic, or all topics; _RefusedError if no topic matches."""
    found = sorted(client.metadata(None).topics, key=lambda topic: topic.name or "")
    if options.exclude_internal:
        found = [topic for topic in found if not topic.is_internal]
    if options.topic_id is not None:
        found = [topic for topic in found if id_text(topic.topic_id) == options.topic_id]
        missing = f"TopicId '{options.topic_id}'"
    else:
        pattern = _pattern(options.topic)
        found = [topic for topic in found if pattern.fullmatch(topic.name or "")]
        missing = f"Topic '{options.topic}'"
    if must_exist and not found and not options.if_exists and (options.topic or options.topic_id):
        raise _RefusedError(f"{missing} does not exist as expected")
    return found


def _pattern(topic: str | None) -> re.Pattern[str]:
    try:
        return include_list(".*" if topic is None else topic)
    except UsageError as error:
        raise _RefusedError(str(error)) from error


def _describe(client: Client, options: argparse.Namespace) -> None:
    chosen = _chosen(client, options, must_exist=True)
    configs = admin.describe_configs(client, [topic.name or "" for topic in chosen]) if chosen else {}
    leaders = admin.describe_partitions(client, [topic.name or "" for topic in chosen])
    only_some = options.under_replicated_partitions or options.unavailable_partitions
    for topic in chosen:
        own = [config for config in configs[topic.name or ""] if admin.SOURCES.get(config.config_source) != "default"]
        partitions = sorted(topic.partitions, key=lambda partition: partition.partition_index)
        if options.topics_with_overrides and not own:
            continue
        if not only_some:
            factor = max((len(partition.replica_nodes) for partition in partitions), default=0)
            overrides = ",".join(f"{config.name}={config.value}" for config in own)
            print(
                f"Topic: {topic.name}\tTopicId: {id_text(topic.topic_id)}\tPartitionCount: {len(partitions)}"
                f"\tReplicationFactor: {factor}\tConfigs: {overrides}"
            )
        if not options.topics_with_overrides:
            for partition in partitions:
                if not only_some or _is_shown(partition, options):
                    print(_partition_line(topic.name or "", partition, leaders.get((topic.name or "", partition.partition_index))))


def _is_shown(partition: PartitionResult, options: argparse.Namespace) -> bool:
    under_replicated = len(partition.isr_nodes) < len(partition.replica_nodes)
    return bool((options.under_replicated_partitions and under_replicated) or (options.unavailable_partitions and partition.leader_id < 0))


def _partition_line(name: str, partition: PartitionResult, leaders: PartitionLeaders | None) -> str:
    leader = partition.leader_id if partition.leader_id >= 0 else "none"
    replicas, in_sync = (",".join(map(str, nodes)) for nodes in (partition.replica_nodes, partition.isr_nodes))
    eligible, last_known = ("N/A", "N/A") if leaders is None else (_nodes(leaders.eligible_leader_replicas), _nodes(leaders.last_known_elr))
    state = f"Leader: {leader}\tReplicas: {replicas}\tIsr: {in_sync}\tElr: {eligible}\tLastKnownElr: {last_known}"
    return f"\tTopic: {name}\tPartition: {partition.partition_index}\t{state}"


def _nodes(ids: Sequence[int] | None) -> str:
    return "N/A" if ids is None else ",".join(map(str, ids))


def _create(client: Client, options: argparse.Namespace) -> None:
    if "." in options.topic or "_" in options.topic:
        print(_METRICS)
    if options.replication_factor is not None and not 1 <= options.replication_factor <= _REPLICAS_MAX:
        raise _RefusedError(f"The replication factor must be between 1 and {_REPLICAS_MAX} inclusive")
    if options.partitions is not None and options.partitions < 1:
        raise _RefusedError("The partitions must be greater than 0")
    created = admin.create_topics(
        client,
        [options.topic],
        partition_count=options.partitions or admin.BROKER_DEFAULT,
        replication_factor=options.replication_factor or admin.BROKER_DEFAULT,
        configs=properties(options.config),
    )[options.topic]
    if isinstance(created, TopicAlreadyExists) and options.if_not_exists:
        return
    if isinstance(created, KafkaError):
        raise created
    print(f"Created topic {options.topic}.")


def _alter(client: Client, options: argparse.Namespace) -> None:
    if options.config:
        raise UsageError('Option combination "[alter],[config]" can\'t be used: kafka-configs alters configs')
    if options.partitions is None:
        raise UsageError('Missing required argument "[partitions]"')
    for topic in _chosen(client, options, must_exist=True):
        admin.create_partitions(client, topic.name or "", options.partitions)


def _delete(client: Client, options: argparse.Namespace) -> None:
    chosen = [topic.name or "" for topic in _chosen(client, options, must_exist=True)]
    for error in admin.delete_topics(client, chosen).values() if chosen else ():
        if error is not None:
            raise error
