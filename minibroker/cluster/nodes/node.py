"""A broker as clients see it: id, rack, and an address for each listener."""

from __future__ import annotations

from collections.abc import Iterable

from minibroker.config.broker_config import BrokerConfig
from minibroker.config.listeners import ANY_HOSTS, Listener


class Node:
    """One broker. Ports that are 0 in the configuration are set when the server has bound them."""

    def __init__(self, config: BrokerConfig, *, number: int = 0, port_step: int = 1, rack: str | None = None) -> None:
        """Make the configured node, or with `number` a simulated one: ids count up by 1, ports by `port_step`."""
        self.node_id = config.node_id + number
        self.rack = config.broker_rack if rack is None else rack

        def moved(listeners: Iterable[Listener]) -> dict[str, Listener]:
            return {each.name: each._replace(port=each.port and each.port + number * port_step) for each in listeners}

        self._given = moved(config.advertised_listeners)
        self._listeners = moved(config.listeners)

    def set_bound_port(self, listener_name: str, port: int) -> None:
        """Set the port of a listener that was configured with 0."""
        self._listeners[listener_name] = self._listeners[listener_name]._replace(port=port)

    @property
    def wanted(self) -> list[Listener]:
        """The addresses to listen on; port 0 is any free one, until it was bound once."""
        return list(self._listeners.values())

    @property
    def given(self) -> list[Listener]:
        """The addresses that are configured for clients; if empty, those of `wanted`."""
        return list(self._given.values())

    def advertised(self, listener_name: str) -> tuple[str, int]:
        """Return (host, port) for a client of this listener; `localhost` if no host is configured."""
        bound = self._listeners.get(listener_name) or next(iter(self._listeners.values()))
        advertised = self._given.get(bound.name, bound)
        host = "localhost" if advertised.host in ANY_HOSTS else advertised.host
        return host, advertised.port or bound.port

    @property
    def listeners(self) -> list[Listener]:
        """All listeners with their advertised addresses, for RegisterBrokerRecord."""
        advertised = [(listener, self.advertised(listener.name)) for listener in self._listeners.values()]
        return [Listener(listener.name, host, port, listener.protocol) for listener, (host, port) in advertised]
