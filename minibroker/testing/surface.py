"""What every broker under test can do, whichever way it runs: what is asked over the wire (wire.py), and what only a broker of ours can.

Tests that are written against `Surface` run on all of them, and as far as a real Kafka can do it, on a real Kafka (given_cluster.py).
"""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from minibroker.testing.data import Snapshot
from minibroker.testing.request_log import RequestLog
from minibroker.testing.wire import Wire

if TYPE_CHECKING:
    from minibroker.testing.lab.handles import Faults, Hold, Leaders, Nodes


class Surface(Wire):
    """A broker under test; a context manager from `start` to `stop`."""

    @abstractmethod
    def start(self) -> Self:
        """Serve; again after `stop`, on the same port with the same data. BrokerError says in one line why it cannot."""

    @abstractmethod
    def stop(self) -> None:
        """End in order: what was asked is answered, the logs are closed. Harmless when nothing runs."""

    @abstractmethod
    def close(self) -> None:
        """Stop for good: temporary data are removed."""

    @property
    @abstractmethod
    def is_running(self) -> bool:
        """Whether it serves; not, where it was stopped or killed."""

    @property
    @abstractmethod
    def data_dir(self) -> Path | None:
        """Where the data are; None: in memory."""

    @abstractmethod
    def reset(self) -> None:
        """Forget everything: topics, groups, transactions, altered configs, the request log. The topics of the options are created again.

        Clients stay connected, and find an empty broker. What waits is answered; who waits for other members of a group is disconnected.
        """

    @abstractmethod
    def snapshot(self) -> Snapshot:
        """Keep what there is now: topics with records and configs, offsets of groups, transactions."""

    @abstractmethod
    def restore(self, snapshot: Snapshot) -> None:
        """Be as when the snapshot was taken, as a broker that was killed then and started again; clients as for `reset`."""

    @abstractmethod
    def advance(self, **time: float) -> None:
        """Let time go by for the broker, at once: `advance(hours=2, seconds=30)`; arguments are those of `datetime.timedelta`.

        Retention, compaction lag, time-outs of group members and of transactions, and LogAppendTime follow. Clients have their own time: a
        member that is alive may be timed out, and joins again. `reset` and `restore` bring the broker back to the present.
        """

    @abstractmethod
    def _execute(self, command: str, arguments: dict[str, Any], /) -> Any:
        """Do a command of the lab (lab/commands.py): what the methods below say."""

    @property
    def faults(self) -> Faults:
        """What goes wrong: `faults.inject("Produce", "NOT_LEADER_OR_FOLLOWER", topic="orders").once()`; `reset` removes all."""
        from minibroker.testing.lab.handles import Faults  # noqa: PLC0415  what most tests do without

        return Faults(self._execute)

    @property
    def leaders(self) -> Leaders:
        """Who leads partitions: `leaders.take_away("orders", 0)`; `reset` gives all back."""
        from minibroker.testing.lab.handles import Leaders  # noqa: PLC0415  as above

        return Leaders(self._execute)

    @property
    def nodes(self) -> Nodes:
        """The brokers that clients are told of: `nodes.stop(2)`."""
        from minibroker.testing.lab.handles import Nodes  # noqa: PLC0415  as above

        return Nodes(self._execute)

    def hold_high_watermark(self, topic: str, partition: int) -> Hold:
        """Hold a partition's high watermark back: nobody reads what is written from now on, and acks=all waits.

        It is let go by `release` of what is returned, by the end of a `with` block, and by `reset`.
        """
        from minibroker.testing.lab.handles import Hold  # noqa: PLC0415  as above

        return Hold(self._execute, self._execute("high_watermark.hold", {"topic": topic, "partition": partition}))

    @property
    @abstractmethod
    def request_log(self) -> RequestLog:
        """What clients asked since the start or the last `reset`: the last 10,000 requests as they are now."""

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
