"""Faults with ids, which a test lists, counts and removes: those of logins, of the schema registry and of the storage."""

from __future__ import annotations

from itertools import count
from typing import Any, Generic, Protocol, TypeVar

from minibroker.testing.faults.rule import FaultFrequency
from minibroker.testing.options import BrokerError


class CountedFault(Protocol):
    """A fault that counts its calls and hits."""

    @property
    def frequency(self) -> FaultFrequency:
        """How often it hits, with its counters."""

    def to_json(self) -> dict[str, Any]:
        """Return its arguments."""

    def end(self) -> None:
        """Release what waits for it."""


F = TypeVar("F", bound=CountedFault)


class NumberedFaults(Generic[F]):
    """The faults of one kind of one broker, by id."""

    def __init__(self, prefix: str) -> None:
        """`prefix` starts the ids, which distinguishes them from those of other kinds."""
        self._prefix = prefix
        self._faults: dict[str, F] = {}
        self._numbers = count(1)

    def enter(self, fault: F) -> str:
        """Add a fault and return its id."""
        name = f"{self._prefix}{next(self._numbers)}"
        self._faults[name] = fault
        return name

    def owns(self, name: str) -> bool:
        """Whether an id is one of these faults, present or past."""
        return name.startswith(self._prefix)

    def list(self) -> list[dict[str, Any]]:
        """Return all faults with `id`, `calls` and `hits`."""
        return [fault.to_json() | {"id": name} | self.state(name) for name, fault in self._faults.items()]

    def state(self, name: str) -> dict[str, int]:
        """Return `calls` and `hits` of a fault. Raises BrokerError if it is gone."""
        fault = self._faults.get(name)
        if fault is None:
            raise BrokerError(f"faults: there is no fault {name}: it was removed, or ended with a reset")
        return {"calls": fault.frequency.calls, "hits": fault.frequency.hits}

    def remove(self, name: str) -> None:
        """Remove a fault, and release what waits for it; does nothing if it is gone."""
        fault = self._faults.pop(name, None)
        if fault is not None:
            fault.end()

    def clear(self) -> None:
        """Remove all faults."""
        for name in [*self._faults]:
            self.remove(name)
