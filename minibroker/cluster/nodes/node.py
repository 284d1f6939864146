"""A node as clients are told of it: id, rack, and an address for each listener."""

from __future__ import annotations

from collections.abc import Iterable

from minibroker.config.broker_config import BrokerConfig
from minibroker.config.listeners import ANY_HOSTS, Listener


class Node:
    """One broker. Ports that the configuration leaves open (0) are set when the server has bound them."""

    def __init__(self, config: BrokerConfig, *, number: int = 0, port_step: int = 1, rack: str | None = None) -> None:
        """The configured node, or the one so many behind it: the next id, and ports that are `port_step` further each."""
        self.node_id = config.node_id + number
        self.rack = config.broker_rack if rack is None else rack

        def moved(listeners: Iterable[Listener]) -> dict[str, Listener]:
            return {each.name: each._replace(port=each.port and each.port + number * port_step) for each in listeners}

        self._given = moved(config.advertised_listeners)
        self._listeners = moved(config.listeners)

    def set_bound_port(self, listener_name: str, port: int) -> None:
        """The server listens: this is the port of a listener that was configured with 0."""
        self._listeners[listener_name] = self._listeners[listener_name]._replace(port=port)

    @property
    def wanted(self) -> list[Listener]:
        """Where to listen; port 0: a free one, until it was bound once."""
        return list(self._listeners.values())

    @property
    def given(self) -> list[Listener]:
        """The addresses that are configured for clients; none: like `wanted`."""
        return list(self._given.values())

    def advertised(self, listener_name: str) -> tuple[str, int]:
        """(host, port) to tell a client that came in by this listener; `localhost` where no host is configured."""
        bound = self._listeners.get(listener_name) or next(iter(self._listeners.values()))
        told = self._given.get(bound.name, bound)
        host = "localhost" if told.host in ANY_HOSTS else told.host
        return host, told.port or bound.port

    @property
    def listeners(self) -> list[Listener]:
        """Every listener under its advertised address, for RegisterBrokerRecord."""
        told = [(listener, self.advertised(listener.name)) for listener in self._listeners.values()]
        return [Listener(listener.name, host, port, listener.protocol) for listener, (host, port) in told]
