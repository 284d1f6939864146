"""The handles of handles.py for tests that await.

fault = await broker.faults.inject("Produce", "NOT_LEADER_OR_FOLLOWER").once()
async with broker.hold_high_watermark("orders", 0): ...
assert await fault.hits == 1
"""

from __future__ import annotations

import warnings
from collections.abc import Awaitable, Callable, Generator
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar

from minibroker.testing.lab.phrases import FaultPhrases

H = TypeVar("H", bound="_AsyncHandle")


class AsyncExecute(Protocol):
    """Does a command of the lab, and returns what it answers."""

    async def __call__(self, command: str, arguments: dict[str, Any], /) -> Any:
        """BrokerError says in one line why not."""


class _AsyncHandle:
    def __init__(self, execute: AsyncExecute, made: dict[str, Any]) -> None:
        self._execute = execute
        self.id = made["id"]

    async def _end(self) -> None:
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self._end()


class Awaited(Generic[H]):
    """A handle that is made when it is awaited, or when an `async with` begins; a warning tells who forgets that."""

    def __init__(self, what: str, make: Callable[[], Awaitable[H]]) -> None:
        self._what = what
        self._make = make
        self._is_begun = False
        self._handle: H | None = None

    def __del__(self) -> None:
        if not self._is_begun:
            warnings.warn(f"{self._what} was never awaited: nothing was done", stacklevel=2)

    def __await__(self) -> Generator[Any, None, H]:
        self._is_begun = True
        return self._make().__await__()

    async def __aenter__(self) -> H:
        self._is_begun = True
        self._handle = await self._make()
        return self._handle

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._handle is not None:
            await self._handle.__aexit__(kind, error, trace)


class AsyncFault(_AsyncHandle):
    """See Fault."""

    @property
    async def calls(self) -> int:
        """How many requests it was for: `await fault.calls`."""
        return int((await self._execute("faults.state", {"id": self.id}))["calls"])

    @property
    async def hits(self) -> int:
        """How many of them it hit: `await fault.hits`."""
        return int((await self._execute("faults.state", {"id": self.id}))["hits"])

    async def remove(self) -> None:
        """Let it happen no more; harmless when it is gone."""
        await self._execute("faults.remove", {"id": self.id})

    async def _end(self) -> None:
        await self.remove()


class AsyncHold(_AsyncHandle):
    """See Hold."""

    async def release(self) -> None:
        """Show readers all that there is; harmless when it was released."""
        await self._execute("high_watermark.release", {"id": self.id})

    async def _end(self) -> None:
        await self.release()


def hold(execute: AsyncExecute, topic: str, partition: int) -> Awaited[AsyncHold]:
    """A high watermark held back."""

    async def make() -> AsyncHold:
        return AsyncHold(execute, await execute("high_watermark.hold", {"topic": topic, "partition": partition}))

    return Awaited("hold_high_watermark", make)


class AsyncFaults(FaultPhrases[Awaited[AsyncFault]]):
    """See Faults."""

    def __init__(self, execute: AsyncExecute) -> None:
        self._execute = execute

    def _made(self, command: str, arguments: dict[str, Any]) -> Awaited[AsyncFault]:
        async def make() -> AsyncFault:
            return AsyncFault(self._execute, await self._execute(command, arguments))

        return Awaited(command, make)

    async def list(self) -> list[dict[str, Any]]:
        """All faults, with `id`, `calls` and `hits`."""
        found: list[dict[str, Any]] = await self._execute("faults.list", {})
        return found

    async def clear(self) -> None:
        """Remove all; what is offline stays so until `heal`."""
        await self._execute("faults.clear", {})

    async def heal(self) -> None:
        """Remove the faults of the storage, and open the logs anew."""
        await self._execute("faults.heal", {})


class AsyncLeaders:
    """See Leaders."""

    def __init__(self, execute: AsyncExecute) -> None:
        self._execute = execute

    async def _do(self, what: str, topic: str, partition: int, **more: Any) -> Any:
        return await self._execute(f"leaders.{what}", {"topic": topic, "partition": partition} | more)

    async def take_away(self, topic: str, partition: int) -> None:
        """Leave a partition without a leader."""
        await self._do("take_away", topic, partition)

    async def give_back(self, topic: str, partition: int) -> None:
        """Let it have one again."""
        await self._do("give_back", topic, partition)

    async def move(self, topic: str, partition: int, *, to: int) -> None:
        """Let another node lead it."""
        await self._do("move", topic, partition, to=to)

    async def bump_epoch(self, topic: str, partition: int) -> int:
        """Let it have the next leader epoch, with the same leader; the epoch."""
        return int(await self._do("bump_epoch", topic, partition))

    async def elect(self, topic: str, partition: int, *, unclean: bool = False) -> None:
        """Let the preferred replica lead it; `unclean`: anybody who is alive, where nobody leads."""
        await self._do("elect", topic, partition, unclean=unclean)

    async def describe(self, topic: str, partition: int) -> dict[str, Any]:
        """Who leads it, in which epoch, its replicas and those in sync."""
        found: dict[str, Any] = await self._do("describe", topic, partition)
        return found


class AsyncNodes:
    """See Nodes."""

    def __init__(self, execute: AsyncExecute) -> None:
        self._execute = execute

    async def stop(self, node: int) -> None:
        """Close a node's listeners and connections."""
        await self._execute("nodes.stop", {"node": node})

    async def start(self, node: int) -> None:
        """Let it serve again."""
        await self._execute("nodes.start", {"node": node})

    @property
    async def alive(self) -> list[int]:
        """Ids of those that serve: `await broker.nodes.alive`."""
        return [int(each) for each in await self._execute("nodes.alive", {})]

    @property
    async def addresses(self) -> dict[int, str]:
        """HOST:PORT of each, by id: `await broker.nodes.addresses`."""
        return {int(node): address for node, address in (await self._execute("nodes.addresses", {})).items()}
