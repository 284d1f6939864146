"""Make the registry of a broker that `serve` or the test kit runs."""

from __future__ import annotations

from collections.abc import Callable

from minibroker.http.sessions import Sessions
from minibroker.registry.registry import Registry
from minibroker.registry.site import Around, RegistrySite
from minibroker.server.broker import Broker


def registry_of(broker: Callable[[], Broker], around: Around | None = None) -> RegistrySite:
    """Return the site of a new registry.

    Args:
        broker: returns the running broker, which may exchange its data.
        around: is called in place of each handler.
    """
    return RegistrySite(Registry(lambda: broker().nodes[0].services), around, Sessions(broker, "schema registry"))
