"""Create, delete, enlarge and configure topics, and describe log directories. Each topic and each broker has its own result."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from minibroker.client.client import Client
from minibroker.client.errors import TopicReplaced, UnsupportedByBroker, check, refusal
from minibroker.client.transport import Deadline
from minibroker.errors import BrokerNotAvailable, KafkaError
from minibroker.schemas import (
    k03_metadata,
    k19_create_topics,
    k20_delete_topics,
    k32_describe_configs,
    k35_describe_log_dirs,
    k37_create_partitions,
    k44_incremental_alter_configs,
    k75_describe_topic_partitions,
)
from minibroker.storage.directory_files import format_uuid
from minibroker.wire.schema import NIL_UUID

TOPIC = 2  #: ConfigResource.Type
SET, DELETE = 0, 1  #: AlterConfigOp.OpType
BROKER_DEFAULT = -1  #: the broker chooses the partitions or the replication factor

SOURCES = {
    1: "topic",
    2: "broker",
    3: "cluster",
    4: "file",
    5: "default",
    6: "logger",
    7: "client-metrics",
    8: "group",
}


def create_topics(
    client: Client,
    names: Sequence[str],
    *,
    partition_count: int = BROKER_DEFAULT,
    replication_factor: int = BROKER_DEFAULT,
    configs: Mapping[str, str] | None = None,
    validate_only: bool = False,
) -> dict[str, k19_create_topics.TopicResult | KafkaError]:
    """Create topics with the same settings.

    Args:
        client: a client of the cluster.
        names: names of the topics.
        partition_count: partitions of each topic; -1: the default of the broker.
        replication_factor: replicas of each partition; -1: the default of the broker.
        configs: configs by name.
        validate_only: check the request without creating a topic.

    Returns:
        The result or the error of each topic, by name.
    """
    deadline = client.deadline()
    config_entries = [k19_create_topics.Config(name=name, value=value) for name, value in (configs or {}).items()]
    request = k19_create_topics.Request(
        topics=[
            k19_create_topics.Topic(
                name=name, num_partitions=partition_count, replication_factor=replication_factor, assignments=[], configs=config_entries
            )
            for name in names
        ],
        timeout_ms=deadline.remaining_ms(60_000),
        validate_only=validate_only,
    )
    response: k19_create_topics.Response = client.ask_controller(k19_create_topics, request, deadline)
    return {topic.name: refusal(topic.error_code, f"topic {topic.name}", topic.error_message) or topic for topic in response.topics}


def delete_topics(client: Client, names: Sequence[str]) -> dict[str, KafkaError | None]:
    """Delete topics by name.

    Args:
        client: a client of the cluster.
        names: names of the topics.

    Returns:
        The error of each topic, or None, by name.
    """
    deadline = client.deadline()
    request = k20_delete_topics.Request(
        topics=[k20_delete_topics.Topic(name=name, topic_id=NIL_UUID) for name in names],
        topic_names=list(names),
        timeout_ms=deadline.remaining_ms(60_000),
    )
    response: k20_delete_topics.Response = client.ask_controller(k20_delete_topics, request, deadline)
    return {topic.name or "": refusal(topic.error_code, f"topic {topic.name}", topic.error_message) for topic in response.responses}


def create_partitions(client: Client, name: str, partition_count: int) -> None:
    """Add partitions to a topic.

    Args:
        client: a client of the cluster.
        name: the name of the topic.
        partition_count: the new number of partitions, which must be higher than the current one.

    Raises:
        KafkaError: the broker rejects the change.
    """
    deadline = client.deadline()
    request = k37_create_partitions.Request(
        topics=[k37_create_partitions.Topic(name=name, count=partition_count, assignments=None)],
        timeout_ms=deadline.remaining_ms(60_000),
        validate_only=False,
    )
    response: k37_create_partitions.Response = client.ask_controller(k37_create_partitions, request, deadline)
    for result in response.results:
        check(result.error_code, f"topic {name}", result.error_message)


def alter_configs(client: Client, name: str, changes: Mapping[str, str | None]) -> None:
    """Change configs of a topic.

    Args:
        client: a client of the cluster.
        name: the name of the topic.
        changes: new values by name; None resets a config to its default.

    Raises:
        KafkaError: the broker rejects the change.
    """
    deadline = client.deadline()
    configs = [
        k44_incremental_alter_configs.Config(name=key, config_operation=DELETE if value is None else SET, value=value)
        for key, value in changes.items()
    ]
    resource = k44_incremental_alter_configs.Resource(resource_type=TOPIC, resource_name=name, configs=configs)
    request = k44_incremental_alter_configs.Request(resources=[resource], validate_only=False)
    response: k44_incremental_alter_configs.Response = client.ask_controller(k44_incremental_alter_configs, request, deadline)
    for result in response.responses:
        check(result.error_code, f"topic {name}", result.error_message)


def describe_configs(client: Client, names: Sequence[str]) -> dict[str, list[k32_describe_configs.Config]]:
    """Return every config of each topic.

    Args:
        client: a client of the cluster.
        names: names of the topics.

    Returns:
        The configs of each topic, by its name.

    Raises:
        KafkaError: a topic does not exist, or cannot be described.
    """
    if not names:
        return {}
    resources = [k32_describe_configs.Resource(resource_type=TOPIC, resource_name=name, configuration_keys=None) for name in names]
    response: k32_describe_configs.Response = client.ask(k32_describe_configs, k32_describe_configs.Request(resources=resources))
    for result in response.results:
        check(result.error_code, f"topic {result.resource_name}", result.error_message)
    return {result.resource_name: list(result.configs) for result in response.results}


def describe_partitions(client: Client, names: Sequence[str]) -> dict[tuple[str, int], k75_describe_topic_partitions.PartitionResult]:
    """Return partitions with their eligible leaders (KIP-966).

    Args:
        client: a client of the cluster.
        names: names of the topics.

    Returns:
        Partitions by topic and number; empty if the broker does not serve DescribeTopicPartitions.
    """
    topics, cursor = [k75_describe_topic_partitions.Topic(name=name) for name in sorted(names)], None
    found: dict[tuple[str, int], k75_describe_topic_partitions.PartitionResult] = {}
    while topics:
        request = k75_describe_topic_partitions.Request(topics=topics, cursor=cursor)
        try:
            page: k75_describe_topic_partitions.Response = client.ask(k75_describe_topic_partitions, request)
        except UnsupportedByBroker:
            return {}
        found |= {(topic.name or "", each.partition_index): each for topic in page.topics for each in topic.partitions}
        cursor = page.next_cursor
        topics = [] if cursor is None else [topic for topic in topics if topic.name >= cursor.topic_name]
    return found


def topic_id_of(topic: k03_metadata.TopicResult) -> str:
    """Return the topic id in the 22 characters of Kafka's tools; "" if the broker has no topic ids."""
    return format_uuid(topic.topic_id) if topic.topic_id.int else ""


def check_topic_id(topic: k03_metadata.TopicResult, expected: str, meanwhile: str) -> None:
    """Check that a topic is still the one with the expected id.

    Args:
        topic: the current metadata of the topic.
        expected: its id earlier; "": accept any.
        meanwhile: the end of the message, such as "it was read".

    Raises:
        TopicReplaced: the id has changed: the topic was deleted and created again.
    """
    found = topic_id_of(topic)
    if expected and found and found != expected:
        raise TopicReplaced(f"topic {topic.name} was deleted and created again while {meanwhile}")


def describe_log_dirs(client: Client, node_ids: Collection[int] = ()) -> dict[int, list[k35_describe_log_dirs.LogDirResult] | KafkaError]:
    """Return the log directories of brokers.

    Args:
        client: a client of the cluster.
        node_ids: ids of brokers; none: all brokers.

    Returns:
        The directories or the error of each broker, by node id. Each directory has its own error code, which is not checked.
    """
    deadline = client.deadline()
    client.metadata([], deadline)
    found: dict[int, list[k35_describe_log_dirs.LogDirResult] | KafkaError] = {}
    for node_id in sorted(set(node_ids) or client.brokers):
        if node_id not in client.brokers:
            found[node_id] = BrokerNotAvailable(f"broker {node_id} is not in the cluster's metadata: it may be down")
            continue
        try:
            answer = client.retrying(lambda node_id=node_id: _of_broker(client, node_id, deadline), deadline)  # type: ignore[misc]  # mypy does not infer a lambda with a default
            found[node_id] = sorted(answer.results, key=lambda each: each.log_dir)
        except KafkaError as error:
            found[node_id] = error
    return found


def _of_broker(client: Client, node_id: int, deadline: Deadline) -> k35_describe_log_dirs.Response:
    request = k35_describe_log_dirs.Request(topics=None)
    response: k35_describe_log_dirs.Response = client.to_node(node_id, deadline).ask(k35_describe_log_dirs, request, deadline)
    check(response.error_code, f"log directories of broker {node_id}")
    return response
