"""A broker under test for tests that await: what `Surface` does, without holding up the test's own event loop, where its clients live."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from minibroker.testing.data import Snapshot
from minibroker.testing.options import Setting
from minibroker.testing.request_log import RequestLog
from minibroker.testing.surface import Surface
from minibroker.testing.wire import TIMEOUT_S, Assignment, FoundRecord, Value, Wire, name_as_users_do

if TYPE_CHECKING:
    from minibroker.testing.lab.async_handles import AsyncFaults, AsyncHold, AsyncLeaders, AsyncNodes, Awaited


class AsyncWire:
    """The methods of `Wire`, awaited."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    @property
    def bootstrap_servers(self) -> str:
        """HOST:PORT for any client's bootstrap.servers."""
        return self._wire.bootstrap_servers

    async def create_topic(self, name: str, *, partitions: int = 1, **config: Setting) -> str:
        """Create a topic, and return its name; see Wire."""
        return await asyncio.to_thread(self._wire.create_topic, name, partitions=partitions, **config)

    async def delete_topic(self, name: str) -> None:
        """Delete a topic; UnknownTopicOrPartition when there is none."""
        await asyncio.to_thread(self._wire.delete_topic, name)

    async def topics(self) -> list[str]:
        """Names of all topics but Kafka's own, sorted."""
        return await asyncio.to_thread(self._wire.topics)

    async def produce(
        self,
        topic: str,
        *values: Value,
        key: Value = None,
        partition: int | None = None,
        headers: Mapping[str, Value] | None = None,
        timestamp_ms: int | None = None,
    ) -> None:
        """Write a record for each value; see Wire."""
        await asyncio.to_thread(
            self._wire.produce, topic, *values, key=key, partition=partition, headers=headers, timestamp_ms=timestamp_ms
        )

    async def records(
        self,
        topic: str,
        *,
        count: int | None = None,
        partition: int | None = None,
        isolation: str = "read_committed",
        timeout_s: float = TIMEOUT_S,
        timeout: float | None = None,  # noqa: ASYNC109  as Wire has it
    ) -> list[FoundRecord]:
        """All records of a topic, or of one partition; with `count` it waits for so many. See Wire."""
        return await asyncio.to_thread(
            self._wire.records, topic, count=count, partition=partition, isolation=isolation, timeout_s=timeout_s, timeout=timeout
        )

    async def groups(self) -> list[str]:
        """Names of all groups, of any kind, sorted."""
        return await asyncio.to_thread(self._wire.groups)

    async def wait_assigned(
        self,
        group: str,
        *,
        members: int = 1,
        timeout_s: float = TIMEOUT_S,
        timeout: float | None = None,  # noqa: ASYNC109  as Wire has it
    ) -> Assignment:
        """Wait until a group is stable with at least so many members; the partitions of each, by member id. See Wire."""
        return await asyncio.to_thread(self._wire.wait_assigned, group, members=members, timeout_s=timeout_s, timeout=timeout)


name_as_users_do(AsyncWire)


class AsyncLab(AsyncWire, ABC):
    """Faults and what else a lab does, awaited."""

    @abstractmethod
    async def _execute(self, command: str, arguments: dict[str, Any], /) -> Any:
        """Do a command of the lab (lab/commands.py)."""

    @property
    def faults(self) -> AsyncFaults:
        """What goes wrong; see Surface."""
        from minibroker.testing.lab.async_handles import AsyncFaults  # noqa: PLC0415  what most tests do without

        return AsyncFaults(self._execute)

    @property
    def leaders(self) -> AsyncLeaders:
        """Who leads partitions; see Surface."""
        from minibroker.testing.lab.async_handles import AsyncLeaders  # noqa: PLC0415  as above

        return AsyncLeaders(self._execute)

    @property
    def nodes(self) -> AsyncNodes:
        """The brokers that clients are told of; see Surface."""
        from minibroker.testing.lab.async_handles import AsyncNodes  # noqa: PLC0415  as above

        return AsyncNodes(self._execute)

    def hold_high_watermark(self, topic: str, partition: int) -> Awaited[AsyncHold]:
        """Hold a partition's high watermark back; see Surface."""
        from minibroker.testing.lab.async_handles import hold  # noqa: PLC0415  as above

        return hold(self._execute, topic, partition)


class AsyncSurface(AsyncLab):
    """A broker that runs elsewhere, awaited. `sync` is the broker itself."""

    def __init__(self, sync: Surface) -> None:
        super().__init__(sync)
        self.sync = sync

    @property
    def is_running(self) -> bool:
        """Whether it serves; not, where it was stopped or killed."""
        return self.sync.is_running

    @property
    def data_dir(self) -> Path | None:
        """Where the data are; None: in memory."""
        return self.sync.data_dir

    @property
    def request_log(self) -> RequestLog:
        """What clients asked since the start or the last `reset`."""
        return self.sync.request_log

    async def reset(self) -> None:
        """Forget everything; see Surface."""
        await asyncio.to_thread(self.sync.reset)

    async def snapshot(self) -> Snapshot:
        """Keep what there is now; see Surface."""
        return await asyncio.to_thread(self.sync.snapshot)

    async def advance(self, **time: float) -> None:
        """Let time go by for the broker; see Surface."""
        await asyncio.to_thread(self.sync.advance, **time)

    async def restore(self, snapshot: Snapshot) -> None:
        """Be as when the snapshot was taken; see Surface."""
        await asyncio.to_thread(self.sync.restore, snapshot)

    async def _execute(self, command: str, arguments: dict[str, Any], /) -> Any:
        return await asyncio.to_thread(self.sync._execute, command, arguments)  # noqa: SLF001  of one kind
