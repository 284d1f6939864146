"""Whether a broker offers client telemetry (KIP-714), and its `Telemetry`, which is created at the first use.

ApiVersions must not list the APIs where telemetry is off, as in Apache Kafka without a receiver of telemetry: clients ask wherever they
are listed. It is off by `minibroker.telemetry=false`, with `minibroker.like.kafka`, and if the libraries that decode pushes are missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING, Final

from minibroker.background import Background
from minibroker.clock import Clock
from minibroker.cluster.cluster import Cluster
from minibroker.config.broker_config import BrokerConfig
from minibroker.dispatch.registry import Registry
from minibroker.errors import UnsupportedVersion
from minibroker.schemas import k71_get_telemetry_subscriptions, k72_push_telemetry

if TYPE_CHECKING:
    from minibroker.telemetry.telemetry import Telemetry

API_KEYS: Final = frozenset({k71_get_telemetry_subscriptions.API_KEY, k72_push_telemetry.API_KEY})
_PACKAGES: Final = (("opentelemetry", "opentelemetry.proto"), ("google", "google.protobuf"))


class TelemetryOffer:
    """Telemetry of one broker, or of all brokers of a simulated cluster."""

    def __init__(self, cluster: Cluster, config: BrokerConfig, clock: Clock, background: Background) -> None:
        self.is_on = config.minibroker_telemetry and not config.minibroker_like_kafka and are_installed()
        self._cluster = cluster
        self._config = config
        self._clock = clock
        self._background = background
        self._telemetry: Telemetry | None = None

    @property
    def required(self) -> Telemetry:
        """The same as `telemetry`. Raises UnsupportedVersion if it is off, in which case the registry has neither API."""
        if self.telemetry is None:
            raise UnsupportedVersion("client telemetry is off")
        return self.telemetry

    def apply(self, registry: Registry) -> Registry:
        """Return the registry, without the APIs of telemetry if it is off."""
        if self.is_on:
            return registry
        return Registry((api for api in registry.apis() if api.key not in API_KEYS), registry.get)

    @property
    def telemetry(self) -> Telemetry | None:
        """The subscriptions and what clients pushed; None if telemetry is off."""
        if self._telemetry is None and self.is_on:
            from minibroker.telemetry.telemetry import Telemetry  # noqa: PLC0415  a start does not need it

            self._telemetry = Telemetry(self._cluster, self._config, self._clock, self._background)
        return self._telemetry


@cache
def are_installed() -> bool:
    """Whether the extra `metrics` is installed. Looks for packages without importing them, which takes 40 ms."""
    return all(_has(parent, package) for parent, package in _PACKAGES)


def _has(parent: str, package: str) -> bool:
    found = PathFinder.find_spec(parent)
    folders: Sequence[str] | None = None if found is None else found.submodule_search_locations
    return folders is not None and PathFinder.find_spec(package, list(folders)) is not None
