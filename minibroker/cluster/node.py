"""This node as clients are told of it: id, rack, and an address for each listener."""

from __future__ import annotations

from minibroker.config.broker_config import BrokerConfig
from minibroker.config.listeners import ANY_HOSTS, Listener


class Node:
    """One broker. Ports that the configuration leaves open (0) are set when the server has bound them."""

    def __init__(self, config: BrokerConfig) -> None:
        self.node_id = config.node_id
        self.rack = config.broker_rack
        self._given = {listener.name: listener for listener in config.advertised_listeners}
        self._listeners = {listener.name: listener for listener in config.listeners}

    def set_bound_port(self, listener_name: str, port: int) -> None:
        """The server listens: this is the port of a listener that was configured with 0."""
        self._listeners[listener_name] = self._listeners[listener_name]._replace(port=port)

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
