"""Check and apply AlterConfigs and IncrementalAlterConfigs, for topics, groups, client metrics, loggers and the broker of the request.

Checks and messages are those of Apache Kafka 4.3.1 (ConfigAdminManager, ConfigurationControlManager, DynamicBrokerConfig). Configs of a
broker whose names Kafka does not know are stored for plugins. So are configs that have no effect here, for example those of TLS and SASL.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from minibroker.cluster.cluster import Cluster
from minibroker.cluster.configs.broker_loggers import change_levels
from minibroker.cluster.configs.cluster_configs import refuse_dynamic
from minibroker.cluster.configs.config_entries import topic_entries
from minibroker.cluster.metadata.features import ELIGIBLE_LEADERS_FEATURE
from minibroker.cluster.metadata.metadata_image import (
    ALL_BROKERS,
    BROKER_LOGGER_RESOURCE,
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    IN_SYNC_MIN,
    TOPIC_RESOURCE,
)
from minibroker.cluster.topic_rules import check_name
from minibroker.config.broker_config import BrokerConfig
from minibroker.config.broker_properties import BROKER_PROPERTIES
from minibroker.config.client_metrics_properties import check_client_metrics
from minibroker.config.definition import LIST, TYPE_NAMES
from minibroker.config.kafka_table import ONLY_OF_A_LISTENER, check_value, is_fixed, is_per_broker, property_of
from minibroker.config.request_limits import CONFIGS_OF_RESOURCE_MAX
from minibroker.config.topic_properties import TOPIC_PROPERTIES
from minibroker.errors import InvalidConfig, InvalidRequest, KafkaError, UnknownTopicOrPartition

SET, DELETE, APPEND, SUBTRACT = range(4)
_REPORTERS = "metric.reporters"
#: Clients must not make the broker read a file or send a request to a server of their choice
#: (CVE-2025-27817): it is fixed, with every prefix.
_KEY_SET: Final = "sasl.oauthbearer.jwks.endpoint.url"
_CORDONED = "cordoned.log.dirs"


class ConfigChange(NamedTuple):
    """One operation on one config."""

    name: str
    operation: int
    value: str | None


def check_resource(cluster: Cluster, node_id: int, resource_type: int, name: str) -> None:
    """Check that a resource can be altered at this node.

    Raises:
        InvalidRequest: There is no such kind of resource, or the name is not one of that kind.
        InvalidTopicException: No topic can have that name.
        UnknownTopicOrPartition: There is no topic of that name.
    """
    if resource_type == TOPIC_RESOURCE:
        if not name:
            raise InvalidRequest("Default topic resources are not allowed.")
        check_name(name)
        if name not in cluster.topics:
            raise UnknownTopicOrPartition(f"The topic '{name}' does not exist.")
    elif resource_type == BROKER_RESOURCE:
        if name != ALL_BROKERS:
            check_node_id(node_id, name)
    elif resource_type == GROUP_RESOURCE:
        if not name:
            raise InvalidRequest("Default group resources are not allowed.")
    elif resource_type == CLIENT_METRICS_RESOURCE:
        if not name:
            raise InvalidRequest("Subscription name can't be empty")
    else:
        raise InvalidRequest(f"Unknown resource type {resource_type}")


def check_logger_node_id(node_id: int, name: str) -> None:
    """Raise InvalidRequest if the loggers are not those of the node that received the request."""
    if _number(name) != node_id:
        raise InvalidRequest(f"Unexpected node id. Expected {node_id}, but received {_number(name)}")


def check_node_id(node_id: int, name: str) -> None:
    """Raise InvalidRequest if a broker resource is not the node that received the request."""
    if _number(name) != node_id:
        raise InvalidRequest(f"Unexpected broker id, expected {node_id}, but received {name}")


def _number(name: str) -> int:
    try:
        return int(name)
    except ValueError:
        raise InvalidRequest(f"Node id must be an integer, but it is: {name}") from None


def check_config_count(configs: Sequence[object]) -> None:
    """Raise InvalidRequest for more configs of one resource than any resource has."""
    if len(configs) > CONFIGS_OF_RESOURCE_MAX:
        raise InvalidRequest(f"A resource may have {CONFIGS_OF_RESOURCE_MAX} configs at most.")


def alter_each(
    cluster: Cluster, requested: Sequence[tuple[int, str, Sequence[ConfigChange]]], *, node_id: int, is_full: bool, validate_only: bool
) -> list[KafkaError | None]:
    """Apply the changes of each resource, all of them or none. A resource that is named twice is rejected both times.

    Args:
        cluster: The cluster.
        requested: Resource type, name and changes of each resource.
        node_id: The node that received the request.
        is_full: Replace all overrides of a resource, as AlterConfigs does.
        validate_only: Only check.

    Returns:
        For each resource the error that rejected it, or None.
    """
    times = Counter((resource_type, name) for resource_type, name, _ in requested)
    refusals: list[KafkaError | None] = []
    for resource_type, name, changes in requested:
        try:
            if times[resource_type, name] > 1:
                raise InvalidRequest("Each resource must appear at most once.")
            if resource_type == BROKER_LOGGER_RESOURCE and not is_full:
                _alter_loggers(node_id, name, changes, validate_only=validate_only)
            else:
                check_resource(cluster, node_id, resource_type, name)
                _alter(cluster, resource_type, name, changes, is_full=is_full, validate_only=validate_only)
        except KafkaError as error:
            refusals.append(error)
        else:
            refusals.append(None)
    return refusals


def _alter_loggers(node_id: int, name: str, changes: Sequence[ConfigChange], *, validate_only: bool) -> None:
    _check_changes(changes)
    check_logger_node_id(node_id, name)
    change_levels(changes, validate_only=validate_only)


def _alter(cluster: Cluster, resource_type: int, name: str, changes: Sequence[ConfigChange], *, is_full: bool, validate_only: bool) -> None:
    _check_changes(changes)
    if resource_type == BROKER_RESOURCE:
        name = name and str(_number(name))
    before = {} if is_full else dict(cluster.image.config_of(resource_type, name))
    config = cluster.configs.of_broker(int(name)) if resource_type == BROKER_RESOURCE and name else cluster.config
    after = _apply(config, resource_type, before, changes)
    if resource_type == BROKER_RESOURCE:
        _check_broker(config, name, {change.name: after[change.name] for change in changes if change.operation != DELETE})
        kept = [IN_SYNC_MIN] if is_full and IN_SYNC_MIN in cluster.image.config_of(resource_type, name) else []
        _check_replicas_in_sync(cluster, name, [*changes, *(ConfigChange(each, DELETE, None) for each in kept if each not in after)])
    if resource_type == TOPIC_RESOURCE:
        cluster.configs.alter_topic(name, after, validate_only=validate_only)
    elif resource_type == GROUP_RESOURCE:
        cluster.configs.alter_group(name, after, validate_only=validate_only)
    elif resource_type == CLIENT_METRICS_RESOURCE:
        cluster.configs.alter_client_metrics(name, check_client_metrics(after), validate_only=validate_only)
    else:
        _alter_broker(cluster, name, after, validate_only=validate_only)


def _alter_broker(cluster: Cluster, name: str, after: Mapping[str, str], *, validate_only: bool) -> None:
    try:
        cluster.configs.alter_broker(name, after, validate_only=validate_only)
    except InvalidConfig as error:
        raise InvalidRequest(str(error)) from error


def _check_changes(changes: Sequence[ConfigChange]) -> None:
    names = [change.name for change in changes]
    if len(set(names)) < len(names):
        raise InvalidRequest("Error due to duplicate config keys")
    missing = [change.name for change in changes if change.operation != DELETE and change.value is None]
    if missing:
        raise InvalidRequest(f"Null value not supported for : {','.join(missing)}")
    if any(not SET <= change.operation <= SUBTRACT for change in changes):
        raise InvalidRequest("Unknown config operation: 0 sets, 1 deletes, 2 appends, 3 subtracts")


def _check_broker(config: BrokerConfig, name: str, values: Mapping[str, str]) -> None:
    try:
        _check_broker_values(config, name, values)
    except InvalidConfig as error:
        raise InvalidRequest(str(error)) from error


def _check_broker_values(config: BrokerConfig, broker: str, values: Mapping[str, str]) -> None:
    """Raise InvalidConfig for a config of a broker (its id) or of all brokers ("") that is fixed, invalid, or not for all brokers."""
    _refuse("Cannot update these configs dynamically", [name for name in values if is_fixed(name) or name.endswith(_KEY_SET)])
    _refuse(
        "These security configs can be dynamically updated only per-listener using the listener prefix",
        [name for name in values if name in ONLY_OF_A_LISTENER],
    )
    for name, text in values.items():
        check_value(name, text)
    if broker == ALL_BROKERS:
        _refuse("Cannot update these configs at default cluster level, broker id must be specified", filter(is_per_broker, values))
    if _CORDONED in values:
        _check_cordoned(config, values[_CORDONED])
    if _REPORTERS in values and values[_REPORTERS].strip() not in {"", property_of(_REPORTERS).default}:
        refuse_dynamic(
            f"Validation of dynamic config update of Set({_REPORTERS}) failed with class class kafka.server.DynamicMetricsReporters"
        )


def _check_cordoned(config: BrokerConfig, text: str) -> None:
    missing = [each for each in (item.strip() for item in text.split(",")) if each and each not in config.log_dirs]
    if missing:
        raise InvalidConfig(
            f"requirement failed: All entries in {_CORDONED} must be present in log.dirs or log.dir. Missing entries : {', '.join(missing)}"
        )


def _refuse(problem: str, names: Sequence[str] | filter[str]) -> None:
    if found := list(names):
        raise InvalidConfig(f"{problem}: [{', '.join(found)}]")


def _check_replicas_in_sync(cluster: Cluster, name: str, changes: Sequence[ConfigChange]) -> None:
    """Raise InvalidConfig for a change of min.insync.replicas that eligible leader replicas (KIP-966) forbid: the cluster has one value."""
    operations = {change.operation for change in changes if change.name == IN_SYNC_MIN}
    if not operations or not cluster.feature_level(ELIGIBLE_LEADERS_FEATURE):
        return
    if name != ALL_BROKERS:
        raise InvalidConfig(f"Broker-level {IN_SYNC_MIN} cannot be altered while ELR is enabled.")
    if DELETE in operations:
        raise InvalidConfig(f"Cluster-level {IN_SYNC_MIN} cannot be removed while ELR is enabled.")


def _apply(config: BrokerConfig, resource_type: int, overrides: dict[str, str], changes: Sequence[ConfigChange]) -> dict[str, str]:
    for name, operation, value in changes:
        if operation == DELETE:
            overrides.pop(name, None)
            continue
        if operation == SET:
            overrides[name] = value or ""
            continue
        if not _is_list(resource_type, name):
            raise InvalidConfig(_not_a_list(resource_type, operation, name))
        items = _current_items(config, resource_type, overrides, name)
        requested = [item for item in (value or "").split(",") if item]
        if operation == APPEND:
            items += [item for item in requested if item not in items]
        else:
            items = [item for item in items if item not in requested]
        overrides[name] = ",".join(items)
    return overrides


def _is_list(resource_type: int, name: str) -> bool:
    if resource_type == TOPIC_RESOURCE:
        return name in TOPIC_PROPERTIES and TOPIC_PROPERTIES[name].type == LIST
    return resource_type == BROKER_RESOURCE and property_of(name).type == LIST


def _not_a_list(resource_type: int, operation: int, name: str) -> str:
    word = "APPEND" if operation == APPEND else "SUBTRACT"
    if resource_type != BROKER_RESOURCE:
        return f"Can't {word} to key {name} because its type is not LIST."
    if property_of(name).type not in TYPE_NAMES:
        return f"Unknown config name: {name}"
    return f"Config value {word.lower()} is not allowed for config key: {name}"


def _current_items(config: BrokerConfig, resource_type: int, overrides: Mapping[str, str], name: str) -> list[str]:
    """Return a list's items before the change: the override, else the value in force without one."""
    if name in overrides:
        text: str | None = overrides[name]
    elif resource_type == TOPIC_RESOURCE:
        text = next((entry.value for entry in topic_entries(config, {}) if entry.prop.name == name), None)
    else:
        text = config.text(name) if name in BROKER_PROPERTIES else property_of(name).default
    return [item.strip() for item in (text or "").split(",") if item.strip()]
