"""A broker under test, in whichever form it runs: what clients can do (wire.py), and what only minibroker can do.

Tests that use `Surface` run on all forms and, except for operations that only minibroker has, on
Apache Kafka (given_cluster.py). `AsyncSurface` has the same methods, awaited: they do not block the
event loop of the test and its clients.
"""

from __future__ import annotations

import asyncio
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from datetime import timedelta
from functools import wraps
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from minibroker.testing.clients import PushingClient, from_json
from minibroker.testing.data import Snapshot
from minibroker.testing.lab.declaration import remote
from minibroker.testing.lab.handles import (
    AsyncFaults,
    AsyncHold,
    AsyncLeaders,
    AsyncNodes,
    AsyncRegistry,
    Awaited,
    Faults,
    Hold,
    hold_awaited,
)
from minibroker.testing.lab.operations import Leaders, Nodes
from minibroker.testing.lab.registry_operations import RegistryOperations
from minibroker.testing.metrics import AsyncMetrics, Metrics
from minibroker.testing.request_log import RequestLog
from minibroker.testing.wire import TIMEOUT_S, Assignment, Wire, name_broker_methods


class Surface(Wire):
    """A broker under test; a context manager from `start` to `close`."""

    @abstractmethod
    def start(self) -> Self:
        """Start to serve. After `stop`, the broker has the same port and the same data.

        Returns:
            The broker itself.

        Raises:
            BrokerError: the broker cannot start. The message is one line.
        """

    @abstractmethod
    def stop(self) -> None:
        """Answer pending requests, close the logs and stop. Does nothing if the broker is stopped."""

    @abstractmethod
    def close(self) -> None:
        """Stop, and remove temporary data."""

    @property
    @abstractmethod
    def is_running(self) -> bool:
        """Whether the broker serves; false once it was stopped, was killed, or died."""

    @property
    @abstractmethod
    def data_dir(self) -> Path | None:
        """The folder of the data; None: in memory."""

    def reset(self) -> None:
        """Delete everything: topics, groups, transactions, schemas, altered configs, the request log.

        The topics of the options are created again, and their schemas registered.

        Clients stay connected and find an empty broker. Waiting requests are answered; a client
        that waits for other members of its group is disconnected.
        """
        self._execute("reset", {})

    @abstractmethod
    def snapshot(self) -> Snapshot:
        """Return a copy of the current data: topics with records and configs, offsets of groups, and transactions."""

    @abstractmethod
    def restore(self, snapshot: Snapshot) -> None:
        """Put the data of a snapshot back, as if the broker had been killed when it was taken and then started again.

        Clients see the same as after `reset`.

        Args:
            snapshot: what `snapshot` of this broker returned.

        Raises:
            BrokerError: the snapshot is of another broker.
        """

    def advance(self, **time: float) -> None:
        """Advance the broker's clock without waiting: `advance(hours=2, seconds=30)`.

        Retention, compaction lag, timeouts of group members and of transactions, and LogAppendTime
        follow. Clients have their own clock: a live member may time out, and joins again.
        `reset` and `restore` return the broker to the present.

        Args:
            time: arguments of `datetime.timedelta`.
        """
        self._execute("advance", {"ms": timedelta(**time) / timedelta(milliseconds=1)})

    @abstractmethod
    def _execute(self, name: str, arguments: dict[str, Any], /) -> Any:
        """Execute an operation of the lab (lab/operations.py)."""

    @property
    def faults(self) -> Faults:
        """Faults of requests and of the storage: `faults.inject("Produce", "NOT_LEADER_OR_FOLLOWER", topic="orders").once()`."""
        return Faults(self._execute)

    @property
    def leaders(self) -> Leaders:
        """Leaders of partitions: `leaders.take_away("orders", 0)`; `reset` restores them."""
        return remote(Leaders, self._execute)

    @property
    def nodes(self) -> Nodes:
        """The brokers that clients see: `nodes.stop(2)`."""
        return remote(Nodes, self._execute)

    @property
    def registry(self) -> RegistryOperations:
        """The schema registry in the broker: `registry.url` for clients, `registry.subjects`; it is off until its first use."""
        return remote(RegistryOperations, self._execute)

    def hold_high_watermark(self, topic: str, partition: int) -> Hold:
        """Hold a partition's high watermark back: consumers do not see new records, and acks=all waits.

        Args:
            topic: the name of the topic.
            partition: the number of the partition.

        Returns:
            A handle. Its `release`, the end of its `with` block, and `reset` end the hold.
        """
        return Hold(self._execute, self._execute("high_watermark.hold", {"topic": topic, "partition": partition}))

    @property
    @abstractmethod
    def request_log(self) -> RequestLog:
        """The last 10,000 requests of clients since the start or the last `reset`."""

    @property
    def metrics(self) -> Metrics:
        """Metrics of the broker, by the names of docs/metrics.md: `metrics["kafka_consumergroup_lag"].value(topic="orders")`."""
        return Metrics(self._execute)

    @property
    def clients(self) -> list[PushingClient]:
        """The clients that push their own metrics, also those that closed in the last minutes: `clients[0].metrics["..."]`."""
        return from_json(self._execute("clients", {}))

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


P = ParamSpec("P")
R = TypeVar("R")


def in_thread(method: Callable[Concatenate[Wire, P], R]) -> Callable[Concatenate[AsyncWire, P], Coroutine[Any, Any, R]]:
    """Return a method of Wire as a coroutine, which blocks a thread instead of the loop."""
    signature = inspect.signature(method)

    @wraps(method)
    def call(self: AsyncWire, /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:
        try:
            signature.bind(None, *args, **kwargs)
        except TypeError as error:
            raise TypeError(f"broker.{method.__name__}() {error}") from None
        return asyncio.to_thread(method, self._wire, *args, **kwargs)

    return call


class AsyncWire:
    """The methods of `Wire`, awaited."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    @property
    def bootstrap_servers(self) -> str:
        """HOST:PORT for any client's bootstrap.servers."""
        return self._wire.bootstrap_servers

    def client_config(self, /, client: str, *, user: str | None = None, mechanism: str = "PLAIN") -> dict[str, Any]:
        """Return the configuration with which a client connects, and logs in as `user`.

        Args:
            client: "confluent", "kafka-python", "aiokafka", "java" or "spark".
            user: one of the broker's users, if it has any.
            mechanism: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512.

        Returns:
            The configuration in the names and types of that client.

        Raises:
            BrokerError: one of them is unknown, or the user is missing.
        """
        return self._wire.client_config(client, user=user, mechanism=mechanism)

    create_topic = in_thread(Wire.create_topic)
    delete_topic = in_thread(Wire.delete_topic)
    topics = in_thread(Wire.topics)
    produce = in_thread(Wire.produce)
    records = in_thread(Wire.records)
    groups = in_thread(Wire.groups)

    async def wait_assigned(
        self,
        group: str,
        *,
        members: int = 1,
        timeout_s: float = TIMEOUT_S,
        timeout: float | None = None,  # noqa: ASYNC109  as Wire has it
    ) -> Assignment:
        """Wait until a group is stable and has enough members.

        There is no `poll`: a consumer that joins only while it is polled would block the loop.

        Args:
            group: the name of the group.
            members: the least number of members.
            timeout_s: how many seconds to wait.
            timeout: another name of `timeout_s`.

        Returns:
            The assigned partitions of each member, by member id.

        Raises:
            BrokerError: the group was not stable in time. The message describes it.
        """
        return await asyncio.to_thread(self._wire.wait_assigned, group, members=members, timeout_s=timeout_s, timeout=timeout)


name_broker_methods(AsyncWire)


class AsyncLab(AsyncWire, ABC):
    """The operations of the lab, awaited."""

    @abstractmethod
    async def _execute(self, name: str, arguments: dict[str, Any], /) -> Any:
        """Execute an operation of the lab (lab/operations.py)."""

    async def reset(self) -> None:
        """Delete everything; see Surface."""
        await self._execute("reset", {})

    async def advance(self, **time: float) -> None:
        """Advance the broker's clock; see Surface."""
        await self._execute("advance", {"ms": timedelta(**time) / timedelta(milliseconds=1)})

    @property
    def faults(self) -> AsyncFaults:
        """Faults of requests and of the storage; see Surface."""
        return AsyncFaults(self._execute)

    @property
    def leaders(self) -> AsyncLeaders:
        """Leaders of partitions; see Surface."""
        return AsyncLeaders(self._execute)

    @property
    def metrics(self) -> AsyncMetrics:
        """Metrics of the broker: `await broker.metrics["kafka_consumergroup_lag"]`; see Surface."""
        return AsyncMetrics(self._execute)

    @property
    def nodes(self) -> AsyncNodes:
        """The brokers that clients see; see Surface."""
        return AsyncNodes(self._execute)

    @property
    def registry(self) -> AsyncRegistry:
        """The schema registry in the broker: `await broker.registry.url`; see Surface."""
        return AsyncRegistry(self._execute)

    def hold_high_watermark(self, topic: str, partition: int) -> Awaited[AsyncHold]:
        """Hold a partition's high watermark back: consumers do not see new records, and acks=all waits.

        Args:
            topic: the name of the topic.
            partition: the number of the partition.

        Returns:
            A handle. Its `release`, the end of its `async with` block, and `reset` end the hold.
        """
        return hold_awaited(self._execute, topic, partition)


class AsyncSurface(AsyncLab):
    """A broker that runs elsewhere, awaited. `sync` is the broker itself."""

    def __init__(self, sync: Surface) -> None:
        super().__init__(sync)
        self.sync = sync

    @property
    def is_running(self) -> bool:
        """Whether the broker serves; false once it was stopped, was killed, or died."""
        return self.sync.is_running

    @property
    def data_dir(self) -> Path | None:
        """The folder of the data; None: in memory."""
        return self.sync.data_dir

    @property
    def request_log(self) -> RequestLog:
        """The last 10,000 requests of clients since the start or the last `reset`."""
        return self.sync.request_log

    @property
    def clients(self) -> list[PushingClient]:
        """The clients that push their own metrics; see Surface."""
        return self.sync.clients

    async def reset(self) -> None:
        """Delete everything; see Surface."""
        await asyncio.to_thread(self.sync.reset)  # a GivenCluster resets itself in another way

    async def advance(self, **time: float) -> None:
        """Advance the broker's clock; see Surface."""
        await asyncio.to_thread(self.sync.advance, **time)

    async def snapshot(self) -> Snapshot:
        """Return a copy of the current data; see Surface."""
        return await asyncio.to_thread(self.sync.snapshot)

    async def restore(self, snapshot: Snapshot) -> None:
        """Put the data of a snapshot back; see Surface."""
        await asyncio.to_thread(self.sync.restore, snapshot)

    async def _execute(self, name: str, arguments: dict[str, Any], /) -> Any:
        return await asyncio.to_thread(self.sync._execute, name, arguments)  # noqa: SLF001  of the same kit
