"""The dynamic configs of a cluster: of topics, brokers, groups and client metrics.

All are stored in the metadata log. A change is in force when the call that makes it returns. Groups and topics follow the brokers' configs
where they have no override. A group need not exist to have configs. Telemetry reads those of client metrics from the metadata image.

Configs of one broker, by its id, override those of all brokers. A stored config that is not valid stays stored when the broker starts, and
has no effect until a client changes it. Each simulated broker has its own configs, for what it reports and for its requests and
connections. Logs, groups and transactions follow those of the configured broker.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NoReturn

from minibroker.cluster.configs.topic_config import check_overrides
from minibroker.cluster.directories.partition_logs import PartitionLogs
from minibroker.cluster.metadata.metadata_image import ALL_BROKERS, BROKER_RESOURCE, CLIENT_METRICS_RESOURCE, GROUP_RESOURCE, TOPIC_RESOURCE
from minibroker.cluster.metadata.metadata_store import MetadataStore
from minibroker.cluster.nodes import Node
from minibroker.config.broker_config import BrokerConfig
from minibroker.config.listeners import Listener
from minibroker.config.topic_properties import SCHEMA_PROPERTIES
from minibroker.errors import InvalidConfig, UnknownTopicOrPartition

if TYPE_CHECKING:
    from minibroker.cluster.configs.group_config import GroupConfig, GroupConfigs

_CLEANER_THREADS = "log.cleaner.threads"
_THREADS = (
    "background.threads",
    "num.io.threads",
    "num.network.threads",
    "num.recovery.threads.per.data.dir",
    "num.replica.fetchers",
    _CLEANER_THREADS,
)


class BrokerConfigs:
    """The BrokerConfig of each broker that clients see."""

    def __init__(self, config: BrokerConfig, store: MetadataStore) -> None:
        self._store = store
        self._of = {config.node_id: config}  #: by node id, the configured one first

    def of(self, node_id: int) -> BrokerConfig:
        """Return the configs of one broker, or raise KeyError."""
        return self._of[node_id]

    def load(self) -> None:
        """Put stored configs in force, except invalid ones."""
        for config in self._of.values():
            config.set_stored(*self._stored(config))

    def add(self, node: Node) -> None:
        """Add a broker with the static configs of the configured one, except its id, rack and listeners."""
        first = next(iter(self._of.values()))
        own = {"node.id": str(node.node_id), "broker.id": str(node.node_id), "listeners": _text(node.configured)}
        own |= {"broker.rack": node.rack} if node.rack is not None else {}
        own |= {"advertised.listeners": _text(node.configured_advertised)} if node.configured_advertised else {}
        config = BrokerConfig({**first.unknown, **first.static, **own})  # properties of security are among the unknown ones
        if any(self._stored(config)):  # saves time: each reset of a broker under test creates the others again
            config.set_stored(*self._stored(config))
        self._of[node.node_id] = config

    def _stored(self, config: BrokerConfig) -> tuple[Mapping[str, str], Mapping[str, str]]:
        """Return the stored overrides for all brokers, and those for this one."""
        image = self._store.image
        return image.config_of(BROKER_RESOURCE, ALL_BROKERS), image.config_of(BROKER_RESOURCE, str(config.node_id))

    def alter(self, name: str, overrides: Mapping[str, str], *, validate_only: bool = False) -> bool:
        """Replace the dynamic configs of a broker (its id) or of all brokers (""). The caller checks which of them may change.

        Returns:
            Whether something was changed: not with `validate_only`.

        Raises:
            InvalidConfig: A value is not valid. Nothing was changed.
            KafkaStorageError: The metadata log cannot be written. Nothing was changed.
        """
        configs = list(self._of.values()) if name == ALL_BROKERS else [self._of[int(name)]]
        before = [(config, config.dynamic_default, config.dynamic_broker) for config in configs]
        is_done = False
        try:
            for config in configs:
                threads = _thread_counts(config)
                self._set(config, name, overrides)
                _check_thread_counts(threads, _thread_counts(config))
                _check_listeners(config)
            if not validate_only:
                self._store.commit_config(BROKER_RESOURCE, name, overrides)
                is_done = True
        finally:
            if not is_done:
                for config, for_all, for_this in before:
                    config.set_dynamic(for_all, for_this)
        if is_done:
            for config in configs:
                for listener in config.reconfigurables.values():
                    listener.reconfigure(config.security_texts)
        return is_done

    def _set(self, config: BrokerConfig, name: str, overrides: Mapping[str, str]) -> None:
        in_force = config.dynamic_default if name == ALL_BROKERS else config.dynamic_broker
        stored = self._store.image.config_of(BROKER_RESOURCE, name)
        changed = {key: text for key, text in overrides.items() if key in in_force or stored.get(key) != text}
        if name == ALL_BROKERS:
            config.set_dynamic(changed, config.dynamic_broker)
        else:
            config.set_dynamic(config.dynamic_default, changed)


def _text(listeners: Iterable[Listener]) -> str:
    return ",".join(map(str, listeners))


def _thread_counts(config: BrokerConfig) -> dict[str, int]:
    counts = {name: config.value(name) for name in _THREADS}
    return {name: count for name, count in counts.items() if isinstance(count, int)}


def _check_thread_counts(before: Mapping[str, int], after: Mapping[str, int]) -> None:
    """Raise InvalidConfig if a number of threads is more than doubled or halved by one change (Kafka's DynamicThreadPool)."""
    for name, count in after.items():
        current = before[name]
        if name == _CLEANER_THREADS and count < 1:
            refuse_dynamic("Log cleaner threads should be at least 1")
        if current // 2 <= count <= current * 2:
            continue
        if name == _CLEANER_THREADS:
            way = "increased to more than double" if count > current else "reduced to less than half"
            refuse_dynamic(f"Log cleaner threads cannot be {way} the current value {current}")
        limit = "should not be greater than double" if count > current else "should be at least half"
        refuse_dynamic(f"Dynamic thread count update validation failed for {name}={count}, value {limit} the current value {current}")


def _check_listeners(config: BrokerConfig) -> None:
    """Raise InvalidConfig if a listener cannot use its changed properties (Kafka's SslFactory.validateReconfiguration)."""
    for listener in config.reconfigurables.values():
        try:
            listener.validate(config.security_texts)
        except InvalidConfig as error:
            refuse_dynamic(f"Validation of dynamic config update of SSLFactory failed: {error}")


def refuse_dynamic(problem: str) -> NoReturn:
    """Raise InvalidConfig with the message that Kafka makes of a ConfigException in a ConfigException."""
    exception = f"org.apache.kafka.common.config.ConfigException: {problem}"
    raise InvalidConfig(f"Invalid value {exception} for configuration Invalid dynamic configuration")


class ClusterConfigs:
    """Values in force, and changes of the overrides. The callers of changes check which configs may be altered (`config_changes.py`)."""

    def __init__(self, config: BrokerConfig, store: MetadataStore, logs: PartitionLogs) -> None:
        self._config = config
        self._store = store
        self._logs = logs
        self._brokers = BrokerConfigs(config, store)
        self._known_groups: GroupConfigs | None = None
        self.client_metrics_version = 0  #: grows with each change of configs of client metrics

    def load_brokers(self) -> None:
        """Put the stored configs of all brokers in force."""
        self._brokers.load()

    def add_broker(self, node: Node) -> None:
        """Add a broker that clients see besides the configured one."""
        self._brokers.add(node)

    def of_broker(self, node_id: int) -> BrokerConfig:
        """Return the configs of a broker that clients see, or raise KeyError."""
        return self._brokers.of(node_id)

    def of_group(self, group_id: str) -> GroupConfig:
        """Return the values in force for a group: its own within the broker's limits, else the broker's. They change; do not keep them."""
        return self._groups.of(group_id)

    def alter_topic(self, name: str, overrides: Mapping[str, str | None], *, validate_only: bool = False) -> None:
        """Replace a topic's overrides.

        Raises:
            InvalidConfig: A value is not valid.
            UnknownTopicOrPartition: There is no such topic.
        """
        topic = self._store.image.topics.get(name)
        if topic is None:
            raise UnknownTopicOrPartition
        # Configs of schema validation that a topic has already may stay, so that its others can be changed.
        is_known = self._config.has_schema_registry or not SCHEMA_PROPERTIES.keys() & (overrides.keys() - topic.config.keys())
        checked = check_overrides(overrides, has_registry=is_known)
        if not validate_only:
            self._store.commit_config(TOPIC_RESOURCE, name, checked)
            self._logs.configure([topic])
            # Also without a change: a second retention.ms=1 deletes the records written since the first.
            self._logs.maintenance.check(topic.partitions)

    def alter_broker(self, name: str, overrides: Mapping[str, str], *, validate_only: bool = False) -> None:
        """Replace the dynamic configs of a broker (its id) or of all brokers (""), or raise InvalidConfig."""
        if self._brokers.alter(name, overrides, validate_only=validate_only):
            if self._known_groups is not None:
                self._known_groups.forget()
            self._logs.maintenance.check(self._logs.configure_all())

    def alter_group(self, group_id: str, overrides: Mapping[str, str], *, validate_only: bool = False) -> None:
        """Replace a group's overrides, or raise InvalidConfig."""
        checked = self._groups.check(overrides)
        if not validate_only:
            self._store.commit_config(GROUP_RESOURCE, group_id, checked)
            self._groups.forget(group_id)

    def alter_client_metrics(self, name: str, overrides: Mapping[str, str], *, validate_only: bool = False) -> None:
        """Replace checked configs of client metrics (`check_client_metrics`)."""
        if not validate_only:
            self._store.commit_config(CLIENT_METRICS_RESOURCE, name, overrides)
            self.client_metrics_version += 1

    @property
    def _groups(self) -> GroupConfigs:
        if self._known_groups is None:
            from minibroker.cluster.configs.group_config import GroupConfigs  # noqa: PLC0415  a start has no group

            self._known_groups = GroupConfigs(self._config, lambda group: self._store.image.config_of(GROUP_RESOURCE, group))
        return self._known_groups
