"""Metrics of a broker under test: `broker.metrics["kafka_consumergroup_lag"].value(topic="orders")`.

The names are those of docs/metrics.md. A look-up reads the state of the broker; nothing is kept.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol, overload

from minibroker.testing.options import BrokerError

Rows = list[dict[str, Any]]


class Series(NamedTuple):
    """One value with its labels."""

    labels: dict[str, str]
    value: float


class Metric(Sequence[Series]):
    """All series of one metric, as they were when it was looked up."""

    def __init__(self, name: str, series: Sequence[Series]) -> None:
        self.name = name
        self._series = series

    @overload
    def __getitem__(self, index: int) -> Series: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Series]: ...
    def __getitem__(self, index: int | slice) -> Series | Sequence[Series]:
        return self._series[index]

    def __len__(self) -> int:
        return len(self._series)

    def __iter__(self) -> Iterator[Series]:
        return iter(self._series)

    def of(self, **labels: object) -> Metric:
        """Return the series that have these labels: `of(topic="orders", partition=0)`."""
        wanted = {name: str(value) for name, value in labels.items()}
        return Metric(self.name, [each for each in self._series if wanted.items() <= each.labels.items()])

    def value(self, **labels: object) -> float:
        """Return the value of the only series with these labels. BrokerError: there is none, or there are several."""
        found = self.of(**labels)
        if len(found) != 1:
            known = "; ".join(str(each.labels) for each in (found or self)[:3])
            wanted = f" with {labels}" if labels else ""
            raise BrokerError(
                f"{self.name} has {len(found) or 'no'} series{wanted}{f': {known}' if found else f', but {known}' if known else ''}"
            )
        return found[0].value

    def sum(self, **labels: object) -> float:
        """Return the sum of all series with these labels; 0 without any."""
        return sum(each.value for each in self.of(**labels))

    def __float__(self) -> float:
        return float(self.value())

    def __repr__(self) -> str:
        return f"<Metric {self.name}: {len(self)} series>"


def metric_of(name: str, rows: Rows) -> Metric:
    """Return what the lab's operation `metrics` found."""
    return Metric(name, [Series(each["labels"], each["value"]) for each in rows])


class Execute(Protocol):
    """Executes an operation of the lab."""

    def __call__(self, name: str, arguments: dict[str, Any], /) -> Any: ...  # noqa: D102  a function


class Metrics:
    """The metrics of a broker by name."""

    def __init__(self, execute: Execute) -> None:
        self._execute = execute

    def __getitem__(self, name: str) -> Metric:
        """Return a metric as it is now. BrokerError: there is no such name."""
        return metric_of(name, self._execute("metrics", {"name": name}))

    def __repr__(self) -> str:
        return '<Metrics: metrics["kafka_consumergroup_lag"] and all other names of docs/metrics.md>'


class AsyncMetrics:
    """The metrics of a broker by name, awaited: `lag = await broker.metrics["kafka_consumergroup_lag"]`."""

    def __init__(self, execute: Callable[[str, dict[str, Any]], Awaitable[Any]]) -> None:
        self._execute = execute

    async def __getitem__(self, name: str) -> Metric:
        """Return a metric as it is now. BrokerError: there is no such name."""
        return metric_of(name, await self._execute("metrics", {"name": name}))
