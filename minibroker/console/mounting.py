"""Make the console of a broker that `serve` runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from minibroker.console.host import Host
from minibroker.console.observer import Observer
from minibroker.console.site import ConsoleSite
from minibroker.metrics.meter import Meter
from minibroker.server.broker import Broker

if TYPE_CHECKING:
    from minibroker.console.decoding import RowDecoder
    from minibroker.registry.registry import Registry
    from minibroker.testing.lab.lab_broker import LabBroker


def console_of(
    broker: Broker | LabBroker,
    observer: Observer,
    meter: Meter | None,
    *,
    is_read_only: bool = False,
    registry: Registry | None = None,
    registry_url: Callable[[], str] = lambda: "",
    other_registry: str | None = None,
) -> ConsoleSite:
    """Return the site that shows a running broker. `observer` looks at its requests already, and `meter` counts them; a lab has its own.

    Records are decoded with `registry`, or with the one at the URL `other_registry`.
    """
    decoder = _decoder(registry, other_registry)
    if isinstance(broker, Broker):
        host = Host(lambda: broker, observer, None, registry, registry_url, decoder=decoder, meter=meter)
    else:
        hosted = broker.hosted
        host = Host(lambda: hosted.broker, observer, hosted.lab, registry, registry_url, decoder=decoder, meter=hosted.meter)
    host.samples.start()
    return ConsoleSite(host, is_read_only=is_read_only)


def _decoder(registry: Registry | None, url: str | None) -> RowDecoder | None:
    if registry is None and url is None:
        return None
    from minibroker.console import decoding  # noqa: PLC0415  most brokers have no registry

    return decoding.RowDecoder(decoding.LocalCodecs(registry) if url is None and registry is not None else decoding.RemoteCodecs(url or ""))
