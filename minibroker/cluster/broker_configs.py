"""The dynamic configs of brokers: in the metadata log and in force together.

Those of this broker, by its id, go before those of all brokers. What a start found stored and could not put in force, for it is not valid
here, stays stored and out of force until somebody says it otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping

from minibroker.cluster.metadata_image import ALL_BROKERS, BROKER_RESOURCE
from minibroker.cluster.metadata_store import MetadataStore
from minibroker.config.broker_config import BrokerConfig
from minibroker.errors import KafkaError


class BrokerConfigs:
    """Of one cluster: what is said to `config` from behind the start."""

    def __init__(self, config: BrokerConfig, store: MetadataStore) -> None:
        self._config = config
        self._store = store

    def load(self) -> None:
        """Put in force what was stored, as far as it can be."""
        image = self._store.image
        for_this = image.config_of(BROKER_RESOURCE, str(self._config.node_id))
        self._config.set_stored(image.config_of(BROKER_RESOURCE, ALL_BROKERS), for_this)

    def alter(self, name: str, overrides: Mapping[str, str], *, validate_only: bool = False) -> bool:
        """Replace those of this broker (its id) or of all brokers (""); whether that was done. The caller checks what may change.

        Raises:
            InvalidConfig: a value is not valid; nothing was changed.
            KafkaStorageError: the metadata log cannot be written; nothing was changed.
        """
        before = self._config.dynamic_default, self._config.dynamic_broker
        stored, in_force = self._store.image.config_of(BROKER_RESOURCE, name), before[name != ALL_BROKERS]
        ignored = {key for key, text in stored.items() if overrides.get(key) == text and key not in in_force}
        wanted = {key: text for key, text in overrides.items() if key not in ignored}
        for_all, for_this = (wanted, before[1]) if name == ALL_BROKERS else (before[0], wanted)
        self._config.set_dynamic(for_all, for_this)
        if validate_only:
            self._config.set_dynamic(*before)
            return False
        try:
            self._store.commit_config(BROKER_RESOURCE, name, overrides)
        except KafkaError:
            self._config.set_dynamic(*before)
            raise
        return True
