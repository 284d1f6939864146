"""Make the console of a broker that `serve` runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from minibroker.console.host import Host
from minibroker.console.observer import Observer
from minibroker.console.site import ConsoleSite
from minibroker.server.broker import Broker

if TYPE_CHECKING:
    from minibroker.testing.lab.lab_broker import LabBroker


def console_of(broker: Broker | LabBroker, observer: Observer, *, is_read_only: bool = False) -> ConsoleSite:
    """Return the site that shows a running broker. `observer` looks at its requests already."""
    if isinstance(broker, Broker):
        host = Host(lambda: broker, observer)
    else:
        hosted = broker.hosted
        host = Host(lambda: hosted.broker, observer, hosted.lab)
    host.samples.start()
    return ConsoleSite(host, is_read_only=is_read_only)
