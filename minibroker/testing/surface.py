"""What every broker under test can do, whichever way it runs: what a client does (wire.py), and what only minibroker can do.

Tests that are written for `Surface` run on all forms, and as far as a real Kafka can do it, on a real Kafka (given_cluster.py).
"""

from __future__ import annotations

from abc import abstractmethod
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from minibroker.testing.clients import PushingClient, from_json
from minibroker.testing.data import Snapshot
from minibroker.testing.lab.declaration import remote
from minibroker.testing.lab.handles import Faults, Hold
from minibroker.testing.lab.operations import Leaders, Nodes
from minibroker.testing.metrics import Metrics
from minibroker.testing.request_log import RequestLog
from minibroker.testing.wire import Wire


class Surface(Wire):
    """A broker under test; a context manager from `start` to `close`."""

    @abstractmethod
    def start(self) -> Self:
        """Serve; after `stop`, on the same port with the same data. BrokerError says in one line why it cannot."""

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
        """Forget everything: topics, groups, transactions, altered configs, the request log. The topics of the options are created again.

        Clients stay connected and find an empty broker. Waiting requests are answered; a client that waits for other members of its group
        is disconnected.
        """
        self._execute("reset", {})

    @abstractmethod
    def snapshot(self) -> Snapshot:
        """Keep topics with records and configs, offsets of groups, and transactions as they are now."""

    @abstractmethod
    def restore(self, snapshot: Snapshot) -> None:
        """Put the data of a snapshot back, as if the broker had been killed then and started again. Clients see what `reset` does."""

    def advance(self, **time: float) -> None:
        """Advance the broker's time at once: `advance(hours=2, seconds=30)`, with the arguments of `datetime.timedelta`.

        Retention, compaction lag, timeouts of group members and of transactions, and LogAppendTime follow. Clients have their own time: a
        live member may be timed out, and joins again. `reset` and `restore` return the broker to the present.
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

    def hold_high_watermark(self, topic: str, partition: int) -> Hold:
        """Hold a partition's high watermark back: readers do not see what is written from now on, and acks=all waits.

        The hold ends with `release` of the returned handle, with its `with` block, and with `reset`.
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
