"""Make the console of a broker that `serve` runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from minibroker.console.host import Host
from minibroker.console.observer import Observer
from minibroker.console.site import ConsoleSite
from minibroker.server.broker import Broker

if TYPE_CHECKING:
    from minibroker.registry.registry import Registry
    from minibroker.testing.lab.lab_broker import LabBroker


def console_of(
    broker: Broker | LabBroker,
    observer: Observer,
    *,
    is_read_only: bool = False,
    registry: Registry | None = None,
    registry_url: Callable[[], str] = lambda: "",
) -> ConsoleSite:
    """Return the site that shows a running broker. `observer` looks at its requests already."""
    if isinstance(broker, Broker):
        host = Host(lambda: broker, observer, None, registry, registry_url)
    else:
        hosted = broker.hosted
        host = Host(lambda: hosted.broker, observer, hosted.lab, registry, registry_url)
    host.samples.start()
    return ConsoleSite(host, is_read_only=is_read_only)
