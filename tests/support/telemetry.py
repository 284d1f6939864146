"""Clients that push their metrics to a broker in memory."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from minibroker.dispatch.context import ConnectionInfo
from minibroker.records.compression import Compression, compress
from minibroker.schemas import k71_get_telemetry_subscriptions as k71
from minibroker.schemas import k72_push_telemetry as k72
from minibroker.telemetry.telemetry import Telemetry
from tests.support.broker_in_memory import LISTENER, BrokerInMemory, Pending


def connection(software: str = "scenes", version: str = "1.2", *, port: int = 50_000) -> ConnectionInfo:
    """A client that has named its software."""
    info = ConnectionInfo(LISTENER, "127.0.0.1", client_port=port)
    info.client_software_name, info.client_software_version = software, version
    return info


def telemetry_of(broker: BrokerInMemory) -> Telemetry:
    assert broker.services.telemetry is not None
    return broker.services.telemetry


class PushingClient:
    """One client instance, on a connection of its own."""

    def __init__(
        self, broker: BrokerInMemory, client_id: str | None = "app", instance_id: UUID | None = None, *, port: int = 50_000
    ) -> None:
        self.broker, self.client_id = broker, client_id
        self.connection = connection(port=port)
        self.subscription: Any = self.get(instance_id or UUID(int=0))
        self.instance_id: UUID = self.subscription.client_instance_id

    def _ask(self, request: Any) -> Any:
        self.broker.connection = self.connection
        self.broker.clock.advance(1)
        return self.broker.ask(request, client_id=self.client_id)

    def get(self, instance_id: UUID) -> Any:
        return self._ask(k71.Request(client_instance_id=instance_id))

    def begin_push(self, message: bytes, codec: Compression = Compression.ZSTD, *, is_last: bool = False) -> Pending:
        """Push a message, after the interval."""
        self.broker.clock.advance(self.subscription.push_interval_ms)
        request = k72.Request(
            client_instance_id=self.instance_id,
            subscription_id=self.subscription.subscription_id,
            terminating=is_last,
            compression_type=codec.value,
            metrics=compress(codec, message) if message else b"",
        )
        self.broker.connection = self.connection
        return self.broker.begin(request, client_id=self.client_id)

    def push(self, message: bytes, codec: Compression = Compression.ZSTD, *, is_last: bool = False) -> int:
        """Push a message, after the interval. Returns the error code."""
        code: int = self.begin_push(message, codec, is_last=is_last).answer().error_code
        return code

    @property
    def metrics(self) -> Any:
        (client,) = [each for each in telemetry_of(self.broker).clients() if each.instance_id == self.instance_id]
        return client.metrics
