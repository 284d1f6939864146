"""The objects that a test gets for faults, holds, leaders, nodes and schemas, however its broker runs.

`Surface` and `AsyncSurface` in testing/surface.py return them. `Leaders`, `Nodes` and
`RegistryOperations` are handles as they are (`declaration.remote`). The asynchronous ones spell each
operation out once, so that mypy and editors see it; tests/testing/test_surfaces.py asserts that none
is missing.

    fault = await broker.faults.inject("Produce", "NOT_LEADER_OR_FOLLOWER").once()
    async with broker.hold_high_watermark("orders", 0): ...
    assert await fault.hits == 1
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Awaitable, Callable, Generator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar

from minibroker.testing.lab.declaration import Execute, awaited, called
from minibroker.testing.lab.operations import FaultOperations, HighWatermarks, Leaders, Nodes
from minibroker.testing.lab.phrases import FaultPhrases
from minibroker.testing.lab.registry_operations import RegistryOperations
from minibroker.testing.options import schemas_of

if TYPE_CHECKING:
    from minibroker.registry.schema_files import Schemas

H = TypeVar("H", bound="_AsyncHandle")


class _Handle:
    """A context manager that ends with `_end`."""

    def __init__(self, execute: Execute, made: dict[str, Any]) -> None:
        self._execute = execute
        self.id = made["id"]

    def _end(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._end()


class Fault(_Handle):
    """A fault; the end of a `with` block removes it."""

    _state = called(FaultOperations.state)
    _remove = called(FaultOperations.remove)

    @property
    def calls(self) -> int:
        """The number of requests that it was for: of clients, to the schema registry, or calls of the file system."""
        return self._state(self.id)["calls"]

    @property
    def hits(self) -> int:
        """The number of these that it hit."""
        return self._state(self.id)["hits"]

    def remove(self) -> None:
        """Remove it; does nothing if it was removed before."""
        self._remove(self.id)

    def _end(self) -> None:
        self.remove()


class Hold(_Handle):
    """A high watermark that is held back until `release` or the end of a `with` block."""

    _release = called(HighWatermarks.release)

    def release(self) -> None:
        """Let readers see everything again; does nothing if it was released."""
        self._release(id=self.id)

    def _end(self) -> None:
        self.release()


class Faults(FaultPhrases[Fault]):
    """Faults of a broker."""

    def __init__(self, execute: Execute) -> None:
        self._execute = execute

    def _made(self, name: str, arguments: dict[str, Any]) -> Fault:
        return Fault(self._execute, self._execute(name, arguments))

    list = called(FaultOperations.list)
    clear = called(FaultOperations.clear)
    heal = called(FaultOperations.heal)


# Awaited


class AsyncExecute(Protocol):
    """Executes an operation of a broker by name, and returns its result."""

    async def __call__(self, name: str, arguments: dict[str, Any], /) -> Any:
        """Raises BrokerError, a single line, if it fails."""


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
    """A handle that is made when it is awaited, or by `async with`; without either there is a warning."""

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

    _state = awaited(FaultOperations.state)
    _remove = awaited(FaultOperations.remove)

    @property
    async def calls(self) -> int:
        """The number of requests that it was for: `await fault.calls`."""
        return (await self._state(self.id))["calls"]

    @property
    async def hits(self) -> int:
        """The number of these that it hit: `await fault.hits`."""
        return (await self._state(self.id))["hits"]

    async def remove(self) -> None:
        """Remove it; does nothing if it was removed before."""
        await self._remove(self.id)

    async def _end(self) -> None:
        await self.remove()


class AsyncHold(_AsyncHandle):
    """See Hold."""

    _release = awaited(HighWatermarks.release)

    async def release(self) -> None:
        """Let readers see everything again; does nothing if it was released."""
        await self._release(id=self.id)

    async def _end(self) -> None:
        await self.release()


class AsyncFaults(FaultPhrases[Awaited[AsyncFault]]):
    """See Faults."""

    def __init__(self, execute: AsyncExecute) -> None:
        self._execute = execute

    def _made(self, name: str, arguments: dict[str, Any]) -> Awaited[AsyncFault]:
        async def make() -> AsyncFault:
            return AsyncFault(self._execute, await self._execute(name, arguments))

        return Awaited(name, make)

    list = awaited(FaultOperations.list)
    clear = awaited(FaultOperations.clear)
    heal = awaited(FaultOperations.heal)


class AsyncLeaders:
    """See Leaders."""

    def __init__(self, execute: AsyncExecute) -> None:
        self._execute = execute

    take_away = awaited(Leaders.take_away)
    give_back = awaited(Leaders.give_back)
    move = awaited(Leaders.move)
    bump_epoch = awaited(Leaders.bump_epoch)
    elect = awaited(Leaders.elect)
    describe = awaited(Leaders.describe)


class AsyncNodes:
    """See Nodes."""

    def __init__(self, execute: AsyncExecute) -> None:
        self._execute = execute

    stop = awaited(Nodes.stop)
    start = awaited(Nodes.start)

    @property
    async def alive(self) -> list[int]:
        """Ids of the brokers that clients can reach: `await broker.nodes.alive`."""
        alive: list[int] = await self._execute("nodes.alive", {})
        return alive

    @property
    async def addresses(self) -> dict[int, str]:
        """HOST:PORT of each broker by its id: `await broker.nodes.addresses`."""
        return {int(node): address for node, address in (await self._execute("nodes.addresses", {})).items()}


class AsyncRegistry:
    """See RegistryOperations."""

    def __init__(self, execute: AsyncExecute) -> None:
        self._execute = execute

    @property
    async def url(self) -> str:
        """The address for clients: `await broker.registry.url`."""
        url: str = await self._execute("registry.url", {})
        return url

    @property
    async def subjects(self) -> list[str]:
        """The subjects: `await broker.registry.subjects`."""
        subjects: list[str] = await self._execute("registry.subjects", {})
        return subjects

    versions = awaited(RegistryOperations.versions)
    schema = awaited(RegistryOperations.schema)
    version = awaited(RegistryOperations.version)
    register = awaited(RegistryOperations.register)
    set_compatibility = awaited(RegistryOperations.set_compatibility)

    async def load(self, schemas: Schemas | str | os.PathLike[str]) -> None:
        """Register the schemas of a folder, or of files by subject (docs/testing.md)."""
        for each in schemas_of(schemas):
            await self.register(each["subject"], each["text"], each["schema_type"], [*each["references"]])


def hold_awaited(execute: AsyncExecute, topic: str, partition: int) -> Awaited[AsyncHold]:
    """Return the handle of `hold_high_watermark`, for a broker whose methods are awaited."""

    async def make() -> AsyncHold:
        return AsyncHold(execute, await execute("high_watermark.hold", {"topic": topic, "partition": partition}))

    return Awaited("hold_high_watermark", make)
