"""A broker of any configuration with its lab: `minibroker serve --lab-port`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from minibroker.config.broker_config import BrokerConfig
from minibroker.dispatch.context import Services
from minibroker.errors import ConfigurationError
from minibroker.server.broker import STOP_TIMEOUT_S
from minibroker.storage.files import Files
from minibroker.testing.data import Data, LogDirsData
from minibroker.testing.hosted import HostedBroker
from minibroker.testing.lab.site import LabSite
from minibroker.testing.options import BrokerError, BrokerOptions
from minibroker.testing.simulation.broker import SimulatedBroker

if TYPE_CHECKING:
    from minibroker.testing.hosted_registry import HostedRegistry


class _ConfiguredBroker(HostedBroker):
    """A hosted broker with the addresses and log directories of a configuration."""

    stop_timeout_s = STOP_TIMEOUT_S

    def __init__(self, config: BrokerConfig, shape: dict[str, Any]) -> None:
        super().__init__(BrokerOptions())
        self._config = config
        self._shape = shape

    @property
    def registry(self) -> HostedRegistry:
        """The schema registry, which listens only where `serve` lets it."""
        registry = super().registry
        registry.may_listen = False
        return registry

    def _make_data(self) -> Data:
        metadata_dir = [self._config.metadata_log_dir] if self._config.metadata_log_dir else []
        return LogDirsData(*dict.fromkeys([*self._config.log_dirs, *metadata_dir]))

    def _make_broker(self, data: Data, files: Files) -> SimulatedBroker:  # noqa: ARG002  the configuration has the directories
        return SimulatedBroker(self._config, files, **self._shape, **self.hooks())


class LabBroker:
    """What `serve` runs in place of a server.Broker: start, stop, addresses.

    `hosted.lab` has the operations.
    """

    def __init__(
        self,
        config: BrokerConfig,
        *,
        broker_count: int = 1,
        racks: Sequence[str] = (),
        on_open: Callable[[Services], None] | None = None,
    ) -> None:
        self.hosted: HostedBroker = _ConfiguredBroker(config, {"broker_count": broker_count, "racks": racks, "on_open": on_open})
        self.site = LabSite(self.hosted.lab)

    @property
    def addresses(self) -> list[str]:
        """`NAME://host:port` of each listener."""
        return self.hosted.broker.addresses

    async def start(self) -> None:
        """Start the broker; ConfigurationError says why it cannot."""
        try:
            await self.hosted.start()
        except BrokerError as error:
            raise error.__cause__ if isinstance(error.__cause__, ConfigurationError) else error from None

    async def stop(self) -> None:
        """Stop, and remove snapshots."""
        await self.hosted.stop()
        self.hosted.remove_data()
