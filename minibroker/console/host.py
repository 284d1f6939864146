"""What the console shows: the running broker, the requests that it serves, and its lab."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from minibroker.cluster.cluster import Cluster
from minibroker.console.observer import Observer
from minibroker.console.reading import LogReader
from minibroker.console.samples import Samples
from minibroker.console.strip import Strips
from minibroker.dispatch.context import Services
from minibroker.metrics.meter import Meter
from minibroker.server.broker import Broker
from minibroker.server.listener import AcceptedConnection

if TYPE_CHECKING:
    from minibroker.console.decoding import RowDecoder
    from minibroker.registry.registry import Registry
    from minibroker.testing.lab.lab import Lab


class Host:
    """A broker that may exchange its data: pages look up its parts each time."""

    def __init__(
        self,
        broker: Callable[[], Broker],
        observer: Observer,
        lab: Lab | None = None,
        registry: Registry | None = None,
        registry_url: Callable[[], str] = lambda: "",
        *,
        decoder: RowDecoder | None = None,
        meter: Meter | None = None,
    ) -> None:
        """`broker` returns the running broker, `registry_url` the address of the schema registry; `meter` counts its requests."""
        self._broker = broker
        self.observer = observer
        self.lab = lab  #: None: this broker has no lab
        self.registry = registry  #: None: this process has no schema registry
        self.registry_url = registry_url
        self.decoder = decoder  #: None: keys and values are shown as they are
        self.reader = LogReader(lambda: self.services.background)
        self.reader.keeps_records = decoder is not None
        self.strips = Strips(self.reader)
        self.meter = meter or Meter()
        self.samples = Samples(broker, observer, self.meter)
        self.started_s = time.monotonic()

    @property
    def broker(self) -> Broker:
        """The running broker."""
        return self._broker()

    @property
    def services(self) -> Services:
        """The services of the first node, which has the data of all."""
        return self._broker().nodes[0].services

    @property
    def cluster(self) -> Cluster:
        """The topics and logs."""
        return self._broker().cluster

    @property
    def connections(self) -> list[AcceptedConnection]:
        """The connections of all clients."""
        return self._broker().connections

    def now_ms(self) -> int:
        """Return the time of the broker's clock."""
        return self.services.clock.now_ms()
