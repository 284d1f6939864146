"""Make the registry of a broker that `serve` or the test kit runs."""

from __future__ import annotations

from collections.abc import Callable

from minibroker.dispatch.context import Services
from minibroker.http.sessions import Sessions
from minibroker.registry.registry import Registry
from minibroker.registry.site import Around, RegistrySite
from minibroker.registry.validation import SchemaValidation
from minibroker.server.broker import Broker


def registry_of(broker: Callable[[], Broker], around: Around | None = None, registry: Registry | None = None) -> RegistrySite:
    """Return the site of a registry.

    Args:
        broker: returns the running broker, which may exchange its data.
        around: is called in place of each handler.
        registry: of this broker; by default a new one.
    """
    return RegistrySite(registry or Registry(lambda: broker().nodes[0].services), around, Sessions(broker, "schema registry"))


class ServedRegistry:
    """The registry of a broker that is not created yet, whose Produce it validates."""

    def __init__(self) -> None:
        self._services: Services | None = None
        self.registry = Registry(self._known_services)
        self.validation = SchemaValidation(self._find)

    def _find(self, services: Services) -> Registry:
        self._services = services
        return self.registry

    def _known_services(self) -> Services:
        if self._services is None:
            raise RuntimeError("the broker is not running")
        return self._services

    def site(self, broker: Broker) -> RegistrySite:
        """Return the site, now that the broker runs."""
        self._services = broker.nodes[0].services
        return registry_of(lambda: broker, registry=self.registry)
