"""A broker in the event loop of an asynchronous test, without its own thread.

    async with Broker(topics={"orders": 3}) as broker:
        producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers)

It serves while the test awaits. Clients that block the loop's thread (kafka-python,
confluent-kafka's poll) would wait forever: use BrokerThread for them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from minibroker.testing.clients import PushingClient, from_json, to_json
from minibroker.testing.data import Snapshot
from minibroker.testing.hosted import HostedBroker
from minibroker.testing.options import MEMORY, BrokerError, BrokerOptions, DataDir, Setting
from minibroker.testing.request_log import RequestLog
from minibroker.testing.surface import AsyncLab
from minibroker.testing.wire import Wire

if TYPE_CHECKING:
    from minibroker.registry.schema_files import Schemas


class _HostedWire(Wire):
    def __init__(self, hosted: HostedBroker) -> None:
        self._hosted = hosted
        self._access = hosted.access

    @property
    def bootstrap_servers(self) -> str:
        if not self._hosted.is_running:
            raise BrokerError("the broker is not running: use `async with Broker() as broker:`, or await broker.start()")
        return self._hosted.bootstrap_servers


class Broker(AsyncLab):
    """A broker in this event loop; its methods are awaited. It takes the arguments of BrokerThread."""

    def __init__(
        self,
        *,
        topics: Mapping[str, int] | Iterable[str] = (),
        config: Mapping[str, Setting] | None = None,
        data_dir: DataDir | str | os.PathLike[str] = MEMORY,
        port: int = 0,
        brokers: int = 1,
        racks: Iterable[str] = (),
        like_kafka: bool = False,
        users: Mapping[str, str] | None = None,
        super_users: Iterable[str] = (),
        acls: Iterable[str] = (),
        tls: bool = False,
        mtls: bool = False,
        schemas: Schemas | str | os.PathLike[str] | None = None,
    ) -> None:
        options = BrokerOptions(
            topics=topics, config=config, data_dir=data_dir, port=port, brokers=brokers, racks=racks, like_kafka=like_kafka,
            users=users, super_users=super_users, acls=acls, tls=tls, mtls=mtls, schemas=schemas,
        )  # fmt: skip
        self._hosted = HostedBroker(options)
        super().__init__(_HostedWire(self._hosted))

    async def start(self) -> Self:
        """Start to serve. After `stop`, the broker has the same port and the same data."""
        await self._hosted.start()
        return self

    async def stop(self) -> None:
        """Answer pending requests, close the logs and stop. Does nothing if the broker is stopped."""
        await self._hosted.stop()

    async def close(self) -> None:
        """Stop, and remove temporary data."""
        await self._hosted.stop()
        self._hosted.remove_data()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    @property
    def is_running(self) -> bool:
        """Whether the broker serves."""
        return self._hosted.is_running

    @property
    def data_dir(self) -> Path | None:
        """The folder of the data; None: in memory."""
        return self._hosted.data_dir

    @property
    def request_log(self) -> RequestLog:
        """The last 10,000 requests of clients since the start or the last `reset`."""
        return self._hosted.request_log

    @property
    def clients(self) -> list[PushingClient]:
        """The clients that push their own metrics; see Surface."""
        return from_json(to_json(self._hosted.pushing_clients))

    async def snapshot(self) -> Snapshot:
        """Return a copy of the current data; see Surface."""
        return self._hosted.snapshot()

    async def restore(self, snapshot: Snapshot) -> None:
        """Put the data of a snapshot back; see Surface."""
        self._hosted.restore(snapshot)

    async def _execute(self, name: str, arguments: dict[str, Any], /) -> Any:
        return await self._hosted.lab.execute(name, arguments)
