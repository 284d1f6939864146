"""Brokers that a test stops and starts, of those that clients see: on the loop's thread, JSON in and out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minibroker.errors import ConfigurationError
from minibroker.server.broker import Broker
from minibroker.testing.errors import BrokerError


class NodeControl:
    """Of the broker that runs, which `broker` gives; errors are BrokerError."""

    def __init__(self, broker: Callable[[], Broker]) -> None:
        self._broker = broker

    def commands(self) -> dict[str, Callable[..., Any]]:
        """For the lab, by name."""
        return {
            "nodes.stop": self.stop,
            "nodes.start": self.start,
            "nodes.alive": self._say_alive,
            "nodes.addresses": self._say_addresses,
        }

    def _say_alive(self) -> list[int]:
        """Ids of the brokers that clients can reach."""
        return self.alive

    def _say_addresses(self) -> dict[str, str]:
        """HOST:PORT of each broker by its id, of those too that are stopped."""
        return self.addresses

    def stop(self, node: int) -> None:
        """Close a broker's listeners and cut its connections; others lead what it led, if there are any. Harmless when it is gone."""
        self._check(node)
        self._broker().stop_node(node)

    async def start(self, node: int) -> None:
        """Let a broker serve again, on its ports; it leads again what nobody leads. Harmless when it is there."""
        self._check(node)
        try:
            await self._broker().start_node(node)
        except ConfigurationError as error:
            raise BrokerError(f"node {node} does not start: {error}") from error

    @property
    def alive(self) -> list[int]:
        """Ids of the brokers that clients can reach."""
        return [each.node.node_id for each in self._broker().nodes if each.is_open]

    @property
    def addresses(self) -> dict[str, str]:
        """HOST:PORT of the first listener of each broker by its id, as JSON has it; of those too that are stopped."""
        addresses = {str(each.node.node_id): str(each.node.listeners[0]) for each in self._broker().nodes}
        return {node: address.partition("://")[2] for node, address in addresses.items()}

    def _check(self, node: int) -> None:
        known = [each.node.node_id for each in self._broker().nodes]
        if node not in known:
            raise BrokerError(f"there is no node {node}; there are {', '.join(map(str, known))}")
