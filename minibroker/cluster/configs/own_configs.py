"""Configs that groups and client metrics have of their own: stored in the metadata log, as those of topics and brokers are.

A group need not be there to have configs; client metrics are kept and told, and nothing more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from minibroker.cluster.metadata.metadata_image import CLIENT_METRICS_RESOURCE, GROUP_RESOURCE
from minibroker.cluster.metadata.metadata_store import MetadataStore
from minibroker.config.broker_config import BrokerConfig

if TYPE_CHECKING:
    from minibroker.cluster.configs.group_config import GroupConfig, GroupConfigs


class OwnConfigs:
    """Of one cluster. A start imports nothing for it."""

    def __init__(self, config: BrokerConfig, store: MetadataStore) -> None:
        self._config = config
        self._store = store
        self._groups: GroupConfigs | None = None  #: made when the first is asked for

    def of_group(self, group_id: str) -> GroupConfig:
        """What is in force for a group: its own within the broker's limits, else the broker's."""
        if self._groups is None:
            from minibroker.cluster.configs.group_config import GroupConfigs  # noqa: PLC0415  a start does without

            self._groups = GroupConfigs(self._config, lambda group: self._store.image.config_of(GROUP_RESOURCE, group))
        return self._groups.of(group_id)

    def alter_group(self, group_id: str, overrides: Mapping[str, str], *, validate_only: bool = False) -> None:
        """Replace what a group has for itself; InvalidConfig."""
        from minibroker.cluster.configs.group_config import check_group_configs  # noqa: PLC0415  as above

        checked = check_group_configs(self._config, overrides)
        if not validate_only:
            self._store.commit_config(GROUP_RESOURCE, group_id, checked)
            self.forget(group_id)

    def alter_client_metrics(self, name: str, overrides: Mapping[str, str], *, validate_only: bool = False) -> None:
        """Replace configs of client metrics; InvalidConfig, InvalidRequest."""
        from minibroker.config.client_metrics_properties import check_client_metrics  # noqa: PLC0415  as above

        checked = check_client_metrics(overrides)
        if not validate_only:
            self._store.commit_config(CLIENT_METRICS_RESOURCE, name, checked)

    def forget(self, group_id: str | None = None) -> None:
        """What was in force is so no more: of one group, or, where the broker's configs were altered, of all."""
        if self._groups is not None:
            self._groups.forget(group_id)
