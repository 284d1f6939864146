"""The dynamic configs of brokers: in the metadata log and in force together.

Those of a broker, by its id, go before those of all brokers. What a start found stored and could not put in force, for it is not valid
here, stays stored and out of force until somebody says it otherwise.

Where several brokers are shown each has its own: what it tells of itself, and what it asks of its requests and connections. Logs, groups
and transactions are those of the configured broker, and follow its configs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from minibroker.cluster.metadata.metadata_image import ALL_BROKERS, BROKER_RESOURCE
from minibroker.cluster.metadata.metadata_store import MetadataStore
from minibroker.cluster.node import Node
from minibroker.config.broker_config import BrokerConfig
from minibroker.config.listeners import Listener


class BrokerConfigs:
    """Of one cluster: what is said to the configs of its brokers from behind the start."""

    def __init__(self, config: BrokerConfig, store: MetadataStore) -> None:
        self._store = store
        self._of = {config.node_id: config}  #: by node id, the configured one first

    def of(self, node_id: int) -> BrokerConfig:
        """Of one broker; KeyError where there is none of that id."""
        return self._of[node_id]

    def load(self) -> None:
        """Put in force what was stored, as far as it can be."""
        for config in self._of.values():
            config.set_stored(*self._stored(config))

    def add(self, node: Node) -> None:
        """Another broker that clients see, with the static configs of the configured one, but for who and where it is."""
        static = next(iter(self._of.values())).static
        own = {"node.id": str(node.node_id), "broker.id": str(node.node_id), "listeners": _text(node.wanted)}
        own |= {"broker.rack": node.rack} if node.rack is not None else {}
        own |= {"advertised.listeners": _text(node.given)} if node.given else {}
        config = BrokerConfig({**static, **own})
        if any(self._stored(config)):  # else it is as it was made, and each reset of a broker under test makes it anew
            config.set_stored(*self._stored(config))
        self._of[node.node_id] = config

    def _stored(self, config: BrokerConfig) -> tuple[Mapping[str, str], Mapping[str, str]]:
        """For all brokers, and for this one."""
        image = self._store.image
        return image.config_of(BROKER_RESOURCE, ALL_BROKERS), image.config_of(BROKER_RESOURCE, str(config.node_id))

    def alter(self, name: str, overrides: Mapping[str, str], *, validate_only: bool = False) -> bool:
        """Replace those of a broker (its id) or of all brokers (""); return whether that was done. The caller checks what may change.

        Raises:
            InvalidConfig: a value is not valid; nothing was changed.
            KafkaStorageError: the metadata log cannot be written; nothing was changed.
        """
        from minibroker.cluster.configs.broker_config_rules import check_thread_counts, thread_counts  # noqa: PLC0415  reads a large table

        configs = list(self._of.values()) if name == ALL_BROKERS else [self._of[int(name)]]
        before = [(config, config.dynamic_default, config.dynamic_broker) for config in configs]
        is_done = False
        try:
            for config in configs:
                threads = thread_counts(config)
                self._set(config, name, overrides)
                check_thread_counts(threads, thread_counts(config))
            if not validate_only:
                self._store.commit_config(BROKER_RESOURCE, name, overrides)
                is_done = True
        finally:
            if not is_done:
                for config, for_all, for_this in before:
                    config.set_dynamic(for_all, for_this)
        return is_done

    def _set(self, config: BrokerConfig, name: str, overrides: Mapping[str, str]) -> None:
        in_force = config.dynamic_default if name == ALL_BROKERS else config.dynamic_broker
        stored = self._store.image.config_of(BROKER_RESOURCE, name)
        wanted = {key: text for key, text in overrides.items() if key in in_force or stored.get(key) != text}
        if name == ALL_BROKERS:
            config.set_dynamic(wanted, config.dynamic_broker)
        else:
            config.set_dynamic(config.dynamic_default, wanted)


def _text(listeners: Iterable[Listener]) -> str:
    return ",".join(map(str, listeners))
