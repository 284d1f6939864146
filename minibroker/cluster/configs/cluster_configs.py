"""The dynamic configs of a cluster: of topics, brokers, groups and client metrics.

All are stored in the metadata log. A change is in force when the call that makes it returns. Groups and topics follow the brokers' configs
where they have no override. A group need not exist to have configs. Telemetry reads those of client metrics from the metadata image.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from minibroker.cluster.configs.broker_configs import BrokerConfigs
from minibroker.cluster.configs.topic_config import check_overrides
from minibroker.cluster.directories.partition_logs import PartitionLogs
from minibroker.cluster.metadata.metadata_image import CLIENT_METRICS_RESOURCE, GROUP_RESOURCE, TOPIC_RESOURCE
from minibroker.cluster.metadata.metadata_store import MetadataStore
from minibroker.cluster.nodes import Node
from minibroker.config.broker_config import BrokerConfig
from minibroker.errors import UnknownTopicOrPartition

if TYPE_CHECKING:
    from minibroker.cluster.configs.group_config import GroupConfig, GroupConfigs


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
        checked = check_overrides(overrides)
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
