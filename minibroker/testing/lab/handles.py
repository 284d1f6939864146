"""What a test holds in its hand. Each thing is done by a command of the lab, whichever way the broker runs; see `Surface`."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Protocol, Self

from minibroker.testing.lab.phrases import FaultPhrases


class Execute(Protocol):
    """Does a command of the lab, and returns what it answers."""

    def __call__(self, command: str, arguments: dict[str, Any], /) -> Any:
        """BrokerError says in one line why not."""


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
    """A fault in force; as a context manager it is removed in the end."""

    @property
    def calls(self) -> int:
        """How many requests (for the storage: calls of the file system) it was for."""
        return int(self._execute("faults.state", {"id": self.id})["calls"])

    @property
    def hits(self) -> int:
        """How many of them it hit."""
        return int(self._execute("faults.state", {"id": self.id})["hits"])

    def remove(self) -> None:
        """Let it happen no more; harmless when it is gone."""
        self._execute("faults.remove", {"id": self.id})

    def _end(self) -> None:
        self.remove()


class Hold(_Handle):
    """A high watermark that is held back, until `release` or the end of the block."""

    def release(self) -> None:
        """Show readers all that there is; harmless when it was released."""
        self._execute("high_watermark.release", {"id": self.id})

    def _end(self) -> None:
        self.release()


class Faults(FaultPhrases[Fault]):
    """Of a broker."""

    def __init__(self, execute: Execute) -> None:
        self._execute = execute

    def _made(self, command: str, arguments: dict[str, Any]) -> Fault:
        return Fault(self._execute, self._execute(command, arguments))

    def list(self) -> list[dict[str, Any]]:
        """All faults, as what they were asked for, with `id`, `calls` and `hits`."""
        found: list[dict[str, Any]] = self._execute("faults.list", {})
        return found

    def clear(self) -> None:
        """Remove all; what is offline stays so until `heal`."""
        self._execute("faults.clear", {})

    def heal(self) -> None:
        """Remove the faults of the storage, and open the logs anew, as a start behind a crash does."""
        self._execute("faults.heal", {})


class Leaders:
    """Who leads partitions."""

    def __init__(self, execute: Execute) -> None:
        self._execute = execute

    def _do(self, what: str, topic: str, partition: int, **more: Any) -> Any:
        given = {name: value for name, value in more.items() if value is not None}
        return self._execute(f"leaders.{what}", {"topic": topic, "partition": partition} | given)

    def take_away(self, topic: str, partition: int) -> None:
        """Leave a partition without a leader: LEADER_NOT_AVAILABLE, NOT_LEADER_OR_FOLLOWER."""
        self._do("take_away", topic, partition)

    def give_back(self, topic: str, partition: int) -> None:
        """Let it have one again."""
        self._do("give_back", topic, partition)

    def move(self, topic: str, partition: int, *, to: int) -> None:
        """Let another node lead it."""
        self._do("move", topic, partition, to=to)

    def bump_epoch(self, topic: str, partition: int) -> int:
        """Let it have the next leader epoch, with the same leader; the epoch."""
        return int(self._do("bump_epoch", topic, partition))

    def elect(self, topic: str, partition: int, *, unclean: bool = False) -> None:
        """Let the preferred replica lead it; `unclean`: anybody who is alive, where nobody leads."""
        self._do("elect", topic, partition, unclean=unclean or None)

    def describe(self, topic: str, partition: int) -> dict[str, Any]:
        """`leader` (None: nobody), `leader_epoch`, `replicas`, `in_sync`, `offline`."""
        found: dict[str, Any] = self._do("describe", topic, partition)
        return found


class Nodes:
    """The brokers that clients are told of."""

    def __init__(self, execute: Execute) -> None:
        self._execute = execute

    def stop(self, node: int) -> None:
        """Close a node's listeners and connections; its partitions find other leaders, or have none."""
        self._execute("nodes.stop", {"node": node})

    def start(self, node: int) -> None:
        """Let it serve again."""
        self._execute("nodes.start", {"node": node})

    @property
    def alive(self) -> list[int]:
        """Ids of those that clients can reach."""
        return [int(each) for each in self._execute("nodes.alive", {})]

    @property
    def addresses(self) -> dict[int, str]:
        """HOST:PORT of each, by id."""
        return {int(node): address for node, address in self._execute("nodes.addresses", {}).items()}
